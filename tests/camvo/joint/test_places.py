"""What marks in a text say: the model of votes where a vote is a set of spans."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from camvo.joint import places
from camvo.joint.places import SpanFit, _by, _PlaceModel, _Seen, place_patterns
from camvo.state.contribution import KeptRound, LatestRounds
from camvo.state.exploration import UNASKED, PatternCounts, VotePattern
from camvo.votes.spans import Span, write_spans

ARMS = ("a", "b", "c", "d")
MODEL = _PlaceModel(
    np.array([2.0, 0.6, 0.8, 0.5]),
    np.array([[0.95, 0.7, 0.1], [0.9, 0.6, 0.2], [0.85, 0.45, 0.5], [0.7, 0.3, 0.6]]),
    np.array([0.1, 0.2, 0.3, 0.4]),
)


def at(number: int) -> Span:
    return Span(20 * number, 20 * number + 5, "x")


def drawn(model: _PlaceModel, texts: int, seed: int) -> list[tuple[dict[str, str], str]]:
    """Texts from the model: each arm's vote, and people's."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(texts):
        marked: dict[str, list[Span]] = {arm: [] for arm in ARMS}
        truth, place = [], 0
        for kind, mean in enumerate(model.texts):
            for _ in range(rng.poisson(mean)):
                place += 1
                if kind < 2:
                    truth.append(at(place))
                if kind < 3:
                    marks = rng.random(len(ARMS)) < model.marks[:, kind]
                else:
                    marks = np.arange(len(ARMS)) == rng.choice(len(ARMS), p=model.alone)
                for arm in np.flatnonzero(marks):
                    marked[ARMS[arm]].append(at(place))
        found.append(({arm: write_spans(spans) for arm, spans in marked.items()}, write_spans(truth)))
    return found


def evidence(votes: list[dict[str, str]]) -> PatternCounts:
    patterns: dict[VotePattern, int] = {}
    places: dict[VotePattern, int] = {}
    for cast in votes:
        pattern = VotePattern.of(ARMS, cast, everyone=True)
        patterns[pattern] = patterns.get(pattern, 0) + 1
        for place in place_patterns(ARMS, cast):
            places[place] = places.get(place, 0) + 1
    return PatternCounts(patterns, len(votes), places)


def fit(votes: list[dict[str, str]], labelled: LatestRounds | None = None) -> SpanFit:
    return SpanFit.fit(evidence(votes), labelled or LatestRounds(), dict.fromkeys(ARMS, 0.0))


def test_the_marks_of_all_arms_add_up_to_the_places_of_a_text() -> None:
    every = np.array(list(product((0, 1), repeat=4)))
    assert MODEL.expected(every).sum(axis=0) == pytest.approx(MODEL.texts)


def test_the_expected_places_are_products_of_the_arms_marks() -> None:
    row = np.array([[1, 0, UNASKED, 1]])
    easy = 2.0 * 0.95 * (1 - 0.9) * 0.7
    hard = 0.6 * 0.7 * (1 - 0.6) * 0.3
    misleading = 0.8 * 0.1 * (1 - 0.2) * 0.6
    assert MODEL.expected(row)[0] == pytest.approx([easy, hard, misleading, 0.0])
    assert MODEL.real(row)[0] == pytest.approx((easy + hard) / (easy + hard + misleading))


def test_a_made_up_place_is_marked_by_one_arm_alone() -> None:
    rows = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, UNASKED, UNASKED], [0, 0, 0, 0]])
    assert MODEL.expected(rows)[:, 3] == pytest.approx([0.5 * 0.1, 0.0, 0.5 * 0.7, 0.0])


def test_beliefs_about_the_next_mark_are_those_of_the_places_that_are_left() -> None:
    beliefs = MODEL.beliefs()
    expected = MODEL.expected(beliefs.lattice.rows).sum(axis=1)
    for level, votes in zip(beliefs.lattice.steps, beliefs.votes, strict=True):
        for step, chances in zip(level, votes, strict=True):
            assert chances.sum(axis=0) == pytest.approx(1.0)
            assert chances * expected[step.nodes] == pytest.approx(expected[step.following], abs=1e-12)


def test_the_fit_finds_the_model_that_texts_were_drawn_from() -> None:
    model = fit([votes for votes, _ in drawn(MODEL, 3000, 0)]).model
    real = model.texts[:2] @ model.marks[:, :2].T / model.texts[:2].sum()
    assert real == pytest.approx(MODEL.texts[:2] @ MODEL.marks[:, :2].T / 2.6, abs=0.05)
    assert model.texts[:2].sum() == pytest.approx(2.6, abs=0.25)
    assert model.marks[:, 2] == pytest.approx(MODEL.marks[:, 2], abs=0.12)


def test_a_step_of_the_fit_makes_the_places_seen_more_likely() -> None:
    texts = evidence([votes for votes, _ in drawn(MODEL, 400, 1)])
    seen = _Seen.of(texts, LatestRounds(), ARMS)

    def log_likelihood(model: _PlaceModel) -> float:
        seen_places = float(seen.counts @ np.log(model.expected(seen.rows).sum(axis=1)))
        per_text = model.texts.sum() - model.expected(seen.pools).sum(axis=1)
        return seen_places - float(seen.texts @ per_text)

    def further(model: _PlaceModel) -> _PlaceModel:
        expected = model.expected(seen.rows)
        chances = expected / expected.sum(axis=1, keepdims=True)
        return _by(chances, model.expected(seen.pools) * seen.texts[:, None], seen, None)

    first = further(MODEL)
    assert log_likelihood(first) > log_likelihood(MODEL) - 1.0  # the prior moves it too
    assert log_likelihood(fit([votes for votes, _ in drawn(MODEL, 400, 1)]).model) > log_likelihood(
        _PlaceModel(MODEL.texts[[3, 2, 1, 0]], 1.0 - MODEL.marks, MODEL.alone)
    )


def test_real_places_are_those_that_people_mark() -> None:
    """Three arms of four share an error, which people settle."""
    fooled = write_spans([at(1), at(2)])
    votes = {"a": write_spans([at(1)]), "b": fooled, "c": fooled, "d": fooled}
    alone = fit([votes] * 50)
    labelled = LatestRounds(tuple([KeptRound.of(votes, write_spans([at(1)]))] * 30))
    taught = fit([votes] * 50, labelled)
    place = {arm: at(2) for arm in "bcd"}
    assert alone.chances(ARMS, [place])[0] > 0.5
    assert taught.chances(ARMS, [place])[0] < 0.1
    assert taught.human_labels == 30


def test_a_text_that_people_have_marked_counts_once_though_its_round_asked_everyone() -> None:
    votes = {"a": write_spans([at(1)]), "b": write_spans([at(1), at(2)])}
    kept = KeptRound.of(votes, write_spans([at(1)]), everyone=True)
    seen = _Seen.of(evidence([votes] * 50), LatestRounds((kept,) * 30), ARMS)
    assert (seen.texts.sum(), seen.checked.sum()) == (20.0, 30.0)
    assert seen.counts.sum() == 2 * 50
    later = _Seen.of(evidence([votes] * 10), LatestRounds((kept,) * 30), ARMS)
    assert (later.texts.sum(), later.checked.sum()) == (0.0, 30.0)


def test_a_place_that_only_people_marked_was_missed_by_all() -> None:
    votes = dict.fromkeys(ARMS, write_spans([at(1)]))
    labelled = LatestRounds(tuple([KeptRound.of(votes, write_spans([at(1), at(2)]))] * 40))
    assert fit([votes] * 40, labelled).unmarked(ARMS)[1] > 3 * fit([votes] * 40).unmarked(ARMS)[1]


def test_each_further_arm_leaves_fewer_places_unmarked() -> None:
    found = fit([votes for votes, _ in drawn(MODEL, 300, 2)])
    left = [found.unmarked(ARMS[:count])[1] for count in range(5)]
    assert left == sorted(left, reverse=True)
    assert left[0] == pytest.approx(found.model.texts[:2].sum())


def test_an_arm_without_a_vote_has_not_said_that_there_is_nothing() -> None:
    assert place_patterns(ARMS, {"a": write_spans([at(1)]), "b": None})[0].positions(ARMS, ("no", "yes")) == (
        1,
        UNASKED,
        UNASKED,
        UNASKED,
    )


def test_more_arms_than_a_plan_can_hold_leave_the_best_for_their_price() -> None:
    arms = tuple(f"m{number:02d}" for number in range(11))
    votes = {arm: write_spans([at(place) for place in range(number + 1)]) for number, arm in enumerate(arms)}
    pattern = VotePattern.of(arms, votes, everyone=True)
    places = dict.fromkeys(place_patterns(arms, votes), 40)
    found = SpanFit.fit(PatternCounts({pattern: 40}, 40, places), LatestRounds(), dict.fromkeys(arms, 0.01))
    assert len(found.shortlist) == 9
    assert set(found.shortlist) < set(arms)


@pytest.mark.parametrize("seed", range(12))
def test_false_places_of_five_weak_models_are_not_taken_for_hard_ones(seed: int) -> None:
    arms = ("bad1", "bad2", "bad3", "bad4", "bad5", "good1", "good2", "good3")
    rng = np.random.default_rng(seed)
    found: list[dict[str, str]] = []
    for _ in range(36):
        marked: dict[str, list[Span]] = {arm: [] for arm in arms}
        for place in range(int(rng.poisson(3.0))):
            hard = rng.normal()
            for arm in arms:
                if (2.6 if arm.startswith("good") else 0.3) + 1.4 * (hard + rng.normal()) > 0.0:
                    marked[arm].append(at(place))
        for place in range(20, 20 + int(rng.poisson(0.9))):
            for arm in arms[:5]:
                if rng.random() < 0.8:
                    marked[arm].append(at(place))
        for number, arm in enumerate(arms):
            alone = int(rng.poisson(0.3 if number < 5 else 0.06))
            marked[arm] += [at(100 + 10 * number + place) for place in range(alone)]
        found.append({arm: write_spans(spans) for arm, spans in marked.items()})
    patterns = {VotePattern.of(arms, votes, everyone=True): 1 for votes in found}
    places: dict[VotePattern, int] = {}
    for votes in found:
        for pattern in place_patterns(arms, votes):
            places[pattern] = places.get(pattern, 0) + 1
    model = SpanFit.fit(PatternCounts(patterns, 36, places), LatestRounds(), dict.fromkeys(arms, 0.0))
    real, false = model.chances(arms, [dict.fromkeys(arms[5:], at(0)), dict.fromkeys(arms[:5], at(1))])
    assert real > 0.5 > false


def test_what_an_arm_marked_that_has_left_is_no_place_of_the_others() -> None:
    texts = [votes for votes, _ in drawn(MODEL, 300, 3)]
    own = write_spans([at(1000 + number) for number in range(5)])
    made_up = [{**votes, "d": own} for votes in texts]
    left = dict.fromkeys(ARMS[:3], 0.0)
    found = SpanFit.fit(evidence(made_up), LatestRounds(), left)
    alone = SpanFit.fit(evidence([{**votes, "d": "[]"} for votes in texts]), LatestRounds(), left)
    assert found.unmarked(ARMS[:1]) == pytest.approx(alone.unmarked(ARMS[:1]))


def test_a_text_that_people_have_marked_is_read_once_for_all_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    votes = {arm: write_spans([at(number)]) for number, arm in enumerate(ARMS)}
    first, second = (KeptRound.of(votes, write_spans([at(70 + number)])) for number in range(2))
    fit([], LatestRounds((first,)))
    read: list[str] = []
    monkeypatch.setattr(places, "marked_places", lambda cast, **_: read.append(cast["\0people"]) or ())
    fit([], LatestRounds((first, second)))
    assert read == [second.label]

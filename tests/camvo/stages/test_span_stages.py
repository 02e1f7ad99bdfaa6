"""The joint policy on spans: whom it asks, when it stops, and what it answers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest

import camvo
from camvo.joint.places import SpanFit, place_patterns
from camvo.policies.policy import Conditions
from camvo.stages.span_stages import SpanStages
from camvo.state.contribution import LatestRounds
from camvo.state.exploration import ExplorationRound, ExplorationSums, PatternCounts, VotePattern
from camvo.votes.aggregation import Decision
from camvo.votes.spans import Span, SpanVote, read_spans, write_spans

PRICES = {"cheap": 1.0, "good": 5.0, "other": 4.0}
FOUND = {"cheap": 0.7, "good": 0.95, "other": 0.9}
SPAN_VOTE = SpanVote()


def texts(seed: int, made_up: float = 0.1) -> Iterator[tuple[str, dict[str, str]]]:
    """The spans of a text and each arm's vote: it finds some, and makes some up."""
    rng = np.random.default_rng(seed)
    while True:
        truth = [Span(20 * place, 20 * place + 6, "x") for place in range(int(rng.poisson(2.0)))]
        votes = {}
        for number, (arm, found) in enumerate(FOUND.items()):
            own = [span for span in truth if rng.random() < found]
            if rng.random() < made_up:
                own.append(Span(1000 + 20 * number, 1005 + 20 * number, "x"))
            votes[arm] = write_spans(own)
        yield write_spans(truth), votes


def question(**parameters: float) -> camvo.Question:
    policy = camvo.Joint(**parameters)
    return camvo.Question(("x",), prices=PRICES, dimension=2, policy=policy, aggregation=SPAN_VOTE)


def label(asked: camvo.Question, count: int, seed: int = 0) -> tuple[float, float, float]:
    """The mean F₁ and score of some texts, and their cost in prices of asking everyone."""
    right = scores = paid = 0.0
    for _, (truth, votes) in zip(range(count), texts(seed), strict=False):
        task = asked.task([1.0, 0.0])
        while arms := task.ask():
            task.add({arm: votes[arm] for arm in arms})
            paid += sum(PRICES[arm] for arm in arms)
        decision = task.decide()
        right, scores = right + SPAN_VOTE.reward(decision.label, truth), scores + decision.score
        task.learn()
    return right / count, scores / count, paid / sum(PRICES.values()) / count


def fitted(asked: camvo.Question) -> SpanFit:
    exploration = asked.state.exploration
    return SpanFit.fit(exploration.evidence, LatestRounds(), dict.fromkeys(PRICES, 0.0))


def stages(asked: camvo.Question, price: float = 0.001) -> SpanStages:
    fit = fitted(asked)
    return SpanStages(("x",), fit, tuple(price * PRICES[arm] for arm in fit.shortlist))


@pytest.fixture(scope="module")
def taught() -> camvo.Question:
    asked = question()
    label(asked, 300)
    return asked


def test_texts_cost_less_than_the_votes_of_all_and_are_as_right() -> None:
    asked = question(worth=5.0)
    label(asked, 100, seed=1)
    right, _, cost = label(asked, 200, seed=2)
    everyone, _, _ = label(question(worth=1e6), 200, seed=2)
    assert cost < 0.85
    assert right > everyone - 0.02


def test_the_score_of_a_text_is_the_f1_that_it_reaches() -> None:
    asked = question()
    label(asked, 100, seed=3)
    right, score, _ = label(asked, 300, seed=4)
    assert score == pytest.approx(right, abs=0.02)


def test_a_lower_worth_asks_fewer() -> None:
    costs = [label(question(worth=worth), 120, seed=5)[2] for worth in (1.0, 10.0, 1000.0)]
    assert costs == sorted(costs)
    assert costs[0] < costs[2]


def test_nobody_is_asked_where_the_other_votes_could_change_nothing() -> None:
    asked = question()
    none = dict.fromkeys(PRICES, "[]")
    for _ in range(60):
        task = asked.task([1.0, 0.0])
        while arms := task.ask():
            task.add({arm: none[arm] for arm in arms})
        task.learn()
    gains = stages(asked).gains({"cheap": "[]"}, PRICES, {})
    assert max(gains.values()) < 0.01


def test_a_place_that_two_arms_doubt_is_worth_a_further_vote(taught: camvo.Question) -> None:
    one = write_spans([Span(0, 6, "x")])
    doubted = stages(taught).gains({"cheap": one, "other": "[]"}, PRICES, {})
    agreed = stages(taught).gains({"cheap": one, "other": one}, PRICES, {})
    assert doubted["good"] > agreed["good"]


def test_what_may_be_missed_is_worth_a_further_vote_though_nobody_marked_it(taught: camvo.Question) -> None:
    gains = stages(taught).gains({"cheap": "[]"}, PRICES, {})
    assert gains["good"] > 0.05


def test_a_gain_does_not_count_on_the_vote_of_an_arm_that_gave_none(taught: camvo.Question) -> None:
    marked = {"cheap": write_spans([Span(0, 6, "x")])}
    open_, silent = (stages(taught).gains(votes, PRICES, {}) for votes in (marked, {**marked, "good": None}))
    assert silent["other"] < open_["other"] - 0.001


def test_an_arm_that_answers_every_other_time_costs_twice_its_price_in_plans() -> None:
    policy, state, context = camvo.Joint(), camvo.State(dimension=2), np.array([1.0, 0.0])
    observed = {"spans": camvo.Observation(state, context, ("x",), SPAN_VOTE)}
    for number, (_, marks) in zip(range(36), texts(11), strict=False):
        plan = policy.plan(observed, PRICES)
        votes = {arm: {"spans": mark} for arm, mark in marks.items()} | ({"good": {}} if number % 2 else {})
        label = policy.decide(plan, votes)["spans"].label
        state.add(policy.contribution(plan, "spans", votes, label))
    paid = policy.plan(observed, PRICES).stages.prices  # type: ignore[union-attr]
    assert paid["good"] / paid["cheap"] == pytest.approx(5.0 * 37 / 19, rel=0.05)


def test_a_place_counts_less_in_a_text_of_many(taught: camvo.Question) -> None:
    few, many = [Span(0, 6, "x")], [Span(20 * place, 20 * place + 6, "x") for place in range(9)]
    sure = write_spans(many[1:])
    one = stages(taught).gains({"cheap": write_spans(few), "other": "[]"}, PRICES, {})["good"]
    among = stages(taught).gains({"cheap": write_spans(many), "other": sure}, PRICES, {})["good"]
    assert among < one


def test_the_answer_has_the_places_that_are_more_likely_real_than_not(taught: camvo.Question) -> None:
    both, alone = Span(0, 6, "x"), Span(40, 46, "x")
    votes = {"cheap": write_spans([both, alone]), "good": write_spans([both]), "other": write_spans([both])}
    found = stages(taught)
    decision = found.decision(Decision("[]", 0.5, {"[]": 0.5}), votes, ("x",), {})
    assert decision.label == write_spans([both])
    chances = fitted(taught).chances(votes, [dict.fromkeys(votes, both), {"cheap": alone}])
    assert chances[0] > 0.5 > chances[1]


def test_the_last_stage_of_a_batch_asks_all_that_are_worth_their_price(taught: camvo.Question) -> None:
    found, prices = stages(taught), {arm: 0.001 * price for arm, price in PRICES.items()}
    votes = {"cheap": "[]"}
    last = found.within(votes, prices, 1, {})
    assert set(last) == {arm for arm, gain in found.gains(votes, prices, {}).items() if gain > prices[arm]}
    assert found.within(votes, prices, 2, {}) == last[:1]


def test_a_round_that_asks_everyone_teaches_its_places() -> None:
    asked = question()
    _, votes = next(texts(7))
    before = asked.state.exploration.places.total()
    task = asked.task([1.0, 0.0])
    while arms := task.ask():
        task.add({arm: votes[arm] for arm in arms})
    task.learn()
    places = place_patterns(sorted(PRICES), votes)
    assert asked.state.exploration.places.total() - before == len(places) > 0


def test_stops_of_spans_are_not_tested_by_whether_spans_are_the_same_to_the_character() -> None:
    asked = question(worth=2.0)
    label(asked, 100)
    assert asked.state.exploration.places
    assert asked.state.exploration.tried == 0


def test_without_an_agreement_by_labels_every_model_is_asked() -> None:
    policy = camvo.Joint(agreement=0.95)
    asked = camvo.Question(("x",), prices=PRICES, dimension=2, policy=policy, aggregation=SPAN_VOTE)
    _, _, cost = label(asked, 60)
    assert cost == pytest.approx(1.0)


def test_a_task_with_spans_and_a_label_adds_up_what_both_gain() -> None:
    policy = camvo.Joint()
    states = {"spans": camvo.State(dimension=2), "mood": camvo.State(dimension=2)}
    observations = {
        "spans": camvo.Observation(states["spans"], np.array([1.0, 0.0]), ("x",), SPAN_VOTE),
        "mood": camvo.Observation(states["mood"], np.array([1.0, 0.0]), ("neg", "pos")),
    }
    plan = policy.plan(observations, PRICES, Conditions(everyone=True))
    votes = {arm: {"spans": write_spans([Span(0, 6, "x")]), "mood": "pos"} for arm in plan.subset}
    assert policy.ask(plan, votes) == ()
    decisions = policy.decide(plan, votes)
    assert read_spans(decisions["spans"].label) == (Span(0, 6, "x"),)
    assert decisions["mood"].label == "pos"


def rounds() -> list[ExplorationRound]:
    found = []
    for _, (_, votes) in zip(range(20), texts(8), strict=False):
        pattern = VotePattern.of(sorted(PRICES), votes, everyone=True)
        found.append(ExplorationRound(pattern, True, None, place_patterns(sorted(PRICES), votes)))
    return found


def test_rounds_with_places_survive_being_stored() -> None:
    for round_ in rounds():
        assert ExplorationRound.from_list(round_.to_list()) == round_


def test_a_stored_round_names_each_arm_once_however_many_places_it_has() -> None:
    round_ = max(rounds(), key=lambda each: len(each.places))
    stored = json.dumps(round_.to_list())
    assert len(round_.places) > 2
    assert {stored.count(f'"{arm}"') for arm in PRICES} == {2}, "in the pattern, and for all places"


def test_sums_with_places_survive_being_stored() -> None:
    sums = ExplorationSums()
    for round_ in rounds():
        sums.add(round_, +1)
    again = ExplorationSums.from_list(sums.to_list())
    assert again == sums
    assert again.evidence.places == sums.evidence.places


def test_a_round_that_is_taken_back_takes_its_places_along() -> None:
    sums, (first, *others) = ExplorationSums(), rounds()
    for round_ in [*others, first]:
        sums.add(round_, +1)
    sums.add(first, -1)
    alone = ExplorationSums()
    for round_ in others:
        alone.add(round_, +1)
    assert sums.places == alone.places


def test_a_renamed_arm_keeps_its_marks() -> None:
    sums, renamed = ExplorationSums(), ExplorationSums()
    for round_ in rounds():
        sums.add(round_, +1)
        renamed.add(round_.renamed({"good": "better"}), +1)
    sums.rename({"good": "better"})
    assert sums.places == renamed.places
    assert isinstance(sums.evidence, PatternCounts)
    assert sums.evidence.places == renamed.places


@pytest.mark.parametrize("allowance", [0.25, 0.5])
def test_texts_keep_to_an_allowance_on_average(taught: camvo.Question, allowance: float) -> None:
    policy, paid, count = camvo.Joint(), 0.0, 200
    for number, (_, votes) in zip(range(count), texts(9), strict=False):
        observation = camvo.Observation(
            taught.state, np.array([1.0, 0.0]), ("x",), SPAN_VOTE, task=f"task {number}"
        )
        plan = policy.plan({"spans": observation}, PRICES, Conditions(allowance=allowance))
        cast: dict[str, dict[str, str]] = {}
        while arms := policy.ask(plan, cast):
            cast |= {arm: {"spans": votes[arm]} for arm in arms}
        paid += sum(PRICES[arm] for arm in cast)
    assert 0.7 * allowance < paid / count / sum(PRICES.values()) <= 1.1 * allowance

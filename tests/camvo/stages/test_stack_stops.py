from __future__ import annotations

import itertools

import numpy as np
import pytest

from camvo.stages.stack_stops import Stops, _best_thresholds, learn_stops
from camvo.state.kept_rounds import CastVote, KeptRound
from camvo.weights.stacking import StackedVote

ARMS = ("a", "b", "c")
LABELS = ("no", "yes")
STACK = StackedVote(scale=2.0)


def kept_rounds(votes, everyone=True):
    return [
        KeptRound(
            tuple(CastVote(arm, vote, 1.0) for arm, vote in zip(ARMS, row, strict=True)), None, everyone
        )
        for row in votes
    ]


def learnt(votes, *, price, max_stages=3, **options):
    return learn_stops(
        STACK,
        kept_rounds(votes, **options),
        ARMS,
        (0.1, 0.2, 0.7),
        LABELS,
        price=price,
        max_stages=max_stages,
    )


AGREE, SPLIT = ("yes", "yes", "yes"), ("yes", "no", "no")


def test_asking_stops_when_two_of_three_agree():
    stops = learnt([AGREE, ("no", "no", "no"), ("no", "no", "yes"), ("no", "yes", "yes")] * 50, price=0.01)
    assert stops.upto[0] == 2
    assert stops.after(2, 4.0) == 2
    assert stops.after(2, 0.0) == 3


def test_if_right_labels_are_worth_little_one_model_is_enough():
    assert learnt([AGREE, SPLIT] * 100, price=10.0).after(1, 2.0) == 1


def test_all_models_are_asked_until_150_rounds_have_asked_all_models():
    assert learnt([AGREE] * 149, price=1.0) == Stops((3,), (-np.inf,))
    assert learnt([AGREE] * 149 + [SPLIT], price=1.0).upto[0] < 3


def test_rounds_that_went_on_because_of_the_votes_do_not_count():
    assert learnt([AGREE] * 200, price=1.0, everyone=False) == Stops((3,), (-np.inf,))


def test_a_single_stage_asks_all_models():
    assert learnt([AGREE] * 200, price=1.0, max_stages=1) == Stops((3,), (-np.inf,))


def test_the_best_pauses_among_twenty_models_are_found_in_a_moment():
    """Trying all half a million placements of pauses would take minutes."""
    arms = [f"m{number:02}" for number in range(20)]
    five, ten = ["yes"] * 5 + ["no"] * 15, ["yes"] * 3 + ["no"] * 17
    votes = [["yes"] * 20, five, ten, ["no"] * 20] * 40
    rounds = [
        KeptRound(tuple(CastVote(arm, vote, 1.0) for arm, vote in zip(arms, row, strict=True)), None, True)
        for row in votes
    ]
    few, many = (
        learn_stops(STACK, rounds, arms, (0.05,) * 20, LABELS, price=0.05, max_stages=stages)
        for stages in (3, 15)
    )
    assert len(few.upto) <= 3
    assert set(few.upto) <= set(many.upto)


def test_asking_does_not_stop_at_silence():
    stops = learnt([AGREE, (None, "yes", "yes")] * 100, price=0.01)
    assert stops.after(0, 0.0) > 1 or stops.after(1, -np.inf) > 1


def test_the_thresholds_are_the_best_of_all_thresholds():
    rng = np.random.default_rng(0)
    margins = rng.integers(0, 4, size=(12, 3)).astype(float)
    losses = np.sort(rng.random((12, 3)), axis=1)[:, ::-1] + [0.0, 0.2, 0.4]
    least_later = min(
        np.where(margins[:, 1] >= t1, losses[:, 1], losses[:, 2]).sum() for t1 in (0, 1, 2, 3, 9)
    )
    thresholds, loss = _best_thresholds(margins, losses)
    later = np.where(margins[:, 1] >= thresholds[1], losses[:, 1], losses[:, 2])
    assert later.sum() == pytest.approx(least_later)
    assert loss == pytest.approx(
        min(np.where(margins[:, 0] >= t0, losses[:, 0], later).sum() for t0 in (0, 1, 2, 3, 9))
    )


def test_stages_follow_one_another_to_the_end():
    stops = Stops((1, 2, 3), (5.0, 3.0, -np.inf))
    asked = list(itertools.accumulate(range(4), lambda before, _: stops.after(before, 0.0), initial=0))
    assert asked == [0, 1, 2, 3, 3]


def test_the_score_of_an_early_leader_is_its_expected_probability_given_all_votes():
    divided = [AGREE, ("no", "no", "no"), ("no", "no", "yes"), ("no", "yes", "yes")] * 50
    stops = learnt(divided, price=0.02)
    assert stops.upto[0] == 2
    later = [
        STACK.probabilities(dict(zip(ARMS, votes, strict=True)), dict.fromkeys(ARMS, 1.0), LABELS)
        for votes in divided[:3]
    ]
    expected = np.mean([later[0]["yes"], later[1]["no"], later[2]["no"]])
    assert stops.score(2, 4.0) == pytest.approx(expected, abs=0.02)


def test_after_the_last_stage_the_score_is_left_to_the_stacked_vote():
    assert learnt([AGREE, SPLIT] * 100, price=0.1).score(3, 2.0) is None

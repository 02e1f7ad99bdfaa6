from __future__ import annotations

import itertools

import numpy as np
import pytest

from camvo.stages.stack_stops import Stops, _backwards, learn
from camvo.state.kept_rounds import CastVote, KeptRound
from camvo.weights.stacking import StackedVote

ARMS = ("a", "b", "c")
LABELS = ("no", "yes")
STACK = StackedVote(scale=2.0)


def rows(votes, everyone=True):
    return [
        KeptRound(
            tuple(CastVote(arm, vote, 1.0) for arm, vote in zip(ARMS, row, strict=True)), None, everyone
        )
        for row in votes
    ]


def learnt(votes, *, price, max_stages=3, **options):
    seen = rows(votes, **options)
    return learn(STACK, seen, ARMS, (0.1, 0.2, 0.7), LABELS, price=price, max_stages=max_stages)


AGREE, SPLIT = ("yes", "yes", "yes"), ("yes", "no", "no")


def test_what_two_of_three_agree_on_is_left_alone():
    stops = learnt([AGREE, ("no", "no", "no"), ("no", "no", "yes"), ("no", "yes", "yes")] * 50, price=0.01)
    assert stops.upto[0] == 2
    assert stops.after(2, 4.0) == 2
    assert stops.after(2, 0.0) == 3


def test_where_right_labels_are_worth_little_one_model_is_enough():
    assert learnt([AGREE, SPLIT] * 100, price=10.0).after(1, 2.0) == 1


def test_everyone_is_asked_while_too_few_rounds_have_shown_what_stopping_costs():
    assert learnt([AGREE] * 149, price=1.0) == Stops((3,), (-np.inf,))
    assert learnt([AGREE] * 149 + [SPLIT], price=1.0).upto[0] < 3


def test_rounds_that_went_on_because_they_were_hard_are_not_looked_at():
    assert learnt([AGREE] * 200, price=1.0, everyone=False) == Stops((3,), (-np.inf,))


def test_one_stage_asks_everyone():
    assert learnt([AGREE] * 200, price=1.0, max_stages=1) == Stops((3,), (-np.inf,))


def test_the_best_pauses_among_twenty_models_are_found_in_a_moment():
    """To try each of their half a million ways to pause would take minutes."""
    arms = [f"m{number:02}" for number in range(20)]
    five, ten = ["yes"] * 5 + ["no"] * 15, ["yes"] * 3 + ["no"] * 17
    votes = [["yes"] * 20, five, ten, ["no"] * 20] * 40
    seen = [
        KeptRound(tuple(CastVote(arm, vote, 1.0) for arm, vote in zip(arms, row, strict=True)), None, True)
        for row in votes
    ]
    few, many = (
        learn(STACK, seen, arms, (0.05,) * 20, LABELS, price=0.05, max_stages=stages) for stages in (3, 15)
    )
    assert len(few.upto) <= 3
    assert set(few.upto) <= set(many.upto)


def test_silence_is_no_reason_to_stop():
    stops = learnt([AGREE, (None, "yes", "yes")] * 100, price=0.01)
    assert stops.after(0, 0.0) > 1 or stops.after(1, -np.inf) > 1


def test_thresholds_are_the_best_of_all_that_there_are():
    rng = np.random.default_rng(0)
    margins = rng.integers(0, 4, size=(12, 3)).astype(float)
    losses = np.sort(rng.random((12, 3)), axis=1)[:, ::-1] + [0.0, 0.2, 0.4]
    last = min(np.where(margins[:, 1] >= t1, losses[:, 1], losses[:, 2]).sum() for t1 in (0, 1, 2, 3, 9))
    thresholds, found = _backwards(margins, losses)
    ahead = np.where(margins[:, 1] >= thresholds[1], losses[:, 1], losses[:, 2])
    assert ahead.sum() == pytest.approx(last)
    assert found == pytest.approx(
        min(np.where(margins[:, 0] >= t0, losses[:, 0], ahead).sum() for t0 in (0, 1, 2, 3, 9))
    )


def test_stages_follow_one_another_to_the_end():
    stops = Stops((1, 2, 3), (5.0, 3.0, -np.inf))
    seen = list(itertools.accumulate(range(4), lambda asked, _: stops.after(asked, 0.0), initial=0))
    assert seen == [0, 1, 2, 3, 3]


def test_the_score_of_an_early_leader_is_what_everybody_will_think_of_it():
    divided = [AGREE, ("no", "no", "no"), ("no", "no", "yes"), ("no", "yes", "yes")] * 50
    stops = learnt(divided, price=0.02)
    assert stops.upto[0] == 2
    later = [
        STACK.probabilities(dict(zip(ARMS, votes, strict=True)), dict.fromkeys(ARMS, 1.0), LABELS)
        for votes in divided[:3]
    ]
    expected = np.mean([later[0]["yes"], later[1]["no"], later[2]["no"]])
    assert stops.score(2, 4.0) == pytest.approx(expected, abs=0.02)


def test_after_the_last_stage_the_vote_has_its_own_score():
    assert learnt([AGREE, SPLIT] * 100, price=0.1).score(3, 2.0) is None

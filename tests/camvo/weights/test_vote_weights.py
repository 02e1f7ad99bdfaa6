from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from camvo.state.vote_patterns import PatternCounts, VotePattern
from camvo.weights.corrected_vote import CorrectedVote
from camvo.weights.vote_weights import VoteWeights, weights_are_settled

AGREED = {"copy": 0.0, "good": 1.5, "plain": 1.2, "wrong": 1.4}
CORRECTED = CorrectedVote(scale=0.5, arms={"copy": 0.8, "good": 2.0, "wrong": -3.0}, trust=0.9)


def test_without_human_labels_the_weights_are_those_of_agreement():
    assert VoteWeights(AGREED).by_arm() == AGREED


def test_human_labels_scale_and_correct_the_weights():
    weights = VoteWeights(AGREED, CORRECTED).by_arm()
    assert weights["good"] == pytest.approx(0.5 * 1.5 + 2.0)
    assert weights["plain"] == pytest.approx(0.5 * 1.2)


def test_an_arm_whose_corrected_weight_is_negative_has_the_smallest_weight():
    assert VoteWeights(AGREED, CORRECTED).by_arm()["wrong"] == 0.01


def test_a_near_copy_keeps_a_weight_of_0():
    assert VoteWeights(AGREED, CORRECTED).by_arm()["copy"] == 0.0


def test_the_description_has_the_corrections_and_the_agreed_weights():
    assert VoteWeights(AGREED).describe() == {}
    assert VoteWeights(AGREED, CORRECTED).describe() == {"corrected": CORRECTED.describe(), "agreed": AGREED}


ARMS = ("a", "b", "c", "d")


def evidence(rounds, chances, *, biased=0.0, everyone=True, seed=0):
    """Rounds on two labels; a and b are right with ``chances``, c and d lean together to one label."""
    rng = np.random.default_rng(seed)
    patterns = Counter()
    for _ in range(rounds):
        truth, common = int(rng.integers(2)), rng.normal()
        votes = {
            arm: truth if rng.random() < chance else 1 - truth
            for arm, chance in zip("ab", chances, strict=True)
        }
        for arm in "cd":
            votes[arm] = int(2 * truth - 1 + common + biased + rng.normal() > 0)
        named = {arm: str(vote) for arm, vote in votes.items()}
        patterns[VotePattern.of(ARMS, named, everyone=everyone)] += 1
    return PatternCounts(dict(patterns), rounds)


def settled(patterns):
    return weights_are_settled(patterns, ARMS, (0.1, 0.2, 0.3, 0.4), 2)


def test_a_handful_of_rounds_settles_no_weights():
    assert not settled(evidence(49, (0.95, 0.9)))


def test_weights_that_give_the_same_labels_again_are_settled():
    assert settled(evidence(400, (0.97, 0.75), biased=0.3))


def test_two_pairs_of_models_that_part_on_many_labels_are_not_settled_by_64_rounds():
    """Which pair is trusted hangs on the rounds: the wrong one costs 20 points."""
    assert sum(settled(evidence(64, (0.9, 0.89), biased=1.5, seed=seed)) for seed in range(8)) <= 2


def test_many_rounds_are_enough_even_for_a_close_call():
    assert settled(evidence(500, (0.9, 0.89), biased=1.5))


def test_rounds_that_were_selected_by_their_votes_settle_nothing():
    assert not settled(evidence(400, (0.97, 0.75), everyone=False))

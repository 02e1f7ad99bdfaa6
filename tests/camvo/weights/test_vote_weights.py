from __future__ import annotations

import pytest

from camvo.weights.stacking import StackedVote
from camvo.weights.vote_weights import VoteWeights

AGREED = {"copy": 0.0, "good": 1.5, "plain": 1.2, "wrong": 1.4}
STACK = StackedVote(scale=0.5, arms={"copy": 0.8, "good": 2.0, "wrong": -3.0}, trust=0.9)


def test_without_human_labels_the_weights_are_those_of_agreement():
    assert VoteWeights(AGREED).by_arm() == AGREED


def test_human_labels_scale_and_correct_the_weights():
    weights = VoteWeights(AGREED, STACK).by_arm()
    assert weights["good"] == pytest.approx(0.5 * 1.5 + 2.0)
    assert weights["plain"] == pytest.approx(0.5 * 1.2)


def test_an_arm_whose_corrected_weight_is_negative_has_the_smallest_weight():
    assert VoteWeights(AGREED, STACK).by_arm()["wrong"] == 0.01


def test_a_near_copy_keeps_a_weight_of_0():
    assert VoteWeights(AGREED, STACK).by_arm()["copy"] == 0.0


def test_the_description_has_the_corrections_and_the_agreed_weights():
    assert VoteWeights(AGREED).describe() == {}
    assert VoteWeights(AGREED, STACK).describe() == {"stack": STACK.describe(), "agreed": AGREED}

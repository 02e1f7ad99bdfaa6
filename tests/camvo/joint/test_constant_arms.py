"""Arms that give nearly every task the same label."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from made_up_votes import draw_votes

from camvo.joint.joint_fit import JointFit
from camvo.state.contribution import LatestRounds
from camvo.state.exploration import PatternCounts, VotePattern

SKILLS = np.array([0.85, 0.8, 0.75, 0.7])
NAMES = "abcdef"


def fitted(votes, labels):
    """The fit to rounds that asked all arms, whose votes are label positions."""
    names, arms = tuple(NAMES[:labels]), tuple([f"arm{number}" for number in range(votes.shape[1])])
    patterns = Counter(
        VotePattern.of(
            arms, dict(zip(arms, [names[v] for v in row], strict=True)), everyone=True, labels=names
        )
        for row in votes.tolist()
    )
    evidence = PatternCounts(dict(patterns), len(votes))
    return JointFit.fit(evidence, LatestRounds(), names, dict.fromkeys(arms, 0.01))


def with_constant(labels, items=300, others=0.03, seed=0):
    """Votes of four arms, and of a last one that says the first label, apart from a random share."""
    votes, truth = draw_votes(SKILLS, labels=labels, items=items, seed=seed)
    rng = np.random.default_rng(seed)
    strays = rng.random(items) < others
    last = np.where(strays, rng.integers(labels, size=items), 0)
    return np.column_stack([votes, last]), truth


@pytest.mark.parametrize("labels", [2, 3, 5])
def test_the_votes_of_a_constant_arm_have_no_weight(labels):
    fit = fitted(with_constant(labels)[0], labels)
    assert fit.describe()["constant"] == ["arm4"]
    assert fit.effective_votes() == pytest.approx(4.0)
    without, first, second = fit.given_all(np.array([[0, 1, 1, -2, last] for last in (-2, 0, 1)]))
    np.testing.assert_allclose(first, without)
    np.testing.assert_allclose(second, without)


def test_constant_arms_do_not_confirm_each_other():
    votes, _ = with_constant(3, items=600)
    fit = fitted(np.column_stack([votes, votes[::-1, 4]]), 3)
    assert fit.describe()["constant"] == ["arm4", "arm5"]
    assert fit.describe()["families"] == []
    said = fit.probabilities({"arm0": "b", "arm1": "b", "arm2": "c", "arm3": "c", "arm4": "a", "arm5": "a"})
    assert said["a"] < min(said["b"], said["c"])


def test_an_arm_that_seldom_says_a_label_but_where_the_others_do_is_not_constant():
    votes, truth = with_constant(3, items=600, others=0.0)
    votes[:, 4] = np.where((truth == 2) & (np.arange(600) % 4 == 0), 2, 0)
    assert np.mean(votes[:, 4] == 0) > 0.9
    assert "constant" not in fitted(votes, 3).describe()


def test_arms_are_not_constant_where_nearly_all_tasks_have_one_label():
    rng = np.random.default_rng(0)
    truth = (rng.random(600) < 0.04).astype(np.int64)
    votes = np.where(rng.random((600, 4)) < 0.97, truth[:, None], 1 - truth[:, None])
    votes[:, 3] = 0
    assert "constant" not in fitted(votes, 2).describe()


def test_few_rounds_show_no_constant_arm():
    assert "constant" not in fitted(with_constant(3, items=29)[0], 3).describe()


def test_one_arm_beside_constant_ones_is_heard_no_less():
    votes, _ = with_constant(3)
    assert "constant" not in fitted(votes[:, [0, 4, 4]], 3).describe()

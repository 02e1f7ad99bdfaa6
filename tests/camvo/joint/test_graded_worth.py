"""Plans that know how sure arms say they are, against plans without confidences and a direct recursion."""

from __future__ import annotations

import math

import numpy as np
import pytest
from made_up_votes import draw_votes, evidence_of
from scipy.special import logit

from camvo.joint.grades import Grades, SureVotes, _Scale, tilted
from camvo.joint.joint_fit import JointFit
from camvo.joint.plans import plan_by_graded_worth, plan_by_worth
from camvo.state.contribution import LatestRounds

ARMS = ("a", "b", "c")
PRICES = tuple(math.exp(-0.05 * step) for step in (70, 92, 124))
"""Prices that rounding to steps of 5% does not change."""
LABELS = {2: ("neg", "pos"), 4: ("w", "x", "y", "z")}
ONE_GRADE = ((((0.0, 1.0, 1.0),),),)
"""The grades of a pool of one arm, which says nothing of how sure it is."""


def beliefs(labels):
    votes, _ = draw_votes(np.array([0.9, 0.8, 0.7]), labels=labels, items=400, decoy=0.5)
    evidence = evidence_of(votes, ARMS, LABELS[labels])
    return JointFit.fit(evidence, LatestRounds(), LABELS[labels], dict.fromkeys(ARMS, 0.0)).beliefs


@pytest.mark.parametrize("labels", [2, 4])
def test_without_confidences_the_plan_is_the_plan_by_votes(labels):
    plain = plan_by_worth(beliefs(labels), PRICES)
    graded = plan_by_graded_worth(plain.beliefs, PRICES, ONE_GRADE * 3)
    for node in range(len(plain.stopping)):
        stopping, asking = graded.at(node, 0.0)
        assert stopping == pytest.approx(plain.stopping[node])
        assert asking == pytest.approx(plain.asking[node].tolist())
        assert graded.together(node, 0.0) == plain.together(node)


def test_with_two_labels_the_value_is_that_of_a_recursion_over_all_votes_and_grades():
    known = beliefs(2)
    grades = (((np.log(4.0), 0.8, 0.2), (np.log(0.25), 0.2, 0.8)),)
    graded = plan_by_graded_worth(known, PRICES, (grades, ONE_GRADE[0], grades))
    lattice = known.lattice

    def posterior(node, tilts):
        mass = known.right[node] * np.exp(tilts)
        return mass / mass.sum()

    def value(node, tilts):
        stop = posterior(node, tilts).max() if (lattice.rows[node] >= 0).any() else -np.inf
        return max([stop, *(asked(node, tilts, arm) for arm in np.flatnonzero(lattice.rows[node] < 0))])

    def asked(node, tilts, arm):
        after = lattice.after[arm][:, node]
        step = next(
            step for level in lattice.steps for step in level if node in step.nodes and step.arm == arm
        )
        level = next(at for at, steps in enumerate(lattice.steps) if any(each is step for each in steps))
        votes = known.votes[level][lattice.steps[level].index(step)][:, list(step.nodes).index(node)]
        reach = votes * [(known.right[there] * np.exp(tilts)).sum() for there in after]
        total = -PRICES[arm]
        for label, there, chance in zip(range(2), after, reach / reach.sum(), strict=True):
            right = posterior(there, tilts)[label]
            for raised, if_right, if_wrong in graded.grades[arm][0]:
                further = tilts + raised * (np.arange(2) == label)
                total += chance * (right * if_right + (1.0 - right) * if_wrong) * value(there, further)
        return total

    root = lattice.node_of[-2, -2, -2]
    expected = [asked(root, np.zeros(2), arm) for arm in range(3)]
    assert graded.at(root, 0.0)[1] == pytest.approx(expected, abs=0.003)


def test_confidences_still_to_come_make_asking_worth_more():
    known = beliefs(4)
    grades = (((1.5, 0.7, 0.15), (-1.0, 0.3, 0.85)),)
    root = known.lattice.node_of[-2, -2, -2]
    plain = plan_by_graded_worth(known, PRICES, ONE_GRADE * 3).at(root, 0.0)[1]
    graded = plan_by_graded_worth(known, PRICES, (grades,) * 3).at(root, 0.0)[1]
    assert all(value > before for value, before in zip(graded, plain, strict=True))


def test_a_tilt_adds_to_the_log_odds_of_its_label_and_the_rest_keeps_its_odds():
    after = tilted({"x": 0.5, "y": 0.2}, {"x": 1.0})
    rest = 1.0 - sum(after.values())
    assert logit(after["x"]) == pytest.approx(1.0)
    assert after["y"] / rest == pytest.approx(0.2 / 0.3)


def test_what_a_plan_expects_of_an_arm_is_how_often_it_had_each_grade():
    scale = _Scale((40,), (-1.0, 1.0), (0.6, 0.1))
    [[expected], [silent]] = SureVotes(Grades({"a": scale}), 0.5).by_arm(["a", "b"], [])
    assert expected == ((-0.5, pytest.approx(0.6 * np.exp(-1.0)), 0.6), (0.5, pytest.approx(0.1 * np.e), 0.1))
    assert silent == ((0.0, 1.0, 1.0),)

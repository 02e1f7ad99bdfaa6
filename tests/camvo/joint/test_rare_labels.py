"""Labels beside two common ones leave the model of two labels as it is."""

from __future__ import annotations

import numpy as np
import pytest
from made_up_votes import draw_votes, evidence_of

from camvo.joint.joint_fit import JointFit
from camvo.joint.rare_labels import labels_of_votes
from camvo.stages.stages import QuestionStages
from camvo.state.contribution import LatestRounds
from camvo.state.exploration import PatternCounts
from camvo.student import STUDENT

ARMS = ("a", "b", "c", "d")
TWO, THREE, FIVE = ("no", "yes"), ("no", "yes", "unclear"), ("no", "yes", "unclear", "none", "other")
LEANING = np.array([[0.95, 0.6], [0.6, 0.95], [0.8, 0.8], [0.75, 0.85]])
PRICES = dict.fromkeys(ARMS, 0.01)


def votes_of(unclear=0.0, stray=0, rounds=600):
    """Votes of arms that lean to one of two labels, and a share of items that nearly all call unclear."""
    votes, _ = draw_votes(LEANING, labels=2, items=rounds)
    rng = np.random.default_rng(1)
    named = (rng.random(rounds) < unclear)[:, None] & (rng.random(votes.shape) < 0.8)
    votes[named] = 2
    votes[:stray, 1] = 2
    return votes


def fit(votes, labels=THREE, **options):
    return JointFit.fit(evidence_of(votes, ARMS, labels), LatestRounds(), labels, PRICES, **options)


@pytest.mark.parametrize("labels", [THREE, FIVE])
def test_an_option_that_nobody_votes_for_changes_no_plan_and_no_label(labels):
    votes = votes_of()
    two, more = fit(votes, TWO), fit(votes, labels)
    assert (more.labels, more.options) == (TWO, labels)
    assert (more.beliefs.right == two.beliefs.right).all()
    alone, beside = (found.probabilities({"a": "no", "b": "no", "c": "yes"}) for found in (two, more))
    assert sum(beside.values()) == pytest.approx(1.0)
    assert beside["no"] / beside["yes"] == pytest.approx(alone["no"] / alone["yes"])


def test_a_stray_vote_is_as_if_it_had_not_been_given():
    votes = votes_of()
    assert fit(votes_of(stray=1)).model.accuracy == pytest.approx(fit(votes, TWO).model.accuracy, abs=0.01)


@pytest.mark.parametrize("unclear", [0.005, 0.02, 0.2])
def test_a_label_on_items_of_its_own_leaves_two(unclear):
    assert fit(votes_of(unclear)).labels == TWO


def test_an_arm_that_hedges_with_a_label_leaves_two_and_bears_little_weight_for_it():
    votes = votes_of(0.05)
    hedges = np.random.default_rng(2).random(len(votes)) < 0.3
    votes[hedges, 3] = 2
    found = fit(votes)
    assert found.labels == TWO
    by_it = found.probabilities({"a": "no", "d": "unclear"})["unclear"]
    assert by_it < found.probabilities({"a": "no", "c": "unclear"})["unclear"] / 4.0


def test_a_label_that_is_confused_with_the_others_is_one_of_them():
    votes, _ = draw_votes(np.array([0.8, 0.8, 0.7, 0.7]), labels=3, items=600)
    assert fit(votes).labels == THREE


def test_few_rounds_leave_all_labels():
    assert fit(votes_of(rounds=29)).labels == THREE
    assert labels_of_votes(PatternCounts(), ARMS, THREE) == THREE


def test_a_required_agreement_counts_every_label():
    assert fit(votes_of(), rare=False).labels == THREE


@pytest.mark.parametrize("unclear", [0.005, 0.2])
def test_the_label_of_most_votes_may_be_rare(unclear):
    found = fit(votes_of(unclear))
    for votes, label in (("uuun", "unclear"), ("uuuu", "unclear"), ("unnn", "no"), ("nnnn", "no")):
        named = {"u": "unclear", "n": "no"}
        said = found.probabilities({arm: named[vote] for arm, vote in zip(ARMS, votes, strict=True)})
        assert max(said, key=lambda option: said[option]) == label


def test_a_round_stops_once_a_rare_label_is_sure():
    found = fit(votes_of(0.2))
    question = QuestionStages(THREE, found, tuple(PRICES.values()))
    for count, goes_on in ((1, True), (3, False)):
        votes = dict.fromkeys(ARMS[:count], "unclear")
        gains = question.gains(votes, PRICES)
        assert gains.keys() == set(ARMS[count:])
        assert any(gain > PRICES[arm] for arm, gain in gains.items()) == goes_on
        assert bool(question.within(votes, PRICES, 2)) == goes_on


def test_a_further_vote_is_worth_what_it_may_find_of_a_rare_label():
    votes = {"a": "no", "b": "no", "c": "no"}
    gains = [
        QuestionStages(THREE, found, tuple(PRICES.values())).gains(votes, PRICES)["d"]
        for found in (fit(votes_of(0.2)), fit(votes_of()))
    ]
    rare = fit(votes_of(0.2)).probabilities(votes)["unclear"]
    assert gains[0] >= rare / 2.0 > gains[1]


def test_a_student_that_names_a_rare_label_says_nothing_to_plans():
    arms = (*ARMS, STUDENT)
    votes = votes_of(0.02)
    evidence = evidence_of(np.hstack([votes, votes[:, :1]]), arms, THREE)
    found = JointFit.fit(evidence, LatestRounds(), THREE, {**PRICES, STUDENT: 0.0})
    question = QuestionStages(THREE, found, (0.01,) * 5, QuestionStages(THREE, found.silent, (0.01,) * 4))
    assert question.gains({STUDENT: "unclear"}, PRICES) == question.gains({STUDENT: None}, PRICES)


def test_constant_arms_make_no_other_label_rare():
    votes, _ = draw_votes(np.array([0.85, 0.8, 0.75, 0.7]), labels=3, items=36)
    votes = np.hstack([votes, np.zeros((36, 2), dtype=votes.dtype)])
    arms = (*ARMS, "e", "f")
    found = JointFit.fit(evidence_of(votes, arms, THREE), LatestRounds(), THREE, dict.fromkeys(arms, 0.01))
    assert (found.labels, found.constant) == (THREE, (4, 5))

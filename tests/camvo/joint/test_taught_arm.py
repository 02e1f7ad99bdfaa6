"""The student in the model of votes: its vote counts, and it is no witness for what taught it."""

from __future__ import annotations

import numpy as np
import pytest
from made_up_votes import draw_votes, evidence_of

from camvo.joint.joint_fit import JointFit
from camvo.joint.models import fit_vote_model, with_taught_arm
from camvo.joint.votes import VoteRows
from camvo.state.contribution import LatestRounds
from camvo.student import STUDENT

ARMS = ("a", "b", "c")
LABELS = {2: ("neg", "pos"), 4: ("w", "x", "y", "z")}


def drawn(labels, *, student=None, items=1500):
    """Votes of three arms, and of a student that repeats the first or is right in a given share of items."""
    votes, truth = draw_votes(np.array([0.9, 0.8, 0.7]), labels=labels, items=items, decoy=0.4)
    rng = np.random.default_rng(7)
    if student is None:
        said = votes[:, 0]
    else:
        said = np.where(rng.random(items) < student, truth, (truth + 1) % labels)
    return np.column_stack((votes, said)), truth


def fitted(votes, labels, arms):
    evidence = evidence_of(votes, arms, LABELS[labels])
    return JointFit.fit(evidence, LatestRounds(), LABELS[labels], dict.fromkeys(arms, 0.0))


@pytest.mark.parametrize("labels", [2, 4])
def test_a_student_that_repeats_an_arm_changes_nothing_about_the_others(labels):
    votes, _ = drawn(labels)
    alone, beside = fitted(votes[:, :3], labels, ARMS), fitted(votes, labels, (*ARMS, STUDENT))
    assert beside.model.accuracy[:3] == pytest.approx(alone.model.accuracy)
    assert beside.model.temper[:3] == pytest.approx(alone.model.temper)


@pytest.mark.parametrize("labels", [2, 4])
def test_while_it_is_silent_the_fit_is_that_without_it(labels):
    votes, _ = drawn(labels)
    alone, beside = fitted(votes[:, :3], labels, ARMS), fitted(votes, labels, (*ARMS, STUDENT))
    cast = {"a": LABELS[labels][0], "b": LABELS[labels][1]}
    assert beside.silent.probabilities(cast) == pytest.approx(alone.probabilities(cast))


@pytest.mark.parametrize("labels", [2, 4])
@pytest.mark.parametrize("accuracy", [0.6, 0.9])
def test_its_accuracy_is_not_overstated(labels, accuracy):
    votes, _ = drawn(labels, student=accuracy, items=4000)
    fit = fitted(votes, labels, (*ARMS, STUDENT))
    read_off = float(fit.model.accuracy[3] @ fit.model.share)
    assert 0.85 * accuracy < read_off < accuracy + 0.03


@pytest.mark.parametrize("labels", [2, 4])
def test_a_good_student_is_believed_more_than_a_poor_one(labels):
    cast = {STUDENT: LABELS[labels][0], "c": LABELS[labels][1]}
    good, poor = (
        fitted(drawn(labels, student=accuracy)[0], labels, (*ARMS, STUDENT)).probabilities(cast)
        for accuracy in (0.95, 0.55)
    )
    assert good[LABELS[labels][0]] > poor[LABELS[labels][0]]


def test_rounds_in_which_it_was_silent_say_nothing_of_it():
    votes, _ = drawn(4)
    arms = (*ARMS, STUDENT)
    rows = VoteRows.of(evidence_of(votes, arms, LABELS[4]).patterns, arms, LABELS[4])
    others = VoteRows.of(evidence_of(votes[:, :3], ARMS, LABELS[4]).patterns, ARMS, LABELS[4])
    model = fit_vote_model(others.rows, others.counts, 4, np.ones(3))
    silent = rows.rows.copy()
    silent[:, 3] = -1
    nothing = with_taught_arm(model, type(rows)(silent, rows.counts, rows.partial), 3, 1.0)
    assert nothing.accuracy[3] == pytest.approx(np.full(3, 0.5))

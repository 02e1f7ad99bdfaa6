"""The student's reply as a part of the beliefs: they are those of its vote and its confidence together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from made_up_votes import draw_votes, evidence_of

from camvo.joint.beliefs import believe, updated_by_student
from camvo.joint.grades import Grades, SureVotes, _Scale
from camvo.joint.joint_fit import JointFit
from camvo.joint.lattice import vote_lattice
from camvo.stages.stages import QuestionStages
from camvo.state.contribution import LatestRounds
from camvo.student import STUDENT

ARMS = ("a", "b", "c", STUDENT)
LABELS = {2: ("neg", "pos"), 4: ("w", "x", "y", "z")}
SCALE = _Scale((40,), (-1.5, 2.0), (0.8, 0.2))
"""Two grades, below and above a confidence of ½."""


def fitted(labels, *, graded=(STUDENT,)):
    votes, _ = draw_votes(np.array([0.9, 0.8, 0.7, 0.75]), labels=labels, items=800, decoy=0.3)
    evidence = evidence_of(votes, ARMS, LABELS[labels])
    fit = JointFit.fit(evidence, LatestRounds(), LABELS[labels], dict.fromkeys(ARMS, 0.01))
    return replace(fit, sure=SureVotes(Grades(dict.fromkeys(graded, SCALE)), 1.0))


@pytest.mark.parametrize("labels", [2, 4])
@pytest.mark.parametrize("confidence", [0.1, 0.9])
@pytest.mark.parametrize("also", [{}, {"b": 1}, {"a": 1, "b": 0, "c": 1}])
def test_the_label_is_as_probable_as_by_the_vote_and_then_its_confidence(labels, confidence, also):
    fit, names = fitted(labels), LABELS[labels]
    votes = {STUDENT: names[0], **{arm: names[number] for arm, number in also.items()}}
    sure = {STUDENT: confidence}
    before = fit.probabilities(votes, sure)
    after = fit.after_reply(votes, sure).probabilities(votes, sure)
    assert after == pytest.approx(before, abs=1e-9)


@pytest.mark.parametrize("labels", [2, 4])
@pytest.mark.parametrize("log_ratio", [-2.0, 0.7, 3.0])
def test_what_is_believed_now_is_the_mean_of_what_will_be_believed(labels, log_ratio):
    model = fitted(labels).model
    told = updated_by_student(believe(model, vote_lattice(4, labels)), 3, log_ratio)
    for level, level_votes in zip(told.lattice.steps, told.votes, strict=True):
        for step, votes in zip(level, level_votes, strict=True):
            has_voted = told.lattice.rows[step.nodes, 3] >= 0
            if labels == 2:
                later = (votes[:, :, None] * told.right[step.following]).sum(axis=0)
                assert later[has_voted] == pytest.approx(told.right[step.nodes][has_voted], abs=1e-9)
            elif step.arm > 0:  # then labels that were named before keep their numbers
                first = told.right[step.following][:, :, 0]
                later = (votes * first).sum(axis=0)
                named = has_voted & (told.lattice.rows[step.nodes][:, : step.arm] >= 0).any(axis=1)
                assert later[named] == pytest.approx(told.right[step.nodes, 0][named], abs=1e-9)
    assert told.right.sum(axis=1).max() < 1.0 + 1e-9


def test_a_confidence_that_tells_nothing_changes_nothing():
    fit = fitted(4)
    told = updated_by_student(fit.beliefs, 3, 0.0)
    assert told.right == pytest.approx(fit.beliefs.right)
    for level, same in zip(told.votes, fit.beliefs.votes, strict=True):
        for votes, before in zip(level, same, strict=True):
            assert votes == pytest.approx(before)


def test_a_surer_student_saves_votes():
    fit = fitted(4)
    question = QuestionStages(
        fit.labels, fit, (0.01,) * 4, QuestionStages(fit.labels, fit.silent, (0.01,) * 3)
    )
    votes = {STUDENT: "w", "a": "w"}
    gains = [
        max(question.gains(votes, dict.fromkeys(ARMS, 0.01), {STUDENT: confidence}).values())
        for confidence in (0.1, 0.9)
    ]
    assert gains[0] > gains[1]


def test_without_a_student_the_fit_stays_as_it_is():
    fit = replace(fitted(4), silent=None)
    assert fit.after_reply({STUDENT: "w"}, {STUDENT: 0.9}) is fit


@pytest.mark.parametrize(("graded", "promises"), [((STUDENT,), True), ((STUDENT, "a"), False)])
def test_a_plan_promises_although_the_student_says_how_sure_it_is(graded, promises):
    fit = fitted(4, graded=graded)
    question = QuestionStages(
        fit.labels, fit, (0.01,) * 4, QuestionStages(fit.labels, fit.silent, (0.01,) * 3)
    )
    promised = question.promised({STUDENT: "w", "a": "w"}, {STUDENT: 0.9})
    assert (promised is not None) == promises

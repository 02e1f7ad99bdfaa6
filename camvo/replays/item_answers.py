"""The votes on one item of a table: all that are known, and those that a policy asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

from camvo.policies.plan import Plan
from camvo.policies.policy import Policy
from camvo.replays.texts.student_arm import QUESTION, StudentArm
from camvo.replays.votes_table import VotesTable
from camvo.student.taught_texts import STUDENT
from camvo.typing import Confidences, Votes

Answers: TypeAlias = tuple[Votes, Confidences]
"""Votes on one item, and the confidences of those arms that gave one."""


def all_answers(table: VotesTable, item: int, pupil: StudentArm | None) -> Answers:
    """The votes of all models and of the student on one item, and the confidences of those that gave one."""
    row = zip(table.prices, table.votes[item].tolist(), strict=True)
    votes = {arm: {QUESTION: table.labels[vote]} if vote >= 0 else {} for arm, vote in row}
    sure = _confidences(table, item)
    if pupil is not None:
        vote = pupil.vote(item)
        votes[STUDENT] = {} if vote is None else {QUESTION: vote.label}
        if vote is not None:
            sure[STUDENT] = vote.confidence
    return votes, {arm: {QUESTION: confidence} for arm, confidence in sure.items() if votes[arm]}


def asked_for(policy: Policy, plan: Plan, said: Answers) -> Answers:
    """Collect the votes that the policy asks for on one item, and their confidences."""
    known, sure = said
    votes: dict[str, Mapping[str, str]] = {}
    confidences: dict[str, Mapping[str, float]] = {}
    while wanted := policy.ask(plan, votes, confidences=confidences):
        votes |= {arm: known[arm] for arm in wanted}
        confidences |= {arm: sure[arm] for arm in wanted if arm in sure}
    return votes, confidences


def _confidences(table: VotesTable, item: int) -> dict[str, float]:
    """Model → its confidence in its vote on one item, for the models that gave one."""
    if table.confidences is None:
        return {}
    row = zip(table.prices, table.confidences[item].tolist(), strict=True)
    return {arm: confidence for arm, confidence in row if not math.isnan(confidence)}

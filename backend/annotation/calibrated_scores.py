"""The calibrated scores of a task's decisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from backend.annotation.job import Job, JobQuestion
from backend.learning.scorers import Scorers
from backend.learning.states import StateKey
from camvo.policies.plan import Plan
from camvo.votes.decision import Decision
from camvo.votes.labels import LABEL_VOTE


async def calibrated_scores(  # noqa: PLR0917 - one task, and what was planned, voted and decided
    scorers: Scorers,
    job: Job,
    questions: Sequence[JobQuestion],
    plan: Plan,
    votes: Mapping[str, Mapping[str, str]],
    decisions: Mapping[str, Decision],
) -> dict[str, float]:
    """The calibrated score of each decided question whose votes are single labels, by question.

    Empty if ``calibrate`` is off. The scores are stored with the rounds: they are computed before any human
    sees the prediction, and later fits do not change them.
    """
    scores: dict[str, float] = {}
    if not job.settings.calibrate:
        return scores
    for question in questions:
        name, estimates = question.name, plan.estimates[question.name]
        if name not in decisions or estimates.aggregation != LABEL_VOTE:
            continue
        key = StateKey(job.project, question.key.control, question.key.epoch)
        votes_cast = {arm: votes[arm][name] for arm in plan.arms if name in votes.get(arm, {})}
        if decisions[name].label not in votes_cast.values():
            continue
        scorer = await scorers.current(key, plan.arms, estimates.labels)
        scores[name] = scorer.score_decision(votes_cast, decisions[name])
    return scores

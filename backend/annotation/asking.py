"""The asking loop: models are asked stage by stage until the policy stops."""

from __future__ import annotations

import asyncio

import structlog

from backend.annotation.job import Job
from backend.annotation.task_prompt import TaskPrompt
from backend.annotation.voters import Voters
from backend.errors import TaskError
from backend.telemetry import metrics
from camvo.errors import CamvoError
from camvo.policies.plan import Plan
from camvo.policies.policy import Policy

_log = structlog.get_logger(__name__)


async def ask_models(
    policy: Policy, plan: Plan, voters: Voters, job: Job, prompt: TaskPrompt
) -> tuple[dict[str, dict[str, str]], dict[str, float]]:
    """Ask models as the policy says; those of one stage are asked at the same time.

    A model whose vote fails unexpectedly gives none, as one whose call fails; the others still vote.

    Returns:
        By model asked: its votes by question, and what the call cost in $.

    Raises:
        TaskError: no model can vote on the task, such as without a budget.
    """
    votes: dict[str, dict[str, str]] = {}
    costs: dict[str, float] = {}
    while arms := policy.ask(plan, votes):
        # All replies are awaited even if one fails unexpectedly, so that no call is left behind.
        replies = await asyncio.gather(
            *(voters.vote(job, arm, prompt) for arm in arms), return_exceptions=True
        )
        for arm, reply in zip(arms, replies, strict=True):
            if isinstance(reply, BaseException):
                votes[arm], costs[arm] = _no_vote(job, arm, reply), 0.0
            else:
                votes[arm], costs[arm] = reply
    return votes, costs


def _no_vote(job: Job, arm: str, error: BaseException) -> dict[str, str]:
    """Log and count a missing vote. Of an unexpected error only the type is logged: it might quote the task.

    Raises:
        BaseException: the error is not about this model alone.
    """
    if isinstance(error, TaskError) or not isinstance(error, Exception):
        raise error
    code = error.code if isinstance(error, CamvoError) else "internal"
    metrics.votes_missing.labels(model=arm, reason=code).inc()
    _log.error("vote_failed", model=arm, task=job.task, code=code, kind=type(error).__name__)
    return {}

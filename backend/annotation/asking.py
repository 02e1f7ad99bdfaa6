"""The asking loop: models are asked stage by stage until the policy stops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Final, Protocol

import structlog

from backend.annotation.job import Job
from backend.annotation.pack_checks import to_check
from backend.annotation.task_prompt import TaskPrompt
from backend.annotation.voters import ModelReply
from backend.errors import (
    BudgetExhaustedError,
    NoUsableAnswerError,
    NoVoteError,
    TaskError,
    UnusableAnswersError,
)
from backend.telemetry import metrics, tracing
from camvo.errors import CamvoError
from camvo.policies.plan import Plan
from camvo.policies.policy import Policy

NOBODY: Final[Mapping[str, ModelReply]] = MappingProxyType({})
"""No replies."""

_log = structlog.get_logger(__name__)


class Asked(Protocol):
    """What votes on a task: the models themselves, or the stage of a batch."""

    async def vote(self, job: Job, arm: str, prompt: TaskPrompt) -> ModelReply:
        """Ask one model; one that fails gives a reply without votes."""
        ...


async def ask_models(
    policy: Policy,
    plan: Plan,
    voters: Asked,
    job: Job,
    prompt: TaskPrompt,
    *,
    known: Mapping[str, ModelReply],
    known_beside: Mapping[str, ModelReply] = NOBODY,
    waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> tuple[dict[str, ModelReply], dict[str, ModelReply]]:
    """Ask models as the policy says; those of one stage are asked at the same time.

    A model whose vote fails unexpectedly gives none, as one whose call fails; the others still vote. If the
    budget does not cover a call, the round ends with the votes it has. Without any vote, other models are
    asked, which may be cheaper.

    Args:
        policy: the project's policy.
        plan: its plan.
        voters: the models.
        job: the task.
        prompt: what the models are shown.
        known: the replies that are there already.
        known_beside: those of models that the plan does not know.
        waiting: entered while the task waits for answers.

    Returns:
        The reply of each arm that was asked, and the known ones; and those of models that a coin asked singly
        and that the plan does not know.

    Raises:
        TaskError: no model can vote on the task, such as without a budget.
    """
    replies, beside = dict(known), dict(known_beside)
    refused: BudgetExhaustedError | None = None
    number = 0
    while arms := policy.ask(plan, votes_of(replies), confidences=confidences_of(replies)):
        # All replies are awaited even if one fails unexpectedly, so that no call is left behind.
        arms = (*arms, *to_check(job, arms, {*arms, *replies, *beside}))
        number += 1
        with tracing.stage(number, arms), waiting():
            stage = await asyncio.gather(
                *(voters.vote(job, arm, prompt) for arm in arms), return_exceptions=True
            )
        for arm, reply in zip(arms, stage, strict=True):
            if isinstance(reply, BudgetExhaustedError):
                refused, reply = reply, _unpaid_vote(job, arm, reply)  # noqa: PLW2901
            heard = replies if arm in plan.arms else beside
            heard[arm] = _missing_vote(job, arm, reply) if isinstance(reply, BaseException) else reply
        if refused is not None and any(reply.votes for reply in replies.values()):
            break
    if refused is not None and not any(reply.votes for reply in replies.values()):
        raise refused
    return replies, beside


def votes_of(replies: Mapping[str, ModelReply]) -> dict[str, Mapping[str, str]]:
    """The votes in the replies: arm → question → vote."""
    return {arm: reply.votes for arm, reply in replies.items()}


def confidences_of(replies: Mapping[str, ModelReply]) -> dict[str, Mapping[str, float]]:
    """How sure the models say they are: arm → question → confidence; arms that say nothing are absent."""
    return {arm: reply.confidences for arm, reply in replies.items() if reply.confidences}


def _missing_vote(job: Job, arm: str, error: BaseException) -> ModelReply:
    """Log and count a missing vote. Of an unexpected error only the type is logged: it might quote the task.

    Raises:
        BaseException: the error is not about this model alone.
    """
    if isinstance(error, TaskError) or not isinstance(error, Exception):
        raise error
    code = error.code if isinstance(error, CamvoError) else "internal"
    metrics.votes_missing.labels(model=arm, reason=code).inc()
    _log.error("vote_failed", model=arm, task=job.task, code=code, kind=type(error).__name__)
    return ModelReply({}, 0.0, code)


def _unpaid_vote(job: Job, arm: str, error: BudgetExhaustedError) -> ModelReply:
    metrics.votes_missing.labels(model=arm, reason=error.code).inc()
    _log.debug("vote_not_paid", model=arm, task=job.task, code=error.code)
    return ModelReply({}, 0.0, error.code)


def no_vote_error(job: Job, replies: Mapping[str, ModelReply]) -> NoVoteError:
    """Return the error for a task on which no model voted."""
    where = f"task {job.task}"
    if replies and all(reply.failure == UnusableAnswersError.code for reply in replies.values()):
        return NoUsableAnswerError(
            f"all attempts of the {len(replies)} models that were asked brought unusable answers",
            where=where,
            fix="label it by hand, give the labels hints, or name other models",
        )
    codes = ", ".join(sorted({reply.failure or "" for reply in replies.values()}))
    return NoVoteError(
        f"none of the {len(replies)} models that were asked gave a valid answer ({codes})",
        where=where,
        fix="look the codes up in docs/errors.md",
    )

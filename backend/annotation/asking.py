"""The asking loop: models are asked stage by stage until the policy stops."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from backend.annotation.job import Job
from backend.annotation.task_prompt import TaskPrompt
from backend.annotation.voters import ModelReply, Voters
from backend.errors import NoUsableAnswerError, NoVoteError, UnusableAnswersError
from camvo.policies.plan import Plan
from camvo.policies.policy import Policy


async def ask_models(
    policy: Policy, plan: Plan, voters: Voters, job: Job, prompt: TaskPrompt
) -> dict[str, ModelReply]:
    """Ask models as the policy says; those of one stage are asked at the same time.

    Returns:
        The reply of each model that was asked.
    """
    replies: dict[str, ModelReply] = {}
    while arms := policy.ask(plan, {arm: reply.votes for arm, reply in replies.items()}):
        # All replies are awaited even if one fails unexpectedly, so that no call is left behind.
        stage = await asyncio.gather(*(voters.vote(job, arm, prompt) for arm in arms), return_exceptions=True)
        for arm, reply in zip(arms, stage, strict=True):
            if isinstance(reply, BaseException):
                raise reply
            replies[arm] = reply
    return replies


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

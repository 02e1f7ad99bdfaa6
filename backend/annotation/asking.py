"""The asking loop: models are asked stage by stage until the policy stops."""

from __future__ import annotations

import asyncio

from backend.annotation.job import Job
from backend.annotation.task_prompt import TaskPrompt
from backend.annotation.voters import Voters
from camvo.policies.plan import Plan
from camvo.policies.policy import Policy


async def ask_models(
    policy: Policy, plan: Plan, voters: Voters, job: Job, prompt: TaskPrompt
) -> tuple[dict[str, dict[str, str]], dict[str, float]]:
    """Ask models as the policy says; those of one stage are asked at the same time.

    Returns:
        By model asked: its votes by question, and what the call cost in $.
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
                raise reply
            votes[arm], costs[arm] = reply
    return votes, costs

"""The line that asks one arm about one task in a batch."""

from __future__ import annotations

from typing import Any

from backend.annotation.job import Job
from backend.annotation.task_prompt import TaskPrompt
from backend.ledger.batches.lines import BatchLine
from backend.models import Pool


def wanted_line(  # noqa: PLR0917 - what a line is made of
    pool: Pool, job: Job, prompt: TaskPrompt, arm: str, key: str, now: float
) -> BatchLine:
    """Return the line that is to be sent.

    A line of a packed arm holds the task as it stands in a prompt. What the prompt costs is known when it is
    put together.

    Args:
        pool: the models.
        job: the task.
        prompt: what the models are shown.
        arm: the arm to ask.
        key: the key under which its answer will be stored.
        now: unix seconds.
    """
    packed = prompt.pack is not None and pool.pack_size(arm) > 1
    sizes = _packed(prompt) if packed else _alone(pool, prompt, arm)
    return BatchLine(
        key=key,
        project=job.project,
        task=job.task,
        model=arm,
        questions=[question.name for question in prompt.questions],
        created_at=now,
        **sizes,
    )


def _packed(prompt: TaskPrompt) -> dict[str, Any]:
    body = None if prompt.pack is None else prompt.pack.to_json()
    return {"body": body, "ceiling_usd": 0.0, "counted_tokens": 0, "most_input": 0, "size": 0}


def _alone(pool: Pool, prompt: TaskPrompt, arm: str) -> dict[str, Any]:
    messages, schema, provider = prompt.for_model(arm), prompt.schema, pool.batch_provider(arm)
    body = provider.body(pool.request(arm, messages, schema))
    return {
        "body": body,
        "ceiling_usd": pool.batch_ceiling(arm, messages, schema),
        "counted_tokens": pool.count(arm, messages),
        "most_input": pool.most_input(arm, messages, schema),
        "size": provider.size(body),
    }

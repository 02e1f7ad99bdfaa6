"""What the ledger needs besides tasks and webhooks: lost calls booked, projects reviewed, usage recalled."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence

import structlog
from sqlalchemy import Connection

from backend.errors import LedgerError
from backend.learning import feedback
from backend.ledger import Ledger, Writer, human_annotations
from backend.ledger.money import spending
from backend.ledger.money.usage import usage_by_model
from backend.models import Pool
from backend.settings import Settings

_PAUSE = 60.0
_REVIEWED_TOGETHER = 20
"""Tasks in one transaction: other writers wait no longer than these take."""

_log = structlog.get_logger(__name__)


def recall_usage(pool: Pool, ledger: Ledger) -> None:
    """Tell the pool how many tokens its models reported in the past, so that it expects the right price."""
    with ledger.read() as connection:
        usages = usage_by_model(connection)
    for name, usage in usages.items():
        answered = usage.calls - usage.failures
        if answered and name in pool.names:
            pool.observe(name, usage.counted_tokens, usage.input_tokens, usage.output_tokens, calls=answered)


async def give_up_lost_calls(writer: Writer, clock: Callable[[], float]) -> None:
    """Book what calls of processes that died had reserved, every minute, until cancelled."""
    while True:
        try:
            await writer.run(lambda connection: spending.expire(connection, clock()))
        except LedgerError as error:
            _log.error("lost_calls_not_booked", code=error.code, reason=str(error))
        await asyncio.sleep(_PAUSE)


async def review(
    ledger: Ledger, writer: Writer, project: str, settings: Settings, clock: Callable[[], float]
) -> None:
    """Make the rewards of a whole project agree with its annotations, a few tasks in a transaction."""

    def correct(tasks: Sequence[int], connection: Connection) -> None:
        for task in tasks:
            feedback.correct(connection, project, task, settings, clock())

    try:
        with ledger.read() as connection:
            tasks = human_annotations.annotated_tasks(connection, project)
        for start in range(0, len(tasks), _REVIEWED_TOGETHER):
            await writer.run(functools.partial(correct, tasks[start : start + _REVIEWED_TOGETHER]))
    except LedgerError as error:  # nobody waits for the review, so nobody else would say it
        _log.error("review_failed", project=project, code=error.code, reason=str(error))

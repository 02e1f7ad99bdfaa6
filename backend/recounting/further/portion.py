"""Asks about many tasks, some at once, and stops when the money is spent or the time is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from backend.annotation.job import Job
from backend.errors import TaskError
from backend.recounting.further.asking import Bought

Ask = Callable[[Job], Awaitable[Bought]]

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Portion:
    """What was asked about some tasks.

    Attributes:
        tasks: about how many of them a model was asked.
        votes: how many models were asked, over all tasks.
        usd: what they cost, in $.
        exhausted: whether money did not cover a call.
        left: how many tasks are left, since the time was over or the money spent.
    """

    tasks: int = 0
    votes: int = 0
    usd: float = 0.0
    exhausted: bool = False
    left: int = 0

    def add(self, bought: Bought) -> None:
        """Count one task."""
        self.tasks += bought.votes > 0
        self.votes += bought.votes
        self.usd += bought.usd
        self.exhausted |= bought.exhausted


async def ask_portion(jobs: Sequence[Job], ask: Ask, *, at_once: int, deadline: float) -> Portion:
    """Ask about tasks in their order.

    No new task is begun after the deadline, or once money does not cover a call. Those under way are
    finished: what is asked for is paid for, so its votes are stored.

    Args:
        jobs: the tasks.
        ask: asks about one.
        at_once: the most tasks under way.
        deadline: seconds.

    Raises:
        LedgerError: the ledger failed.
    """
    portion, until = Portion(left=len(jobs)), asyncio.get_running_loop().time() + deadline
    remaining = iter(jobs)

    async def work() -> None:
        while not portion.exhausted and asyncio.get_running_loop().time() < until:
            if (job := next(remaining, None)) is None:
                return
            portion.left -= 1
            try:
                portion.add(await ask(job))
            except TaskError as error:
                _log.warning(
                    "no_further_votes", project=job.project, task=job.task, code=error.code, reason=str(error)
                )

    await asyncio.gather(*(work() for _ in range(min(at_once, len(jobs)))))
    return portion

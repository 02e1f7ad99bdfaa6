"""What a task may cost, so that a project's budget lasts for all of its tasks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from backend.annotation.job import Job
from backend.ledger import Ledger, projects, rounds
from backend.ledger.database.grouped.reads import GroupedReads
from backend.ledger.money import accounts
from backend.ledger.money.picodollars import from_picodollars
from camvo.policies.joint import Joint
from camvo.policies.policy import Policy
from camvo.twins.same_model import once_each

_SECONDS: Final = 2.0
"""For so long a count of the finished tasks is good enough."""


@dataclass(frozen=True, slots=True)
class _Limited:
    """What bounds a project's spending.

    Attributes:
        project: the project's key.
        limits: accounts, each with the most that may be spent of it, $.
        tasks: the number of the project's tasks by its settings; ``None`` if they do not say.
    """

    project: str
    limits: tuple[tuple[str, float], ...]
    tasks: int | None


class Allowances:
    """Divides what is left of a budget among the tasks that are left. Used from one event loop only.

    Args:
        ledger: where money and tasks are counted.
        readers: the threads that read.
        clock: returns unix seconds.
    """

    def __init__(self, ledger: Ledger, readers: Executor, clock: Callable[[], float]) -> None:
        self._reads, self._clock = GroupedReads.of_equals(ledger, readers, self._left), clock
        self._finished: dict[str, tuple[float, int]] = {}

    async def keep(self, policy: Policy, job: Job, costs: Mapping[str, float]) -> Policy:
        """Return the policy with what the task may cost.

        Without a budget, or if the number of tasks is unknown, it is returned as it is. So is any policy but
        ``joint``: no other weighs the worth of a label against its price at every step.

        Args:
            policy: the project's policy.
            job: the task.
            costs: the expected price in $ of each model that may be asked.
        """
        full, budget = sum(once_each(costs).values()), job.settings.budget
        purse = None if job.purse is None else job.purse.name
        limits = [
            (accounts.TOTAL, budget.project_usd),
            *([] if job.purse is None else [(purse, job.purse.usd), (purse, job.aim_usd)]),
        ]
        limited = tuple([(scope, limit) for scope, limit in limits if scope and limit is not None])
        if not isinstance(policy, Joint) or not limited or full <= 0.0:
            return policy
        money, tasks_left = await self._reads.read(_Limited(job.project, limited, budget.tasks))
        if tasks_left is None:
            return policy
        left = max(money, 0.0) / max(tasks_left, 1)
        return policy.within(left / full)

    def _left(self, connection: Connection, limited: _Limited) -> tuple[float, int | None]:
        """What is left to spend, $, and the tasks that are left; ``None`` if their number is unknown."""
        money = min(
            limit - from_picodollars(accounts.balance(connection, limited.project, scope).spent)
            for scope, limit in limited.limits
        )
        stored = projects.get(connection, limited.project)
        tasks = limited.tasks or (None if stored is None else stored.task_number) or None
        return money, None if tasks is None else tasks - self._count_finished(connection, limited.project)

    def _count_finished(self, connection: Connection, project: str) -> int:
        counted_at, finished = self._finished.get(project, (-math.inf, 0))
        if self._clock() - counted_at > _SECONDS:
            finished = rounds.count_tasks(connection, project)
            self._finished[project] = (self._clock(), finished)
        return finished

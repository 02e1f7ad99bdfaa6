"""Packed arms compared with their models: a coin chooses tasks, and arms that differ too often go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from concurrent.futures import Executor
from typing import Final

from sqlalchemy import Connection

from backend.annotation.job import Job, random_draw
from backend.annotation.replies import ModelReply
from backend.ledger import Ledger
from backend.ledger.answers import PackCheck, PackChecks
from backend.ledger.database.writer import GroupedReads
from camvo.policies.policy import Plan
from camvo.twins import judge_pack, twins

COIN: Final = 0.02
"""The share of packed tasks whose models are asked singly, too."""

_SAME: Final = 0.5
"""Two votes count as equal if one would earn at least this reward where the other is right."""


def _is_checked(project: str, task: int) -> bool:
    """Whether the coin chose a task; decided by a hash, so that all processes agree."""
    return random_draw("pack", project, task) < COIN * 2**64


def to_check(job: Job, arms: Collection[str], asked: Collection[str]) -> list[str]:
    """The models to ask singly beside packed arms, if the coin chose the task."""
    if not _is_checked(job.project, job.task):
        return []
    return [model for arm, model in twins(job.settings.arms).items() if arm in arms and model not in asked]


def compared(job: Job, plan: Plan, replies: Mapping[str, ModelReply]) -> dict[str, dict[str, bool]]:
    """Question → packed arm → whether its vote was that of its model, asked singly.

    Only votes that were asked for independently of other votes count, and only those from a prompt about
    several tasks.

    Args:
        job: the task.
        plan: its plan.
        replies: all replies, also of models that the coin chose and the plan does not contain.
    """
    first = frozenset(plan.subset)
    found: dict[str, dict[str, bool]] = defaultdict(dict)
    for arm, model in twins(job.settings.arms).items():
        together, alone = replies.get(arm), replies.get(model)
        if together is None or alone is None or not together.together:
            continue
        if not (_is_checked(job.project, job.task) or first >= {arm, model}):
            continue
        for question in together.votes.keys() & alone.votes.keys():
            reward = plan.estimates[question].aggregation.reward
            found[question][arm] = reward(together.votes[question], alone.votes[question]) >= _SAME
    return found


class PackGuard:
    """Knows which packed arms differ too often. Used from one event loop only.

    Args:
        ledger: where the comparisons are.
        readers: the threads that read.
    """

    def __init__(self, ledger: Ledger, readers: Executor) -> None:
        self._reads = GroupedReads.of_equals(ledger, readers, self._read)
        self._known: dict[str, tuple[object, frozenset[str]]] = {}

    async def unpacked(self, job: Job) -> frozenset[str]:
        """The packed arms that a project no longer asks, because of any of its questions."""
        if not any(model.pack for model in job.settings.models):
            return frozenset()
        return await self._reads.read(job.project)

    def _read(self, connection: Connection, project: str) -> frozenset[str]:
        checks = PackChecks(connection, project)
        mark = checks.mark()
        known = self._known.get(project)
        if known is None or known[0] != mark:
            known = mark, _unpacked_arms(checks.all())
            self._known[project] = known
        return known[1]


def _unpacked_arms(checks: Collection[PackCheck]) -> frozenset[str]:
    """The arms that differ too often on any question."""
    by_question: dict[tuple[str, str, str], list[bool]] = defaultdict(list)
    for check in checks:
        by_question[check.control, check.epoch, check.arm].append(check.agreed)
    return frozenset(arm for (_, _, arm), agreed in by_question.items() if judge_pack(agreed).unpacked)

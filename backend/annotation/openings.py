"""The opening of a project: no more tasks ask every model at once than its first rounds need."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from camvo.policies.policy import Plan

_PATIENCE: Final = 30.0
"""Seconds that a task waits at most for the first rounds: a model may be slow, or away."""


class Openings:
    """Holds tasks back while others ask every model about the first tasks. Used from one event loop only.

    The first rounds of a project teach whom to ask about the later ones. Without a limit, all tasks that are
    worked on at once would be first ones.
    """

    def __init__(self, patience: float = _PATIENCE) -> None:
        self._patience = patience
        self._begun: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        self._all_ended: dict[str, asyncio.Event] = {}

    def ended_so_far(self, project: str) -> int:
        """How many first rounds of a project have ended in this process."""
        return self._ended[project]

    def is_full(self, project: str, plan: Plan, ended: int) -> bool:
        """Whether a plan asks every model only because the answers of others are not there yet.

        ``ended``: how many first rounds had ended before it was planned; the plan may not know later ones.
        """
        return 0 < _needed(plan) <= self._begun[project] - ended

    async def wait(self, project: str) -> bool:
        """Wait until the rounds under way have ended; false if that takes longer than is bearable."""
        event = self._all_ended.setdefault(project, asyncio.Event())
        try:
            await asyncio.wait_for(event.wait(), self._patience)
        except TimeoutError:
            return False
        return True

    @contextmanager
    def asking(self, project: str, plan: Plan) -> Iterator[None]:
        """Count a round while its models are asked."""
        if not _needed(plan):
            yield
            return
        self._begun[project] += 1
        try:
            yield
        finally:
            self._ended[project] += 1
            if self._ended[project] == self._begun[project] and project in self._all_ended:
                self._all_ended.pop(project).set()


def _needed(plan: Plan) -> int:
    """How many first rounds the project needs, with this one; 0 if it is none of them."""
    return 0 if plan.stages is None else plan.stages.opening

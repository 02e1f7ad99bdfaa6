"""On START_TRAINING, the rewards of a whole project are corrected by its annotations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy import Connection

from backend.errors import LedgerError
from backend.label_studio.webhooks import WebhookEvent
from backend.learning.teaching import correct_rewards
from backend.ledger import Ledger, Writer, human_annotations
from backend.settings import Settings

_TASKS_PER_TRANSACTION = 20
"""Bounds how long other writers wait."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RewardCorrections:
    """A training step that makes a project's rewards agree with its annotations.

    Attributes:
        ledger: where the annotations are read.
        writer: writes the corrections, a few tasks per transaction.
        settings: the server's settings.
        clock: returns unix seconds.
    """

    ledger: Ledger
    writer: Writer
    settings: Settings
    clock: Callable[[], float]

    async def __call__(self, event: WebhookEvent) -> None:
        """Correct every annotated task of the event's project; a failure of the ledger is logged."""
        project = event.project_key
        try:
            with self.ledger.read() as connection:
                tasks = human_annotations.annotated_tasks(connection, project)
            for start in range(0, len(tasks), _TASKS_PER_TRANSACTION):
                portion = tasks[start : start + _TASKS_PER_TRANSACTION]
                await self.writer.persist(functools.partial(self._correct, project, portion))
        except LedgerError as error:
            _log.error("review_failed", project=project, code=error.code, reason=str(error))

    def _correct(self, project: str, tasks: Sequence[int], connection: Connection) -> None:
        for task in tasks:
            correct_rewards(connection, project, task, self.settings, self.clock())

"""Replaces predictions in Label Studio after a recount: slowly, and never where somebody is at work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection

from backend.annotation.annotator import Annotator
from backend.annotation.job import Job
from backend.errors import LabelStudioError, TaskError
from backend.label_studio import predictions
from backend.label_studio.client import Client
from backend.label_studio.payloads import parse_task
from backend.learning.projects import project_settings
from backend.ledger import Ledger, Writer, projects
from backend.ledger.recounts import Recounts
from backend.questions import LabelConfig, parse_label_config
from backend.settings import Environment, Settings

_PAGE = 50
"""Tasks that are fetched from Label Studio at once."""

_PAUSE = 0.1
"""Seconds between two predictions that are replaced, so that annotators do not wait for Label Studio."""

_T = TypeVar("_T")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Target:
    client: Client
    number: int
    config: LabelConfig
    settings: Settings


class Delivery:
    """Brings recounts to Label Studio. Used from one event loop only.

    A task is marked as delivered after its prediction was replaced. If the process dies in between, the
    prediction is compared again, and nothing is written twice.

    Args:
        ledger: where the recounts are read.
        writer: marks those that are delivered.
        annotator: makes the predictions, of stored rounds alone.
        readers: the threads that read the ledger.
        settings: the server's settings.
        environment: holds Label Studio's address and key.
        pause: seconds between two predictions.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        writer: Writer,
        annotator: Annotator,
        readers: Executor,
        settings: Settings,
        environment: Environment,
        pause: float = _PAUSE,
    ) -> None:
        self._ledger, self._writer, self._annotator, self._readers = ledger, writer, annotator, readers
        self._settings, self._environment, self._pause = settings, environment, pause

    @property
    def possible(self) -> bool:
        """Whether this server has Label Studio's address and a key."""
        environment = self._environment
        return environment.label_studio_url is not None and environment.label_studio_api_key is not None

    async def deliver(self, project: str, go_on: Callable[[], Awaitable[bool]]) -> int:
        """Replace the predictions that recounts have changed.

        Args:
            project: the project's key.
            go_on: called before each page; says whether this process may still do it.

        Returns:
            How many tasks' predictions were replaced.

        Raises:
            LabelStudioError: Label Studio refused, or cannot be reached; the rest stays to be delivered.
            LedgerError: the ledger failed.
        """
        target: _Target | None = None
        replaced = last = 0
        while await go_on():
            tasks, through = await self._read(partial(_next, project=project, last=last))
            if not tasks:
                break
            target = target or await self._target(project)
            changed, settled = await self._replace(target, project, tasks)
            await self._writer.persist(partial(_note, project=project, tasks=settled, through=through))
            replaced, last = replaced + changed, tasks[-1]
        if replaced:
            _log.info("recounts_delivered", project=project, tasks=replaced)
        return replaced

    async def _target(self, project: str) -> _Target:
        url, key = self._environment.label_studio_url, self._environment.label_studio_api_key
        if url is None or key is None:
            raise LabelStudioError(
                "the server has no key for Label Studio",
                where=project,
                fix="set LABEL_STUDIO_URL and LABEL_STUDIO_API_KEY",
            )
        client = await asyncio.to_thread(Client, url, key)
        payload = await asyncio.to_thread(client.project_by_key, project)
        settings = await self._read(
            lambda connection: project_settings(projects.get(connection, project), self._settings)[0]
        )
        return _Target(client, payload["id"], parse_label_config(payload["label_config"]), settings)

    async def _replace(self, target: _Target, project: str, numbers: Sequence[int]) -> tuple[int, list[int]]:
        """Replace the predictions of a page; return how many changed, and the tasks that are settled.

        A task with a draft is not: its draft may be discarded. A task that is gone or annotated is.
        """
        found = await asyncio.to_thread(target.client.tasks, target.number, numbers)
        untouched, drafted = predictions.untouched(found)
        changed = 0
        for task in untouched:
            for prediction in await self._predictions(target, project, task):
                existing = predictions.of_version(task, prediction["model_version"])
                if not existing:
                    continue
                replace = predictions.replace_prediction
                if await asyncio.to_thread(replace, target.client, existing, prediction):
                    changed += 1
                    await asyncio.sleep(self._pause)
        return changed, [number for number in numbers if number not in drafted]

    async def _predictions(self, target: _Target, project: str, raw: object) -> list[dict[str, Any]]:
        if (task := parse_task(raw)) is None:
            return []
        job = Job(project, *task, target.config, target.settings, stored_only=True)
        try:
            answer = await self._annotator.annotate(job)
        except TaskError:  # the task's text has changed, so the prediction is of another text
            return []
        return [answer] if isinstance(answer, dict) else answer or []

    async def _read(self, function: Callable[[Connection], _T]) -> _T:
        def read() -> _T:
            with self._ledger.read() as connection:
                return function(connection)

        return await asyncio.get_running_loop().run_in_executor(self._readers, read)


def _next(connection: Connection, project: str, last: int) -> tuple[list[int], int]:
    """The next tasks to deliver, and the number of the latest counting that their labels are of."""
    tasks = Recounts(connection, project).pending(after=last, limit=_PAGE)
    return tasks, Recounts(connection, project).latest_number()


def _note(connection: Connection, project: str, tasks: Sequence[int], through: int) -> None:
    Recounts(connection, project).set_delivered(tasks, through)

"""Completes what people label, by itself: models that a labelled task's round left out are asked, too.

A label teaches most where all models have voted. This is off by default, needs a budget, and spends at most a
share of what the project has paid so far. So an import of many annotations does not set off as many calls.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeVar

import structlog
from sqlalchemy import Connection

from backend.annotation.job import Job
from backend.label_studio.client import Client
from backend.label_studio.payloads import parse_task
from backend.learning.projects import project_settings
from backend.ledger import Ledger, Writer, projects
from backend.ledger.calls import claims
from backend.ledger.money import accounts
from backend.ledger.money.accounts import Purse
from backend.ledger.money.picodollars import from_picodollars
from backend.ledger.recounts import labelled_rounds
from backend.questions import parse_label_config
from backend.recounting.further.asking import FurtherAsking
from backend.recounting.further.portion import ask_portion
from backend.settings import Environment, Settings
from camvo.errors import CamvoError

PAUSE = 30.0
"""Seconds between two rounds through the projects."""

_LEASE = 600.0
"""Seconds after which another process may take over what a dead one had begun."""

_TASKS = 20
"""Tasks that are asked about between two looks at the money."""

_AT_ONCE = 4
"""Tasks under way at once: predictions go first."""

_AFTER_FAILURE = 600.0
"""Seconds for which a project is left alone after a failure, or while its money is spent."""

_T = TypeVar("_T")

_log = structlog.get_logger(__name__)


class Completing:
    """Asks about the tasks that people have labelled. Used from one event loop only.

    It works on projects of Label Studio, since the ledger holds no text of a task, and so needs a key.

    Args:
        ledger: where labelled rounds and money are read.
        writer: writes claims.
        further: asks the models.
        readers: the threads that read the ledger.
        settings: the server's settings.
        environment: has Label Studio's address and key.
        pause: seconds between two rounds through the projects.
    """

    def __init__(
        self,
        *,
        ledger: Ledger,
        writer: Writer,
        further: FurtherAsking,
        readers: Executor,
        settings: Settings,
        environment: Environment,
        pause: float = PAUSE,
    ) -> None:
        self._ledger, self._writer, self._further, self._readers = ledger, writer, further, readers
        self._settings, self._environment, self._pause = settings, environment, pause
        self._owner = f"complete-{uuid.uuid4()}"
        self._resting: dict[str, float] = {}
        self._tried: set[tuple[str, int]] = set()
        self._looked: dict[str, int] = {}

    async def run(self) -> None:
        """Tend all projects again and again until cancelled; does nothing unless it is switched on."""
        if not self._settings.complete_labelled:
            return
        if self._environment.label_studio_url is None or self._environment.label_studio_api_key is None:
            _log.warning("nothing_completed", fix="set LABEL_STUDIO_URL and LABEL_STUDIO_API_KEY")
            return
        while True:
            await asyncio.sleep(self._pause)
            try:
                for stored in await self._read(projects.list_all):
                    rests = self._resting.get(stored.key, 0.0) > time.monotonic()
                    if not rests and self._looked.get(stored.key) != stored.sequence:
                        await self.tend(stored.key)
                        self._looked[stored.key] = stored.sequence
            except CamvoError as error:
                _log.error("nothing_completed", code=error.code, reason=str(error))

    async def tend(self, project: str) -> int:
        """Complete one project's labelled tasks while there is money, unless another process does.

        A failure is logged, and the project left alone for a while. Of an unexpected one only the type is
        logged: its text might quote a task.

        Returns:
            About how many tasks models were asked.
        """
        if not await self._claim(project):
            return 0
        try:
            return await self._complete(project)
        except Exception as error:  # nobody awaits the result, and the next project must have its turn
            reason = str(error) if isinstance(error, CamvoError) else type(error).__name__
            _log.error("nothing_completed", project=project, reason=reason)
            self._resting[project] = time.monotonic() + _AFTER_FAILURE
            return 0
        finally:
            await self._writer.persist(partial(claims.release, key=_key(project), owner=self._owner))

    async def _complete(self, project: str) -> int:
        done = last = 0
        while await self._claim(project):
            purse, tasks = await self._read(partial(self._next, project, last))
            if not tasks:
                break
            last = tasks[-1]
            new = [task for task in tasks if (project, task) not in self._tried]
            self._tried |= {(project, task) for task in new}  # else a model that fails is asked for ever
            portion = await ask_portion(
                await self._jobs(project, new, purse) if new else [],
                self._further.ask_everyone,
                at_once=_AT_ONCE,
                deadline=_LEASE / 2.0,
            )
            done += portion.tasks
            if portion.exhausted:
                self._resting[project] = time.monotonic() + _AFTER_FAILURE
                break
        if done:
            _log.info("labelled_tasks_completed", project=project, tasks=done)
        return done

    def _next(self, project: str, last: int, connection: Connection) -> tuple[Purse, Sequence[int]]:
        """What may be spent, and the next labelled tasks that models were left out of; none without money."""
        total = accounts.balance(connection, project, accounts.TOTAL)
        own = accounts.balance(connection, project, "background")
        paid = from_picodollars(total.spent - own.spent)
        most = self._settings.background_share * paid
        purse = Purse("background", most)
        if from_picodollars(own.spent + own.reserved) >= most:
            return purse, ()
        return purse, labelled_rounds.incomplete(connection, project, after=last, limit=_TASKS)

    async def _jobs(self, project: str, tasks: Sequence[int], purse: Purse) -> list[Job]:
        url, key = self._environment.label_studio_url, self._environment.label_studio_api_key
        if url is None or key is None:
            return []
        settings, _ = await self._read(
            lambda connection: project_settings(projects.get(connection, project), self._settings)
        )
        client = await asyncio.to_thread(Client, url, key)
        payload = await asyncio.to_thread(client.project_by_key, project)
        config = parse_label_config(payload["label_config"])
        found: list[dict[str, Any]] = await asyncio.to_thread(client.tasks, payload["id"], tasks)
        parsed = (parse_task(raw) for raw in found)
        return [Job(project, *task, config, settings, purse=purse) for task in parsed if task is not None]

    async def _claim(self, project: str) -> bool:
        """Whether this process may work on the project, for as long as a lease lasts."""

        def claim(connection: Connection) -> bool:
            return claims.acquire(connection, _key(project), self._owner, _LEASE) is not None

        return await self._writer.persist(claim)

    async def _read(self, function: Callable[[Connection], _T]) -> _T:
        def read() -> _T:
            with self._ledger.read() as connection:
                return function(connection)

        return await asyncio.get_running_loop().run_in_executor(self._readers, read)


def _key(project: str) -> str:
    return f"complete:{project}"

"""Recounts projects automatically: rarely, only when it is worth it, and in one worker of all processes.

Predictions in Label Studio are then replaced: slowly, and never where somebody is at work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from sqlalchemy import Connection

from backend.annotation.annotator import Annotator
from backend.annotation.job import Job
from backend.errors import TaskError
from backend.label_studio import predictions
from backend.label_studio.payloads import WebhookEvent, parse_task
from backend.ledger import LedgerAccess, projects
from backend.ledger.blind_tasks import BlindQueues
from backend.ledger.claims import ProjectClaims
from backend.ledger.database.statements import now
from backend.ledger.human_annotations import Annotations
from backend.ledger.recounts import FELT, Look, Recounts
from backend.recounting.further import StudioProject
from backend.recounting.recounter import ProjectCount, Recounter, Stopped
from backend.settings import Environment, Settings
from camvo.errors import CamvoError

_log = structlog.get_logger(__name__)

_DELIVERED_AT_ONCE = 50
"""Tasks that are fetched from Label Studio at once."""

_SHARE = 0.5
"""The share of the time in which Label Studio is busy with a delivery, so that annotators do not wait."""


class Delivery:
    """Brings recounts to Label Studio. Used from one event loop only.

    A task is marked as delivered after its prediction was replaced. If the process dies in between, the
    prediction is compared again, and nothing is written twice.
    """

    def __init__(
        self,
        *,
        access: LedgerAccess,
        annotator: Annotator,
        settings: Settings,
        environment: Environment,
        share: float = _SHARE,
    ) -> None:
        self._access, self._annotator = access, annotator
        self._settings, self._environment, self._share = settings, environment, share

    @property
    def possible(self) -> bool:
        """Whether this server has Label Studio's address and a key."""
        return self._environment.label_studio_access is not None

    async def deliver(self, project: str, go_on: Callable[[], Awaitable[bool]]) -> int:
        """Replace the predictions that recounts have changed, while ``go_on`` says so before each page.

        Returns how many tasks' predictions were replaced.

        Raises:
            LabelStudioError: Label Studio refused, or cannot be reached; the rest stays to be delivered.
            LedgerError: the ledger failed.
        """
        target: StudioProject | None = None
        replaced = last = 0
        while await go_on():
            tasks, through = await self._access.read_once(
                partial(_next_to_deliver, project=project, last=last)
            )
            if not tasks:
                break
            target = target or await StudioProject.of(
                project, self._environment, self._access, self._settings
            )
            changed, settled = await self._replace(target, project, tasks)
            await self._access.writer.persist(
                partial(_note_delivered, project=project, tasks=settled, through=through)
            )
            replaced, last = replaced + changed, tasks[-1]
        if replaced:
            _log.info("recounts_delivered", project=project, tasks=replaced)
        return replaced

    async def _replace(
        self, target: StudioProject, project: str, numbers: Sequence[int]
    ) -> tuple[int, list[int]]:
        """Replace the predictions of a page; return how many changed, and the tasks that are settled.

        A task with a draft is not: its draft may be discarded. A task that is gone or annotated is.
        """
        found = await asyncio.to_thread(target.client.tasks, target.number, numbers)
        untouched, drafted = predictions.untouched(found)
        answers = await asyncio.gather(*(self._predictions(target, project, task) for task in untouched))
        changed = 0
        for task, answer in zip(untouched, answers, strict=True):
            for outdated in predictions.outdated(task, answer):
                began = time.monotonic()
                await asyncio.to_thread(outdated.replace, target.client)
                changed += 1
                await asyncio.sleep((time.monotonic() - began) * (1.0 / self._share - 1.0))
        return changed, [number for number in numbers if number not in drafted]

    async def _predictions(self, target: StudioProject, project: str, raw: object) -> list[dict[str, Any]]:
        if (task := parse_task(raw)) is None:
            return []
        job = Job(project, *task, target.config, target.settings, stored_only=True)
        try:
            answer = await self._annotator.annotate(job)
        except TaskError:  # the task's text has changed, so the prediction is of another text
            return []
        return [answer] if isinstance(answer, dict) else answer or []


def _next_to_deliver(connection: Connection, project: str, last: int) -> tuple[list[int], int]:
    """The next tasks to deliver, and the number of the latest counting that their labels are of."""
    recounted = Recounts(connection, project)
    tasks = recounted.pending(after=last, limit=_DELIVERED_AT_ONCE)
    return tasks, recounted.latest_number()


def _note_delivered(connection: Connection, project: str, tasks: Sequence[int], through: int) -> None:
    Recounts(connection, project).set_delivered(tasks, through)


_LABELS, _SCORES = 0.01, 0.05
"""A recount is worth it above this share of changed labels, or this mean change of the scores.

It is also worth it for less, from :data:`FELT` on, once people have labelled :data:`_NEWS` tasks: the page
says that the labels and scores of the others follow. It is not if that ends what blind labels certify.
"""

_BLIND_WORK = 30
"""So many blind labels that certify, or are to certify, are more work than a recount may void unasked."""

_HOUR = 3600.0
"""Seconds between two recounts that nobody asked for, unless people have labelled much more."""

_NEWS, _GROWTH = 10, 0.5
""""Much more" means this many new human labels, and this share of those known to the last recount."""

_PAUSE = 30.0
"""Seconds between two rounds through the projects."""

_REST = 20.0
"""Looking takes at most one part in this many of the time."""

_LEASE = 600.0
"""Seconds after which another process may take over what a dead one had begun."""

_AFTER_FAILURE = 600.0
"""Seconds for which a project is left alone after a failure, such as a Label Studio that is down."""


def _changes_much(found: ProjectCount) -> bool:
    """Whether a recount would change enough to be made whatever people have labelled."""
    return found.labels > _LABELS * found.counted or found.score_change > _SCORES


@dataclass(frozen=True, slots=True)
class _AnswersSince:
    """The labels since the last counting, and the blind ones that a recount would void."""

    news: int
    blind: int

    @classmethod
    def of(cls, connection: Connection, project: str) -> _AnswersSince:
        made = Recounts(connection, project).countings()
        _, news = Annotations(connection, project).count_received(made[0].created_at if made else 0.0)
        queues = BlindQueues(connection, project).all().values()
        return cls(news, max((len(queue.run) for queue in queues), default=0))

    def would_move(self, found: ProjectCount) -> bool:
        """Whether the labels of people change others enough to be seen."""
        return self.news >= _NEWS and (found.labels > 0 or found.score_change >= FELT)

    def keep_from(self, found: ProjectCount) -> bool:
        """Whether people decide on the recount, because it would void blind labels that are worth more."""
        return self.blind >= _BLIND_WORK or (self.blind > 0 and not _changes_much(found))


class AutomaticRecounts:
    """Checks what a recount would change, and recounts if that is worth it. Used from one event loop only.

    A server without a key for Label Studio, or with ``recount: false``, only stores the result: ``/status``
    then names the command.
    """

    def __init__(
        self, access: LedgerAccess, recounter: Recounter, delivery: Delivery, settings: Settings
    ) -> None:
        self._access, self._recounter, self._delivery = access, recounter, delivery
        self._by_itself = settings.recount and delivery.possible
        self._claims = ProjectClaims(access.writer, "recount", _LEASE)
        self._resting: dict[str, float] = {}

    @property
    def can_deliver(self) -> bool:
        """Whether this server has a key for Label Studio."""
        return self._delivery.possible

    async def run(self) -> None:
        """Look after all projects repeatedly until cancelled."""
        while True:
            await asyncio.sleep(_PAUSE)
            try:
                for project in await self._access.read_once(self._due):
                    if self._resting.get(project, 0.0) <= time.monotonic():
                        await self.tend(project)
            except Stopped:
                return
            except CamvoError as error:
                _log.error("recounts_not_tended", code=error.code, reason=str(error))

    async def tend(self, project: str) -> None:
        """Look at one project, recount it if that is worth it, and deliver, unless another process does.

        A failure is logged, and the project left alone for a while. Of an unexpected one only the type is
        logged: its text might quote a task.
        """
        async with self._claims.working(project) as ours:
            if not ours:
                return
            try:
                await self._look(project)
                if self._stores(project):
                    await self._deliver(project)
            except Stopped:
                raise
            except Exception as error:  # nobody awaits the result, and the next project must have its turn
                code, reason = "internal", type(error).__name__
                if isinstance(error, CamvoError):
                    code, reason = error.code, str(error)
                _log.error("recount_failed", project=project, code=code, reason=reason)
                self._resting[project] = time.monotonic() + _AFTER_FAILURE

    async def deliver(self, project: str) -> None:
        """Deliver what a recount changed, unless that is under way, or this server has no key."""
        if not self._delivery.possible:
            return
        async with self._claims.working(project) as ours:
            if ours:
                await self._deliver(project)

    async def _deliver(self, project: str) -> None:
        await self._delivery.deliver(project, partial(self._claims.acquire, project))

    async def _look(self, project: str) -> None:
        if not await self._access.read_once(lambda connection: _is_due(connection, project)):
            return
        found = await self._recounter.count(project)
        answers = await self._access.read_once(partial(_AnswersSince.of, project=project))
        seen = _changes_much(found) or answers.would_move(found)
        by_hand = seen and (not self._stores(project) or answers.keep_from(found))
        if seen and not by_hand and await self._claims.acquire(project):
            await self._recounter.store(project, found, "automatic")

        def remember(connection: Connection) -> None:
            look = Look(
                looked_at=now(connection),
                seconds=found.seconds,
                sequence=found.sequence,
                counted=found.counted,
                labels=found.labels,
                score_change=found.score_change,
                by_hand=by_hand,
            )
            Recounts(connection, project).remember_look(look)

        await self._access.writer.persist(remember)

    def _due(self, connection: Connection) -> list[str]:
        """The projects to look at, and those with something to deliver."""
        return [
            stored.key
            for stored in projects.list_all(connection)
            if _is_due(connection, stored.key)
            or (self._stores(stored.key) and Recounts(connection, stored.key).pending(limit=1))
        ]

    def _stores(self, project: str) -> bool:
        """Whether it recounts a project automatically; a labelled file stays as it was written."""
        return self._by_itself and projects.is_of_label_studio(project)


def _is_due(connection: Connection, project: str) -> bool:
    """Whether the project has new events since the last look, and it is time for another.

    After a recount that nobody asked for, an hour must pass, or people must have labelled much more: most of
    them label for less than an hour, and n human labels cause at most about 2.5·ln(n / 10) further recounts.
    """
    recounted = Recounts(connection, project)
    stored, look, at = (projects.get(connection, project), recounted.last_look(), now(connection))
    if stored is None or stored.sequence == 0:
        return False
    if look and (stored.sequence == look.sequence or at < look.looked_at + _REST * look.seconds):
        return False
    made = [each for each in recounted.countings() if each.reason == "automatic"]
    if not made or at >= made[0].created_at + _HOUR:
        return True
    known, new = Annotations(connection, project).count_received(made[0].created_at)
    return new >= max(_NEWS, _GROWTH * known)


@dataclass(frozen=True, slots=True)
class RecountStep:
    """A training step that recounts a project and delivers the labels to Label Studio.

    A server without a key only notes what a recount would change, so that ``/status`` names the command.
    """

    recounter: Recounter
    recounts: AutomaticRecounts

    async def __call__(self, event: WebhookEvent) -> None:
        """Recount the event's project; failures are logged, since nobody awaits the result."""
        project = event.project_key
        try:
            if self.recounts.can_deliver:
                await self.recounter.recount(project, "training")
                await self.recounts.deliver(project)
            else:
                await self.recounts.tend(project)
        except Stopped:
            return
        except CamvoError as error:
            _log.error("recount_failed", project=project, code=error.code, reason=str(error))

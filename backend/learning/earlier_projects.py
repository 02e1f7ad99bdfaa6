"""What projects of one ledger teach one another about the models: kept of each, and given to new ones.

Only a state without rounds begins with lessons. They come to it as an event, so every process has them, and a
later lesson changes nothing. If an earlier project is forgotten, or lessons are switched off, another event
takes them back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Final

import structlog
from sqlalchemy import Connection

from backend.learning.states import StateKey
from backend.ledger import Ledger, Writer, carried
from backend.ledger.database import writer as outages
from backend.ledger.events import NewEvent, ProjectEvents
from backend.ledger.lessons import ProjectLessons
from camvo.errors import CamvoError
from camvo.joint.rare_labels import labels_of_votes
from camvo.joint.votes_fit import lesson_of
from camvo.policies.policy import FitData, JointFitData
from camvo.state.contribution import Contribution
from camvo.state.earlier import LEAST_ROUNDS, NOTHING_EARLIER, Earlier, Lesson
from camvo.state.exploration import PatternCounts
from camvo.state.state import State
from camvo.student import STUDENT

_CHECK: Final = 60.0
"""Seconds after which a state is checked for lessons that it must not use any more."""

_MANY: Final = 6

_log = structlog.get_logger(__name__)


def question_kind(tag: str, labels: int) -> str:
    """The kind of a question: lessons about one are no lessons about others."""
    size = "2" if labels <= 2 else f"3-{_MANY}" if labels <= _MANY else f"{_MANY + 1}+"
    return f"{tag}:{size}"


class EarlierProjects:
    """Gives states the lessons of earlier projects, and keeps theirs. Used from one event loop only."""

    def __init__(
        self, ledger: Ledger, writer: Writer, readers: Executor, *, clock: Callable[[], float]
    ) -> None:
        self._ledger, self._writer, self._readers, self._clock = ledger, writer, readers, clock
        self._checked: dict[StateKey, float] = {}
        self._taught: dict[StateKey, PatternCounts] = {}
        self._teaching: set[asyncio.Task[None]] = set()

    async def settle(self, key: StateKey, kind: str, state: State, *, wanted: bool) -> bool:
        """Let a state know the lessons that it should know.

        Args:
            key: the state's question.
            kind: the question's kind.
            state: the state; read it again if the answer is true.
            wanted: whether the project starts from earlier ones, by its settings.

        Returns:
            Whether an event was appended.
        """
        known, rounds, dimension = state.earlier, state.rounds, state.dimension
        first = key not in self._checked
        if not first and (not known.lessons or self._clock() - self._checked[key] < _CHECK):
            return False
        begins = rounds == 0 and not known.lessons
        if not known.lessons and not (begins and wanted):
            return False

        def right(connection: Connection) -> Earlier:
            if not wanted:
                return NOTHING_EARLIER
            lessons = ProjectLessons(connection)
            return lessons.of_kind(kind, key.project) if begins else known.without(lessons.forgotten())

        earlier = await outages.read(self._ledger, self._readers, right)
        self._checked[key] = self._clock()
        if earlier == known:
            return False
        append = partial(_append, key=key, earlier=earlier, dimension=dimension, first=begins)
        await self._writer.persist(lambda connection: append(connection, now=self._clock()))
        return True

    def teach(self, key: StateKey, kind: str, data: FitData) -> None:
        """Keep what the votes behind a fit teach, in the background, if they are new."""
        if not isinstance(data, JointFitData) or self._taught.get(key) is data.evidence:
            return
        self._taught[key] = data.evidence
        if data.evidence.rounds >= LEAST_ROUNDS:
            task = asyncio.create_task(self._teach(key, kind, data))
            self._teaching.add(task)
            task.add_done_callback(self._teaching.discard)

    async def settled(self) -> None:
        """Wait until nothing is being taught."""
        while self._teaching:
            await asyncio.wait(list(self._teaching))  # each ends with its write

    async def _teach(self, key: StateKey, kind: str, data: JointFitData) -> None:
        try:
            loop = asyncio.get_running_loop()
            lesson = await loop.run_in_executor(self._readers, _lesson, key.project, data)
            if lesson is not None:
                store = partial(_store, key=key, kind=kind, lesson=lesson)
                await self._writer.persist(lambda connection: store(connection, now=self._clock()))
        except CamvoError as error:
            _log.warning("lesson_not_stored", project=key.project, control=key.control, code=error.code)


def _lesson(project: str, data: JointFitData) -> Lesson | None:
    arms = tuple([arm for arm, _ in data.prices if arm != STUDENT])
    return lesson_of(project, data.evidence, arms, labels_of_votes(data.evidence, arms, data.labels))


def _store(connection: Connection, key: StateKey, kind: str, lesson: Lesson, now: float) -> None:
    ProjectLessons(connection).store(key.control, key.epoch, kind, lesson, now)


def _append(  # noqa: PLR0917 - a state, and its event
    connection: Connection, key: StateKey, earlier: Earlier, dimension: int, first: bool, now: float
) -> None:
    """Append lessons to a state; as its first event, unless another process has appended one since."""
    events = ProjectEvents(connection, key.project)
    carried.lock(connection, key.project)
    if first and events.after(0, control=key.control, epoch=key.epoch, limit=1):
        return
    contribution = Contribution.of_earlier(earlier, dimension).pack()
    event = NewEvent(
        control=key.control, epoch=key.epoch, kind="earlier", contribution=contribution, round_id=None
    )
    events.append([event], now)

"""Counts a project's kept votes again: by itself it changes nothing, on request it stores what changes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

import structlog
from sqlalchemy import Connection

from backend.errors import BadLabelConfigError
from backend.learning.human_labels import aggregation_of
from backend.learning.projects import project_settings
from backend.learning.states import StateKey, States
from backend.ledger import Ledger, Writer, open_rounds, projects
from backend.ledger.projects import Project
from backend.ledger.recounts.countable_rounds import CountableRound, countable_rounds
from backend.ledger.recounts.countings import Counting, Reason
from backend.questions import parse_label_config
from backend.recounting.checks import AnsweredRounds
from backend.recounting.counting import QuestionCount, QuestionCounter
from backend.recounting.further.doubts import Doubting, Doubts
from backend.recounting.recording import record
from backend.settings import Settings
from backend.settings.policies import policy_of
from camvo.state.state import State
from camvo.votes.aggregation import Aggregation

_PAUSE = 0.005
"""Seconds between a few rounds, so that a recount never takes more than half a core."""

_log = structlog.get_logger(__name__)


class Stopped(Exception):  # noqa: N818 - it ends a thread's work, and is no error
    """The process stops, and with it the counting; nothing was stored."""


@dataclass(frozen=True, slots=True)
class ProjectCount:
    """What a counting of a project found.

    Attributes:
        questions: what it found, by question.
        sequence: the project's last event that it knew.
        seconds: how long it took.
    """

    questions: tuple[QuestionCount, ...]
    sequence: int
    seconds: float

    @property
    def counted(self) -> int:
        """How many rounds with a prediction were counted."""
        return sum(question.counted for question in self.questions)

    @property
    def labels(self) -> int:
        """How many of them would get another label."""
        return sum(question.labels for question in self.questions)

    @property
    def score_change(self) -> float:
        """By how much their scores would change, on average."""
        return sum(question.score_change for question in self.questions) / max(self.counted, 1)


class Recounter:
    """Counts projects again, one at a time. Used from one event loop only.

    Args:
        ledger: where the rounds are read.
        writer: writes what changes.
        states: the questions' states.
        workers: the thread that counts.
        settings: the server's settings.
        clock: returns unix seconds.
    """

    def __init__(
        self,
        ledger: Ledger,
        writer: Writer,
        states: States,
        workers: Executor,
        settings: Settings,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._ledger, self._writer, self._states = ledger, writer, states
        self._workers, self._settings, self._clock = workers, settings, clock
        self._stopping = threading.Event()
        self._under_way: dict[str, asyncio.Task[Counting | None]] = {}

    def stop(self) -> None:
        """End a counting under way soon, because the process stops."""
        self._stopping.set()

    async def recount(self, project: str, reason: Reason) -> Counting | None:
        """Count a project again and store what changes; equal requests share one counting.

        Returns:
            The counting; ``None`` if nothing changed.

        Raises:
            LedgerError: the ledger failed.
            Stopped: the process stops.
        """
        if (task := self._under_way.get(project)) is None:
            task = self._under_way[project] = asyncio.create_task(self._recount(project, reason))
            task.add_done_callback(lambda _: self._under_way.pop(project, None))
        return await asyncio.shield(task)

    async def _recount(self, project: str, reason: Reason) -> Counting | None:
        return await self.store(project, await self.count(project), reason)

    async def store(self, project: str, found: ProjectCount, reason: Reason) -> Counting | None:
        """Store what a counting found; ``None`` if nothing changes."""

        def change(connection: Connection) -> Counting | None:
            return record(
                connection,
                project,
                found.questions,
                reason=reason,
                sequence=found.sequence,
                now=self._clock(),
            )

        counting = await self._writer.persist(change)
        if counting is not None:
            numbers = {"labels": counting.labels, "scores": counting.scores, "of": counting.counted}
            _log.info("recounted", project=project, number=counting.number, reason=reason, **numbers)
        return counting

    async def count(self, project: str) -> ProjectCount:
        """Count a project again without storing anything.

        Raises:
            LedgerError: the ledger cannot be read.
            Stopped: the process stops.
        """
        began, found = time.monotonic(), list[QuestionCount]()

        def count(counter: QuestionCounter, key: StateKey, state: State) -> None:
            answered = AnsweredRounds(counter, key, state)
            question = counter.count(key, state, answered.relabel)
            if question.results:
                question.checks = answered.checks(question.prices)
            found.append(question)

        sequence = await self._through_questions(project, count)
        return ProjectCount(tuple(found), sequence, time.monotonic() - began)

    async def doubts(self, project: str, usd: float, most: int) -> Doubts:
        """Find the tasks on which so much money, spent on further votes, brings the most right labels.

        Args:
            project: the project's key.
            usd: in $.
            most: the most tasks.

        Raises:
            LedgerError: the ledger cannot be read.
            Stopped: the process stops.
        """
        return (await self.doubting(project)).best(usd, most)

    async def doubting(self, project: str) -> Doubting:
        """Look at every open task of a project: what further votes on it would bring.

        Raises:
            LedgerError: the ledger cannot be read.
            Stopped: the process stops.
        """
        doubting = Doubting()
        await self._through_questions(project, doubting.add)
        return doubting

    async def _through_questions(
        self, project: str, function: Callable[[QuestionCounter, StateKey, State], None]
    ) -> int:
        """Call a function in the counting thread for each question, with a state that no one else changes.

        Returns:
            The project's last event that the states know; 0 for a project that the ledger does not know.
        """
        loop = asyncio.get_running_loop()
        stored, first_rounds = await loop.run_in_executor(self._workers, self._first_rounds, project)
        if stored is None:
            return 0
        settings, _ = project_settings(stored, self._settings)
        aggregations = _aggregations(stored)
        for key, first in first_rounds.items():
            aggregation = aggregation_of(first.plan)
            policy = policy_of(settings.policy, [aggregation, *aggregations])
            linear = policy.linear(aggregation)
            state = await self._states.current(
                key,
                dimension=first.context.shape[0],
                lambda_l=settings.policy.lambda_l,
                linear=linear,
            )
            own = State.restore(state.snapshot(), linear=linear)  # the other one goes on learning
            counter = QuestionCounter(self._ledger, policy, settings.arms, settings.calibrate, self._pause)
            await loop.run_in_executor(self._workers, function, counter, key, own)
        return stored.sequence

    def _first_rounds(self, project: str) -> tuple[Project | None, dict[StateKey, CountableRound]]:
        """The project, and of each question's latest epoch a round."""
        with self._ledger.read() as connection:
            first_rounds = {}
            for control, epoch in sorted(open_rounds.latest_epochs(connection, project).items()):
                first = countable_rounds(connection, project, control, epoch, after=0, limit=1)
                if first:
                    first_rounds[StateKey(project, control, epoch)] = first[0]
            return projects.get(connection, project), first_rounds

    def _pause(self) -> None:
        if self._stopping.wait(_PAUSE):
            raise Stopped


def _aggregations(stored: Project) -> list[Aggregation]:
    """How the votes of the project's questions are counted: one that is no label decides the policy."""
    if stored.label_config is None:
        return []
    try:
        config = parse_label_config(stored.label_config)
    except BadLabelConfigError:
        return []
    return [question.control.aggregation for question in config.questions]

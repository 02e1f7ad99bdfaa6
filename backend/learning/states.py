"""This process's copies of the states, each a sum over the ledger, and the lessons that new ones begin with.

Only a state without rounds begins with lessons of earlier projects of the ledger about the models. They come
to it as an event, so every process has them, and a later lesson changes nothing. If an earlier project is
forgotten, or lessons are switched off, another event takes them back.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, perf_counter
from typing import Any, Final, Generic, TypeVar

import structlog
from sqlalchemy import Connection

from backend.errors import LedgerError
from backend.ledger import LedgerAccess, projects
from backend.ledger.database.writer import outlast
from backend.ledger.events import Base, Event, NewEvent, ProjectEvents, Snapshot, StateKey, StateRecords
from backend.ledger.learning_data import LearningRounds, OwnScore, ProjectLessons
from backend.ledger.rounds import ProjectRounds
from camvo.errors import CamvoError, SnapshotError
from camvo.joint.rare_labels import labels_of_votes
from camvo.joint.votes_fit import lesson_of
from camvo.policies.policy import Fit, FitData, JointFitData, fitted
from camvo.scores.scorer import GROWTH, Scorer
from camvo.state.contribution import Contribution, Restart
from camvo.state.earlier import LEAST_ROUNDS, NOTHING_EARLIER, Earlier, Lesson
from camvo.state.state import State, findings, findings_with
from camvo.student import LEAST_TEXTS, STUDENT, Lessons, Student, teach

_SNAPSHOT_EVERY = 500
"""Events between two snapshots of a state, and so the most that a start-up has to add up."""

_COPIES = 64
"""States kept in memory; one with seven arms at d = 384 and their linear models takes 8 MB."""

_PORTION = 256
"""Events added at once."""

_IDLE = 3600.0
"""Seconds after which a copy looks for a base before it catches up. Only older events are ever folded."""

_NEWS = 1.05
"""The growth of the number of rounds after which the findings of the tests are stored again; they are also
after :data:`_SNAPSHOT_EVERY` events. What came later is read from the events (:func:`latest_findings`)."""

_T = TypeVar("_T")

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Copy:
    """A state, the numbers of its last event and of its last snapshot, and how far its catching up is.

    ``reported`` are the rounds when the tests' findings were stored last, ``through`` the last event then.
    ``turn`` is held while the copy catches up; ``begun`` and ``caught_up`` number these times.
    """

    state: State
    sequence: int = 0
    snapshot: int = 0
    reported: int = 0
    through: int = 0
    read_at: float = 0.0
    begun: int = 0
    caught_up: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class States:
    """The copies, by key. Used from one event loop only."""

    def __init__(self, access: LedgerAccess) -> None:
        self._access = access
        self._copies: dict[StateKey, _Copy] = {}

    async def current(self, key: StateKey, *, dimension: int, lambda_l: float, linear: bool = True) -> State:
        """The state of a question with every event that was in the ledger at the call, or with more.

        The state belongs to this object. Read it before the next ``await``, and do not keep it.

        Args:
            key: the question.
            dimension: the embedder's d.
            lambda_l: the ridge parameter.
            linear: whether the state keeps the linear models of the context. They are added up from the
                ledger's first event if the policy begins to read them.
        """
        copy = self._copies.pop(key, None)
        if copy is None or _form(copy.state) != (dimension, lambda_l, linear):
            copy = _Copy(State(dimension, lambda_l, linear=linear))
        self._copies[key] = copy
        # Those that were read longest ago can be restored from the ledger.
        for idle in list(self._copies)[: max(len(self._copies) - _COPIES, 0)]:
            if not self._copies[idle].turn.locked():
                del self._copies[idle]
        arrived = copy.begun
        async with copy.turn:
            if copy.caught_up > arrived:  # somebody began to read after this call
                return copy.state
            if copy.sequence == 0 or monotonic() - copy.read_at >= _IDLE:
                await self._restore(key, copy)
            begun = copy.begun = copy.begun + 1
            await self._catch_up(key, copy)
            copy.read_at = monotonic()
            while (restart := copy.state.restart_due()) is not None:
                await self._append(key, copy, restart)
                await self._catch_up(key, copy)
                copy.reported = 0
            await self._report(key, copy)
            if copy.sequence - copy.snapshot >= _SNAPSHOT_EVERY:
                await self._save(key, copy)
            copy.caught_up = begun
        return copy.state

    async def _restore(self, key: StateKey, copy: _Copy) -> None:
        """Start from the latest snapshot, or else the base, unless the copy has every event before these."""

        def stored(connection: Connection) -> tuple[list[Snapshot], Base | None]:
            records = StateRecords(connection, key)
            return records.snapshots(), records.base()

        saved, base = await self._access.read(stored)
        folded = 0 if base is None else base.sequence
        if 0 < copy.sequence >= folded:
            return
        for snapshot in saved:
            if snapshot.sequence < folded:
                break
            try:
                state = State.restore(snapshot.state, linear=copy.state.linear)
            except SnapshotError as error:
                _log.warning("snapshot_skipped", project=key.project, control=key.control, reason=str(error))
                continue
            if _form(state) == _form(copy.state):
                copy.state, copy.sequence, copy.snapshot = state, snapshot.sequence, snapshot.sequence
                return
        if base is not None:
            copy.state, copy.sequence = _unfolded(base, copy.state), base.sequence

    async def _catch_up(self, key: StateKey, copy: _Copy) -> None:
        """Add new events in portions, on the event loop: no plan can see a half-added portion.

        Events that are appended after the first portion was read may be left out. Otherwise other processes
        that append faster than this one reads would delay it forever.
        """
        end: int | None = None

        def portion(connection: Connection) -> tuple[list[Event], int]:
            found = ProjectEvents(connection, key.project).after(
                copy.sequence, control=key.control, epoch=key.epoch, limit=_PORTION
            )
            more = len(found) == _PORTION
            return found, projects.last_event(connection, key.project) if more else 0

        while end is None or copy.sequence < end:
            new_events, last = await self._access.read(portion)
            if new_events:
                copy.state.add(*(Contribution.unpack(event.contribution) for event in new_events))
                copy.sequence = new_events[-1].sequence
            if len(new_events) < _PORTION:
                return
            end = last if end is None else end

    async def _append(self, key: StateKey, copy: _Copy, restart: Restart) -> None:
        sequence, lesson = copy.sequence, Contribution.of_restart(restart, copy.state.dimension).pack()
        _log.warning(
            "restart", project=key.project, control=key.control, kind=restart.kind, model=restart.arm
        )
        await self._access.writer.persist(
            lambda connection: StateRecords(connection, key).append_restart(
                sequence, lesson, now=self._access.clock()
            )
        )

    async def _report(self, key: StateKey, copy: _Copy) -> None:
        """Store the findings of the tests, if they have changed."""
        rounds, sequence = copy.state.rounds, copy.sequence
        old = sequence - copy.through >= _SNAPSHOT_EVERY
        if rounds and (old or not copy.reported <= rounds <= copy.reported * _NEWS):
            tests, copy.reported, copy.through = findings(copy.state), rounds, sequence
            await self._access.writer.persist(
                lambda connection: StateRecords(connection, key).save_drift_tests(
                    sequence, tests, now=self._access.clock()
                )
            )

    async def _save(self, key: StateKey, copy: _Copy) -> None:
        data, sequence = copy.state.snapshot(), copy.sequence
        copy.snapshot = sequence
        await self._access.writer.persist(
            lambda connection: StateRecords(connection, key).save_snapshot(
                sequence, data, now=self._access.clock()
            )
        )


_Findings = Mapping[str, Any]
"""What :func:`camvo.state.state.findings` returns."""


def latest_findings(connection: Connection, project: str) -> dict[tuple[str, str], _Findings]:
    """What the tests of each state of a project have found, by control and epoch.

    Those of present epochs know every event, whenever a process has stored the findings last.
    """
    present = ProjectRounds(connection, project).latest_epochs()
    return {
        place: _caught_up(connection, StateKey(project, *place), *stored)
        if present.get(place[0]) == place[1]
        else stored[1]
        for place, stored in ProjectEvents(connection, project).drift_tests().items()
    }


def _caught_up(connection: Connection, key: StateKey, sequence: int, found: _Findings) -> _Findings:
    """The findings about a state with the events after a number."""
    events = ProjectEvents(connection, key.project)
    if sequence < events.folded_through():
        base = StateRecords(connection, key).base()
        if base is not None and base.sequence > sequence:
            sequence, found = base.sequence, findings(State.restore(base.state, linear=False))
    while later := events.after(sequence, control=key.control, epoch=key.epoch, limit=_PORTION):
        found = findings_with(found, (Contribution.unpack(event.contribution) for event in later))
        sequence = later[-1].sequence
    return found


def _unfolded(base: Base, empty: State) -> State:
    """A base's sums in the form of another state; an embedder of another dimension begins with nothing."""
    try:
        state = State.restore(base.state, linear=empty.linear)
    except SnapshotError as error:
        raise LedgerError(
            f"the base of folded events cannot be read: {error}",
            where=f"project {base.project}, control {base.control}",
            fix="run `camvo ledger verify`, and restore the ledger from a backup",
        ) from error
    if state.dimension != empty.dimension:
        return State(empty.dimension, empty.lambda_l, linear=empty.linear)
    return state if state.lambda_l == empty.lambda_l else state.with_ridge(empty.lambda_l)


def _form(state: State) -> tuple[int, float, bool]:
    """The properties that a copy must share with the requested state."""
    return state.dimension, state.lambda_l, state.linear


_PAUSE = 10.0
"""The longest time, in seconds, after which a result is checked for being out of date."""

_PAUSES: Final = 20.0
"""Until then that many times as long as it took: a short job learns too, and fits take little of its time."""

_GROWN: Final = 5.0
"""The same where there is more to learn from, which happens ever more seldom: a quick job plans by it."""


@dataclass(frozen=True, slots=True)
class _Kept(Generic[_T]):
    """A fit, when it was started, and how many seconds it took."""

    fit: _T
    started_at: float
    seconds: float


class FitCache(Generic[_T]):
    """The latest fits, by question and kind. Used from one event loop only."""

    def __init__(self, workers: Executor, *, most: int, failure: str) -> None:
        self._workers, self._most, self._failure = workers, most, failure
        self._latest: dict[tuple[StateKey, Hashable], _Kept[_T]] = {}
        self._under_way: dict[tuple[StateKey, Hashable], asyncio.Task[_T]] = {}
        self._failed_at: dict[tuple[StateKey, Hashable], float] = {}

    def latest(self, key: StateKey, kind: Hashable = None) -> _T | None:
        """The latest fit; ``None`` before the first."""
        kept = self._latest.get((key, kind))
        return None if kept is None else kept.fit

    def is_old(self, key: StateKey, kind: Hashable = None, *, pauses: float = math.inf) -> bool:
        """Whether the latest fit may be out of date, and the next one has not just failed.

        That is so after :data:`_PAUSE`, or after ``pauses`` times as long as the fit took, if that is less.
        """
        kept = self._latest[key, kind]
        old = monotonic() - kept.started_at >= min(pauses * kept.seconds, _PAUSE)
        return old and not self.has_failed(key, kind)

    def has_failed(self, key: StateKey, kind: Hashable = None) -> bool:
        """Whether a fit has failed so recently that no other may start yet."""
        return monotonic() - self._failed_at.get((key, kind), -math.inf) < _PAUSE

    def start(self, key: StateKey, fit: Callable[[], _T], kind: Hashable = None) -> asyncio.Task[_T]:
        """Start a fit, or return the one under way. Shield the task: others may await it too."""
        if (task := self._under_way.get((key, kind))) is None:
            task = asyncio.create_task(self._run(key, fit, kind))
            self._under_way[key, kind] = task
            task.add_done_callback(lambda done: self._done(key, kind, done))
        return task

    async def _run(self, key: StateKey, fit: Callable[[], _T], kind: Hashable) -> _T:
        def timed() -> _Kept[_T]:
            started_at, started = monotonic(), perf_counter()
            return _Kept(fit(), started_at, perf_counter() - started)

        kept = await asyncio.get_running_loop().run_in_executor(self._workers, timed)
        self._latest.pop((key, kind), None)
        self._latest[key, kind] = kept
        while len(self._latest) > self._most:
            del self._latest[next(iter(self._latest))]
        return kept.fit

    def _done(self, key: StateKey, kind: Hashable, task: asyncio.Task[_T]) -> None:
        del self._under_way[key, kind]
        self._failed_at.pop((key, kind), None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error(self._failure, project=key.project, control=key.control, kind=type(error).__name__)
            self._failed_at[key, kind] = monotonic()


@dataclass(frozen=True, slots=True)
class _Fitted:
    data: FitData
    fit: Fit


class BackgroundFits:
    """The fits of the kept rounds, by question. Used from one event loop only."""

    def __init__(self, workers: Executor) -> None:
        self._cache: FitCache[_Fitted] = FitCache(workers, most=_COPIES, failure="not_studied")

    async def current(self, key: StateKey, data: FitData, *, now: bool = False) -> Fit:
        """The latest fit of a question; awaits a fit only if it knows less than half of the rounds.

        With ``now``, it awaits a fit of this data, or of data that came later.

        If the data has changed, a new fit starts in the background for later plans, after a pause of at most
        ten seconds: while people label, every plan brings new data. The pause is shorter where what it counts
        has grown. The prices in a fit are those of the task that it was made for; tasks of other lengths use
        the same stopping rule.
        """

        def fit() -> _Fitted:
            return _Fitted(data, fitted(data))

        latest = self._cache.latest(key, data.kind)
        if latest is None:
            latest = await asyncio.shield(self._cache.start(key, fit, data.kind))
        if latest.data.basis == data.basis:
            return latest.fit
        if now or (_knows_little(latest.data, data) and not self._cache.has_failed(key, data.kind)):
            for _ in range(2):
                under_way = self._cache.start(key, fit, data.kind)  # perhaps of older data
                try:
                    latest = await asyncio.shield(under_way)
                except Exception:
                    if now:
                        raise
                    break  # the earlier fit serves; the cache has logged the failure
                if latest.data.basis == data.basis or not (now or _knows_little(latest.data, data)):
                    break
        else:
            pauses = _GROWN if data.counted > latest.data.counted else _PAUSES
            if self._cache.is_old(key, data.kind, pauses=pauses):
                self._cache.start(key, fit, data.kind)
        return latest.fit


def _knows_little(known: FitData, data: FitData) -> bool:
    """Whether a fit of the known data would plan with at most half of the rounds that there are."""
    return data.evidence.rounds >= 2 * max(known.evidence.rounds, 1)


@dataclass(frozen=True, slots=True)
class _Taught:
    lessons: Lessons
    student: Student | None


class Students:
    """The latest student of each question. Used from one event loop only."""

    def __init__(self, workers: Executor) -> None:
        self._cache: FitCache[_Taught] = FitCache(workers, most=_COPIES, failure="student_not_taught")

    def current(self, key: StateKey, lessons: Lessons) -> Student | None:
        """The latest student; ``None`` before the first. Nobody waits for a student.

        If the lessons have changed, a new one is taught in the background for later plans, at most one every
        ten seconds; sooner where they have grown.
        """
        latest = self._cache.latest(key)
        if latest is None:
            due = len(lessons.texts) >= LEAST_TEXTS and not self._cache.has_failed(key)
        else:
            pauses = _GROWN if len(lessons.texts) > len(latest.lessons.texts) else math.inf
            due = latest.lessons is not lessons and self._cache.is_old(key, pauses=pauses)
        if due:
            self._cache.start(key, lambda: _Taught(lessons, teach(lessons)))
        return None if latest is None else latest.student


_MOST = 256
"""Scorers kept in memory; each takes a few kilobytes."""


@dataclass(frozen=True, slots=True)
class _FittedScorer:
    scorer: Scorer
    rounds: int
    confirmed: int
    own: Mapping[int, OwnScore]


class Scorers:
    """The scorers, by question. Used from one event loop only."""

    def __init__(self, access: LedgerAccess) -> None:
        self._ledger = access.ledger
        self._cache: FitCache[_FittedScorer] = FitCache(
            access.readers, most=_MOST, failure="scores_not_fitted"
        )

    async def current(self, key: StateKey, arms: Sequence[str], labels: Sequence[str]) -> Scorer:
        """The latest scorer of a question; awaits a fit only for the first one, or if a model is new to it.

        Later rounds are learnt in the background, for the predictions after this one.
        """
        latest = self._cache.latest(key)
        if latest is None or not set(arms) <= set(latest.scorer.panel.arms):
            latest = await outlast(
                lambda: asyncio.shield(self._cache.start(key, lambda: self._fit(key, arms, labels, None)))
            )
        elif self._cache.is_old(key, pauses=_PAUSES):
            self._cache.start(key, lambda: self._fit(key, arms, labels, latest))
        return latest.scorer

    def _fit(
        self, key: StateKey, arms: Sequence[str], labels: Sequence[str], latest: _FittedScorer | None
    ) -> _FittedScorer:
        with self._ledger.read() as connection:
            known = LearningRounds(connection, key.project, key.control, key.epoch)
            rounds, confirmed = known.count()
            if latest is not None and not (
                _grown(rounds, latest.rounds) or _grown(confirmed, latest.confirmed)
            ):
                return latest
            own = known.own_scores({} if latest is None else latest.own)
            newest = known.latest(own=own)
        all_arms = sorted({*arms, *(arm for round_ in newest for arm in round_.votes)})
        return _FittedScorer(Scorer.fit(newest, all_arms, labels), rounds, confirmed, own)


def _grown(now: int, before: int) -> bool:
    return abs(now - before) > GROWTH * before


_CHECK: Final = 60.0
"""Seconds after which a state is checked for lessons that it must not use any more."""

_MORE: Final = 1.5
"""The growth of the number of rounds after which what they teach is computed again; it takes a fit."""


class EarlierProjects:
    """Gives states the lessons of earlier projects, and keeps theirs. Used from one event loop only."""

    def __init__(self, access: LedgerAccess) -> None:
        self._access = access
        self._checked: dict[StateKey, float] = {}
        self._taught: dict[StateKey, float] = {}
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
        if not first and (not known.lessons or monotonic() - self._checked[key] < _CHECK):
            return False
        begins = rounds == 0 and not known.lessons
        if not known.lessons and not (begins and wanted):
            return False

        def right(connection: Connection) -> Earlier:
            if not wanted:
                return NOTHING_EARLIER
            lessons = ProjectLessons(connection)
            return lessons.of_kind(kind, key.project) if begins else known.without(lessons.forgotten())

        earlier = await self._access.read(right)
        self._checked[key] = monotonic()
        if earlier == known:
            return False
        append = partial(_append, key=key, earlier=earlier, dimension=dimension, first=begins)
        await self._access.writer.persist(lambda connection: append(connection, now=self._access.clock()))
        return True

    def teach(self, key: StateKey, kind: str, data: FitData) -> None:
        """Keep what the votes behind a fit teach, in the background, once they have grown by a half."""
        if not isinstance(data, JointFitData):
            return
        rounds, taught = data.evidence.rounds, self._taught.get(key, 0.0)
        if rounds >= LEAST_ROUNDS and not taught / _MORE < rounds < taught * _MORE:
            self._taught[key] = rounds
            task = asyncio.create_task(self._teach(key, kind, data))
            self._teaching.add(task)
            task.add_done_callback(self._teaching.discard)

    async def _teach(self, key: StateKey, kind: str, data: JointFitData) -> None:
        try:
            lesson = await self._access.in_thread(partial(_lesson, key.project, data))
            if lesson is not None:
                store = partial(_store, key=key, kind=kind, lesson=lesson)
                await self._access.writer.persist(
                    lambda connection: store(connection, now=self._access.clock())
                )
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
    events.lock()
    if first and events.after(0, control=key.control, epoch=key.epoch, limit=1):
        return
    contribution = Contribution.of_earlier(earlier, dimension).pack()
    event = NewEvent(
        control=key.control, epoch=key.epoch, kind="earlier", contribution=contribution, round_id=None
    )
    events.append([event], now)

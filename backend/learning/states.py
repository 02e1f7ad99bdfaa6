"""This process's copies of the states. Each is a sum over the ledger, updated before it is read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TypeVar

import structlog
from sqlalchemy import Connection

from backend.errors import LedgerError
from backend.learning.teaching import append_restart
from backend.ledger import Ledger, Writer, learning_data, projects
from backend.ledger.database import writer as outages
from backend.ledger.events import Base, Event, ProjectEvents, Snapshot, StateRecords
from camvo.errors import SnapshotError
from camvo.state.contribution import Contribution, Restart
from camvo.state.state import State, findings

SNAPSHOT_EVERY = 500
"""Events between two snapshots of a state, and so the most that a start-up has to add up."""

COPIES = 64
"""States kept in memory; one with seven arms at d = 384 and their linear models takes 8 MB."""

_PORTION = 256
"""Events added at once."""

_IDLE = 3600.0
"""Seconds after which a copy looks for a base before it catches up. Only older events are ever folded."""

_NEWS = 1.05
"""The growth of the number of rounds after which the findings of the tests are stored again."""

_T = TypeVar("_T")
_Clock = Callable[[], float]

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StateKey:
    """Identifies a state: one question of one project in one epoch."""

    project: str
    control: str
    epoch: str


@dataclass(slots=True)
class _Copy:
    """A state, and how far it is.

    Attributes:
        state: the sum so far.
        sequence: the number of the last event in it.
        snapshot: that of the last snapshot.
        reported: the rounds when the tests' findings were stored last.
        read_at: when it was read last, unix seconds.
        begun: how often catching up has begun.
        caught_up: the number of the last time that it has ended.
        turn: held while it catches up.
    """

    state: State
    sequence: int = 0
    snapshot: int = 0
    reported: int = 0
    read_at: float = 0.0
    begun: int = 0
    caught_up: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class States:
    """The copies, by key. Used from one event loop only.

    Args:
        ledger: where events and snapshots are read.
        writer: writes snapshots.
        readers: the threads that read the ledger.
        clock: returns unix seconds.
    """

    def __init__(self, ledger: Ledger, writer: Writer, readers: Executor, *, clock: _Clock) -> None:
        self._ledger, self._writer, self._readers, self._clock = ledger, writer, readers, clock
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
        self._forget_idle()
        arrived = copy.begun
        async with copy.turn:
            if copy.caught_up > arrived:  # somebody began to read after this call
                return copy.state
            if copy.sequence == 0 or self._clock() - copy.read_at >= _IDLE:
                await self._restore(key, copy)
            begun = copy.begun = copy.begun + 1
            await self._catch_up(key, copy)
            copy.read_at = self._clock()
            while (restart := copy.state.restart_due()) is not None:
                await self._append(key, copy, restart)
                await self._catch_up(key, copy)
                copy.reported = 0
            await self._report(key, copy)
            if copy.sequence - copy.snapshot >= SNAPSHOT_EVERY:
                await self._save(key, copy)
            copy.caught_up = begun
        return copy.state

    def _forget_idle(self) -> None:
        """Drop the copies that were read longest ago; they can be restored from the ledger."""
        for key in list(self._copies)[: max(len(self._copies) - COPIES, 0)]:
            if not self._copies[key].turn.locked():
                del self._copies[key]

    async def _restore(self, key: StateKey, copy: _Copy) -> None:
        """Start from the latest snapshot, or else the base, unless the copy has every event before these."""

        def stored(connection: Connection) -> tuple[list[Snapshot], Base | None]:
            records = StateRecords(connection, key.project, key.control, key.epoch)
            return records.snapshots(), records.base()

        saved, base = await self._in_reader(stored)
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
            new_events, last = await self._in_reader(portion)
            if new_events:
                copy.state.add(*(Contribution.unpack(event.contribution) for event in new_events))
                copy.sequence = new_events[-1].sequence
            if len(new_events) < _PORTION:
                return
            end = last if end is None else end

    async def _append(self, key: StateKey, copy: _Copy, restart: Restart) -> None:
        names, sequence, dimension = (
            (key.project, key.control, key.epoch),
            copy.sequence,
            copy.state.dimension,
        )
        _log.warning(
            "restart", project=key.project, control=key.control, kind=restart.kind, model=restart.arm
        )
        await self._writer.persist(
            lambda connection: append_restart(
                connection, *names, sequence, restart, dimension, now=self._clock()
            )
        )

    async def _report(self, key: StateKey, copy: _Copy) -> None:
        """Store the findings of the tests, if they have changed."""
        rounds = copy.state.rounds
        if rounds and not copy.reported <= rounds <= copy.reported * _NEWS:
            tests, sequence, copy.reported = findings(copy.state), copy.sequence, rounds
            await self._writer.persist(
                lambda connection: learning_data.store_drift_tests(
                    connection, key.project, key.control, key.epoch, sequence, tests, now=self._clock()
                )
            )

    async def _save(self, key: StateKey, copy: _Copy) -> None:
        data, sequence = copy.state.snapshot(), copy.sequence
        copy.snapshot = sequence
        await self._writer.persist(
            lambda connection: StateRecords(connection, key.project, key.control, key.epoch).save_snapshot(
                sequence, data, now=self._clock()
            )
        )

    async def _in_reader(self, function: Callable[[Connection], _T]) -> _T:
        return await outages.read(self._ledger, self._readers, function)


def _unfolded(base: Base, empty: State) -> State:
    """A base's sums in the form of another state; an embedder of another dimension begins with nothing.

    Raises:
        LedgerError: the base cannot be read, and without it the state would be wrong.
    """
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

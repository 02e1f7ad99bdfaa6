"""Events: the append-only list whose sum, in order, is the state of every question."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import groupby
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    select,
    update,
)

from backend.errors import LedgerError
from backend.ledger import projects, recounts
from backend.ledger.database import tables
from backend.ledger.database.packing import unpack_context, unpack_text, with_context, without_context
from backend.ledger.database.statements import among, insert_new, insert_or_replace, upsert
from camvo.student import Ngrams
from camvo.typing import Array

_table, _contexts = tables.events, tables.contexts
_APPEND = insert(_table)

Kind = Literal["round", "revision", "restart", "prior", "earlier"]


@dataclass(frozen=True, slots=True)
class Event:
    """One contribution to one state.

    Attributes:
        project: the project's key.
        sequence: the event's number within the project: 1, 2, 3 … without gaps.
        control: the name of the question's control tag.
        epoch: the question's epoch, which selects the state that the event adds to.
        kind: ``"round"`` for a finished round, ``"revision"`` for a correction of an earlier round, and
            ``"restart"`` for a restart because the tasks or a model have changed, ``"prior"`` for what votes
            under earlier instructions say of the models.
        round_id: the round the event belongs to, ``None`` for a restart and a prior; that round may have been
            deleted since.
        contribution: packed bytes (:class:`camvo.state.contribution.Contribution`).
        created_at: unix seconds.
    """

    project: str
    sequence: int
    control: str
    epoch: str
    kind: Kind
    round_id: int | None
    contribution: bytes
    created_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """An event to append; the attributes are those of :class:`Event`.

    Attributes:
        context_of_round: whether the contribution's context, and the n-grams after it, are those stored with
            the round, so that the event need not hold them too.
    """

    control: str
    epoch: str
    kind: Kind
    contribution: bytes
    round_id: int | None
    context_of_round: bool = False


def _event(row: Row[Any]) -> Event:
    """The event with its whole contribution."""
    values = dict(row._mapping)
    context = values.pop("context")
    values["contribution"] = with_context(values["contribution"], context)
    return Event(**values)


@cache
def _after(of_control: bool, of_epoch: bool) -> Select[Any]:
    beside = _contexts.c.round_id == _table.c.round_id
    query = select(_table, _contexts.c.context).outerjoin(_contexts, beside)
    query = query.where(_table.c.project == bindparam("of"), _table.c.sequence > bindparam("number"))
    if of_control:
        query = query.where(_table.c.control == bindparam("name"))
    if of_epoch:
        query = query.where(_table.c.epoch == bindparam("hash"))
    return query.order_by(_table.c.sequence).limit(bindparam("most"))


_bases, _events = tables.bases, tables.events
_GET = select(_bases).where(
    _bases.c.project == bindparam("of"),
    _bases.c.control == bindparam("name"),
    _bases.c.epoch == bindparam("hash"),
)


@dataclass(frozen=True, slots=True)
class Base:
    """The sum of a state's first events.

    Attributes:
        project: the project's key.
        control: the name of the question's control tag.
        epoch: the question's epoch.
        sequence: the number of the last event of the project when it was made; the state's events up to there
            are in it.
        events: how many events are in it.
        state: packed bytes (:meth:`camvo.state.state.State.snapshot`), with the linear models.
        digest: SHA-256 of ``state``, hexadecimal.
        created_at: unix seconds.
    """

    project: str
    control: str
    epoch: str
    sequence: int
    events: int
    state: bytes
    digest: str
    created_at: float

    @property
    def whole(self) -> bool:
        """Whether the bytes are those that were stored."""
        return digest_of(self.state) == self.digest


def digest_of(state: bytes) -> str:
    """SHA-256 of a packed state, hexadecimal."""
    return hashlib.sha256(state).hexdigest()


def replace_base(connection: Connection, base: Base, previous: Base | None) -> None:
    """Store a base in place of the one that it was made from.

    Raises:
        LedgerError: another process has made one meanwhile.
    """
    stored = StateRecords(connection, StateKey(base.project, base.control, base.epoch)).base()
    if (stored and stored.digest) != (previous and previous.digest):
        raise LedgerError(
            "another process folds the same events",
            where=f"project {base.project}, control {base.control}",
            fix="let one prune run at a time, and repeat this one",
        )
    row = {name: getattr(base, name) for name in Base.__slots__}
    connection.execute(insert_or_replace(_bases), row)


_learnt_events, _rounds, _learnt_contexts = tables.events.c, tables.rounds.c, tables.contexts.c
_PORTION = 500


@dataclass(frozen=True, slots=True, eq=False)
class LearntRound:
    """A round that is not pruned, with its events.

    Attributes:
        row: the row of the table ``rounds``.
        context: e_t, shape (d,); shape (0,) if it is missing.
        text: the n-grams of the text that teaches the student; empty without one.
        votes: arm → label, with the further votes that its human label has taught with.
        events: (kind, packed contribution), in order.
    """

    row: Row[Any]
    context: Array
    text: Ngrams
    votes: Mapping[str, str | None]
    events: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ProjectEvents:
    """A project's events, in a transaction."""

    connection: Connection
    project: str

    def lock(self) -> None:
        """Let nobody else append events until the transaction ends."""
        of = tables.projects
        unchanged = update(of).where(of.c.key == self.project).values(sequence=of.c.sequence)
        self.connection.execute(unchanged)

    def append(self, new: Sequence[NewEvent], now: float) -> range:
        """Append events to the project's list, in their order, and return their numbers."""
        numbers = projects.next_sequences(self.connection, self.project, len(new), now)
        rows = [
            {
                "project": self.project,
                "sequence": number,
                "control": event.control,
                "epoch": event.epoch,
                "kind": event.kind,
                "round_id": event.round_id,
                "contribution": (
                    without_context(event.contribution) if event.context_of_round else event.contribution
                ),
                "created_at": now,
            }
            for number, event in zip(numbers, new, strict=True)
        ]
        self.connection.execute(_APPEND, rows)
        return numbers

    def after(
        self, sequence: int, *, control: str | None = None, epoch: str | None = None, limit: int = 1000
    ) -> list[Event]:
        """Return the first ``limit`` events after number ``sequence``, in order.

        ``control`` and ``epoch``, where given, restrict the events to one question or one state.
        """
        values = {"of": self.project, "number": sequence, "most": limit, "name": control, "hash": epoch}
        rows = self.connection.execute(_after(control is not None, epoch is not None), values)
        return [_event(row) for row in rows]

    def latest_rounds(self, control: str, epoch: str, most: int) -> list[Event]:
        """Return a state's latest events of rounds since its last restart, at most ``most``, in order."""
        of_state = (_table.c.project == self.project, _table.c.control == control, _table.c.epoch == epoch)
        last = select(func.coalesce(func.max(_table.c.sequence), 0)).where(*of_state)
        restarted = last.where(_table.c.kind == "restart").scalar_subquery()
        beside = _contexts.c.round_id == _table.c.round_id
        query = (
            select(_table, _contexts.c.context)
            .outerjoin(_contexts, beside)
            .where(*of_state, _table.c.kind == "round", _table.c.sequence > restarted)
            .order_by(_table.c.sequence.desc())
            .limit(most)
        )
        return [_event(row) for row in self.connection.execute(query)][::-1]

    def of_rounds(self, control: str, epoch: str, ids: Sequence[int]) -> list[Event]:
        """Return a state's events of these rounds that are not folded, in order."""
        if not ids:
            return []
        beside = _contexts.c.round_id == _table.c.round_id
        query = (
            select(_table, _contexts.c.context)
            .outerjoin(_contexts, beside)
            .where(_table.c.project == self.project, _table.c.control == control, _table.c.epoch == epoch)
            .where(among(_table.c.round_id, ids))
            .order_by(_table.c.sequence)
        )
        return [_event(row) for row in self.connection.execute(query)]

    def bases(self) -> list[Base]:
        """Return every base of a project."""
        query = (
            select(_bases).where(_bases.c.project == self.project).order_by(_bases.c.control, _bases.c.epoch)
        )
        return [Base(**row._mapping) for row in self.connection.execute(query)]

    def folded_through(self) -> int:
        """Return the number up to which a project's events are folded, 0 if none are."""
        query = select(func.coalesce(func.max(_bases.c.sequence), 0)).where(_bases.c.project == self.project)
        return int(self.connection.scalars(query).one())

    def drift_tests(self) -> dict[tuple[str, str], tuple[int, Mapping[str, Any]]]:
        """Return (control, epoch) → what the tests of this state found, and the last event that they know."""
        of = _drift_tests.c
        query = select(of.control, of.epoch, of.sequence, of.tests).where(of.project == self.project)
        return {(row.control, row.epoch): (row.sequence, row.tests) for row in self.connection.execute(query)}

    def delete_folded(self, first: int, last: int) -> int:
        """Delete the events that a base includes, and return how many."""
        is_folded = exists().where(
            _bases.c.project == _events.c.project,
            _bases.c.control == _events.c.control,
            _bases.c.epoch == _events.c.epoch,
            _bases.c.sequence >= _events.c.sequence,
        )
        among = and_(_events.c.project == self.project, _events.c.sequence.between(first, last))
        return self.connection.execute(delete(_events).where(among, is_folded)).rowcount

    def learnt_rounds(self) -> Iterator[LearntRound]:
        """Yield the rounds that are not pruned, in the order of their ids, a portion in memory."""
        after = 0
        events = groupby(_stored_events(self.connection, self.project), key=lambda event: int(event.round_id))
        at = next(events, None)
        query = (
            select(tables.rounds, _learnt_contexts.context)
            .outerjoin(tables.contexts, _learnt_contexts.round_id == _rounds.id)
            .where(_rounds.project == self.project, ~_rounds.pruned)
            .order_by(_rounds.id)
            .limit(_PORTION)
        )
        while rows := self.connection.execute(query.where(_rounds.id > after)).all():
            further = recounts.further_votes_of(self.connection, [row.id for row in rows])
            for row in rows:
                while at is not None and at[0] < row.id:  # of deleted and of pruned rounds
                    at = next(events, None)
                taught: tuple[tuple[str, bytes], ...] = ()
                if at is not None and at[0] == row.id:
                    taught = tuple(
                        (each.kind, with_context(each.contribution, row.context)) for each in at[1]
                    )
                    at = next(events, None)
                later = [vote for vote in further.get(row.id, ()) if vote.taught]
                votes = recounts.all_votes(row.votes, later)
                beside = row.context
                yield LearntRound(row, unpack_context(beside), unpack_text(beside), votes, taught)
            after = rows[-1].id


def _stored_events(connection: Connection, project: str) -> Iterator[Any]:
    query = (
        select(_learnt_events.round_id, _learnt_events.kind, _learnt_events.contribution)
        .where(_learnt_events.project == project, _learnt_events.round_id.is_not(None))
        .order_by(_learnt_events.round_id, _learnt_events.sequence)
    )
    yield from connection.execution_options(yield_per=_PORTION).execute(query)


_snapshots = tables.snapshots

_KEPT = 2
"""Number of snapshots kept of each state: the second is the fallback if the newest cannot be read."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One stored state.

    Attributes:
        sequence: number of the last event that the state includes.
        state: packed bytes (:meth:`camvo.state.state.State.snapshot`).
        created_at: unix seconds.
    """

    sequence: int
    state: bytes
    created_at: float


_drift_tests = tables.drift_tests
_newer = upsert(_drift_tests)
_STORE_DRIFT_TESTS = _newer.on_conflict_do_update(
    index_elements=_drift_tests.primary_key.columns.keys(),
    set_={name: _newer.excluded[name] for name in ("sequence", "tests", "updated_at")},
    where=_drift_tests.c.sequence <= _newer.excluded.sequence,
)


@dataclass(frozen=True, slots=True)
class StateKey:
    """Identifies a state: one question of one project in one epoch."""

    project: str
    control: str
    epoch: str

    def __str__(self) -> str:
        return f"project {self.project}, control {self.control}, epoch {self.epoch}"


@dataclass(frozen=True, slots=True)
class StateRecords:
    """What is stored of one state: the sum of its first events, later snapshots, and what its tests found."""

    connection: Connection
    key: StateKey

    def base(self) -> Base | None:
        """Return a state's base; ``None`` while no event of it is folded."""
        row = self.connection.execute(
            _GET, {"of": self.key.project, "name": self.key.control, "hash": self.key.epoch}
        ).one_or_none()
        return None if row is None else Base(**row._mapping)

    def save_snapshot(self, sequence: int, state: bytes, *, now: float) -> None:
        """Store a snapshot and delete all but the latest two of its state.

        If another process has saved the same snapshot already, that equal one stays.
        """
        row = {**asdict(self.key), "sequence": sequence, "state": state, "created_at": now}
        self.connection.execute(insert_new(_snapshots), row)
        of_state = self._of_state
        latest = (
            select(_snapshots.c.sequence).where(*of_state).order_by(_snapshots.c.sequence.desc()).limit(_KEPT)
        )
        self.connection.execute(delete(_snapshots).where(*of_state, _snapshots.c.sequence.not_in(latest)))

    def snapshots(self) -> list[Snapshot]:
        """Return up to two snapshots of a state, the newest first."""
        rows = self.connection.execute(
            select(_snapshots.c.sequence, _snapshots.c.state, _snapshots.c.created_at)
            .where(*self._of_state)
            .order_by(_snapshots.c.sequence.desc())
            .limit(_KEPT)
        )
        return [Snapshot(**row._mapping) for row in rows]

    @property
    def _of_state(self) -> tuple[ColumnElement[bool], ...]:
        of, key = _snapshots.c, self.key
        return of.project == key.project, of.control == key.control, of.epoch == key.epoch

    def save_drift_tests(self, sequence: int, tests: Mapping[str, Any], *, now: float) -> None:
        """Replace what the tests have found, unless what is stored includes later events."""
        row = {**asdict(self.key), "sequence": sequence, "tests": dict(tests), "updated_at": now}
        self.connection.execute(_STORE_DRIFT_TESTS, row)

    def append_restart(self, sequence: int, contribution: bytes, *, now: float) -> None:
        """Append a restart of the state, unless another process has appended one after number ``sequence``.

        If both do so at once, the second has no effect, because both have the same number.
        """
        control, epoch = self.key.control, self.key.epoch
        of_project = ProjectEvents(self.connection, self.key.project)
        if any(event.kind == "restart" for event in of_project.after(sequence, control=control, epoch=epoch)):
            return
        event = NewEvent(
            control=control, epoch=epoch, kind="restart", contribution=contribution, round_id=None
        )
        of_project.append([event], now)

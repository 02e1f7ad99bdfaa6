"""A ledger kept small and sound: copied into another database, pruned, and verified."""

from __future__ import annotations

import io
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

import numpy as np
from sqlalchemy import Connection, Row, Select, Table, func, insert, select, text

from backend.errors import LedgerError
from backend.ledger import Ledger, deletions, events, projects, recounts
from backend.ledger.certificates import Certificates
from backend.ledger.database import tables
from backend.ledger.database.statements import now, portions
from backend.ledger.deletions import Prunable
from backend.ledger.events import (
    Base,
    LearntRound,
    ProjectEvents,
    Snapshot,
    StateKey,
    StateRecords,
    digest_of,
)
from backend.ledger.money import from_picodollars, wrong_accounts
from camvo.errors import SnapshotError
from camvo.policies.teaching import TaughtRound
from camvo.state.contribution import Contribution
from camvo.state.state import State
from camvo.student import TaughtText

_Advance = Callable[[int], object]
"""Called with the number of events that were added up since the last call."""

_TOLERANCE = 1e-6
"""The largest difference that rounding can leave, absolute and relative."""


def _differences(state: State, other: State) -> list[str]:
    """Name the parts in which two states differ; none if they are the same sum.

    The linear models are compared only if both states keep them, and texts that teach by their seals: one of
    the states may know n-grams that were sealed since.
    """
    mine, theirs = _parts(state), _parts(other)
    different = [name for name in mine if not _same(mine[name], theirs.get(name))]
    if not different and state.linear and other.linear:
        different = [f"linear model of {arm}" for arm in state if not _same_model(state, other, arm)]
    return different


def _parts(state: State) -> dict[str, Any]:
    with np.load(io.BytesIO(state.snapshot()), allow_pickle=False) as archive:
        parts: dict[str, Any] = json.loads(archive["header"].tobytes())
        parts |= {"pair sums": archive["pairs"].tolist(), "kept contexts": archive["contexts"].tolist()}
    del parts["linear"]
    if "texts" in parts:
        kept, owed, learnt = parts["texts"]
        parts["texts"] = [[TaughtText.from_list(text).sealed for text in kept], owed, learnt]
    return parts


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float) or isinstance(other, float):
        return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    return bool(one == other)


def _same_model(state: State, other: State, arm: str) -> bool:
    pairs = ((state[arm].inverse.full(), other[arm].inverse.full()), (state[arm].b, other[arm].b))
    return all(np.allclose(*pair, rtol=_TOLERANCE, atol=_TOLERANCE) for pair in pairs)


_ROWS_AT_ONCE = 1000
_NUMBERED = tuple(table for table in tables.metadata.sorted_tables if table.autoincrement_column is not None)
"""The tables whose ids the database gives out."""


def row_counts(connection: Connection) -> dict[str, int]:
    """Return table → its number of rows."""
    return {
        table.name: connection.scalars(select(func.count()).select_from(table)).one()
        for table in tables.metadata.sorted_tables
    }


def copy(source: Ledger, target: Ledger, advance: _Advance) -> Mapping[str, int]:
    """Copy every row of a ledger into an empty one, in one transaction on each side.

    Processes may keep using the source meanwhile; what they write after the beginning is not copied. So stop
    them first.

    Args:
        source: a migrated ledger.
        target: a migrated ledger without rows.
        advance: called with how many rows were copied.

    Returns:
        Table → how many rows were copied.

    Raises:
        LedgerError: the target is not empty, a database failed, or the copy has other rows than the source;
            then nothing is in the target.
    """
    with source.read() as reader, target.write() as writer:
        if filled := [name for name, count in row_counts(writer).items() if count]:
            raise LedgerError(
                f"the ledger is not empty: it has rows in {', '.join(filled)}",
                where=target.place,
                fix="copy into a new, empty database",
            )
        for table in tables.metadata.sorted_tables:
            _copy_rows(reader, writer, table, advance)
        _continue_ids(writer)
        before, after = row_counts(reader), row_counts(writer)
        if before != after:
            raise LedgerError(
                "the copy has other rows than its source", where=target.place, fix="repeat the command"
            )
    return after


def _copy_rows(reader: Connection, writer: Connection, table: Table, advance: _Advance) -> None:
    rows = reader.execution_options(yield_per=_ROWS_AT_ONCE).execute(select(table))
    for portion in rows.mappings().partitions(_ROWS_AT_ONCE):
        writer.execute(insert(table), [dict(row) for row in portion])
        advance(len(portion))


def _continue_ids(writer: Connection) -> None:
    """Let the ids of new rows begin after the last one; SQLite does that automatically."""
    if writer.dialect.name == "sqlite":
        return
    for table in _NUMBERED:
        last = writer.scalars(select(func.max(table.c.id))).one()
        if last is not None:
            statement = text("SELECT setval(pg_get_serial_sequence(:table, 'id'), :last)")
            writer.execute(statement, {"table": table.name, "last": last})


_FORMAT = "camvo-ledger"
_VERSION = 1

_EXPORT_PORTION = 500
_rounds, _annotations, _calls = tables.rounds.c, tables.human_annotations.c, tables.calls.c

_Line = dict[str, Any]


def lines(connection: Connection, keys: Sequence[str] | None = None) -> Iterator[_Line]:
    """Yield the export's lines: a header, then projects, rounds, annotations and calls, each in their order.

    Args:
        connection: a read transaction; all lines are of its one snapshot.
        keys: the keys of the projects; ``None`` for all.
    """
    stored = [each for each in projects.list_all(connection) if keys is None or each.key in keys]
    yield {"type": "header", "format": _FORMAT, "version": _VERSION, "projects": len(stored)}
    for project in stored:
        yield {
            "type": "project",
            "project": project.key,
            "title": project.title,
            "label_config": project.label_config,
            "events": project.sequence,
            "feedback_refused": project.feedback_refused,
        }
        yield from _round_lines(connection, project.key)
        yield from _annotation_lines(connection, project.key)
        yield from _call_lines(connection, project.key)


def _round_lines(connection: Connection, project: str) -> Iterator[_Line]:
    query = select(tables.rounds).where(_rounds.project == project).order_by(_rounds.id)
    for portion in _exported(connection, query):
        ids = [row.id for row in portion]
        latest, further = recounts.latest(connection, ids), recounts.further_votes_of(connection, ids)
        for row in portion:
            recount = latest.get(row.id)
            yield {
                "type": "round",
                "project": row.project,
                "round": row.id,
                "task": row.task,
                "control": row.control,
                "epoch": row.epoch,
                "created_at": _time(row.created_at),
                "label": row.label,
                "score": row.score,
                "votes": row.votes,
                "further_votes": {vote.model: vote.vote for vote in further.get(row.id, ())},
                "confidences": row.plan.get("confidences", {}),
                "recounted_label": None if recount is None else recount.label,
                "recounted_score": None if recount is None else recount.score,
                "human": row.human,
                "confirmed": row.confirmed,
                "taught": row.taught,
                "taught_by": row.taught_by,
                "blind": row.audit,
                "pruned": row.pruned,
                "cost_usd": row.cost_usd,
                "full_cost_usd": row.full_cost_usd,
                "bounded_usd": row.bounded_usd,
                "reused_usd": row.reused_usd,
            }


def _annotation_lines(connection: Connection, project: str) -> Iterator[_Line]:
    query = select(tables.human_annotations).where(_annotations.project == project)
    for portion in _exported(connection, query.order_by(_annotations.annotation_id)):
        for row in portion:
            yield {
                "type": "annotation",
                "project": row.project,
                "annotation": row.annotation_id,
                "task": row.task,
                "updated_at": row.updated_at,
                "labels": row.labels,
                "annotator": row.completed_by,
                "ground_truth": row.ground_truth,
                "teaches": row.teaches,
                "prediction_shown": row.prediction_shown,
                "deleted": row.deleted,
                "withdrawn": row.withdrawn,
                "lead_time": row.lead_time,
            }


def _call_lines(connection: Connection, project: str) -> Iterator[_Line]:
    query = select(tables.calls).where(_calls.project == project).order_by(_calls.id)
    for portion in _exported(connection, query):
        for row in portion:
            yield {
                "type": "call",
                "project": row.project,
                "call": row.id,
                "task": row.task,
                "model": row.model,
                "state": row.state,
                "cost_usd": None if row.cost is None else from_picodollars(row.cost),
                "reserved_usd": from_picodollars(row.reserved),
                "input_tokens": row.input_tokens,
                "output_tokens": row.output_tokens,
                "error": row.error_code,
                "purse": row.purse,
                "seconds": row.seconds,
                "created_at": _time(row.created_at),
            }


def _exported(connection: Connection, query: Select[Any]) -> Iterator[Sequence[Row[Any]]]:
    """The rows of a query, a portion in memory at a time."""
    yield from (
        connection.execution_options(yield_per=_EXPORT_PORTION).execute(query).partitions(_EXPORT_PORTION)
    )


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


_EVENTS_AT_ONCE = 256


def _nothing(advanced: int) -> None:
    """Ignore progress."""


def _lessons(
    connection: Connection, name: StateKey, after: int, through: int, advance: _Advance = _nothing
) -> Iterator[list[Contribution]]:
    """Yield what a state's events after a number teach, up to another number, in order and in portions."""
    while portion := [
        event
        for event in ProjectEvents(connection, name.project).after(
            after, control=name.control, epoch=name.epoch, limit=_EVENTS_AT_ONCE
        )
        if event.sequence <= through
    ]:
        yield [Contribution.unpack(event.contribution) for event in portion]
        after = portion[-1].sequence
        advance(len(portion))


def _continued(connection: Connection, name: StateKey, base: Base | None, like: State, through: int) -> State:
    """The sum of a state's base and events up to a number, in the form of another state."""
    state, after = State(like.dimension, like.lambda_l, linear=like.linear), 0
    if base is not None:
        state, after = State.restore(base.state, linear=like.linear), base.sequence
        if state.lambda_l != like.lambda_l:
            state = state.with_ridge(like.lambda_l)
    for portion in _lessons(connection, name, after, through):
        state.add(*portion)
    return state


def _readable_snapshots(connection: Connection, name: StateKey) -> Iterator[tuple[Snapshot, State]]:
    """Yield a state's snapshots, the newest first, without those of another format."""
    for snapshot in StateRecords(connection, name).snapshots():
        try:
            yield snapshot, State.restore(snapshot.state)
        except SnapshotError:
            continue


@dataclass(frozen=True, slots=True)
class _Fold:
    """A project's events up to a number, to be replaced by their sums."""

    project: str
    through: int
    lambda_l: float
    now: float

    def run(self, ledger: Ledger, advance: _Advance) -> int:
        """Store the sums. The events stay until they are deleted with :meth:`ProjectEvents.delete_folded`."""
        made: list[tuple[Base, Base | None]] = []
        with ledger.read() as connection:
            for control, epoch in Prunable(connection, self.project).states_through(self.through):
                name = StateKey(self.project, control, epoch)
                previous = StateRecords(connection, name).base()
                if previous is None or previous.sequence < self.through:
                    made.append((self._sum(connection, name, previous, advance), previous))
        with ledger.write() as connection:
            for base, previous in made:
                events.replace_base(connection, base, previous)
        return len(made)

    def _sum(self, connection: Connection, name: StateKey, previous: Base | None, advance: _Advance) -> Base:
        state = None if previous is None else State.restore(previous.state)
        added, after = (0, 0) if previous is None else (previous.events, previous.sequence)
        for portion in _lessons(connection, name, after, self.through, advance):
            if state is None:
                state = State(len(portion[0].context), self.lambda_l)
            state.add(*portion)
            added += len(portion)
        if state is None:
            raise LedgerError("the state has no event", where=str(name), fix="repeat the command")
        packed = state.snapshot()
        base = Base(
            name.project, name.control, name.epoch, self.through, added, packed, digest_of(packed), self.now
        )
        _verify(connection, name, base, state)
        return base


def _verify(connection: Connection, name: StateKey, base: Base, state: State) -> None:
    """Check that the packed sum is the sum, and that it continues to each snapshot that a server has made."""
    wrong = _differences(State.restore(base.state), state)
    for snapshot, saved in _readable_snapshots(connection, name):
        if snapshot.sequence >= base.sequence and saved.dimension == state.dimension:
            wrong += _differences(_continued(connection, name, base, saved, snapshot.sequence), saved)
    if wrong:
        raise LedgerError(
            f"the sum of the events differs from what a server has summed: {', '.join(wrong)}",
            where=str(name),
            fix="run `camvo ledger verify`; nothing was folded",
        )


_EVENTS, _ROUNDS = 2000, 500
"""How many events and rounds one transaction changes: bounds how long the server's writes wait."""

_Item = TypeVar("_Item")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Pruned:
    """The effects of pruning a project.

    Attributes:
        project: the project's key.
        through: the number of the last event to be folded.
        events: how many events are folded.
        rounds: how many rounds lose their plan and context.
        answers: how many answers are deleted; 0 in a plan.
        lines: how many lines of providers' batches are deleted; 0 in a plan.
        bases: in a plan, how many questions, each in one epoch, get a base.
    """

    project: str
    through: int
    events: int
    rounds: int
    answers: int = 0
    lines: int = 0
    bases: int = 0


def planned(ledger: Ledger, project: str, age: float) -> Pruned:
    """Return what :func:`prune` would do.

    Args:
        ledger: the migrated ledger.
        project: the project's key.
        age: seconds; everything older is pruned.
    """
    with ledger.read() as connection:
        before = now(connection) - age
        old = Prunable(connection, project)
        through = old.last_older(before)
        events = old.count_through(through)
        rounds = _prunable(connection, project, before, through)
        return Pruned(project, through, events, len(rounds), bases=len(old.states_through(through)))


def prune(ledger: Ledger, project: str, age: float, *, lambda_l: float, advance: _Advance) -> Pruned:
    """Fold a project's old events into verified bases, and delete old contexts, answers and texts.

    Rounds keep their label, score, votes and cost, so that predictions are repeated and reports stay right.
    Blind rounds that wait for an answer are left alone, and so are rounds with an event that is not old.
    Servers may run meanwhile: after each transaction the function waits as long as that took. If it is
    interrupted, the same call does the rest.

    Args:
        ledger: the migrated ledger.
        project: the project's key.
        age: seconds; everything older is pruned.
        lambda_l: the ridge strength of the project's linear models.
        advance: called with how many events were added up.

    Raises:
        LedgerError: the ledger failed, or a sum is not what it must be; then nothing more was deleted.
    """
    with ledger.read() as connection:
        before = now(connection) - age
        old = Prunable(connection, project)
        through = old.last_older(before)
        first = old.first_event()
    _Fold(project, through, lambda_l, before + age).run(ledger, advance)
    folded = sum(
        written(
            ledger, lambda connection, span: ProjectEvents(connection, project).delete_folded(*span), span
        )
        for span in _ranges(first, through)
    )
    with ledger.read() as connection:
        ids = _prunable(connection, project, before, ProjectEvents(connection, project).folded_through())
    for portion in portions(ids, _ROUNDS):
        written(ledger, lambda connection, some: Prunable(connection, project).prune(some), portion)
    lines = written(ledger, lambda connection, at: Prunable(connection, project).forget_batches(at), before)
    return Pruned(project, through, folded, len(ids), _forget(ledger, project, before, ids), lines)


def forget_orphans(ledger: Ledger) -> int:
    """Delete the contexts of deleted tasks whose events are folded, and return how many those are."""
    with ledger.read() as connection:
        ids = deletions.orphaned_contexts(connection)
    for portion in portions(ids, _ROUNDS):
        written(ledger, deletions.forget_contexts, portion)
    return len(ids)


def _prunable(connection: Connection, project: str, before: float, folded: int) -> list[int]:
    old = Prunable(connection, project)
    needed = old.unfolded_rounds(folded)
    return [number for number in old.old_rounds(before) if number not in needed]


def _forget(ledger: Ledger, project: str, before: float, ids: Sequence[int]) -> int:
    """Delete the texts and answers that no round can use any more; return how many answers that were."""
    with ledger.read() as connection:
        old = Prunable(connection, project)
        tasks = set(old.stale_tasks(before))
        for portion in portions(ids, _ROUNDS):
            tasks |= set(old.pruned_tasks(portion))
    return sum(
        written(ledger, lambda connection, some: Prunable(connection, project).forget_texts(some), portion)
        for portion in portions(sorted(tasks), _ROUNDS)
    )


def written(ledger: Ledger, change: Callable[[Connection, _Item], _T], item: _Item) -> _T:
    """Change something in a write transaction, and let others write for as long as it took."""
    began = time.monotonic()
    with ledger.write() as connection:
        value = change(connection, item)
    time.sleep(time.monotonic() - began)
    return value


def _ranges(first: int, last: int) -> Iterator[tuple[int, int]]:
    for start in range(first, last + 1, _EVENTS):
        yield start, min(start + _EVENTS - 1, last)


_Kind = Literal["events", "state", "round", "money", "certificate"]


@dataclass(frozen=True, slots=True)
class _Problem:
    """An inconsistency in a ledger."""

    kind: _Kind
    where: str
    what: str


def problems(connection: Connection, advance: _Advance) -> Iterator[_Problem]:
    """Yield what is wrong in a ledger; nothing if it is sound.

    Args:
        connection: a read transaction. Everything is compared as it is in this one snapshot.
        advance: called with how many projects were checked.
    """
    for owner, scope, has, must in wrong_accounts(connection):
        yield _Problem(
            "money",
            f"account {owner}, {scope}",
            f"has {has[0]} spent and {has[1]} reserved, and its calls add up to {must[0]} and {must[1]}",
        )
    for project in projects.list_all(connection):
        yield from _wrong_numbers(connection, project.key, project.sequence)
        folded = {(base.control, base.epoch): base for base in ProjectEvents(connection, project.key).bases()}
        yield from _wrong_bases(folded)
        yield from _wrong_states(connection, project.key, project.sequence, folded)
        yield from _wrong_rounds(connection, project.key, folded)
        yield from _wrong_certificates(connection, project.key)
        advance(1)


def _wrong_certificates(connection: Connection, project: str) -> Iterator[_Problem]:
    """What nobody can have done to a certificate. That it no longer holds is no problem of the ledger."""
    for certificate, what in Certificates(connection, project).damages():
        yield _Problem("certificate", f"project {project}, certificate {certificate}", what)


def _wrong_numbers(connection: Connection, project: str, newest: int) -> Iterator[_Problem]:
    folded = ProjectEvents(connection, project).folded_through()
    later = Prunable(connection, project).count_after(folded)
    if later != newest - folded:
        what = f"it has {later} events after number {folded}, and the last has the number {newest}"
        yield _Problem("events", f"project {project}", what)


def _wrong_bases(folded: dict[tuple[str, str], Base]) -> Iterator[_Problem]:
    for base in folded.values():
        where = str(StateKey(base.project, base.control, base.epoch))
        if not base.whole:
            yield _Problem("state", where, "the bytes of its base are not those that were stored")
        try:
            State.restore(base.state)
        except SnapshotError as error:
            yield _Problem("state", where, f"its base cannot be read: {error}")


def _wrong_states(
    connection: Connection, project: str, newest: int, folded: dict[tuple[str, str], Base]
) -> Iterator[_Problem]:
    for control, epoch in Prunable(connection, project).states_through(newest):
        name, base = StateKey(project, control, epoch), folded.get((control, epoch))
        try:
            for snapshot, saved in _readable_snapshots(connection, name):
                if base is not None and snapshot.sequence < base.sequence:
                    continue
                if wrong := _differences(_continued(connection, name, base, saved, snapshot.sequence), saved):
                    yield _Problem(
                        "state", str(name), f"snapshot {snapshot.sequence} is not the sum: {', '.join(wrong)}"
                    )
        except SnapshotError:
            continue  # the base, which is reported already


def _wrong_rounds(
    connection: Connection, project: str, folded: dict[tuple[str, str], Base]
) -> Iterator[_Problem]:
    for learnt in ProjectEvents(connection, project).learnt_rounds():
        row = learnt.row
        if what := _wrong_round(learnt, is_folded=(row.control, row.epoch) in folded):
            yield _Problem("round", f"project {project}, task {row.task}, control {row.control}", what)


def _wrong_round(learnt: LearntRound, *, is_folded: bool) -> str | None:
    """Say what is wrong with a round; what it teaches is known while all its events are there."""
    if not len(learnt.context):
        return "its context is missing"
    firsts = sum(kind == "round" for kind, _ in learnt.events)
    if firsts > 1:
        return f"it was learnt {firsts} times"
    if not firsts:
        return None if is_folded else "it was never learnt"
    rewards: dict[str, float | None] = {}
    for _, packed in learnt.events:
        for change in Contribution.unpack(packed).changes:
            if rewards.get(change.arm) != change.removed:
                return f"a reward of {change.arm} was taken out that was not in"
            rewards[change.arm] = change.added
    row = learnt.row
    record = TaughtRound.stored(row.plan, learnt.context, learnt.votes, learnt.text)
    lesson = record.contribution(row.taught or row.label, human=row.taught_by == "human")
    if {arm: reward for arm, reward in rewards.items() if reward is not None} != {
        change.arm: change.added for change in lesson.changes if change.added is not None
    }:
        return "the state has other rewards than it teaches"
    return None

"""Pruning: old texts, answers and contexts go, and old events become their sum. What was learnt stays."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import Connection

from backend.errors import LedgerError
from backend.ledger import Ledger, deletions, events
from backend.ledger.database.statements import now
from backend.ledger.deletions import Prunable
from backend.ledger.events import Base, ProjectEvents, Snapshot, StateRecords, digest_of
from backend.upkeep.copying import differences
from camvo.errors import SnapshotError
from camvo.state.contribution import Contribution
from camvo.state.state import State

_PORTION = 256

Advance = Callable[[int], object]
"""Called with the number of events that were added up since the last call."""


@dataclass(frozen=True, slots=True)
class StateName:
    """One question of one project in one epoch."""

    project: str
    control: str
    epoch: str

    def __str__(self) -> str:
        return f"project {self.project}, control {self.control}, epoch {self.epoch}"


def nothing(advanced: int) -> None:
    """Ignore progress."""


def _lessons(
    connection: Connection, name: StateName, after: int, through: int, advance: Advance = nothing
) -> Iterator[list[Contribution]]:
    """Yield what a state's events after a number teach, up to another number, in order and in portions."""
    while portion := [
        event
        for event in ProjectEvents(connection, name.project).after(
            after, control=name.control, epoch=name.epoch, limit=_PORTION
        )
        if event.sequence <= through
    ]:
        yield [Contribution.unpack(event.contribution) for event in portion]
        after = portion[-1].sequence
        advance(len(portion))


def continued(connection: Connection, name: StateName, base: Base | None, like: State, through: int) -> State:
    """The sum of a state's base and events up to a number, in the form of another state."""
    state, after = State(like.dimension, like.lambda_l, linear=like.linear), 0
    if base is not None:
        state, after = State.restore(base.state, linear=like.linear), base.sequence
        if state.lambda_l != like.lambda_l:
            state = state.with_ridge(like.lambda_l)
    for portion in _lessons(connection, name, after, through):
        state.add(*portion)
    return state


def readable_snapshots(connection: Connection, name: StateName) -> Iterator[tuple[Snapshot, State]]:
    """Yield a state's snapshots, the newest first, without those of another format."""
    for snapshot in StateRecords(connection, name.project, name.control, name.epoch).snapshots():
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

    def run(self, ledger: Ledger, advance: Advance) -> int:
        """Store the sums. The events stay until they are deleted with :meth:`ProjectEvents.delete_folded`.

        Raises:
            LedgerError: a sum is not what it must be, so that nothing was stored, or another prune is
                running.
        """
        made: list[tuple[Base, Base | None]] = []
        with ledger.read() as connection:
            for control, epoch in Prunable(connection, self.project).states_through(self.through):
                previous = StateRecords(connection, self.project, control, epoch).base()
                if previous is None or previous.sequence < self.through:
                    name = StateName(self.project, control, epoch)
                    made.append((self._sum(connection, name, previous, advance), previous))
        with ledger.write() as connection:
            for base, previous in made:
                events.replace_base(connection, base, previous)
        return len(made)

    def _sum(self, connection: Connection, name: StateName, previous: Base | None, advance: Advance) -> Base:
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


def _verify(connection: Connection, name: StateName, base: Base, state: State) -> None:
    """Check that the packed sum is the sum, and that it continues to each snapshot that a server has made."""
    wrong = differences(State.restore(base.state), state)
    for snapshot, saved in readable_snapshots(connection, name):
        if snapshot.sequence >= base.sequence and saved.dimension == state.dimension:
            wrong += differences(continued(connection, name, base, saved, snapshot.sequence), saved)
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
    """

    project: str
    through: int
    events: int
    rounds: int
    answers: int = 0
    lines: int = 0


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
        return Pruned(project, through, events, len(rounds))


def prune(ledger: Ledger, project: str, age: float, *, lambda_l: float, advance: Advance) -> Pruned:
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
        _written(
            ledger, lambda connection, span: ProjectEvents(connection, project).delete_folded(*span), span
        )
        for span in _ranges(first, through)
    )
    with ledger.read() as connection:
        ids = _prunable(connection, project, before, ProjectEvents(connection, project).folded_through())
    for portion in _portions(ids):
        _written(ledger, lambda connection, some: Prunable(connection, project).prune(some), portion)
    lines = _written(ledger, lambda connection, at: Prunable(connection, project).forget_batches(at), before)
    return Pruned(project, through, folded, len(ids), _forget(ledger, project, before, ids), lines)


def forget_orphans(ledger: Ledger) -> int:
    """Delete the contexts of deleted tasks whose events are folded, and return how many those are."""
    with ledger.read() as connection:
        ids = deletions.orphaned_contexts(connection)
    for portion in _portions(ids):
        _written(ledger, deletions.forget_contexts, portion)
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
        for portion in _portions(ids):
            tasks |= set(old.pruned_tasks(portion))
    return sum(
        _written(ledger, lambda connection, some: Prunable(connection, project).forget_texts(some), portion)
        for portion in _portions(sorted(tasks))
    )


def _written(ledger: Ledger, change: Callable[[Connection, _Item], _T], item: _Item) -> _T:
    """Change something in a write transaction, and let others write for as long as it took."""
    began = time.monotonic()
    with ledger.write() as connection:
        value = change(connection, item)
    time.sleep(time.monotonic() - began)
    return value


def _ranges(first: int, last: int) -> Iterator[tuple[int, int]]:
    for start in range(first, last + 1, _EVENTS):
        yield start, min(start + _EVENTS - 1, last)


def _portions(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(ids), _ROUNDS):
        yield ids[start : start + _ROUNDS]

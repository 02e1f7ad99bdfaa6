"""The sums of a ledger's events, added up portion by portion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlalchemy import Connection

from backend.ledger import events, snapshots
from backend.ledger.retention.bases import Base
from backend.ledger.snapshots import Snapshot
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
    """Takes note of no progress."""


def lessons(
    connection: Connection, name: StateName, after: int, through: int, advance: Advance = nothing
) -> Iterator[list[Contribution]]:
    """Yield what a state's events after a number teach, up to another number, in order and in portions."""
    while portion := [
        event
        for event in events.after(
            connection, name.project, after, control=name.control, epoch=name.epoch, limit=_PORTION
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
    for portion in lessons(connection, name, after, through):
        state.add(*portion)
    return state


def readable_snapshots(connection: Connection, name: StateName) -> Iterator[tuple[Snapshot, State]]:
    """Yield a state's snapshots, the newest first, without those of another format."""
    for snapshot in snapshots.latest(connection, name.project, name.control, name.epoch):
        try:
            yield snapshot, State.restore(snapshot.state)
        except SnapshotError:
            continue

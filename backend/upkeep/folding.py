"""Old events are folded: a base, their verified sum, takes their place."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from backend.errors import LedgerError
from backend.ledger import Ledger
from backend.ledger.retention import bases, prunable
from backend.ledger.retention.bases import Base, digest_of
from backend.upkeep.comparison import differences
from backend.upkeep.sums import Advance, StateName, continued, lessons, readable_snapshots
from camvo.state.state import State


@dataclass(frozen=True, slots=True)
class Fold:
    """A project's events up to a number, to be replaced by their sums.

    Attributes:
        project: the project's key.
        through: the number of the last event.
        lambda_l: the ridge strength of the linear models in the sums.
        now: unix seconds.
    """

    project: str
    through: int
    lambda_l: float
    now: float

    def run(self, ledger: Ledger, advance: Advance) -> int:
        """Store the sums. The events stay until they are deleted with :func:`bases.delete_folded`.

        Args:
            ledger: the migrated ledger; other processes may write to it meanwhile.
            advance: called with how many events were added up.

        Returns:
            How many states have a new base.

        Raises:
            LedgerError: a sum is not what it must be, so that nothing was stored, or another prune is
                running.
        """
        made: list[tuple[Base, Base | None]] = []
        with ledger.read() as connection:
            for control, epoch in prunable.states_through(connection, self.project, self.through):
                previous = bases.get(connection, self.project, control, epoch)
                if previous is None or previous.sequence < self.through:
                    name = StateName(self.project, control, epoch)
                    made.append((self._sum(connection, name, previous, advance), previous))
        with ledger.write() as connection:
            for base, previous in made:
                bases.replace(connection, base, previous)
        return len(made)

    def _sum(self, connection: Connection, name: StateName, previous: Base | None, advance: Advance) -> Base:
        state = None if previous is None else State.restore(previous.state)
        added, after = (0, 0) if previous is None else (previous.events, previous.sequence)
        for portion in lessons(connection, name, after, self.through, advance):
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

"""A question's blind tasks as reports read them, and the counting whose labels they certify."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, select

from backend.ledger.database import tables
from backend.ledger.database.upsert import insert_or_replace
from camvo.scores.blind_queue import BlindTask, unbroken_run

_table = tables.blind_queues
_columns = _table.c


@dataclass(frozen=True, slots=True)
class QueuedTask(BlindTask):
    """An entry of the queue, as reports read it.

    Attributes:
        counting: hash of what the models' votes were counted to: the label, the score, and the plan with its
            weights.
        answers: hash of the human answers that stand, by annotation; empty without one.
        closed_through: on the entry whose answer closed its cohort, the newest round of the project then.
        recount: the number of the counting that fixed its label and score, 0 for the first.
        round_id: its round.
    """

    counting: str
    answers: str
    closed_through: int | None
    recount: int
    round_id: int = 0


@dataclass(frozen=True, slots=True)
class BlindQueue:
    """A question's blind tasks in the order of the queue.

    Attributes:
        entries: those of all countings.
        recount: the number of the question's latest counting that changed labels or scores, 0 for the first.
            Entries of earlier countings certify nothing any more.
    """

    entries: tuple[QueuedTask, ...] = ()
    recount: int = 0

    def __iter__(self) -> Iterator[QueuedTask]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def latest(self) -> list[QueuedTask]:
        """The entries whose label and score are of the latest counting."""
        return [entry for entry in self.entries if entry.recount == self.recount]

    @property
    def void(self) -> list[QueuedTask]:
        """The entries that certified labels of earlier countings."""
        return [entry for entry in self.entries if entry.recount < self.recount]

    @property
    def run(self) -> list[QueuedTask]:
        """The entries that certify: those of the latest counting that are answered without a gap."""
        latest = self.latest
        return latest[: len(unbroken_run(latest))]

    @property
    def behind(self) -> list[QueuedTask]:
        """The entries of the latest counting behind the run."""
        latest = self.latest
        return latest[len(unbroken_run(latest)) :]

    @property
    def ends(self) -> dict[int, int]:
        """Cohort → the last round that it stands for; a cohort that nobody has answered is absent."""
        return {
            entry.cohort: entry.closed_through for entry in self.entries if entry.closed_through is not None
        }


def countings_of(connection: Connection, project: str) -> dict[tuple[str, str], int]:
    """Return (control, epoch) → the number of the latest counting that changed its labels or scores."""
    query = select(_columns.control, _columns.epoch, _columns.recount).where(_columns.project == project)
    return {(row.control, row.epoch): row.recount for row in connection.execute(query)}


def counting_of(connection: Connection, project: str, control: str, epoch: str) -> int:
    """Return the number of the latest counting that changed a question, 0 for the first."""
    query = select(_columns.recount).where(
        _columns.project == project, _columns.control == control, _columns.epoch == epoch
    )
    return connection.scalars(query).one_or_none() or 0


def begin_queue(connection: Connection, project: str, control: str, epoch: str, recount: int) -> None:
    """Note that a counting has changed a question's labels or scores."""
    row = {"project": project, "control": control, "epoch": epoch, "recount": recount}
    connection.execute(insert_or_replace(connection.dialect, _table), row)

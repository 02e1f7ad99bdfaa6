"""What belongs to rounds, copied to the rounds that were made of them for another label scheme."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, delete, or_, select, update

from backend.ledger.blind_tasks import counting_hash
from backend.ledger.database import tables
from backend.ledger.database.statements import among, insert_new, insert_or_replace, portions
from backend.ledger.rounds import add_votes

_rounds, _votes, _carryings = tables.rounds.c, tables.votes, tables.carryings
_PORTION = 500

_Row = dict[str, Any]


def votes_of(connection: Connection, ids: Sequence[int]) -> dict[int, list[_Row]]:
    """Return round → the rows of its votes, as :func:`backend.ledger.rounds.add_votes` stores them."""
    found: dict[int, list[_Row]] = {number: [] for number in ids}
    query = select(_votes).where(among(_votes.c.round_id, ids))
    for row in connection.execute(query):
        found[row.round_id].append(dict(row._mapping))
    return found


def copy_votes(connection: Connection, pairs: Mapping[int, int]) -> None:
    """Copy the rows of votes: old round → new round."""
    rows = votes_of(connection, list(pairs))
    add_votes(connection, [row | {"round_id": pairs[old]} for old, of in rows.items() for row in of])


@dataclass(frozen=True, slots=True)
class CarryProgress:
    """How far a question's rounds are carried over, by whichever process; there is none once all are.

    Attributes:
        fresh: whether the new scheme had no state before, so that it takes over all that was learnt.
        sequence: the number of the last event that is dealt with.
        number: the id of the last round that is dealt with besides.
    """

    fresh: bool
    sequence: int = 0
    number: int = 0


@dataclass(frozen=True, slots=True)
class CarriedRounds:
    """One question's rounds of one epoch that were made of those of another, in a write transaction."""

    connection: Connection
    project: str
    control: str
    source: str
    epoch: str

    def progress(self) -> CarryProgress | None:
        """Return how far this is, ``None`` before it begins and after it has ended."""
        query = select(_carryings.c.fresh, _carryings.c.sequence, _carryings.c.number)
        row = self.connection.execute(query.where(*self._row, _carryings.c.source == self.source)).first()
        return None if row is None else CarryProgress(**row._mapping)

    def keep(self, progress: CarryProgress) -> None:
        """Record how far this is."""
        row = {"project": self.project, "control": self.control, "epoch": self.epoch, "source": self.source}
        row |= {name: getattr(progress, name) for name in CarryProgress.__slots__}
        self.connection.execute(insert_or_replace(_carryings), row)

    def end(self) -> None:
        """Record that all is carried over, so that it begins again when the labels change once more."""
        self.connection.execute(delete(_carryings).where(*self._row))

    @property
    def _row(self) -> tuple[ColumnElement[bool], ...]:
        of = _carryings.c
        return of.project == self.project, of.control == self.control, of.epoch == self.epoch

    def pairs(self) -> dict[int, int]:
        """Return old round → new round, by the new one's id.

        Where labels came back, the new one may be what the old one was made of.
        """
        old, new = tables.rounds.alias().c, tables.rounds.alias().c
        made = or_(new.carried_from == old.id, old.carried_from == new.id)
        query = (
            select(old.id.label("old"), new.id.label("new"))
            .where(old.project == self.project, old.control == self.control, old.epoch == self.source)
            .where(new.project == old.project, new.task == old.task, new.control == old.control)
            .where(new.question == old.question, new.epoch == self.epoch, made)
            .order_by(new.id)
        )
        return {row.old: row.new for row in self.connection.execute(query)}

    def copy_beside(self, vote: Callable[[str], str | None]) -> list[int]:
        """Copy what belongs to the rounds: countings, further votes and blind labels.

        Args:
            vote: the vote under the new labels; ``None`` for one on a label that is dropped.

        Returns:
            The tasks with further votes, which do not teach yet.
        """
        pairs = self.pairs()
        for table in (tables.recounts, tables.recount_checks):
            mapped = ((row, vote(row["label"])) for row in self._beside(table, pairs))
            self._insert(table, (row | {"label": label} for row, label in mapped if label is not None))
        further = [
            row | {"vote": row["vote"] and vote(row["vote"]), "taught": False, "cost_usd": 0.0}
            for row in self._beside(tables.further_votes, pairs)
        ]
        self._insert(tables.further_votes, further)
        for table in (tables.blind_queues, tables.pack_checks):
            self._insert(table, self._of_source(table))
        self._insert(tables.blind_tasks, self._blind(pairs, vote))
        return sorted({row["task"] for row in further})

    def _blind(self, pairs: Mapping[int, int], vote: Callable[[str], str | None]) -> Iterator[_Row]:
        """The blind tasks. What people said of a label stays said, so merging certifies no more.

        Nor does the label of a deleted task, which counts as wrong, come back.
        """
        found = self._of_source(tables.blind_tasks)
        chosen = among(_rounds.id, [row["round_id"] for row in found])
        labels = {
            row.id: row.label
            for row in self.connection.execute(select(_rounds.id, _rounds.label).where(chosen))
        }
        old = sorted(pairs)
        through = list(accumulate((pairs[number] for number in old), max))
        carried = list[_Row]()
        for row in found:
            number, label = pairs.get(row["round_id"]), labels.get(row["round_id"])
            if number is not None and label is not None and (new := vote(label)) is not None:
                counting = counting_hash(new, row["score"], {"carried": number})
                carried.append(row | {"round_id": number, "counting": counting})
            elif label is None:
                carried.append(row)
        for row in _closed(carried, found):
            if row["closed_through"] is not None and (before := bisect_right(old, row["closed_through"])):
                row |= {"closed_through": through[before - 1]}
            yield row

    def _beside(self, table: Table, pairs: Mapping[int, int]) -> Iterator[_Row]:
        """The rows of a table that are of old rounds, as rows of the new ones."""
        old = list(pairs)
        for rounds in portions(old, _PORTION):
            some = among(table.c.round_id, rounds)
            for row in self.connection.execute(select(table).where(some)).all():
                yield {**row._mapping, "round_id": pairs[row.round_id]}

    def _of_source(self, table: Table) -> list[_Row]:
        query = select(table).where(
            table.c.project == self.project, table.c.control == self.control, table.c.epoch == self.source
        )
        rows = [{**row._mapping, "epoch": self.epoch} for row in self.connection.execute(query)]
        return [{name: value for name, value in row.items() if name != "id"} for row in rows]

    def _insert(self, table: Table, rows: Iterable[_Row]) -> None:
        if listed := list(rows):
            self.connection.execute(insert_new(table), listed)


def _closed(kept: Sequence[_Row], found: Sequence[_Row]) -> Iterator[_Row]:
    """Blind tasks that were kept of those found, in cohorts that are closed as they were.

    If the task whose answer closed a cohort is not kept, another one remembers what the cohort represents.
    """
    ends = {row["cohort"]: row["closed_through"] for row in found if row["closed_through"] is not None}
    known = {row["cohort"] for row in kept if row["closed_through"] is not None}
    for row in kept:
        if row["cohort"] in ends.keys() - known:
            known.add(row["cohort"])
            row |= {"closed_through": ends[row["cohort"]]}
        yield row


def lock(connection: Connection, project: str) -> None:
    """Let nobody else append events to a project until the transaction ends."""
    of = tables.projects
    connection.execute(update(of).where(of.c.key == project).values(sequence=of.c.sequence))

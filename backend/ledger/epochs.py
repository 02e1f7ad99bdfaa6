"""A question's rounds by epoch: what was decided, how two epochs compare, and rounds carried over."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Table, and_, case, delete, func, or_, select

from backend.ledger.blind_tasks import counting_hash
from backend.ledger.database import tables
from backend.ledger.database.statements import among, insert_new, insert_or_replace, portions
from backend.ledger.recounts import latest
from backend.ledger.rounds import QuestionRounds, add_votes

_rounds, _votes, _carryings = tables.rounds.c, tables.votes, tables.carryings
_PORTION = 500

_MOST_AGAIN = 0.9
"""The share of the tasks that were asked about again whose scores are compared with those of the others."""


@dataclass(frozen=True, slots=True)
class DecidedTask:
    """A task with a round on a question.

    Attributes:
        round_id: the round.
        place: the task, and what models were shown of it.
        label: its label, by the latest counting.
        score: the probability that it is right, by the latest counting.
        votes: arm → vote, ``None`` where the model gave none.
        human: what people say; ``None`` while they say nothing.
        audit: whether it was kept blind.
        carried: whether its round was made of one with other labels.
    """

    round_id: int
    place: tuple[int, str]
    label: str
    score: float
    votes: Mapping[str, str | None]
    human: str | None
    audit: bool = False
    carried: bool = False

    @property
    def deciding(self) -> str | None:
        """What people say, if it may decide what becomes of the task; ``None`` for a blind one.

        A blind task stands for those that nobody has labelled, so it must fare as they do: else errors that
        people have found would leave the blind tasks, and stay among the others.
        """
        return None if self.audit else self.human


class EpochSummary(NamedTuple):
    """The labels of a question in one epoch.

    Attributes:
        labels: how many there are.
        scores: the sum of their scores.
        judged: how many people have judged.
        right: the sum of what these say, in [0, 1] each.
    """

    labels: int
    scores: float
    judged: int
    right: float


class DecidedRounds(QuestionRounds):
    """The rounds on one question in one epoch, for what was decided in them."""

    def tasks(self) -> Iterator[DecidedTask]:
        """Yield the task of each round, by the round's id."""
        decided = (_rounds.id, _rounds.task, _rounds.question, _rounds.label, _rounds.score, _rounds.votes)
        columns = (*decided, _rounds.human, _rounds.audit, _rounds.carried_from)
        query, last = select(*columns).where(self.condition).order_by(_rounds.id).limit(_PORTION), 0
        while rows := self.connection.execute(query.where(_rounds.id > last)).all():
            last = rows[-1].id
            counted = latest(self.connection, [row.id for row in rows])
            for row in rows:
                now = counted.get(row.id, row)
                carried = row.carried_from is not None
                votes = (row.votes, row.human, row.audit, carried)
                yield DecidedTask(row.id, (row.task, row.question), now.label, now.score, *votes)

    def summary(self) -> EpochSummary:
        """Count the labels, and how right they are."""
        confirmed = (func.count(_rounds.confirmed), func.sum(_rounds.confirmed))
        sums = select(func.count(), func.sum(_rounds.score), *confirmed).where(self.condition)
        labels, scores, judged, right = self.connection.execute(sums).one()
        return EpochSummary(labels, scores or 0.0, judged, right or 0.0)

    def places(self) -> set[tuple[int, str]]:
        """Return the tasks with a round, each with what models were shown of it."""
        query = select(_rounds.task, _rounds.question).where(self.condition)
        return {(row.task, row.question) for row in self.connection.execute(query)}


class TaskCosts(NamedTuple):
    """What the calls about a task have cost on average, in $, where models were asked; 0 without one.

    Attributes:
        usd: what they cost.
        everyone_usd: what asking every model would have cost.
    """

    usd: float
    everyone_usd: float


def costs_of_a_task(connection: Connection, project: str, control: str) -> TaskCosts:
    """Return what the calls about a task of a question have cost."""
    paid = func.avg(_rounds.cost_usd + _rounds.reused_usd)  # new tasks have no answers that could be reused
    costs = select(paid, func.avg(_rounds.full_cost_usd)).where(
        _rounds.project == project, _rounds.control == control, _rounds.carried_from.is_(None)
    )
    usd, everyone = connection.execute(costs).one()
    return TaskCosts(float(usd or 0.0), float(everyone or 0.0))


@dataclass(frozen=True, slots=True)
class _AskedByScore:
    """Which tasks of an epoch models were asked about in another one, too.

    Attributes:
        again: how many.
        left: how many others the first epoch has.
        left_above: how many of those have a higher score than nine in ten that were asked about again.
    """

    again: int
    left: int
    left_above: int

    @property
    def selected(self) -> bool:
        """Whether only tasks with low scores were asked about again; chance would hardly choose these."""
        return 2 * self.left_above > self.left


def asked_by_score(
    connection: Connection, project: str, control: str, before: str, after: str
) -> _AskedByScore:
    """Compare the scores of an epoch's tasks that models were asked about in a later one with the others."""
    first, second, both = _both(project, control, before, after)
    number = connection.scalars(select(func.count()).select_from(both)).one()
    # A few tasks that were asked about for other reasons do not hide that the others were selected.
    place = max(math.ceil(_MOST_AGAIN * number) - 1, 0)
    scores = select(first.score).select_from(both).order_by(first.score).offset(place).limit(1)
    high = connection.scalars(scores).first()
    of_first = (first.project == project, first.control == control, first.epoch == before)
    asked = select(second.id).where(
        second.project == first.project,
        second.control == first.control,
        second.task == first.task,
        second.question == first.question,
        second.epoch == after,
    )
    above = func.count(case((first.score > (high or 0.0), 1)))
    left = select(func.count(), above).where(*of_first, ~asked.exists())
    others, left_above = connection.execute(left).one()
    return _AskedByScore(number, others, left_above)


@dataclass(frozen=True, slots=True)
class JudgedTwice:
    """A task with a label in two epochs, and what people say of both, in [0, 1]."""

    task: int
    before: float
    after: float


def judged_twice(
    connection: Connection, project: str, control: str, before: str, after: str
) -> list[JudgedTwice]:
    """Return the tasks that models were asked about in both epochs, in the order in which they were judged.

    Left out are tasks whose annotators saw a prediction: they may lean on the label of the earlier epoch.
    """
    first, second, both = _both(project, control, before, after)
    people = tables.human_annotations.c
    judged = (
        select(people.task, func.max(people.received_at).label("at"))
        .where(people.project == project, ~people.deleted, people.task.is_not(None))
        .group_by(people.task)
        .having(func.count(case((people.prediction_shown, 1))) == 0)
        .subquery()
    )
    rows = connection.execute(
        select(first.task, first.confirmed.label("before"), second.confirmed.label("after"))
        .select_from(both.join(judged, judged.c.task == first.task))
        .where(first.confirmed.is_not(None), second.confirmed.is_not(None))
        .add_columns(judged.c.at, second.created_at)
    ).all()
    ordered = sorted(rows, key=lambda row: (max(row.at, row.created_at), row.task))
    return [JudgedTwice(row.task, row.before, row.after) for row in ordered]


def _both(project: str, control: str, before: str, after: str) -> tuple[Any, Any, Any]:
    """The rounds of two epochs in which models voted, beside one another: both rows, and the join."""
    first, second = tables.rounds.alias(), tables.rounds.alias()
    same = (
        first.c.project == project,
        first.c.control == control,
        first.c.epoch == before,
        second.c.project == project,
        second.c.control == control,
        second.c.epoch == after,
        second.c.task == first.c.task,
        second.c.question == first.c.question,
    )
    return first.c, second.c, first.join(second, and_(*same))


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

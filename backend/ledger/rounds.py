"""Rounds: the records of how one question on one task was planned, voted on and decided."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from itertools import groupby
from types import MappingProxyType
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)

from backend.errors import LedgerError
from backend.ledger.database import tables
from backend.ledger.database.packing import TEXT, pack_context, unpack_context, unpack_text
from backend.ledger.database.statements import (
    among,
    delete_tasks,
    found_among,
    insert_new,
    insert_or_replace,
    portions,
)
from backend.ledger.projects import Schemes, relabelled_in
from camvo.student import Ngrams, sealed
from camvo.typing import Array
from camvo.votes.relabelling import LabelChange

_accepted = tables.accepted
_OF_TASK = select(_accepted).where(
    _accepted.c.project == bindparam("of"), _accepted.c.task == bindparam("number")
)


@dataclass(frozen=True, slots=True)
class Accepted:
    """One accepted task.

    Attributes:
        project: the project's key.
        task: the task's number.
        annotation_id: Label Studio's id of the annotation; ``None`` until it is known.
        labels: control → the accepted label.
        score: the prediction's score.
        certified: whether blind labels certified it.
        accepted_at: unix seconds.
    """

    project: str
    task: int
    annotation_id: int | None
    labels: Mapping[str, str]
    score: float
    certified: bool
    accepted_at: float


@dataclass(frozen=True, slots=True)
class AcceptedTasks:
    """A project's tasks whose prediction was accepted as their label."""

    connection: Connection
    project: str

    def store(self, accepted: Sequence[Accepted]) -> None:
        """Store accepted tasks; an earlier record of a task is replaced."""
        for each in accepted:
            row = {field.name: getattr(each, field.name) for field in fields(Accepted)}
            row |= {"project": self.project, "labels": dict(each.labels)}
            self.connection.execute(insert_or_replace(_accepted), row)

    def set_annotation(self, task: int, annotation_id: int) -> None:
        """Record which annotation an accepted task got."""
        self.connection.execute(
            update(_accepted)
            .where(_accepted.c.project == self.project, _accepted.c.task == task)
            .values(annotation_id=annotation_id)
        )

    def all(self) -> list[Accepted]:
        """Return a project's accepted tasks, by number."""
        query = select(_accepted).where(_accepted.c.project == self.project).order_by(_accepted.c.task)
        return [Accepted(**row._mapping) for row in self.connection.execute(query)]

    def has_label(self, task: int, annotation_id: int, labels: Mapping[str, str]) -> bool:
        """Whether an annotation is an accepted prediction that nobody has changed, however it is reported.

        The webhook may arrive before Label Studio has reported which annotation it made; then the labels
        decide. They are compared in the names that they have now (``camvo relabel``).
        """
        row = self.connection.execute(_OF_TASK, {"of": self.project, "number": task}).one_or_none()
        if row is None or row.annotation_id not in {None, annotation_id}:
            return False
        changes = relabelled_in(self.connection, [self.project]).get(self.project, {})
        return labels.keys() == row.labels.keys() and all(
            label in _names(row.labels[control], changes.get(control, ()))
            for control, label in labels.items()
        )

    def forget(self, tasks: Sequence[int]) -> None:
        """Forget accepted tasks: they are no longer accepted."""
        delete_tasks(self.connection, _accepted, self.project, tasks)


def _names(label: str, changes: Sequence[LabelChange]) -> list[str]:
    """The names that a label has had since, with its own."""
    names = [label]
    for name in names:  # grows while it is read
        later = (change.labels.get(name) for change in changes)
        names += [new for new in dict.fromkeys(later) if new is not None and new not in names]
    return names


_table, _contexts, _schemes = tables.rounds, tables.contexts, tables.schemes

_ROWS_PER_QUERY = 500
_ROUNDS = select(_table, _contexts.c.context).outerjoin(_contexts, _contexts.c.round_id == _table.c.id)
_FIND = _ROUNDS.where(_table.c.project == bindparam("of"), among(_table.c.task, "tasks"))
_KEEP_CONTEXT = insert(_contexts)
_REPLACE_CONTEXT = (
    update(_contexts).where(_contexts.c.round_id == bindparam("number")).values(context=bindparam("beside"))
)

Teacher = Literal["vote", "human"]


@dataclass(frozen=True, slots=True, order=True)
class RoundKey:
    """The identity of a round: there is one round per key.

    Attributes:
        project: the project's key.
        task: the task's number.
        control: the name of the question's control tag.
        question: hash of what the models were shown.
        epoch: hash that changes with the question's labels, the prompt or the embedder.
    """

    project: str
    task: int
    control: str
    question: str
    epoch: str


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Round:
    """One finished round.

    Attributes:
        key: the round's identity.
        plan: the plan as JSON, with the policy's uncalibrated ``score``.
        votes: arm → label, ``None`` where the model gave no vote.
        label: the voted label.
        score: the probability that the voted label is right, in [0, 1].
        cost_usd: cost of the round's calls, in $.
        full_cost_usd: cost of querying every model, in $.
        audit: whether the prediction was held back for blind labelling.
        taught: the label from which the rewards in the state were computed, ``None`` if there are none.
        taught_by: whether ``taught`` is the voted or the human label.
        context: e_t, shape (d,), float64; stored in 16 or 32 bits where that loses nothing. Shape (0,) once
            the round is pruned.
        created_at: unix seconds.
        text: the n-grams of the text that teaches the student, stored beside the context and deleted with it,
            or their seal; empty without one.
        human: the human label, whether or not it teaches; ``None`` while there is none.
        confirmed: agreement of the voted label with the human one, in [0, 1]; ``None`` without one.
        pruned: whether its context and most of its plan are deleted, so that people can teach it nothing.
        missing: arm → the code of the reason why it gave no vote, for those that may still give one
            (:class:`IncompleteRounds`); ``None`` if the round is complete.
        audited: whether chance could have held it back; if not, no blind task represents its task.
        planned_at: when it was decided whom to ask, unix seconds.
        bounded_usd: the part of ``full_cost_usd`` of which only an upper bound is known.
        reused: the answers that other tasks had paid for, shared among the task's questions like their cost.
        reused_usd: the part of ``full_cost_usd`` that is theirs; ``cost_usd`` does not have it.
        carried_from: the round of an earlier label scheme that it was made of, so that nobody was asked;
            ``None`` for one that models voted in.
        id: the row's id, 0 before the round is stored; ids are never reused.
    """

    key: RoundKey
    plan: Mapping[str, Any]
    votes: Mapping[str, str | None]
    label: str
    score: float
    cost_usd: float
    full_cost_usd: float
    audit: bool
    taught: str | None
    taught_by: Teacher | None
    context: Array
    created_at: float
    text: Ngrams = b""
    human: str | None = None
    confirmed: float | None = None
    pruned: bool = False
    missing: Mapping[str, str] | None = None
    audited: bool = True
    planned_at: float = 0.0
    bounded_usd: float = 0.0
    reused: float = 0.0
    reused_usd: float = 0.0
    carried_from: int | None = None
    id: int = 0


_FIND_SHOWN = select(_table.c.task).where(
    _table.c.project == bindparam("of"), among(_table.c.task, "numbers"), ~_table.c.audit
)


def shown_among(connection: Connection, tasks: Iterable[tuple[str, int]]) -> set[tuple[str, int]]:
    """Return those of the tasks that have a round whose prediction was not held back, in any epoch."""
    return found_among(connection, _FIND_SHOWN, tasks)


def find_by_key(connection: Connection, keys: Sequence[RoundKey]) -> dict[RoundKey, Round]:
    """Return the stored rounds by key; keys without a round are absent."""
    unique_keys = set(keys)
    rounds: dict[RoundKey, Round] = {}
    for project, project_keys in groupby(sorted(unique_keys), key=lambda key: key.project):
        values = {"of": project, "tasks": sorted({key.task for key in project_keys})}
        batch = (_round(row) for row in connection.execute(_FIND, values))
        rounds |= {round_.key: round_ for round_ in batch if round_.key in unique_keys}
    return rounds


_CHANGES = select(_schemes.c.control, _schemes.c.source, _schemes.c.labels).where(
    _schemes.c.project == bindparam("of"), _schemes.c.source.is_not(None)
)
_EPOCHS = select(_table.c.task, _table.c.control, _table.c.epoch).where(
    _table.c.project == bindparam("of"), among(_table.c.task, "tasks")
)


def asked_before_labels_changed(connection: Connection, keys: Collection[RoundKey]) -> set[RoundKey]:
    """Return those of some new rounds whose tasks have one from before labels changed.

    They are asked about again because the change concerns them, so they are no random tasks.
    """
    found = set[RoundKey]()
    for project in sorted({key.project for key in keys}):
        changes = connection.execute(_CHANGES, {"of": project})
        if not (sources := {(row.control, row.source) for row in changes if row.labels}):
            continue
        mine = [key for key in keys if key.project == project]
        values = {"of": project, "tasks": sorted({key.task for key in mine})}
        earlier = connection.execute(_EPOCHS, values)
        again = {(row.task, row.control) for row in earlier if (row.control, row.epoch) in sources}
        found |= {key for key in mine if (key.task, key.control) in again}
    return found


def find_by_id(connection: Connection, ids: Iterable[int]) -> dict[int, Round]:
    """Return the stored rounds by id; those that are deleted are absent."""
    query = _ROUNDS.where(among(_table.c.id, list(ids)))
    return {row.id: _round(row) for row in connection.execute(query)}


_INSERT = insert_new(_table).returning(_table.c.id, *(_table.c[field.name] for field in fields(RoundKey)))


def insert_each(connection: Connection, new: Sequence[Round]) -> list[int]:
    """Store new rounds and return their ids.

    Raises:
        LedgerError: a round with one of these keys is stored already, or two have the same key.
    """
    if not new:
        return []
    ids = {
        RoundKey(row.project, row.task, row.control, row.question, row.epoch): int(row.id)
        for row in connection.execute(_INSERT, [_row_of(round_) for round_ in new])
    }
    for round_ in new:
        if round_.key not in ids or len(ids) < len(new):
            raise LedgerError(
                "the ledger already holds this round",
                where=f"project {round_.key.project}, task {round_.key.task}, control {round_.key.control}",
                fix="look it up with rounds.find_by_key first, in the same transaction",
            )
    beside = [
        {"round_id": ids[round_.key], "context": pack_context(round_.context, round_.text)}
        for round_ in new
        if not round_.pruned
    ]
    if beside:
        connection.execute(_KEEP_CONTEXT, beside)
    return [ids[round_.key] for round_ in new]


def _row_of(round_: Round) -> dict[str, Any]:
    row = {field.name: getattr(round_, field.name) for field in fields(Round)}
    del row["id"], row["key"], row["context"], row["text"]
    return row | {field.name: getattr(round_.key, field.name) for field in fields(RoundKey)}


@dataclass(frozen=True, slots=True)
class QuestionRounds:
    """The rounds on one question in one epoch, in a transaction."""

    connection: Connection
    project: str
    control: str
    epoch: str

    @property
    def condition(self) -> ColumnElement[bool]:
        """The condition that a round is about this question in this epoch."""
        return and_(
            _table.c.project == self.project, _table.c.control == self.control, _table.c.epoch == self.epoch
        )

    def answered(self) -> list[Round]:
        """Return the rounds with a human label, of each task its latest, by id; none is pruned."""
        query = (
            _ROUNDS.where(self.condition)
            .where(_table.c.human.is_not(None), ~_table.c.pruned)
            .order_by(_table.c.id)
        )
        by_task = {row.task: row for row in self.connection.execute(query)}
        return sorted((_round(row) for row in by_task.values()), key=lambda round_: round_.id)

    def after(self, number: int, limit: int) -> list[Round]:
        """Return the first rounds whose ids are larger than a number, by id."""
        query = _ROUNDS.where(self.condition, _table.c.id > number).order_by(_table.c.id).limit(limit)
        return [_round(row) for row in self.connection.execute(query)]

    def edited_tasks(self) -> list[int]:
        """Return the tasks of which models were shown several texts."""
        of_task = select(_table.c.task).where(self.condition).group_by(_table.c.task)
        return list(self.connection.scalars(of_task.having(func.count() > 1)))

    def everyone_votes(self, arms: Set[str], most: int) -> list[tuple[dict[str, str | None], str | None]]:
        """Return the votes and the human label of the latest rounds that a draw let ask all ``arms``."""
        # Plans take kilobytes, so those of rounds that did not ask everyone are not read.
        votes = select(_table.c.id, _table.c.votes).where(self.condition).order_by(_table.c.id.desc())
        asked = [row.id for row in self.connection.execute(votes) if arms <= row.votes.keys()]
        found: list[tuple[dict[str, str | None], str | None]] = []
        for some in portions(asked, _ROWS_PER_QUERY):
            query = select(_table.c.plan, _table.c.votes, _table.c.human).where(among(_table.c.id, some))
            found += [
                (dict(row.votes), row.human)
                for row in self.connection.execute(query.order_by(_table.c.id.desc()))
                if _asked_all(row.plan.get("stages", {}), arms)
            ]
            if len(found) >= most:
                break
        return found[:most]

    def labelled_votes(self, most: int) -> list[tuple[int, dict[str, str | None], str, bool]]:
        """The task, votes, human label and whether it is blind, of the latest rounds that people answered."""
        query = (
            select(_table.c.task, _table.c.votes, _table.c.human, _table.c.audit)
            .where(self.condition, _table.c.human.is_not(None))
            .order_by(_table.c.id.desc())
            .limit(most)
        )
        return [(row.task, dict(row.votes), row.human, row.audit) for row in self.connection.execute(query)]


def contexts(connection: Connection, ids: Sequence[int]) -> list[Array]:
    """Return the contexts of these rounds, each of shape (d,), in the order of ``ids``.

    Pruned rounds must not be among them.
    """
    rows = connection.execute(select(_contexts).where(among(_contexts.c.round_id, ids)))
    by_id = {row.round_id: unpack_context(row.context) for row in rows}
    return [by_id[round_id] for round_id in ids]


# Built once: building a statement takes longer than SQLite takes to run it.
_OF_ROUND = update(_table).where(_table.c.id == bindparam("of_round"))
_SET_TAUGHT = _OF_ROUND.values(taught=bindparam("now_taught"), taught_by=bindparam("now_by"))
_SET_HUMAN = _OF_ROUND.values(human=bindparam("now_human"), confirmed=bindparam("now_confirmed"))


def set_taught(connection: Connection, round_id: int, label: str | None, by: Teacher | None) -> None:
    """Record the label from which the rewards in the state are now computed."""
    connection.execute(_SET_TAUGHT, {"of_round": round_id, "now_taught": label, "now_by": by})


def set_human(connection: Connection, round_id: int, label: str | None, confirmed: float | None) -> None:
    """Record the current human label and the agreement of the voted label with it, in [0, 1]."""
    said = {"of_round": round_id, "now_human": label, "now_confirmed": confirmed}
    connection.execute(_SET_HUMAN, said)


def seal_texts(connection: Connection, of: Sequence[Round]) -> None:
    """Replace the n-grams stored with the contexts of rounds by their seals, permanently."""
    sealing = [
        {"number": round_.id, "beside": pack_context(round_.context, sealed(round_.text))}
        for round_ in of
        if round_.text
    ]
    if sealing:
        connection.execute(_REPLACE_CONTEXT, sealing)


def _asked_all(stages: Mapping[str, Any], arms: Set[str]) -> bool:
    """Whether a draw let the round ask all the arms; others may have been asked because of the votes."""
    return stages.get("coin") == "everyone" and arms <= {*stages["order"][: stages["first"]]}


def _round(row: Row[Any]) -> Round:
    values = dict(row._mapping)
    key = RoundKey(**{field.name: values.pop(field.name) for field in fields(RoundKey)})
    beside = values["context"]
    return Round(key=key, **(values | {"context": unpack_context(beside), "text": unpack_text(beside)}))


_votes = tables.votes
_ADD_VOTES = insert(_votes)

_Rewards = Mapping[str, float]
"""Arm → how right its vote is, in [0, 1]."""


def vote_rows_of(
    round_: Round,
    round_id: int,
    *,
    agreed: _Rewards,
    confirmed: _Rewards,
    examples: Mapping[str, int],
    failures: Mapping[str, str | None] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """The rows of a new round's votes, one for each arm, for :func:`add_votes`.

    ``voted`` is ``None`` for an arm that could not be asked.

    Args:
        round_: the round.
        round_id: the id under which the round was stored.
        agreed: agreement with the voted label, for the arms whose votes did not decide which other arms
            were asked; empty if only one arm voted, because it would agree with itself.
        confirmed: agreement with the human label, for the arms that were asked regardless of other votes;
            empty without a human label.
        examples: arm → number of examples in its prompt; 0 where they were left out at random.
        failures: arm → the code of the reason why it gave no vote; also of arms that could not be asked.
    """
    arms = {arm: vote is not None for arm, vote in round_.votes.items()}
    return [
        {
            "round_id": round_id,
            "model": arm,
            "project": round_.key.project,
            "audit": round_.audit,
            "voted": voted,
            "failure": None if voted else failures.get(arm),
            "agreed": agreed.get(arm),
            "confirmed": confirmed.get(arm),
            "examples": examples.get(arm),
        }
        for arm, voted in (dict.fromkeys(failures) | arms).items()
    ]


def add_votes(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store rows of votes."""
    if rows:
        connection.execute(_ADD_VOTES, rows)


def set_votes_confirmed(connection: Connection, round_: Round, confirmed: _Rewards) -> None:
    """Record how right the votes of a stored round are by the current human label."""
    for arm in round_.votes:
        connection.execute(
            update(_votes)
            .where(_votes.c.round_id == round_.id, _votes.c.model == arm)
            .values(confirmed=confirmed.get(arm))
        )


@dataclass(frozen=True, slots=True)
class ProjectRounds:
    """A project's rounds, in a transaction."""

    connection: Connection
    project: str

    def of_task(self, task: int) -> list[Round]:
        """Return every round of a task, of all controls and epochs, the oldest first."""
        query = _ROUNDS.where(_table.c.project == self.project, _table.c.task == task).order_by(_table.c.id)
        return [_round(row) for row in self.connection.execute(query)]

    def count_of(self, tasks: Sequence[int]) -> int:
        """Count the rounds of these tasks, of all controls and epochs."""
        counted = select(func.count()).where(_table.c.project == self.project, among(_table.c.task, tasks))
        return self.connection.scalars(counted).one()

    def count_tasks(self, epochs: Set[str] = frozenset()) -> int:
        """Count the tasks of a project that have a round; without epochs, in any."""
        counted = select(func.count(_table.c.task.distinct())).where(_table.c.project == self.project)
        if epochs:
            counted = counted.where(_table.c.epoch.in_(epochs))
        return self.connection.scalars(counted).one()

    def blind_tasks(self) -> frozenset[int]:
        """Return the tasks with a round that is kept blind."""
        query = select(_table.c.task).where(_table.c.project == self.project, _table.c.audit)
        return frozenset(self.connection.scalars(query.distinct()))

    def created_between(self) -> tuple[float, float]:
        """When the first and the last of the project's rounds were made, unix seconds; it has some."""
        at = _table.c.created_at
        first, last = self.connection.execute(
            select(func.min(at), func.max(at)).where(_table.c.project == self.project)
        ).one()
        return first, last

    def counted_elsewhere(self) -> Select[tuple[int]] | None:
        """The ids of the rounds that count under other labels; ``None`` if nobody has changed labels.

        Of a round and the one made of it that of the present labels counts, else the later one.
        """
        one, other = _table.alias().c, _table.alias().c
        of_project, made = other.project == self.project, other.carried_from.is_not(None)
        carried = select(other.carried_from).where(of_project, made)
        if self.connection.execute(carried.limit(1)).first() is None:
            return None
        epochs = tuple(self.latest_epochs().items())
        current = select(other.id).where(of_project, tuple_(other.control, other.epoch).in_(epochs))
        older, undone = one.id.in_(carried), one.carried_from.in_(current)
        not_current = tuple_(one.control, one.epoch).not_in(epochs)
        return select(one.id).where(one.project == self.project, not_current, or_(older, undone))

    def latest_epochs(self) -> dict[str, str]:
        """Return control → its epoch: that of its label scheme, or of its latest round if that has none."""
        schemes = Schemes(self.connection, self.project).epochs()
        has_round = (
            select(_table.c.id)
            .where(_table.c.project == self.project, _table.c.control == bindparam("name"))
            .where(_table.c.epoch == bindparam("hash"))
            .limit(1)
        )
        current = {
            control: epoch
            for control, epoch in schemes.items()
            if self.connection.execute(has_round, {"name": control, "hash": epoch}).first()
        }
        return self._epochs_of_latest_rounds() | current

    def _epochs_of_latest_rounds(self) -> dict[str, str]:
        latest = (
            select(func.max(_table.c.id)).where(_table.c.project == self.project).group_by(_table.c.control)
        )
        query = select(_table.c.control, _table.c.epoch).where(_table.c.id.in_(latest.scalar_subquery()))
        return {row.control: row.epoch for row in self.connection.execute(query)}

    def labelled_tasks(self, tasks: Sequence[int]) -> list[int]:
        """Return those of the tasks that have a round with a human label or one that people taught."""
        query = select(_table.c.task).where(
            _table.c.project == self.project,
            among(_table.c.task, tasks),
            or_(_table.c.human.is_not(None), _table.c.taught_by == "human"),
        )
        return sorted(set(self.connection.scalars(query)))

    def tasks_with_texts(self, tasks: Sequence[int]) -> list[int]:
        """Return those of the tasks that have n-grams stored with a context."""
        query = (
            select(_table.c.task)
            .join(_contexts, _contexts.c.round_id == _table.c.id)
            .where(_table.c.project == self.project, among(_table.c.task, tasks))
            .where(func.substr(_contexts.c.context, 1, len(TEXT)) == TEXT)
        )
        return sorted(set(self.connection.scalars(query)))

    def with_texts(self, tasks: Sequence[int]) -> list[Round]:
        """Return the rounds of tasks whose text was kept for the student, by id; none is pruned."""
        query = (
            _ROUNDS.where(_table.c.project == self.project, among(_table.c.task, tasks))
            .where(~_table.c.pruned, _contexts.c.context.is_not(None))
            .order_by(_table.c.id)
        )
        return [_round(row) for row in self.connection.execute(query) if "studied" in row.plan]

    def forget(self, tasks: Sequence[int]) -> int:
        """Delete tasks' rounds and return how many there were. Their events stay, and so does the state."""
        chosen = among(_table.c.task, tasks)
        of_tasks = select(_table.c.id).where(_table.c.project == self.project, chosen)
        self.connection.execute(delete(_votes).where(_votes.c.round_id.in_(of_tasks)))
        return delete_tasks(self.connection, _table, self.project, tasks)


@dataclass(frozen=True, slots=True)
class _Incomplete:
    """A project's incomplete rounds in numbers.

    Attributes:
        tasks: how many tasks have one.
        arms: arm → code of the reason → the tasks whose rounds lack its vote.
        times: arm → when the first and the last of these tasks were decided, unix seconds.
    """

    tasks: int
    arms: Mapping[str, Mapping[str, int]]
    times: Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class IncompleteRounds:
    """A project's rounds that lack a vote which may still come, in a transaction.

    A round is incomplete if an arm that should have voted gave no vote, for a reason that can pass: an
    outage, a time-out, a rate limit, a rejected key, or a budget. ``Round.missing`` names these arms until
    each has voted or has failed for good. No model can be asked for the vote of a round that is pruned, is of
    an earlier epoch, or whose task has a later round since its text has changed: it is not incomplete.
    """

    connection: Connection
    project: str

    def count(self) -> _Incomplete:
        """Count the tasks with an incomplete round, in all and by arm and reason."""
        tasks: set[int] = set()
        lacking: dict[str, dict[str, set[int]]] = {}
        times: dict[str, tuple[float, float]] = {}
        query = select(_table.c.task, _table.c.missing, _table.c.created_at).where(self._incomplete)
        for row in self.connection.execute(query):
            tasks.add(row.task)
            for arm, code in row.missing.items():
                lacking.setdefault(arm, {}).setdefault(code, set()).add(row.task)
                first, last = times.get(arm, (row.created_at, row.created_at))
                times[arm] = min(first, row.created_at), max(last, row.created_at)
        arms = {
            arm: {code: len(of) for code, of in sorted(codes.items())}
            for arm, codes in sorted(lacking.items())
        }
        return _Incomplete(len(tasks), arms, times)

    def tasks(self) -> list[int]:
        """Return the tasks that have one, by number."""
        return sorted(set(self.connection.scalars(select(_table.c.task).where(self._incomplete))))

    @property
    def _incomplete(self) -> ColumnElement[bool]:
        later = _table.alias().c
        epochs = tuple(ProjectRounds(self.connection, self.project).latest_epochs().items())
        same = (later[name] == _table.c[name] for name in ("project", "task", "control", "epoch"))
        return and_(
            _table.c.project == self.project,
            _table.c.missing.is_not(None),
            ~_table.c.pruned,
            tuple_(_table.c.control, _table.c.epoch).in_(epochs),
            ~select(later.id).where(*same, later.id > _table.c.id).exists(),
        )


def set_missing(
    connection: Connection, round_id: int, missing: Mapping[str, str], ended: Mapping[str, str | None]
) -> None:
    """Record which arms' votes a round still lacks, and how asking again for such votes has ended.

    Args:
        connection: a write transaction.
        round_id: the round.
        missing: arm → the code of the reason, for the votes that it lacks and may still get.
        ended: arm → the code of the reason why it gave no vote, ``None`` if it has voted now.
    """
    for arm, code in ended.items():
        asked = update(_votes).where(_votes.c.round_id == round_id, _votes.c.model == arm)
        connection.execute(asked.values({"failure": code} | ({"voted": False} if code else {})))
    connection.execute(update(_table).where(_table.c.id == round_id).values(missing=dict(missing) or None))

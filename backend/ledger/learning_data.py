"""The rounds from which a question's scorer is fitted: votes, voted label and human confirmation.

Of blind rounds only the votes are used: their human labels certify the scores, so they must not teach them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from sqlalchemy import (
    Connection,
    Dialect,
    Insert,
    and_,
    bindparam,
    case,
    delete,
    func,
    select,
    update,
)

from backend.ledger.database import tables
from backend.ledger.database.packing import unpack_context
from backend.ledger.database.statements import among, insert, insert_new, insert_or_replace
from backend.ledger.rounds import of_question
from camvo.scores.calibration import MOST_CONFIRMED, MOST_ROUNDS, FinishedRound
from camvo.typing import Array

_columns, _annotations = tables.rounds.c, tables.human_annotations.c


@dataclass(frozen=True, slots=True)
class JudgedRound:
    """A round of an annotated task, without its plan.

    Attributes:
        task: the task's number.
        votes: arm → label, ``None`` where the model gave no vote.
        label: the voted label.
        score: the probability that the voted label is right, in [0, 1].
        audit: whether the prediction was held back for blind labelling.
        human: the human label; ``None`` while there is none.
    """

    task: int
    votes: Mapping[str, str | None]
    label: str
    score: float
    audit: bool
    human: str | None


def latest_judged(connection: Connection, project: str, control: str, epoch: str) -> dict[int, JudgedRound]:
    """Return task → the latest round of a question in an epoch, for tasks with a valid annotation."""
    annotated = select(_annotations.task).where(
        _annotations.project == project,
        ~_annotations.deleted,
        ~_annotations.withdrawn,
        _annotations.task.is_not(None),
    )
    fields = [_columns[name] for name in JudgedRound.__dataclass_fields__]
    query = select(*fields).where(of_question(project, control, epoch), _columns.task.in_(annotated))
    rows = connection.execute(query.order_by(_columns.id))
    return {row.task: JudgedRound(**row._mapping) for row in rows}


_reliabilities = tables.reliabilities
_LATEST = (
    select(_reliabilities)
    .where(_reliabilities.c.project == bindparam("of"), _reliabilities.c.control == bindparam("name"))
    .order_by(_reliabilities.c.number.desc())
    .limit(bindparam("most"))
)


@dataclass(frozen=True, slots=True)
class StoredReliabilities:
    """One fit.

    Attributes:
        project: the project's key.
        control: the name of the question's control tag.
        number: 1 for the question's first fit, 2 for the next …
        accuracies: annotator's id → the probability that a label of theirs is right.
        annotations: how many annotations the project had.
        applied: whether every task's human label goes by it.
        created_at: unix seconds.
    """

    project: str
    control: str
    number: int
    accuracies: Mapping[str, float]
    annotations: int
    applied: bool
    created_at: float


def latest_reliabilities(
    connection: Connection, project: str, control: str, most: int = 1
) -> list[StoredReliabilities]:
    """Return the latest fits of a question, at most ``most``, the newest first."""
    rows = connection.execute(_LATEST, {"of": project, "name": control, "most": most})
    return [StoredReliabilities(**row._mapping) for row in rows]


def store_reliabilities(connection: Connection, fit: StoredReliabilities) -> bool:
    """Store a fit, unless one of its number is there; return whether it was stored."""
    values = {name: getattr(fit, name) for name in StoredReliabilities.__dataclass_fields__}
    values["accuracies"] = dict(fit.accuracies)
    return connection.execute(insert_new(connection.dialect, _reliabilities), values).rowcount == 1


def set_reliabilities_applied(connection: Connection, fit: StoredReliabilities) -> None:
    """Record that a fit is applied to every task's human label, so that no earlier fit is pending."""
    connection.execute(
        update(_reliabilities)
        .where(
            _reliabilities.c.project == fit.project,
            _reliabilities.c.control == fit.control,
            _reliabilities.c.number <= fit.number,
        )
        .values(applied=True)
    )


def fitted_on(connection: Connection, project: str) -> int:
    """Return how many annotations the project had at its latest fit of any question, 0 before the first."""
    query = select(func.coalesce(func.max(_reliabilities.c.annotations), 0)).where(
        _reliabilities.c.project == project
    )
    newest = select(func.max(_reliabilities.c.created_at)).where(_reliabilities.c.project == project)
    return int(connection.scalars(query.where(_reliabilities.c.created_at == newest.scalar_subquery())).one())


def unapplied(connection: Connection) -> list[str]:
    """Return the projects with a fit that is not applied yet, in order."""
    query = select(_reliabilities.c.project).where(~_reliabilities.c.applied).distinct()
    return list(connection.scalars(query.order_by(_reliabilities.c.project)))


_drift_tests = tables.drift_tests


@dataclass(frozen=True, slots=True)
class _FoundRow:
    """The tests of one state."""

    control: str
    epoch: str
    sequence: int
    tests: Mapping[str, Any]


def store_drift_tests(  # noqa: PLR0917 - the first four name a state, as in snapshots.save()
    connection: Connection,
    project: str,
    control: str,
    epoch: str,
    sequence: int,
    tests: Mapping[str, Any],
    *,
    now: float,
) -> None:
    """Replace what is stored of a state, unless that includes later events."""
    row = {
        "project": project,
        "control": control,
        "epoch": epoch,
        "sequence": sequence,
        "tests": dict(tests),
        "updated_at": now,
    }
    connection.execute(_store(connection.dialect), row)


def drift_tests_of(connection: Connection, project: str) -> list[_FoundRow]:
    """Return the tests of all states of a project."""
    columns = (_drift_tests.c.control, _drift_tests.c.epoch, _drift_tests.c.sequence, _drift_tests.c.tests)
    rows = connection.execute(select(*columns).where(_drift_tests.c.project == project))
    return [_FoundRow(**row._mapping) for row in rows]


@cache
def _store(dialect: Dialect) -> Insert:
    statement = insert(dialect, _drift_tests)
    return statement.on_conflict_do_update(
        index_elements=_drift_tests.primary_key.columns.keys(),
        set_={name: statement.excluded[name] for name in ("sequence", "tests", "updated_at")},
        where=_drift_tests.c.sequence <= statement.excluded.sequence,
    )


_examples, _rounds, _contexts = tables.example_texts, tables.rounds, tables.contexts
_FORGET_PROJECT = delete(_examples).where(_examples.c.project == bindparam("of"))

_MAX_TASKS = 1000
"""Examples are chosen from this many labelled tasks at most, the latest ones."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelledTask:
    """One task with its human label, to be shown as an example.

    Attributes:
        task: the task's number.
        question: hash of what the models were shown, as in the round's key.
        texts: field key → text.
        label: the human label.
        context: e_t, shape (d,).
    """

    task: int
    question: str
    texts: Mapping[str, str]
    label: str
    context: Array


def store_examples(  # noqa: PLR0917 - the columns of one row
    connection: Connection, project: str, task: int, control: str, question: str, texts: Mapping[str, str]
) -> None:
    """Store the current texts of a task, in place of older ones."""
    row = {"project": project, "task": task, "control": control, "question": question, "texts": dict(texts)}
    connection.execute(insert_or_replace(connection.dialect, _examples), row)


def labelled_tasks(connection: Connection, project: str, control: str, epoch: str) -> list[LabelledTask]:
    """Return the question's human-labelled tasks, the latest first, at most :data:`_MAX_TASKS`.

    Blind tasks are left out, because an example teaches the votes, and tasks whose texts have changed since
    their round.
    """
    same_task = and_(
        *(_examples.c[name] == _rounds.c[name] for name in ("project", "task", "control", "question"))
    )
    query = (
        select(_rounds.c.task, _rounds.c.question, _examples.c.texts, _rounds.c.human, _contexts.c.context)
        .join(_examples, same_task)
        .join(_contexts, _contexts.c.round_id == _rounds.c.id)
        .where(of_question(project, control, epoch))
        .where(_rounds.c.human.is_not(None), ~_rounds.c.audit)
        .order_by(_rounds.c.id.desc())
        .limit(_MAX_TASKS)
    )
    return [
        LabelledTask(row.task, row.question, row.texts, row.human, unpack_context(row.context))
        for row in connection.execute(query)
    ]


def forget_example_tasks(connection: Connection, project: str, tasks: Sequence[int]) -> None:
    """Delete tasks' texts."""
    of_tasks = among(connection.dialect, _examples.c.task, tasks)
    connection.execute(delete(_examples).where(_examples.c.project == project, of_tasks))


def forget_examples(connection: Connection, project: str) -> None:
    """Delete the texts of all tasks of a project."""
    connection.execute(_FORGET_PROJECT, {"of": project})


_taught = case((~_columns.audit, _columns.confirmed))


def count_rounds(connection: Connection, project: str, control: str, epoch: str) -> tuple[int, int]:
    """Count a question's rounds in an epoch: all of them, and those whose human label teaches."""
    query = select(func.count(), func.count(_taught)).where(of_question(project, control, epoch))
    rounds, confirmed = connection.execute(query).one()
    return rounds, confirmed


def latest_rounds(  # noqa: PLR0917 - a question, and what is to differ from the ledger
    connection: Connection,
    project: str,
    control: str,
    epoch: str,
    unanswered: Collection[int] = (),
    recounted: Mapping[int, tuple[str, float]] = MappingProxyType({}),
) -> list[FinishedRound]:
    """Return a question's latest rounds and its latest rounds that people teach, each once, oldest first.

    Args:
        connection: the ledger.
        project: the project's key.
        control: the control tag.
        epoch: the epoch.
        unanswered: the ids of rounds that count as if nobody had answered them.
        recounted: round → another label for a round that people teach, and its agreement with the answer.
    """
    query = (
        select(_columns.id, _columns.votes, _columns.label, _taught.label("confirmed"))
        .where(of_question(project, control, epoch))
        .order_by(_columns.id.desc())
    )
    rows = {row.id: row for row in connection.execute(query.limit(MOST_ROUNDS))}
    rows |= {
        row.id: row for row in connection.execute(query.where(_taught.is_not(None)).limit(MOST_CONFIRMED))
    }

    def finished(row: Any) -> FinishedRound:
        if row.confirmed is None or row.id in unanswered:
            return FinishedRound(row.votes, row.label)
        return FinishedRound(row.votes, *recounted.get(row.id, (row.label, row.confirmed)))

    return [finished(row) for _, row in sorted(rows.items())]

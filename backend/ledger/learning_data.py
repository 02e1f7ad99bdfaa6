"""The rounds from which a question's scorer is fitted: votes, voted label and human confirmation.

Of blind rounds only the votes are used: their human labels certify the scores, so they must not teach them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from sqlalchemy import ColumnElement, Connection, and_, bindparam, case, delete, func, select, update

from backend.ledger.database import tables
from backend.ledger.database.packing import unpack_context
from backend.ledger.database.statements import among, delete_tasks, insert_new, insert_or_replace
from backend.ledger.human_annotations import is_open
from backend.ledger.recounts import latest_confirmed, latest_label, latest_score
from backend.ledger.rounds import QuestionRounds
from camvo.scores.scorer import MOST_CONFIRMED, MOST_ROUNDS, FinishedRound
from camvo.state.earlier import Earlier, Lesson
from camvo.typing import Array

_lessons, _withdrawals = tables.lessons, tables.withdrawals.c

_MOST: Final = 20
"""The most projects that a new one starts from: the latest ones."""


@dataclass(frozen=True, slots=True)
class ProjectLessons:
    """The lessons of all projects.

    A kind of question is a control tag and a class of numbers of labels. A lesson is one project's on one
    question in one epoch.
    """

    connection: Connection

    def store(self, control: str, epoch: str, kind: str, lesson: Lesson, now: float) -> None:
        """Store what a question's votes teach, in place of what they taught before."""
        row = {
            "project": lesson.project,
            "control": control,
            "epoch": epoch,
            "kind": kind,
            "lesson": lesson.to_list(),
            "updated_at": now,
        }
        self.connection.execute(insert_or_replace(_lessons), row)

    def of_kind(self, kind: str, project: str) -> Earlier:
        """Return the lessons of other projects on such questions: of each project the one of most rounds."""
        query = select(_lessons.c.lesson).where(_lessons.c.kind == kind, _lessons.c.project != project)
        by_project: dict[str, Lesson] = {}
        for stored in self.connection.scalars(query.order_by(_lessons.c.updated_at.desc())):
            lesson = Lesson.from_list(stored)
            known = by_project.get(lesson.project)
            if known is None or lesson.rounds > known.rounds:
                by_project[lesson.project] = lesson
        latest = tuple(by_project.values())
        return Earlier(latest).without(self.forgotten()).latest(_MOST)

    def forgotten(self) -> set[str]:
        """Return the projects of which ``camvo ledger forget --project`` has withdrawn everything."""
        query = select(_withdrawals.project, _withdrawals.withdrawn).where(
            _withdrawals.project.is_not(None),
            _withdrawals.task.is_(None),
            _withdrawals.annotator.is_(None),
            _withdrawals.since.is_(None),
        )
        last = {
            row.project: row.withdrawn for row in self.connection.execute(query.order_by(_withdrawals.id))
        }
        return {project for project, withdrawn in last.items() if withdrawn}


@dataclass(frozen=True, slots=True)
class JudgedRound:
    """A round of an annotated task, without its plan.

    Attributes:
        task: the task's number.
        votes: arm → label, ``None`` where the model gave no vote.
        label: the voted label, by the latest counting before somebody annotated the task.
        score: the probability that this label is right, in [0, 1].
        audit: whether the prediction was held back for blind labelling.
        human: the human label; ``None`` while there is none.
    """

    task: int
    votes: Mapping[str, str | None]
    label: str
    score: float
    audit: bool
    human: str | None


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

    def store(self, connection: Connection) -> bool:
        """Store the fit, unless one of its number is there; return whether it was stored."""
        values = {name: getattr(self, name) for name in self.__slots__} | {
            "accuracies": dict(self.accuracies)
        }
        return connection.execute(insert_new(_reliabilities), values).rowcount == 1

    def set_applied(self, connection: Connection) -> None:
        """Record that every task's human label goes by this fit, so that no earlier one is pending."""
        columns = _reliabilities.c
        earlier = (
            columns.project == self.project,
            columns.control == self.control,
            columns.number <= self.number,
        )
        connection.execute(update(_reliabilities).where(*earlier).values(applied=True))


@dataclass(frozen=True, slots=True)
class Reliabilities:
    """A project's fits of how reliable its annotators are."""

    connection: Connection
    project: str

    def latest(self, control: str, most: int = 1) -> list[StoredReliabilities]:
        """Return the latest fits of a question, at most ``most``, the newest first."""
        rows = self.connection.execute(_LATEST, {"of": self.project, "name": control, "most": most})
        return [StoredReliabilities(**row._mapping) for row in rows]

    def fitted_on(self) -> int:
        """How many annotations the project had at its latest fit of any question, 0 before the first."""
        of_project = _reliabilities.c.project == self.project
        newest = select(func.max(_reliabilities.c.created_at)).where(of_project).scalar_subquery()
        query = select(func.coalesce(func.max(_reliabilities.c.annotations), 0))
        return int(
            self.connection.scalars(query.where(of_project, _reliabilities.c.created_at == newest)).one()
        )


def unapplied(connection: Connection) -> list[str]:
    """Return the projects with a fit that is not applied yet, in order."""
    query = select(_reliabilities.c.project).where(~_reliabilities.c.applied).distinct()
    return list(connection.scalars(query.order_by(_reliabilities.c.project)))


_examples, _rounds, _contexts = tables.example_texts, tables.rounds.c, tables.contexts

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


@dataclass(frozen=True, slots=True)
class ExampleTexts:
    """The texts of a project's tasks that prompts may show."""

    connection: Connection
    project: str

    def store(self, task: int, control: str, question: str, texts: Mapping[str, str]) -> None:
        """Store the current texts of a task, in place of older ones."""
        row = {
            "project": self.project,
            "task": task,
            "control": control,
            "question": question,
            "texts": dict(texts),
        }
        self.connection.execute(insert_or_replace(_examples), row)

    def forget(self, tasks: Sequence[int]) -> None:
        """Delete tasks' texts."""
        delete_tasks(self.connection, _examples, self.project, tasks)

    def forget_all(self) -> None:
        """Delete the texts of all tasks of a project."""
        self.connection.execute(delete(_examples).where(_examples.c.project == self.project))


_MOST_SCORED = 500
"""The own scores of so many of the latest rounds are read, and of those that people teach."""

OwnScore: TypeAlias = tuple[float | None, float]
"""A policy's own score of a decision, and the trust in it."""

_UNKNOWN: Final[OwnScore] = (None, 0.0)

_taught = case((~_rounds.audit, _rounds.confirmed))


class LearningRounds(QuestionRounds):
    """What one question in one epoch can learn from."""

    def judged(self) -> dict[int, JudgedRound]:
        """Return task → its latest round, for tasks with a valid annotation."""
        shown: dict[str, ColumnElement[Any]] = {"label": latest_label, "score": latest_score}
        fields = [shown.get(name, _rounds[name]).label(name) for name in JudgedRound.__dataclass_fields__]
        query = select(*fields).where(self.condition, ~is_open(self.project, _rounds.task))
        rows = self.connection.execute(query.order_by(_rounds.id))
        return {row.task: JudgedRound(**row._mapping) for row in rows}

    def examples(self) -> list[LabelledTask]:
        """Return the question's human-labelled tasks, the latest first, at most :data:`_MAX_TASKS`.

        Blind tasks are left out, because an example teaches the votes, and tasks whose texts have changed
        since their round.
        """
        same_task = and_(
            *(_examples.c[name] == _rounds[name] for name in ("project", "task", "control", "question"))
        )
        query = (
            select(_rounds.task, _rounds.question, _examples.c.texts, _rounds.human, _contexts.c.context)
            .join(_examples, same_task)
            .join(_contexts, _contexts.c.round_id == _rounds.id)
            .where(self.condition)
            .where(_rounds.human.is_not(None), ~_rounds.audit)
            .order_by(_rounds.id.desc())
            .limit(_MAX_TASKS)
        )
        return [
            LabelledTask(row.task, row.question, row.texts, row.human, unpack_context(row.context))
            for row in self.connection.execute(query)
        ]

    def count(self) -> tuple[int, int]:
        """Count the rounds: all of them, and those whose human label teaches."""
        query = select(func.count(), func.count(_taught)).where(self.condition)
        rounds, confirmed = self.connection.execute(query).one()
        return rounds, confirmed

    def latest(
        self,
        unanswered: Collection[int] = (),
        recounted: Mapping[int, tuple[str, float]] = MappingProxyType({}),
        own: Mapping[int, OwnScore] | None = None,
    ) -> list[FinishedRound]:
        """Return the latest rounds and the latest that people teach, each once, oldest first.

        Args:
            unanswered: the ids of rounds that count as if nobody had answered them.
            recounted: round → another label for a round that people teach, and how right it is.
            own: what :meth:`own_scores` returned; ``None`` to read them now.
        """
        query = (
            select(_rounds.id, _rounds.votes, _rounds.label, _taught.label("confirmed"))
            .where(self.condition)
            .order_by(_rounds.id.desc())
        )
        rows = {row.id: row for row in self.connection.execute(query.limit(MOST_ROUNDS))}
        rows |= {
            row.id: row
            for row in self.connection.execute(query.where(_taught.is_not(None)).limit(MOST_CONFIRMED))
        }
        own = self.own_scores() if own is None else own

        def finished(row: Any) -> FinishedRound:
            label, confirmed = recounted.get(row.id, (row.label, row.confirmed))
            if row.confirmed is None or row.id in unanswered:
                label, confirmed = row.label, None
            scored = own.get(row.id, _UNKNOWN) if label == row.label else _UNKNOWN
            return FinishedRound(row.votes, label, confirmed, *scored)

        return [finished(row) for _, row in sorted(rows.items())]

    def own_scores(self, known: Mapping[int, OwnScore] = MappingProxyType({})) -> dict[int, OwnScore]:
        """Return round → the policy's own score, of the latest rounds and of the latest that people teach.

        Args:
            known: those that were read before. Plans are large, so theirs are not read again.
        """
        query = select(_rounds.id).where(self.condition).order_by(_rounds.id.desc())
        latest = [query.limit(_MOST_SCORED), query.where(_taught.is_not(None)).limit(_MOST_SCORED)]
        ids = {number for some in latest for number in self.connection.scalars(some)}
        new = select(_rounds.id, _rounds.plan).where(among(_rounds.id, sorted(ids - known.keys())))
        return {number: known[number] for number in ids & known.keys()} | {
            row.id: (row.plan["score"], row.plan["trust"]) if row.plan.get("trust") else _UNKNOWN
            for row in self.connection.execute(new)
        }


def labels_beside(connection: Connection, project: str, model: str, *, audit: bool) -> tuple[int, float]:
    """Count the labels of the rounds in which a model's vote was checked by people, and the right ones.

    Args:
        connection: a read transaction.
        project: the project's key.
        model: the model.
        audit: whether of blind tasks; otherwise of all others.
    """
    rounds_, votes_ = tables.rounds.c, tables.votes.c
    query = (
        select(func.count(), func.coalesce(func.sum(latest_confirmed), 0.0))
        .select_from(tables.votes)
        .join(tables.rounds, rounds_.id == votes_.round_id)
        .where(votes_.project == project, votes_.model == model, votes_.audit == audit)
        .where(votes_.confirmed.is_not(None), rounds_.confirmed.is_not(None))
    )
    count, right = connection.execute(query).one()
    return count, right

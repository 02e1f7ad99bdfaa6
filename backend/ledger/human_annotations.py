"""Human annotations, as Label Studio reports them, in whatever order its webhooks arrive.

The module is not called "annotations" because every module imports that name ``from __future__``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    and_,
    bindparam,
    case,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from backend.ledger import projects
from backend.ledger.database import tables
from backend.ledger.database.statements import among, by_project, insert_or_replace
from backend.ledger.projects import Scheme
from camvo.votes.relabelling import LabelChange

_withdrawals = tables.withdrawals


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """One command: the annotations that it covers, and whether they are withdrawn or come back.

    Attributes:
        project: the project's key; ``None`` for every project.
        task: the task's number; ``None`` for every task.
        annotator: the user's id; ``None`` for everybody.
        since: unix seconds of the earliest change of an annotation, by Label Studio's clock; ``None`` for no
            bound.
        until: unix seconds of the latest change; ``None`` for no bound.
        withdrawn: true to withdraw, false to bring back.
        created_at: unix seconds of the command.
    """

    project: str | None = None
    task: int | None = None
    annotator: int | None = None
    since: float | None = None
    until: float | None = None
    withdrawn: bool = True
    created_at: float = 0.0

    def covers(self, project: str, task: int | None, annotator: int | None, updated_at: str) -> bool:
        """Whether the command covers an annotation."""
        changed = studio_time(updated_at).timestamp()
        return (
            self.project in {None, project}
            and self.task in {None, task}
            and self.annotator in {None, annotator}
            and (self.since is None or changed >= self.since)
            and (self.until is None or changed <= self.until)
        )

    def store(self, connection: Connection) -> None:
        """Store the command, which from now on decides about the annotations that it covers."""
        connection.execute(insert(_withdrawals), asdict(self))

    def up_to(self, updates: Sequence[str]) -> Withdrawal:
        """The command, bounded by its own time, or by the latest of these changes if that is later.

        Label Studio's clock may be ahead of the clock of the command.
        """
        times = [studio_time(updated_at).timestamp() for updated_at in updates]
        return replace(self, until=max([self.created_at, *times]))


def is_withdrawn(commands: Sequence[Withdrawal], annotation: Annotation) -> bool:
    """Whether an annotation is withdrawn: what the last of these commands that covers it says."""
    place = (annotation.project, annotation.task, annotation.completed_by, annotation.updated_at)
    return next((command.withdrawn for command in reversed(commands) if command.covers(*place)), False)


def studio_time(text: str) -> datetime:
    """Parse Label Studio's ISO time; a time that cannot be parsed counts as the oldest.

    Label Studio omits a fraction of zero, so its texts do not sort as times do.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


_table, _blind = tables.human_annotations, tables.blind_tasks
_OF_TASKS = (
    select(_table)
    .where(_table.c.project == bindparam("of"), among(_table.c.task, "numbers"), ~_table.c.deleted)
    .order_by(_table.c.annotation_id)
)
_STORED = select(_table.c.task, _table.c.updated_at, _table.c.deleted, _table.c.originals).where(
    _table.c.project == bindparam("of"), _table.c.annotation_id == bindparam("number")
)

_EMPTIED: Final[dict[str, Any]] = {
    "labels": {},
    "ground_truth": False,
    "teaches": False,
    "origin": None,
    "prediction_shown": False,
    "completed_by": None,
    "deleted": True,
    "withdrawn": False,
    "lead_time": None,
    "originals": None,
}
"""Columns of a tombstone. A deleted annotation keeps its id, so that a late webhook does not restore it."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """One annotation of one task.

    Attributes:
        project: the project's key.
        annotation_id: Label Studio's id of the annotation.
        task: the task's number, ``None`` if unknown.
        updated_at: Label Studio's ISO time, unchanged.
        labels: control → the answer, in the form of a vote, as it was given.
        ground_truth: whether the annotation is marked as ground truth.
        teaches: whether it may become a reward; false if skipped or created in bulk from predictions.
        origin: ``"manual"``, ``"prediction"`` or ``"prediction-changed"``; ``None`` if unknown.
        prediction_shown: whether the form was prefilled with a prediction.
        completed_by: the user's id.
        deleted: whether only the tombstone is left.
        received_at: unix seconds; set by :func:`store`.
        withdrawn: whether ``camvo ledger forget`` has withdrawn it, so that it teaches nothing until it is
            brought back; set by :func:`store`.
        lead_time: seconds that the annotator took, over all sessions; ``None`` if unknown.
        originals: control → what it said before labels became one, the earliest first, since Label Studio is
            told the new label; ``None`` if nothing became one.
        relabelled: control → how its labels have changed, the earliest first; not stored with it.
    """

    project: str
    annotation_id: int
    task: int | None
    updated_at: str
    labels: Mapping[str, str]
    ground_truth: bool = False
    teaches: bool = True
    origin: str | None = None
    prediction_shown: bool = False
    completed_by: int | None = None
    deleted: bool = False
    received_at: float = 0.0
    withdrawn: bool = False
    lead_time: float | None = None
    originals: Mapping[str, Sequence[str]] | None = None
    relabelled: Mapping[str, Sequence[LabelChange]] = field(default_factory=dict, compare=False)

    def under(self, scheme: Scheme) -> Annotation:
        """The annotation once a question has this scheme too."""
        changes = [*self.relabelled.get(scheme.control, ()), scheme.change]
        return replace(self, relabelled={**self.relabelled, scheme.control: changes})


_COLUMNS = [each.name for each in fields(Annotation) if each.name != "relabelled"]


def store(connection: Connection, annotation: Annotation, now: float) -> bool:
    """Store an annotation, unless the stored one is the same, newer or deleted.

    Label Studio guarantees neither the order of webhooks nor a single delivery. An annotation is therefore
    identified by its id and ``updated_at``. A time that cannot be parsed counts as the oldest.

    Returns:
        Whether the annotation was stored.
    """
    key = {"of": annotation.project, "number": annotation.annotation_id}
    stored = connection.execute(_STORED, key).one_or_none()
    if stored is not None and (
        stored.deleted or studio_time(annotation.updated_at) <= studio_time(stored.updated_at)
    ):
        return False
    values = {name: getattr(annotation, name) for name in _COLUMNS}
    values |= {
        "labels": dict(annotation.labels),
        "received_at": now,
        "originals": None if stored is None else stored.originals,
        "withdrawn": is_withdrawn(Annotations(connection, annotation.project).withdrawals(), annotation),
    }
    connection.execute(insert_or_replace(_table), values)
    return True


def of_tasks(
    connection: Connection, tasks: Iterable[tuple[str, int]]
) -> dict[tuple[str, int], list[Annotation]]:
    """Return the same of several tasks, each a project and a number."""
    found: dict[tuple[str, int], list[Annotation]] = {task: [] for task in tasks}
    for project, numbers in by_project(found):
        rows = connection.execute(_OF_TASKS, {"of": project, "numbers": numbers}).all()
        for annotation in _annotations(connection, rows):
            if annotation.task is not None:
                found[project, annotation.task].append(annotation)
    return found


def _annotations(connection: Connection, rows: Sequence[Row[Any]]) -> list[Annotation]:
    """The annotations in rows of the table, each with the changes of its labels since."""
    changed = projects.relabelled_in(connection, {row.project for row in rows}) if rows else {}
    return [Annotation(**row._mapping, relabelled=changed.get(row.project, {})) for row in rows]


def is_open(project: str, task: ColumnElement[int]) -> ColumnElement[bool]:
    """The condition that nobody has annotated a task.

    A skipped task counts as annotated; a task whose annotations are all withdrawn or deleted does not.
    """
    annotated = select(_table.c.task).where(
        _table.c.project == project, ~_table.c.deleted, ~_table.c.withdrawn, _table.c.task.is_not(None)
    )
    return task.not_in(annotated)


def is_overruled() -> ColumnElement[bool]:
    """The condition that an annotation is none of the ground truth that counts alone on its task."""
    truths = tables.human_annotations.alias().c
    has_truth = exists().where(
        truths.project == _table.c.project,
        truths.task == _table.c.task,
        truths.ground_truth,
        truths.teaches,
        ~truths.withdrawn,
        ~truths.deleted,
    )
    return and_(~_table.c.ground_truth, has_truth)


def in_scope(
    connection: Connection, project: str | None, task: int | None, annotator: int | None
) -> list[Annotation]:
    """Return the annotations of a project, task or person, ordered by project and id.

    Each argument that is ``None`` leaves that open. Deleted annotations and those of an unknown task are left
    out.
    """
    wanted = {"project": project, "task": task, "completed_by": annotator}
    query = select(_table).where(
        ~_table.c.deleted,
        _table.c.task.is_not(None),
        *(_table.c[name] == value for name, value in wanted.items() if value is not None),
    )
    rows = connection.execute(query.order_by(_table.c.project, _table.c.annotation_id))
    return _annotations(connection, rows.all())


@dataclass(frozen=True, slots=True)
class Annotations:
    """A project's human annotations, in a transaction."""

    connection: Connection
    project: str

    def withdrawals(self) -> list[Withdrawal]:
        """Return the commands that may cover annotations of the project, the earliest first."""
        columns = [column for column in _withdrawals.c if column.name != "id"]
        mine = or_(_withdrawals.c.project.is_(None), _withdrawals.c.project == self.project)
        rows = self.connection.execute(select(*columns).where(mine).order_by(_withdrawals.c.id))
        return [Withdrawal(**row._mapping) for row in rows]

    def count_received(self, at: float) -> tuple[int, int]:
        """Count the annotations that may teach: those received until ``at`` (unix seconds), and later.

        Those of blind tasks teach nothing, and neither do withdrawn ones.
        """
        of_blind = select(_blind.c.task).where(
            _blind.c.project == self.project, _blind.c.task == _table.c.task
        )
        query = select(
            func.count(case((_table.c.received_at <= at, 1))),
            func.count(case((_table.c.received_at > at, 1))),
        ).where(
            _table.c.project == self.project,
            _table.c.teaches,
            ~_table.c.deleted,
            ~_table.c.withdrawn,
            ~of_blind.exists(),
        )
        before, after = self.connection.execute(query).one()
        return before, after

    def delete(self, ids: Collection[int], now: float) -> list[int]:
        """Replace annotations by tombstones, also unknown ones: a creation may arrive after its deletion.

        Returns:
            The tasks that lost an annotation, in ascending order.
        """
        affected: set[int] = set()
        for annotation_id in dict.fromkeys(ids):
            stored = self.connection.execute(
                _STORED, {"of": self.project, "number": annotation_id}
            ).one_or_none()
            if stored is not None and not stored.deleted and stored.task is not None:
                affected.add(stored.task)
            tombstone: dict[str, Any] = {
                "project": self.project,
                "annotation_id": annotation_id,
                "task": stored.task if stored else None,
                "updated_at": stored.updated_at if stored else "",
                "received_at": now,
            }
            self.connection.execute(insert_or_replace(_table), tombstone | _EMPTIED)
        return sorted(affected)

    def of_task(self, task: int) -> list[Annotation]:
        """Return a task's annotations that are not deleted, ordered by id."""
        return of_tasks(self.connection, [(self.project, task)])[self.project, task]

    def is_annotated(self, task: int) -> bool:
        """Whether the task ever had an annotation, even if it was skipped, withdrawn or deleted since."""
        query = select(_table.c.annotation_id).where(_table.c.project == self.project, _table.c.task == task)
        return self.connection.execute(query.limit(1)).first() is not None

    def tasks(self) -> list[int]:
        """Return every task that ever had an annotation, in ascending order, even if it was deleted since."""
        query = (
            select(_table.c.task)
            .where(_table.c.project == self.project, _table.c.task.is_not(None))
            .distinct()
        )
        return list(self.connection.scalars(query.order_by(_table.c.task)))

    def all(self) -> list[Annotation]:
        """Return a project's annotations that are not deleted and whose task is known, ordered by id."""
        return in_scope(self.connection, self.project, None, None)

    def keep_originals(self, control: str, said: Mapping[int, str]) -> None:
        """Keep what annotations say (annotation → answer) beside what Label Studio will say they do."""
        for annotation in self.all():
            if (answer := said.get(annotation.annotation_id)) is not None:
                before = annotation.originals or {}
                kept = {**before, control: [*before.get(control, ()), answer]}
                of = _table.c.annotation_id == annotation.annotation_id
                self.connection.execute(
                    update(_table).where(_table.c.project == self.project, of).values(originals=kept)
                )

    def count(self) -> int:
        """Count a project's annotations that are not deleted and may teach."""
        counted = select(func.count()).where(
            _table.c.project == self.project, ~_table.c.deleted, ~_table.c.withdrawn, _table.c.teaches
        )
        return self.connection.scalars(counted).one()

    def lead_times(self, most: int) -> list[float]:
        """Return the seconds that the latest annotations took, where they may teach and the time is known."""
        query = (
            select(_table.c.lead_time)
            .where(
                _table.c.project == self.project,
                ~_table.c.deleted,
                _table.c.teaches,
                _table.c.lead_time > 0.0,
            )
            .order_by(_table.c.received_at.desc())
            .limit(most)
        )
        return list(self.connection.scalars(query))

    def prefilled_tasks(self) -> frozenset[int]:
        """Return the tasks with an annotation whose form was prefilled with a prediction."""
        query = select(_table.c.task).where(
            _table.c.project == self.project,
            ~_table.c.deleted,
            _table.c.prediction_shown,
            _table.c.task.is_not(None),
        )
        return frozenset(self.connection.scalars(query.distinct()))

    def ids(self) -> frozenset[int]:
        """Return the ids of a project's annotations that are not deleted."""
        query = select(_table.c.annotation_id).where(_table.c.project == self.project, ~_table.c.deleted)
        return frozenset(self.connection.scalars(query))

    def forget_tasks(self, tasks: Sequence[int]) -> int:
        """Replace deleted tasks' annotations by tombstones, and return how many there were."""
        of_tasks = among(_table.c.task, tasks)
        return self.connection.execute(
            update(_table)
            .where(_table.c.project == self.project, of_tasks, ~_table.c.deleted)
            .values(**_EMPTIED)
        ).rowcount

    def apply_withdrawals(self, task: int) -> int:
        """Withdraw a task's annotations, or bring them back, as the stored commands say.

        Returns:
            How many annotations changed.
        """
        commands = self.withdrawals()
        changed = [
            annotation
            for annotation in self.of_task(task)
            if annotation.withdrawn != is_withdrawn(commands, annotation)
        ]
        for annotation in changed:
            self.connection.execute(
                update(_table)
                .where(_table.c.project == self.project, _table.c.annotation_id == annotation.annotation_id)
                .values(withdrawn=not annotation.withdrawn)
            )
        return len(changed)

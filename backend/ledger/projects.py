"""Projects as Label Studio last reported them, their label schemes, and the alerts that were seen."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, exists, func, insert, select, update

from backend.ledger.database import tables
from backend.ledger.database.statements import among, found_among, insert_new, insert_or_replace, now
from camvo.votes.relabelling import LabelChange, LabelMap

_failures, _deleted, _instructions = tables.failed_tasks, tables.deleted_tasks, tables.instructions
_labelled = tables.rounds.c
_FAILURES_OF = (_failures.c.project == bindparam("of"), _failures.c.task == bindparam("number"))
_FIND_FAILURES = select(_failures.c.task).where(
    _failures.c.project == bindparam("of"), among(_failures.c.task, "numbers")
)
_FORGET_FAILURES = delete(_failures).where(*_FAILURES_OF)


@dataclass(frozen=True, slots=True)
class _FailedTask:
    """One task without a prediction.

    Attributes:
        task: the task's number.
        code: the code of the latest :class:`backend.errors.TaskError`.
        failed_at: when it was raised, unix seconds.
    """

    task: int
    code: str
    failed_at: float


def failed_among(connection: Connection, tasks: Iterable[tuple[str, int]]) -> set[tuple[str, int]]:
    """Return those of the tasks, projects and numbers, whose latest run failed."""
    return found_among(connection, _FIND_FAILURES, tasks)


@dataclass(frozen=True, slots=True)
class FailedTasks:
    """A project's tasks that have no prediction because their latest run failed."""

    connection: Connection
    project: str

    def record(self, task: int, code: str, now: float, file: str | None = None) -> None:
        """Record that a task, maybe a row of a file, failed; an earlier reason is replaced."""
        row = {"project": self.project, "task": task, "code": code, "failed_at": now, "file": file}
        self.connection.execute(insert_or_replace(_failures), row)

    def forget(self, tasks: Iterable[int]) -> None:
        """Forget that some tasks failed: they got a prediction, or are gone."""
        if rows := [{"of": self.project, "number": task} for task in tasks]:
            self.connection.execute(_FORGET_FAILURES, rows)

    def by_file(self) -> dict[str, list[int]]:
        """Return file → the numbers of the failed tasks that are rows of it."""
        query = select(_failures.c.task, _failures.c.file).where(
            _failures.c.project == self.project, _failures.c.file.is_not(None)
        )
        found: dict[str, list[int]] = {}
        for row in self.connection.execute(query):
            found.setdefault(row.file, []).append(row.task)
        return found

    def count_unlabelled(self) -> int:
        """Count the failed tasks of which no question has a label either."""
        labelled = exists().where(_labelled.project == self.project, _labelled.task == _failures.c.task)
        query = select(func.count()).where(_failures.c.project == self.project, ~labelled)
        return self.connection.scalars(query).one()

    def codes_of(self, tasks: Sequence[int]) -> dict[int, str]:
        """Return the failed ones of these tasks, each with the code of the latest reason."""
        query = select(_failures.c.task, _failures.c.code).where(
            _failures.c.project == self.project, among(_failures.c.task, tasks)
        )
        return {row.task: row.code for row in self.connection.execute(query)}

    def count(self) -> dict[str, int]:
        """Return code → number of failed tasks, the most frequent first."""
        number = func.count()
        query = (
            select(_failures.c.code, number.label("tasks"))
            .where(_failures.c.project == self.project)
            .group_by(_failures.c.code)
            .order_by(number.desc(), _failures.c.code)
        )
        return {row.code: row.tasks for row in self.connection.execute(query)}


def list_failures(
    connection: Connection, projects: Collection[str], first: int, last: int | None, *, limit: int
) -> list[_FailedTask]:
    """Return the failed tasks whose numbers are in a range, in their order."""
    query = (
        select(_failures.c.task, _failures.c.code, _failures.c.failed_at)
        .where(_failures.c.project.in_(projects), _failures.c.task >= first)
        .order_by(_failures.c.task)
        .limit(limit)
    )
    if last is not None:
        query = query.where(_failures.c.task <= last)
    return [_FailedTask(**row._mapping) for row in connection.execute(query)]


_FIND_DELETED = select(_deleted.c.task).where(
    _deleted.c.project == bindparam("of"), among(_deleted.c.task, "numbers")
)


def is_deleted(connection: Connection, project: str, task: int) -> bool:
    """Whether the task was deleted. Label Studio never reuses a task's number."""
    return bool(deleted_among(connection, [(project, task)]))


def deleted_among(connection: Connection, tasks: Iterable[tuple[str, int]]) -> set[tuple[str, int]]:
    """Return those of the tasks that were deleted; each is a project and a number."""
    return found_among(connection, _FIND_DELETED, tasks)


_table = tables.projects
_GET = select(_table).where(_table.c.key == bindparam("project"))
_NEXT = (
    update(_table)
    .where(_table.c.key == bindparam("project"))
    .values(sequence=_table.c.sequence + bindparam("count"))
    .returning(_table.c.sequence)
)


@dataclass(frozen=True, slots=True)
class Project:
    """One project of Label Studio, or of a labelled file.

    Attributes:
        key: Label Studio's name of the project, ``<id>.<created_at in unix seconds>``; a file's name.
        sequence: the number of the project's last event, 0 before the first.
        extra_params: the overrides sent with ``/setup``, as parsed JSON.
        label_config: the XML received last.
        model_version: the model version that Label Studio shows for the project.
        updated_at: unix seconds.
        title: the project's title, ``None`` before the first webhook.
        hostname: Label Studio's own address, ``None`` before it has called ``/setup``.
        instructions: the project's labelling instructions as plain text, empty if it has none; ``None`` while
            nobody has told them.
        task_number: how many tasks the project has, by its latest webhook or ``camvo predict``.
        predicted: control → hash of the question that its latest predictions answered.
        feedback_refused: how often people labelled a task whose rounds were pruned.
        changed_at: Label Studio's ISO time of the project's last change that a webhook has told, unchanged.
    """

    key: str
    sequence: int
    extra_params: Any
    label_config: str | None
    model_version: str | None
    updated_at: float
    title: str | None = None
    hostname: str | None = None
    task_number: int | None = None
    predicted: Mapping[str, str] | None = None
    feedback_refused: int = 0
    instructions: str | None = None
    changed_at: str | None = None


def is_of_label_studio(key: str) -> bool:
    """Whether a project is one of Label Studio; that of a file (``camvo label``) has a name as its key."""
    return key.partition(".")[0].isdigit()


def short_name(key: str) -> str:
    """The project's number in Label Studio; the name of a project of a file."""
    return key.partition(".")[0] if is_of_label_studio(key) else key


def ensure(connection: Connection, project: str, now: float) -> None:
    """Insert the project if it is not in the ledger yet."""
    row = {"key": project, "sequence": 0, "updated_at": now}
    connection.execute(insert_new(_table), row)


def get(connection: Connection, project: str) -> Project | None:
    """Return the project, or ``None`` if the ledger does not know it."""
    row = connection.execute(_GET, {"project": project}).one_or_none()
    return None if row is None else Project(**row._mapping)


def list_all(connection: Connection) -> list[Project]:
    """Return every project, ordered by key."""
    return [Project(**row._mapping) for row in connection.execute(select(_table).order_by(_table.c.key))]


def remember(connection: Connection, project: str, *, now: float, **columns: object) -> None:
    """Store the given columns of :class:`Project`, including ``None``; the others stay as they are."""
    ensure(connection, project, now)
    connection.execute(update(_table).where(_table.c.key == project).values(**columns, updated_at=now))


@dataclass(frozen=True, slots=True)
class DatedText:
    """Labelling instructions that a project has or had.

    Attributes:
        text: the text.
        begun_at: when they last became the project's, unix seconds.
    """

    text: str
    begun_at: float

    @property
    def id(self) -> str:
        """A short name, which stays the same: the beginning of a hash of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:8]


def note_instructions(connection: Connection, project: str, text: str, now: float) -> None:
    """Note that a project's labelling instructions are this text from now on."""
    connection.execute(insert(_instructions), {"project": project, "text": text, "begun_at": now})


def dated_texts(connection: Connection, project: str) -> list[DatedText]:
    """Return the labelling instructions that a project has had, each once, the latest first."""
    query = select(_instructions.c.text, _instructions.c.begun_at).where(_instructions.c.project == project)
    found = dict[str, DatedText]()
    for row in connection.execute(query.order_by(_instructions.c.id.desc())):
        found.setdefault(row.text, DatedText(**row._mapping))
    return list(found.values())


def last_event(connection: Connection, project: str) -> int:
    """Return the number of the project's last event; 0 before the first."""
    query = select(_table.c.sequence).where(_table.c.key == project)
    return connection.scalars(query).one_or_none() or 0


def next_sequences(connection: Connection, project: str, count: int, now: float) -> range:
    """Raise the project's counter and return the numbers of its next events, counted from 1.

    A project that is not in the ledger yet is inserted. The update locks the project's row until the
    transaction ends. Numbers therefore become visible in order, and numbers that are rolled back are used
    again, so there are no gaps.
    """
    values = {"project": project, "count": count}
    last = connection.execute(_NEXT, values).scalar_one_or_none()
    if last is None:
        ensure(connection, project, now)
        last = connection.execute(_NEXT, values).scalar_one()
    return range(int(last) - count + 1, int(last) + 1)


def count_refused_feedback(connection: Connection, project: str) -> None:
    """Count that people labelled a task of the project whose rounds are pruned."""
    counted = _table.c.feedback_refused + 1
    connection.execute(update(_table).where(_table.c.key == project).values(feedback_refused=counted))


_schemes = tables.schemes


@dataclass(frozen=True, slots=True)
class Scheme:
    """The labels that a question has from some time on. Schemes are only ever appended.

    Attributes:
        control: the name of the question's control tag.
        epoch: the question's epoch.
        label_config: the label config.
        embedder: the identity of the embedder.
        source: the epoch whose rounds were carried over; ``None`` if everything began anew.
        labels: each label of the source → its label here, ``None`` for one that is dropped; empty if no label
            changed.
        created_at: unix seconds.
        id: the row's id, 0 before the scheme is stored.
        parts: label of the source that is split → its parts here.
        instructions: what models read besides the label config; ``None`` for nothing.
        beside: whether it is of earlier instructions, whose labels were carried over beside those of the
            present ones, so that it was never the question's scheme of its time.
        undo: whether it takes back an earlier change of labels.
    """

    control: str
    epoch: str
    label_config: str
    embedder: str = ""
    source: str | None = None
    labels: LabelMap = field(default_factory=dict)
    created_at: float = 0.0
    id: int = 0
    parts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    instructions: str | None = None
    beside: bool = False
    undo: bool = False

    @property
    def change(self) -> LabelChange:
        """How the labels changed."""
        return LabelChange(self.labels, tuple(self.parts))


@dataclass(frozen=True, slots=True)
class Schemes:
    """The label schemes of a project's questions."""

    connection: Connection
    project: str

    def all(self) -> list[Scheme]:
        """Return every scheme, the earliest first."""
        query = select(_schemes).where(_schemes.c.project == self.project).order_by(_schemes.c.id)
        return [_scheme(row) for row in self.connection.execute(query)]

    def latest(self) -> dict[str, Scheme]:
        """Return control → its scheme now."""
        return latest_of(self.all())

    def epochs(self) -> dict[str, str]:
        """Return control → the epoch of its scheme now."""
        columns = (_schemes.c.control, _schemes.c.epoch)
        query = select(*columns).where(_schemes.c.project == self.project, ~_schemes.c.beside)
        return {row.control: row.epoch for row in self.connection.execute(query.order_by(_schemes.c.id))}

    def append(self, scheme: Scheme) -> None:
        """Store a scheme, which is the question's from now on."""
        row = {each.name: getattr(scheme, each.name) for each in fields(Scheme) if each.name != "id"}
        parts = {label: list(of) for label, of in scheme.parts.items()}
        row |= {"labels": dict(scheme.labels), "parts": parts, "project": self.project}
        self.connection.execute(insert(_schemes), row)


def latest_of(history: Iterable[Scheme]) -> dict[str, Scheme]:
    """Return control → its scheme now, of schemes whose earliest comes first."""
    return {scheme.control: scheme for scheme in history if not scheme.beside}


_RELABELLED = (
    select(_schemes.c.project, _schemes.c.control, _schemes.c.labels, _schemes.c.parts)
    .where(among(_schemes.c.project, "projects"), _schemes.c.source.is_not(None))
    .where(~_schemes.c.beside)  # the same change as the scheme beside which it was made
    .order_by(_schemes.c.id)
)


def relabelled_in(
    connection: Connection, projects: Collection[str]
) -> dict[str, dict[str, list[LabelChange]]]:
    """Return project → control → how its labels changed, the earliest first; others are absent."""
    found: dict[str, dict[str, list[LabelChange]]] = {}
    for row in connection.execute(_RELABELLED, {"projects": list(projects)}):
        if row.labels:
            of_control = found.setdefault(row.project, {}).setdefault(row.control, [])
            of_control.append(LabelChange(row.labels, tuple(row.parts)))
    return found


def _scheme(row: Row[Any]) -> Scheme:
    return Scheme(**{each.name: getattr(row, each.name) for each in fields(Scheme)})


_alerts = tables.alerts

_FLICKERING = 900.0
"""An alert is over when it was not seen for this many seconds, so that a flickering one is reported once."""


@dataclass(frozen=True, slots=True, order=True)
class AlertKey:
    """What an alert is about.

    Attributes:
        project: the project's key, empty if it concerns all of them.
        code: its stable code.
        subject: the model or the control that it is about, empty if none.
    """

    project: str
    code: str
    subject: str


_IS_ALERT = (
    _alerts.c.project == bindparam("of"),
    _alerts.c.code == bindparam("named"),
    _alerts.c.subject == bindparam("about"),
)


@dataclass(frozen=True, slots=True)
class Alerts:
    """The alerts that were ever seen."""

    connection: Connection

    def see(self, seen: Collection[AlertKey]) -> list[AlertKey]:
        """Record which alerts there are now; those not seen for :data:`_FLICKERING` seconds are over.

        Returns:
            Those of them that have not been reported to people since they began.
        """
        at = now(self.connection)
        for key in sorted(seen):
            row = {"project": key.project, "code": key.code, "subject": key.subject}
            self.connection.execute(insert_new(_alerts), row | {"began_at": at, "seen_at": at})
            again = update(_alerts).where(*_IS_ALERT, _alerts.c.over_at.is_not(None))
            self.connection.execute(again.values(began_at=at, posted_at=None, over_at=None), _alert_row(key))
            self.connection.execute(update(_alerts).where(*_IS_ALERT).values(seen_at=at), _alert_row(key))
        gone = (_alerts.c.over_at.is_(None), _alerts.c.seen_at < at - _FLICKERING)
        self.connection.execute(update(_alerts).where(*gone).values(over_at=at))
        new = select(_alerts.c.project, _alerts.c.code, _alerts.c.subject).where(
            _alerts.c.over_at.is_(None), _alerts.c.posted_at.is_(None)
        )
        return sorted({AlertKey(*row) for row in self.connection.execute(new)} & set(seen))

    def reported(self, keys: Collection[AlertKey]) -> None:
        """Record that these alerts were reported to people."""
        at = now(self.connection)
        for key in keys:
            self.connection.execute(update(_alerts).where(*_IS_ALERT).values(posted_at=at), _alert_row(key))

    def known(self) -> dict[AlertKey, bool]:
        """Return every alert that was ever recorded → whether it still holds."""
        query = select(_alerts.c.project, _alerts.c.code, _alerts.c.subject, _alerts.c.over_at)
        return {
            AlertKey(project, code, subject): over_at is None
            for project, code, subject, over_at in self.connection.execute(query)
        }


def _alert_row(key: AlertKey) -> dict[str, str]:
    return {"of": key.project, "named": key.code, "about": key.subject}

"""``camvo teach``: people's labels of a file go the way of Label Studio's annotations.

Each task has one annotation of each annotator. A label that has changed replaces it, and a cell that was
emptied withdraws it, so teaching a file twice teaches it once.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import time
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from sqlalchemy import Connection

from backend import settings as settings_module
from backend.commands.label.columns import ANNOTATOR, PROJECT, TASK, label_columns
from backend.commands.shared.arguments import quiet_environment
from backend.commands.shared.output import say
from backend.commands.shared.setup import existing_ledger
from backend.datasets.sinks import spreadsheet_text
from backend.datasets.sources import Row, Source, open_source
from backend.datasets.tasks import content_number, keys_read, task_data, task_number
from backend.errors import DatasetError, TaskError
from backend.label_studio.payloads import WebhookEvent
from backend.label_studio.predictions import ANSWERED
from backend.learning.actions import PART, prepare_event
from backend.learning.annotators import ReliabilityFits
from backend.learning.teaching import answering
from backend.ledger import Ledger, LedgerAccess, projects
from backend.ledger.blind_tasks import BlindQueue, BlindQueues
from backend.ledger.database.statements import portions
from backend.ledger.human_annotations import Annotation, Annotations, studio_time
from backend.ledger.projects import Project, relabelled_in
from backend.ledger.rounds import ProjectRounds
from backend.questions import ConfigQuestion, TaskQuestion, parse_label_config
from backend.questions.controls import TaskContent
from backend.server.status.formats import named_task, of, verb_of
from backend.settings import Settings
from camvo.errors import CamvoError

_FIRST, _NAMES = 10**9, 9 * 10**9
"""Numbers of names have ten digits, far from those that Label Studio gives to users."""


def annotator_number(said: object, place: str) -> int | None:
    """The number of an annotator; ``None`` for nobody in particular.

    Each name gets its own number, the same every time. The ledger holds only the number.
    """
    name = str(int(said) if isinstance(said, float) and said.is_integer() else said or "").strip()
    if not name:
        return None
    if not (name.removeprefix("-").isdecimal() and name.isascii() and len(name) < 20):
        digest = hashlib.sha256(name.encode()).digest()
        return _FIRST + int.from_bytes(digest[:8], "big") % _NAMES
    if not 0 < int(name) < 2**63:
        raise DatasetError("is not the number of an annotator", where=place, fix="give a number or a name")
    return int(name)


@dataclass(frozen=True, slots=True)
class _HumanRow:
    """What one row says."""

    place: str
    project: str
    task: int
    data: Mapping[str, Any]
    votes: Mapping[str, str]
    result: list[dict[str, Any]]
    said_by: str = ""
    annotator: int | None = None

    @property
    def annotation(self) -> int:
        """The number of the annotation in [0, 2⁶³); without an annotator that of the task."""
        if self.annotator is None:
            return self.task
        return (
            int.from_bytes(hashlib.sha256(f"{self.task}:{self.annotator}".encode()).digest()[:8], "big") >> 1
        )


_NAMED = 5
"""The most wrong labels that an error names."""

_LONGEST = 40
"""The most characters of each."""


@dataclass(slots=True)
class _WrongLabels:
    """The labels in a file that are no answers: (column, label) → how many rows and the first place."""

    rows: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    fixes: dict[str, None] = field(default_factory=dict)

    def add(self, column: str, answer: object, place: str, fix: str | None) -> None:
        """Take a cell into account."""
        label = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, default=str)
        count, first = self.rows.get((column, label), (0, place))
        self.rows[column, label] = count + 1, first
        if fix is not None:
            self.fixes[fix] = None

    def refuse(self, path: Path) -> None:
        """Raise the error that names them, if there are any."""
        if not self.rows:
            return
        named = [
            f"{label[:_LONGEST]!r} in column {column!r} ({f'{count:,} rows, first in ' * (count > 1)}{first})"
            for (column, label), (count, first) in islice(self.rows.items(), _NAMED)
        ]
        if others := len(self.rows) - len(named):
            named.append(of(others, "other wrong label"))
        raise DatasetError(
            f"holds labels that are no answers: {', '.join(named)}",
            where=str(path),
            fix="; ".join(islice(self.fixes, _NAMED)) or None,
        )


def _human_rows(
    source: Source, projects: Mapping[str, Project], connection: Connection, annotator: str | None = None
) -> Iterator[_HumanRow]:
    """Read the labels in a file."""
    wrong = _WrongLabels()
    for row in source.rows():
        place = f"{source.path}, {row.place}"
        project = _project(row, place, projects)
        label_config = project.label_config or ""
        config = parse_label_config(label_config)
        read = keys_read(label_config)
        keys = [key for key in read if key in row.data]
        if read and not keys and TASK not in row.data:
            raise DatasetError(
                f"has no column {' or '.join(map(repr, read))}, which the labels are about",
                where=place,
                fix="name the column of the texts so, or add the column camvo_task of blind.csv",
            )
        data = task_data(row, dict(zip(keys, keys, strict=True)), place)
        if TASK in row.data:  # else the file is not one that we wrote
            data = {key: spreadsheet_text(text) for key, text in data.items()}
        columns = label_columns(config)
        if missing := [column for column in columns if column not in row.data]:
            raise DatasetError(
                f"has no column {missing[0]!r}", where=place, fix="keep the columns of the file as they were"
            )
        votes, result = {}, []
        for question in config.questions:
            column = next(column for column, name in columns.items() if name == question.name)
            if (answer := _answer(row.data[column])) is None:
                continue
            about = _about(question, data)
            vote = _vote(about, answer)
            if vote is None:
                fix = _new_name(connection, project.key, about, answer) or (
                    f"use one of {', '.join(map(repr, about.options[:20]))}" if about.options else None
                )
                wrong.add(column, answer, row.place, fix)
                continue
            votes[question.name] = vote
            result += about.result_items(vote)
        cell = row.data.get(ANNOTATOR)
        said_by = cell if cell and str(cell).strip() else annotator
        number = annotator_number(said_by, place)
        name = "" if number is None else str(said_by).strip()
        task = _task(row, place, data, ProjectRounds(connection, project.key))
        yield _HumanRow(place, project.key, task, data, votes, result, name, number)
    wrong.refuse(source.path)


def _project(row: Row, place: str, projects: Mapping[str, Project]) -> Project:
    project = projects.get(str(row.data.get(PROJECT)))
    if project is None or not project.label_config:
        raise DatasetError(
            f"names no project of this ledger in column {PROJECT!r}",
            where=place,
            fix="label the tasks first, and set CAMVO_DATABASE_URL to the same ledger",
        )
    return project


def _task(row: Row, place: str, data: Mapping[str, Any], rounds: ProjectRounds) -> int:
    """The number in the task's column; without that column, the hash of the content.

    A spreadsheet may have brought the texts into another Unicode form, so it is one that is labelled, if any.
    """
    if TASK not in row.data:
        numbers = [content_number(data), *(content_number(_in_form(data, form)) for form in ("NFC", "NFD"))]
        return next((number for number in numbers if rounds.count_of([number])), numbers[0])
    number = task_number(str(row.data[TASK]))
    if number is None:
        raise DatasetError(
            f"names no task in column {TASK!r}", where=place, fix="keep this column as it was written"
        )
    return number


def _in_form(data: Mapping[str, Any], form: Literal["NFC", "NFD"]) -> dict[str, Any]:
    texts = {key: unicodedata.normalize(form, text) for key, text in data.items() if isinstance(text, str)}
    return {**data, **texts}


def _answer(value: object) -> object:
    """A cell as a model's answer would hold it: lists and numbers are JSON; blank is no answer."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text[:1] in ("[", "{"):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text or None


def _about(question: ConfigQuestion, data: Mapping[str, Any]) -> TaskQuestion:
    """The question about the task; labels of a list can be read although the texts are missing."""
    try:
        return question.about(data)
    except TaskError:
        content = TaskContent({}, data)
        return TaskQuestion(question, content, question.control.options(content))


def _vote(question: TaskQuestion, answer: object) -> str | None:
    for form in (answer, _number(answer)):
        try:
            vote = question.vote_from_answer(form)
        except CamvoError:
            vote = None
        if vote is not None:
            return vote
    return None


def _new_name(connection: Connection, project: str, question: TaskQuestion, answer: object) -> str | None:
    """What to do about an answer in the labels of before ``camvo relabel``; ``None`` for any other."""
    changes = relabelled_in(connection, [project]).get(project, {})
    vote = (
        answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    )
    old = Annotation(project, 0, None, "", {question.name: vote}, relabelled=changes)
    for said in answering([old], question.name, question.config.control.aggregation, question.options):
        return f"camvo relabel has changed its labels: write {said.labels[question.name]} for {vote}"
    return None


def _number(answer: object) -> object:
    try:
        return float(str(answer))
    except ValueError:
        return answer


@dataclass(slots=True)
class _TeachTally:
    """The number of labels in a file: new, changed and withdrawn ones, and those known already.

    ``ahead`` counts the labels of tasks that no model has labelled, and ``blind`` those of blind tasks.
    ``held_up`` says which labels of blind tasks do not count yet. ``annotators`` are those whom the file
    names, with their numbers. ``stored`` of ``rows`` rows are in the ledger.
    """

    new: int = 0
    changed: int = 0
    withdrawn: int = 0
    known: int = 0
    empty: int = 0
    ahead: int = 0
    blind: int = 0
    held_up: list[str] = field(default_factory=list)
    annotators: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    stored: int = 0

    def interrupted(self) -> str:
        """What is kept if the command ends early, and how to go on."""
        kept = f"The labels in {self.stored:,} of {of(self.rows, 'row')} are" if self.stored else "Nothing is"
        return f"Stopped. {kept} stored. Run the same command again: it does the rest."

    def summary(self) -> str:
        """A line with the counts, and one with the annotators that have names."""
        counts = (
            f"labels: {self.new:,} new, {self.changed:,} changed, {self.withdrawn:,} withdrawn,"
            f" {self.known:,} known already; {of(self.empty, 'row')} without one"
        )
        if self.ahead:
            counts += (
                f"\n{self.ahead} of the labels {verb_of(self.ahead, 'are')} about tasks that the project has"
                " not labelled: they count once it has. Are the texts and columns the same as there?"
            )
        if self.blind:
            counts += (
                f"\n{self.blind} of the labels {verb_of(self.blind, 'are')} about blind tasks: they test"
                " scores and certify labels, and teach nothing"
            )
        counts = "\n".join([counts, *self.held_up])
        named = {name: number for name, number in sorted(self.annotators.items()) if name != str(number)}
        if not named:
            return counts
        listed = ", ".join(f"{name} is {number}" for name, number in named.items())
        return f"{counts}\nannotators in reports: {listed}"


def teach_file(path: Path, config: Path | None, annotator: str | None = None) -> _TeachTally:
    """Take the labels of a file, and weigh those of several annotators by how often each is right.

    After an interruption a line on standard error says what is stored.
    """
    tally = _TeachTally()
    try:
        _teach_file(path, config, annotator, tally)
    except KeyboardInterrupt:
        say(Console(stderr=True), tally.interrupted())
        raise
    return tally


def _teach_file(path: Path, config: Path | None, annotator: str | None, tally: _TeachTally) -> None:
    environment = quiet_environment(config)
    settings = settings_module.load(environment.config)
    source = open_source(path)
    with existing_ledger(environment, migrated=True) as ledger:
        with ledger.read() as connection:
            known = {project.key: project for project in projects.list_all(connection)}
            rows = _without_repetitions(list(_human_rows(source, known, connection, annotator)))
        tally.rows = len(rows)
        tally.annotators = {row.said_by: row.annotator for row in rows if row.annotator is not None}
        for key, of_project in itertools.groupby(
            sorted(rows, key=lambda row: row.project), key=lambda row: row.project
        ):
            label_config = known[key].label_config or ""
            with ledger.read() as connection:
                blind = ProjectRounds(connection, key).blind_tasks()
            for part in portions(of_project, PART):
                tally.ahead += _ahead(ledger, key, part)
                tally.blind += sum(bool(row.votes) and row.task in blind for row in part)
                _teach(ledger, WebhookEvent("ANNOTATION_UPDATED", key, label_config), part, settings, tally)
                tally.stored += len(part)
            if tally.annotators:
                with LedgerAccess.opened(ledger) as access:
                    asyncio.run(ReliabilityFits(access, settings).fit_if_due(key))
            if tally.blind:
                tally.held_up += _held_up(ledger, key, {row.task: row.place for row in reversed(rows)})


def _without_repetitions(rows: Sequence[_HumanRow]) -> list[_HumanRow]:
    """The rows, each task and annotator once."""
    found: dict[tuple[str, int], _HumanRow] = {}
    for row in rows:
        first = found.setdefault((row.project, row.annotation), row)
        if first.votes != row.votes:
            raise DatasetError(
                f"has another label than {first.place} for the same task",
                where=row.place,
                fix=f"keep one of the two rows, or say in column {ANNOTATOR!r} who gave which",
            )
    return list(found.values())


def _ahead(ledger: Ledger, project: str, rows: Sequence[_HumanRow]) -> int:
    """How many labels are about tasks without a round."""
    tasks = [row.task for row in rows if row.votes]
    with ledger.read() as connection:
        rounds = ProjectRounds(connection, project)
        return sum(not rounds.count_of([task]) for task in tasks)


def _held_up(ledger: Ledger, project: str, places: Mapping[int, str]) -> Iterator[str]:
    """For each question, the blind task without a label that keeps labels behind it from counting."""
    with ledger.read() as connection:
        current = ProjectRounds(connection, project).latest_epochs()
        queues = BlindQueues(connection, project).all()
    for control, epoch in sorted(current.items()):
        queue = queues.get((control, epoch), BlindQueue())
        if labels := sum(entry.reward is not None for entry in queue.behind):
            first = queue.behind[0].task
            task = f"task {named_task(first, project)}"
            place = f" ({places[first]})" if first in places else ""
            yield f"{control}: {of(labels, 'blind label')} cannot count before {task} has one, too{place}"


def _teach(
    ledger: Ledger, event: WebhookEvent, rows: Sequence[_HumanRow], settings: Settings, tally: _TeachTally
) -> None:
    with ledger.write() as connection:
        stored = [_stored(connection, row) for row in rows]
        new = [
            (row, _annotation(row, before, time.time()))
            for row, before in zip(rows, stored, strict=True)
            if _count(row, before, tally)
        ]
        annotated = replace(
            event,
            annotations=[annotation for _, annotation in new],
            data={row.task: row.data for row, _ in new},
        )
        if new:
            prepare_event(annotated, settings, time.time)(connection)


def _stored(connection: Connection, row: _HumanRow) -> Annotation | None:
    of_task = Annotations(connection, row.project).of_task(row.task)
    return next((annotation for annotation in of_task if annotation.annotation_id == row.annotation), None)


def _count(row: _HumanRow, stored: Annotation | None, tally: _TeachTally) -> bool:
    """Count a row, and return whether it says something new."""
    taught = stored is not None and stored.teaches
    if stored is None or not taught:
        tally.new += bool(row.votes)
        tally.empty += not row.votes
        return bool(row.votes)
    if dict(stored.labels) == dict(row.votes):
        tally.known += 1
        return False
    tally.changed += bool(row.votes)
    tally.withdrawn += not row.votes
    return True


def _annotation(row: _HumanRow, stored: Annotation | None, now: float) -> dict[str, Any]:
    """The row as Label Studio would send it, later than what is stored, whatever the clocks say."""
    at = datetime.fromtimestamp(now, UTC)
    if stored is not None:
        at = max(at, studio_time(stored.updated_at) + timedelta(milliseconds=1))
    return {
        "id": row.annotation,
        "task": row.task,
        "completed_by": row.annotator,
        "updated_at": at.isoformat(),
        "result": row.result,
        "was_cancelled": not row.votes,
        ANSWERED: list(row.votes),
    }

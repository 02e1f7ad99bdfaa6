"""Rows with people's labels: which task each is about, and what it says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from backend.commands.label.blind_sample import ANNOTATOR, PROJECT, TASK, label_columns
from backend.commands.teach.file_annotators import annotation_number, annotator_number
from backend.datasets.sources.row import Row, Source
from backend.datasets.tasks import content_number, keys_read, plain, task_number
from backend.errors import DatasetError, TaskError
from backend.ledger.projects import Project
from backend.questions import ConfigQuestion, TaskQuestion, parse_label_config
from backend.questions.controls.control import TaskContent
from camvo.errors import CamvoError


@dataclass(frozen=True, slots=True)
class HumanRow:
    """What one row says.

    Attributes:
        place: where the row stands.
        project: the key of the task's project.
        task: the task's number.
        data: what the row holds of the task.
        votes: control → the label, as a vote; empty if the row has none.
        result: the labels as an annotation of Label Studio.
        said_by: who gave them, as the file says it; empty if it does not.
        annotator: their number; ``None`` for nobody in particular.
    """

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
        """The number of the annotation: one for each task and annotator."""
        return annotation_number(self.task, self.annotator)


def human_rows(
    source: Source, projects: Mapping[str, Project], annotator: str | None = None
) -> Iterator[HumanRow]:
    """Read the labels in a file.

    Args:
        source: the rows, with the columns that ``camvo label --blind`` writes.
        projects: the ledger's projects by key.
        annotator: who gave the labels of rows that do not say it; ``None`` for nobody in particular.

    Raises:
        DatasetError: a row is not about a task of a known project, or its label is none of the question's.
    """
    for row in source.rows():
        place = f"{source.path}, {row.place}"
        project = _project(row, place, projects)
        label_config = project.label_config or ""
        config = parse_label_config(label_config)
        data = {key: plain(row.data[key]) for key in keys_read(label_config) if key in row.data}
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
                raise DatasetError(
                    f"holds no answer to {question.name!r} in column {column!r}",
                    where=place,
                    fix=f"use one of {', '.join(map(repr, about.options[:20]))}" if about.options else None,
                )
            votes[question.name] = vote
            result += about.result_items(vote)
        said_by = row.data.get(ANNOTATOR) or annotator
        number = annotator_number(said_by, place)
        name = "" if number is None else str(said_by).strip()
        yield HumanRow(place, project.key, _task(row, place, data), data, votes, result, name, number)


def _project(row: Row, place: str, projects: Mapping[str, Project]) -> Project:
    project = projects.get(str(row.data.get(PROJECT)))
    if project is None or not project.label_config:
        raise DatasetError(
            f"names no project of this ledger in column {PROJECT!r}",
            where=place,
            fix="label the tasks first, and set CAMVO_DATABASE_URL to the same ledger",
        )
    return project


def _task(row: Row, place: str, data: Mapping[str, Any]) -> int:
    """The number in the task's column; without that column, the hash of the content."""
    if TASK not in row.data:
        return content_number(data)
    number = task_number(str(row.data[TASK]))
    if number is None:
        raise DatasetError(
            f"names no task in column {TASK!r}", where=place, fix="keep this column as it was written"
        )
    return number


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


def _number(answer: object) -> object:
    try:
        return float(str(answer))
    except ValueError:
        return answer

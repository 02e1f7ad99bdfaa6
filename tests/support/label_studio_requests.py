"""Requests in the shape in which Label Studio 1.23.2 sends them.

Keys, nesting and types are those of recorded requests; all texts are invented.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

SENTIMENT = (
    '<View><Text name="note" value="$text"/>'
    '<Choices name="mood" toName="note" choice="single" showInLine="true">'
    '<Choice value="Glad"/><Choice value="Sad"/><Choice value="Calm"/></Choices></View>'
)
"""One question on one text."""

SENTIMENT_AND_TOPIC = SENTIMENT.replace(
    "</View>",
    '<Choices name="topic" toName="note" choice="single"><Choice value="Food"/><Choice value="Travel"/>'
    "</Choices></View>",
)
"""Two questions on the same text."""

MORE_MOODS = SENTIMENT.replace('<Choice value="Calm"/>', '<Choice value="Calm"/><Choice value="Cross"/>')
"""The first config with one more label."""

UNVOTABLE = '<View><Image name="photo" value="$url"/><TextArea name="caption" toName="photo"/></View>'
"""A config in which nothing can be voted on."""

_EPOCH = datetime(2026, 3, 1, 9, 30, 15, 250_000, tzinfo=UTC)
_ticks = itertools.count(1)


def stamp(moment: datetime) -> str:
    """A time as Label Studio writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def tick() -> str:
    """A time later than every one returned before."""
    return stamp(_EPOCH + timedelta(seconds=next(_ticks)))


@dataclass(frozen=True)
class Project:
    """A project of Label Studio; ``number`` tells projects apart."""

    number: int = 7
    label_config: str = SENTIMENT
    model_version: str | None = "camvo"
    created: datetime = _EPOCH
    instructions: str = ""
    changed: str | None = None
    """When somebody last changed it, as Label Studio writes times; ``None`` for its creation."""

    @property
    def key(self) -> str:
        """The project's name in ``/predict`` and ``/setup``."""
        return f"{self.number}.{int(self.created.timestamp())}"

    def with_config(self, label_config: str) -> Project:
        return replace(self, label_config=label_config)

    def again(self, **changes: Any) -> Project:
        """The same project, changed later."""
        return replace(self, **{"changed": tick(), **changes})

    def payload(self) -> dict[str, Any]:
        """The project as a webhook carries it, secrets included."""
        return {
            "id": self.number,
            "task_number": 12,
            "finished_task_number": 1,
            "total_predictions_number": 12,
            "total_annotations_number": 1,
            "num_tasks_with_annotations": 1,
            "useful_annotation_number": 1,
            "ground_truth_number": 0,
            "skipped_annotations_number": 0,
            "title": "diary",
            "description": "",
            "label_config": self.label_config,
            "parsed_label_config": {"mood": {"type": "Choices", "to_name": ["note"]}},
            "label_config_hash": 4321,
            "expert_instruction": self.instructions,
            "show_instruction": False,
            "show_skip_button": True,
            "enable_empty_annotation": True,
            "show_collab_predictions": True,
            "evaluate_predictions_automatically": False,
            "token": "the-project-token",
            "color": "#FFFFFF",
            "maximum_annotations": 1,
            "min_annotations_to_start_training": 0,
            "control_weights": {},
            "model_version": self.model_version,
            "is_draft": False,
            "is_published": False,
            "created_at": stamp(self.created),
            "updated_at": self.changed or stamp(self.created),
            "sampling": "Sequential sampling",
            "skip_queue": "REQUEUE_FOR_OTHERS",
            "task_data_login": None,
            "task_data_password": "the-task-data-password",
            "organization": 1,
            "created_by": 1,
        }


@dataclass(frozen=True)
class Annotation:
    """An annotation; by default one that a human submits through the API."""

    number: int
    task: int
    mood: str | None
    updated: str = field(default_factory=tick)
    ground_truth: bool = False
    skipped: bool = False
    lead_time: float | None = 4.5
    from_prediction: int | None = None
    prediction: Mapping[str, Any] = field(default_factory=dict)
    origin: str | None = None
    bulk: bool = False
    user: int = 1
    control: str = "mood"
    result: Sequence[Mapping[str, Any]] | None = None
    """Result items to send instead of one choice of a mood."""

    def again(self, **changes: Any) -> Annotation:
        """The same annotation, updated later."""
        return replace(self, **{"updated": tick(), **changes})

    def payload(self, project: Project) -> dict[str, Any]:
        choices = [] if self.mood is None else [choice(self.mood, self.control)]
        result: list[Mapping[str, Any]] = list(choices if self.result is None else self.result)
        if self.origin is not None:
            result = [{**region, "id": f"region{self.number}", "origin": self.origin} for region in result]
        return {
            "id": self.number,
            "result": result,
            "was_cancelled": self.skipped,
            "ground_truth": self.ground_truth,
            "created_at": stamp(_EPOCH),
            "updated_at": self.updated,
            "draft_created_at": None,
            "lead_time": self.lead_time,
            "prediction": dict(self.prediction),
            "result_count": len(result),
            "unique_id": f"00000000-0000-4000-8000-{self.number:012d}",
            "import_id": None,
            "last_action": None,
            "bulk_created": self.bulk,
            "task": self.task,
            "project": project.number,
            "completed_by": self.user,
            "updated_by": self.user,
            "parent_prediction": self.from_prediction,
            "parent_annotation": None,
            "last_created_by": None,
        }


def choice(label: str, control: str = "mood") -> dict[str, Any]:
    """A region of a Choices control."""
    return {"from_name": control, "to_name": "note", "type": "choices", "value": {"choices": [label]}}


def task(number: int, text: object = None, project: Project | None = None, **changes: Any) -> dict[str, Any]:
    """A task as ``/predict`` carries it."""
    payload = {
        "id": number,
        "data": {"text": f"Entry {number} of the diary." if text is None else text, "ref": number},
        "meta": {},
        "created_at": stamp(_EPOCH),
        "updated_at": stamp(_EPOCH),
        "is_labeled": False,
        "overlap": 1,
        "inner_id": number,
        "total_annotations": 0,
        "cancelled_annotations": 0,
        "total_predictions": 0,
        "comment_count": 0,
        "unresolved_comment_count": 0,
        "last_comment_updated_at": None,
        "project": (project or Project()).number,
        "updated_by": None,
        "file_upload": None,
        "comment_authors": [],
        "annotations": [],
        "predictions": [],
    }
    return {**payload, **changes}


def predict(
    tasks: Iterable[object], project: Project | None = None, context: object = None
) -> dict[str, Any]:
    """The body of POST /predict."""
    project = project or Project()
    return {
        "tasks": list(tasks),
        "project": project.key,
        "label_config": project.label_config,
        "params": {"login": None, "password": None, "context": context},
    }


def setup(project: Project | None = None, extra_params: object = None) -> dict[str, Any]:
    """The body of POST /setup."""
    project = project or Project()
    return {
        "project": project.key,
        "schema": project.label_config,
        "hostname": "http://localhost:8080",
        "access_token": "the-access-token",
        "extra_params": extra_params,
    }


def annotated(
    annotation: Annotation, project: Project | None = None, action: str = "ANNOTATION_CREATED"
) -> dict[str, Any]:
    """ANNOTATION_CREATED or ANNOTATION_UPDATED."""
    project = project or Project()
    labelled = task(annotation.task, project=project, is_labeled=True, total_annotations=1, allow_skip=True)
    del labelled["annotations"], labelled["predictions"]
    return {
        "action": action,
        "annotation": annotation.payload(project),
        "project": project.payload(),
        "task": labelled,
    }


def updated(annotation: Annotation, project: Project | None = None) -> dict[str, Any]:
    return annotated(annotation, project, "ANNOTATION_UPDATED")


def annotated_in_bulk(annotations: Sequence[Annotation], project: Project | None = None) -> dict[str, Any]:
    """ANNOTATIONS_CREATED, as sent by the action "create annotations from predictions"."""
    project = project or Project()
    return {
        "action": "ANNOTATIONS_CREATED",
        "annotation": [annotation.payload(project) for annotation in annotations],
        "project": project.payload(),
        "task": [task(annotation.task, project=project) for annotation in annotations],
    }


def annotations_deleted(*numbers: int, project: Project | None = None) -> dict[str, Any]:
    """ANNOTATIONS_DELETED, which carries only ids."""
    return _of_project("ANNOTATIONS_DELETED", project, annotations=[{"id": number} for number in numbers])


def tasks_deleted(*numbers: int, project: Project | None = None) -> dict[str, Any]:
    return _of_project("TASKS_DELETED", project, tasks=[{"id": number} for number in numbers])


def tasks_created(*tasks: Mapping[str, Any], project: Project | None = None) -> dict[str, Any]:
    return _of_project("TASKS_CREATED", project, tasks=list(tasks))


def project_updated(project: Project | None = None) -> dict[str, Any]:
    return _of_project("PROJECT_UPDATED", project)


def start_training(project: Project | None = None) -> dict[str, Any]:
    return _of_project("START_TRAINING", project)


def _of_project(action: str, project: Project | None, **further: object) -> dict[str, Any]:
    return {"action": action, **further, "project": (project or Project()).payload()}

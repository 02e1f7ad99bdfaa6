"""Label Studio's webhooks as values: what arrived, and the annotations in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from backend.errors import BadBodyError
from backend.label_studio.payloads import is_id
from backend.ledger.human_annotations import Annotation
from backend.questions import LabelConfig

START_TRAINING = "START_TRAINING"
"""The one action that comes from Label Studio's ML side, and about a whole project."""

_KNOWN_ACTION = re.compile(r"[A-Z_]{1,64}")


@dataclass(frozen=True, slots=True)
class WebhookEvent:
    """One webhook, reduced to what CaMVo reads.

    Attributes:
        action: Label Studio's name of the event.
        project_key: ``<id>.<created_at in unix seconds>``, as ``/predict`` and ``/setup`` say it.
        label_config: the project's label config at the time of the event.
        model_version: the version that the project shows, ``None`` when it shows none.
        annotations: the full annotations, of ``*_CREATED`` and ``*_UPDATED``.
        annotation_ids: the ids of deleted ones, which is all that Label Studio sends.
        task_ids: the ids of deleted tasks.
        data: the data of the annotated tasks, by their ids, as far as they came along.
    """

    action: str
    project_key: str
    label_config: str = ""
    model_version: str | None = None
    annotations: Sequence[Mapping[str, Any]] = field(default=())
    annotation_ids: Sequence[int] = field(default=())
    task_ids: Sequence[int] = field(default=())
    data: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)


def read(body: Mapping[str, Any]) -> WebhookEvent:
    """A webhook's body as an event.

    Raises:
        BadBodyError: no action, or a project without an id.
    """
    action, project = body.get("action"), body.get("project")
    if not isinstance(action, str) or not _KNOWN_ACTION.fullmatch(action):
        raise BadBodyError(
            "a webhook needs an action", where="body.action", fix="send Label Studio's payload"
        )
    if not isinstance(project, Mapping) or not is_id(project.get("id")):
        raise BadBodyError(
            "a webhook needs the project it is about",
            where="body.project.id",
            fix='leave "Send payload" of the webhook switched on in Label Studio',
        )
    given = body.get("annotation")
    annotations = given if isinstance(given, list) else [given]
    shown = body.get("task")
    return WebhookEvent(
        action=action,
        project_key=project_key(project),
        label_config=str(project.get("label_config") or ""),
        model_version=project.get("model_version") or None,
        annotations=[one for one in annotations if isinstance(one, Mapping)],
        annotation_ids=_ids([*_list(body.get("annotations")), *annotations]),
        task_ids=_ids(_list(body.get("tasks"))),
        data=data_of(shown if isinstance(shown, list) else [shown]),
    )


def parts(event: WebhookEvent, size: int = 20) -> Iterator[WebhookEvent]:
    """An event with many annotations or tasks as several, each quick enough for one transaction.

    Other writers wait no longer than one part takes. If we stop between two, START_TRAINING catches up with
    the rest, as Label Studio repeats nothing.
    """
    most = max(len(event.annotations), len(event.annotation_ids), len(event.task_ids), 1)
    for start in range(0, most, size):
        end = start + size
        yield replace(
            event,
            annotations=event.annotations[start:end],
            annotation_ids=event.annotation_ids[start:end],
            task_ids=event.task_ids[start:end],
        )


def data_of(tasks: Sequence[object]) -> dict[int, Mapping[str, Any]]:
    """The data of tasks, by their ids."""
    return {
        task["id"]: task["data"]
        for task in tasks
        if isinstance(task, Mapping) and is_id(task.get("id")) and isinstance(task.get("data"), Mapping)
    }


def project_key(project: Mapping[str, Any]) -> str:
    """The key under which ``/predict`` names the same project: its id and its creation in unix seconds."""
    try:
        created = datetime.fromisoformat(str(project["created_at"]))
    except (KeyError, ValueError) as error:
        raise BadBodyError(
            "the project's creation time is missing", where="body.project.created_at", fix="send it as is"
        ) from error
    return f"{project['id']}.{int(created.timestamp())}"


def annotations_in(event: WebhookEvent, config: LabelConfig) -> Iterator[Annotation]:
    """The annotations of an event, with the humans' labels read through the label config.

    A skipped annotation teaches nothing, though its result still holds the prediction the form was filled
    with; neither does one that Label Studio made from a prediction in bulk, which no human looked at, until
    somebody marks it as the ground truth.
    """
    for given in event.annotations:
        if not is_id(given.get("id")):
            continue
        result = [region for region in _list(given.get("result")) if isinstance(region, Mapping)]
        answers = {question.name: question.vote_from_annotation(result) for question in config.questions}
        yield Annotation(
            project=event.project_key,
            annotation_id=given["id"],
            task=given["task"] if is_id(given.get("task")) else None,
            updated_at=str(given.get("updated_at") or ""),
            labels={control: label for control, label in answers.items() if label is not None},
            ground_truth=bool(given.get("ground_truth")),
            teaches=not given.get("was_cancelled")
            and (bool(given.get("ground_truth")) or not _made_in_bulk(given)),
            origin=_origin(result),
            prediction_shown=bool(given.get("prediction")) or given.get("parent_prediction") is not None,
            completed_by=given["completed_by"] if is_id(given.get("completed_by")) else None,
        )


def _made_in_bulk(annotation: Mapping[str, Any]) -> bool:
    """Whether Label Studio turned a prediction into this annotation itself: nobody spent any time on it."""
    from_prediction = annotation.get("parent_prediction") is not None or bool(annotation.get("bulk_created"))
    return from_prediction and annotation.get("lead_time") is None


def _origin(result: Sequence[Mapping[str, Any]]) -> str | None:
    """How the form was left: any changed region makes the whole "prediction-changed"."""
    origins = {region["origin"] for region in result if isinstance(region.get("origin"), str)}
    if len(origins) > 1:
        return "prediction-changed" if origins & {"prediction", "prediction-changed"} else "manual"
    return next(iter(origins), None)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _ids(entries: Sequence[object]) -> list[int]:
    ids = (entry.get("id") if isinstance(entry, Mapping) else entry for entry in entries)
    return [number for number in ids if is_id(number)]

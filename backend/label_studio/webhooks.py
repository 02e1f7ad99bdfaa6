"""Label Studio's webhooks as values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from backend.errors import BadBodyError
from backend.label_studio.payloads import is_id

WEBHOOK_HEADER = "X-Camvo-Secret"
"""The header that authenticates Label Studio's webhooks, which carry no basic auth."""

START_TRAINING = "START_TRAINING"
"""The only action that Label Studio's ML code sends; it is about a whole project."""

_LONGEST_TITLE = 200

_ACTION = re.compile(r"[A-Z_]{1,64}")


@dataclass(frozen=True, slots=True)
class WebhookEvent:
    """One webhook, reduced to what CaMVo reads.

    Attributes:
        action: Label Studio's name of the event.
        project_key: ``<id>.<created_at in unix seconds>``, as in ``/predict`` and ``/setup``.
        label_config: the project's label config at the time of the event.
        model_version: the model version that the project shows, ``None`` if it shows none.
        annotations: the full annotations of ``*_CREATED`` and ``*_UPDATED``.
        annotation_ids: the ids of deleted annotations; Label Studio sends nothing else about them.
        task_ids: the ids of deleted tasks.
        data: the data of the annotated tasks by task id, as far as the webhook carried them.
        title: the project's title, ``None`` if it has none.
        task_number: how many tasks the project has.
    """

    action: str
    project_key: str
    label_config: str = ""
    model_version: str | None = None
    annotations: Sequence[Mapping[str, Any]] = field(default=())
    annotation_ids: Sequence[int] = field(default=())
    task_ids: Sequence[int] = field(default=())
    data: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    title: str | None = None
    task_number: int | None = None


def parse_webhook(body: Mapping[str, Any]) -> WebhookEvent:
    """Parse a webhook's body.

    Raises:
        BadBodyError: the action, the project's id or its creation time is missing.
    """
    action, project = body.get("action"), body.get("project")
    if not isinstance(action, str) or not _ACTION.fullmatch(action):
        raise BadBodyError(
            "a webhook needs an action", where="body.action", fix="send Label Studio's payload"
        )
    if not isinstance(project, Mapping) or not is_id(project.get("id")):
        raise BadBodyError(
            "a webhook needs the project it is about",
            where="body.project.id",
            fix='leave "Send payload" of the webhook switched on in Label Studio',
        )
    annotations = _listed(body.get("annotation"))
    return WebhookEvent(
        action=action,
        project_key=project_key(project),
        label_config=_text(project.get("label_config")),
        model_version=_text(project.get("model_version")) or None,
        annotations=[annotation for annotation in annotations if isinstance(annotation, Mapping)],
        annotation_ids=_ids([*_list(body.get("annotations")), *annotations]),
        task_ids=_ids(_list(body.get("tasks"))),
        data=task_data(_listed(body.get("task"))),
        title=_text(project.get("title"))[:_LONGEST_TITLE] or None,
        task_number=number if is_id(number := project.get("task_number")) else None,
    )


def split_event(event: WebhookEvent, size: int = 20) -> Iterator[WebhookEvent]:
    """Split an event with many annotations or tasks, so that each part is quick to store.

    Other writers wait no longer than one part takes. Label Studio does not repeat a webhook: if the process
    stops between two parts, the next START_TRAINING catches up with the rest.

    Args:
        event: the event.
        size: the largest number of annotations or tasks in one part.
    """
    longest = max(len(event.annotations), len(event.annotation_ids), len(event.task_ids), 1)
    for start in range(0, longest, size):
        end = start + size
        yield replace(
            event,
            annotations=event.annotations[start:end],
            annotation_ids=event.annotation_ids[start:end],
            task_ids=event.task_ids[start:end],
        )


def task_data(tasks: Sequence[object]) -> dict[int, Mapping[str, Any]]:
    """The data of raw tasks by task id; malformed tasks are left out."""
    return {
        task["id"]: task["data"]
        for task in tasks
        if isinstance(task, Mapping) and is_id(task.get("id")) and isinstance(task.get("data"), Mapping)
    }


def project_key(project: Mapping[str, Any]) -> str:
    """The key that ``/predict`` uses for the same project: its id and its creation time in unix seconds.

    Raises:
        BadBodyError: the creation time is missing or malformed.
    """
    try:
        created = datetime.fromisoformat(str(project["created_at"])).timestamp()
    except (KeyError, ValueError, OverflowError, OSError) as error:  # the last two of years near 1
        raise BadBodyError(
            "the project's creation time is missing", where="body.project.created_at", fix="send it as is"
        ) from error
    return f"{project['id']}.{int(created)}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _ids(entries: Sequence[object]) -> list[int]:
    ids = (entry.get("id") if isinstance(entry, Mapping) else entry for entry in entries)
    return [number for number in ids if is_id(number)]

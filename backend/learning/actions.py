"""Label Studio's webhook actions, and what each of them changes in the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog
from sqlalchemy import Connection

from backend.errors import BadLabelConfigError
from backend.label_studio.annotations import annotations_in
from backend.label_studio.webhooks import WebhookEvent, split_event
from backend.learning import labelled_texts, teaching
from backend.learning.projects import project_settings, remember_project
from backend.ledger import deleted_tasks, human_annotations, projects, rounds
from backend.ledger.human_annotations import Annotation
from backend.ledger.predictions import accepted
from backend.questions import LabelConfig, parse_label_config
from backend.settings import Settings

_log = structlog.get_logger(__name__)

PART = 20
"""Annotations, or ids of deleted ones, that one transaction takes."""

MARKED = 5_000
"""Deleted tasks that one transaction marks."""

_FORGOTTEN = 500
"""Deleted tasks that one transaction forgets, if no human label is to be taken out of the rewards."""

_UNTAUGHT = 100
"""Deleted tasks that one transaction forgets, if the student has learnt from their texts."""

_CORRECTED = 20
"""Deleted tasks with human labels that one transaction forgets."""


@dataclass(frozen=True, slots=True)
class _Answers:
    """The human answers of an event; ``config`` is ``None`` if the event's label config cannot be read."""

    config: LabelConfig | None = None
    annotations: Sequence[Annotation] = ()


def parts(event: WebhookEvent) -> Iterator[WebhookEvent]:
    """The parts of an event that are stored in a transaction each."""
    return split_event(event, MARKED if ACTIONS.get(event.action) is _tasks_deleted else PART)


Transaction = Callable[[Connection], None]
"""A function to call in a write transaction."""


def prepare_event(event: WebhookEvent, settings: Settings, clock: Callable[[], float]) -> Transaction:
    """Prepare what a webhook changes: what it says is stored, and the rewards it affects are corrected.

    The label config is parsed here, so that the transaction does not wait for it. Repeated and late webhooks
    change nothing: an annotation is identified by its id and ``updated_at``, and a deleted one does not come
    back. Unknown actions are ignored, since Label Studio sends many.

    Args:
        event: the webhook, or a part of it.
        settings: the server's settings.
        clock: returns unix seconds.

    Returns:
        The change, to be made in a write transaction.
    """
    action = ACTIONS.get(event.action)
    answers = _read_answers(event) if action is _annotated else _Answers()

    def apply(connection: Connection) -> None:
        if action is None:
            return
        now = clock()
        columns = {
            "label_config": event.label_config,
            "model_version": event.model_version,
            "title": event.title,
            "task_number": event.task_number,
        }
        stored = remember_project(connection, event.project_key, columns, now)
        own_settings, _ = project_settings(stored, settings)
        action(connection, event, answers, own_settings, now)

    return apply


def _read_answers(event: WebhookEvent) -> _Answers:
    try:
        config = parse_label_config(event.label_config)
    except BadLabelConfigError as error:
        _log.warning("annotation_ignored", project=event.project_key, code=error.code, reason=str(error))
        return _Answers()
    return _Answers(config, list(annotations_in(event, config)))


def _annotated(
    connection: Connection, event: WebhookEvent, answers: _Answers, settings: Settings, now: float
) -> None:
    """ANNOTATION_CREATED, ANNOTATION_UPDATED, ANNOTATIONS_CREATED."""
    if answers.config is None:
        return
    for annotation in answers.annotations:
        task = annotation.task
        if task is not None and deleted_tasks.is_deleted(connection, event.project_key, task):
            continue
        heard = _as_machine_label(connection, annotation) if annotation.teaches else annotation
        if human_annotations.store(connection, heard, now) and task is not None:
            teaching.correct_rewards(connection, event.project_key, task, settings, now)
    labelled_texts.keep_texts(connection, event, answers.config, settings)


def _as_machine_label(connection: Connection, annotation: Annotation) -> Annotation:
    """The annotation, which teaches nothing if ``camvo accept`` made it and nobody has changed it since."""
    if annotation.task is None or annotation.ground_truth:
        return annotation
    machine = accepted.is_machine_label(
        connection, annotation.project, annotation.task, annotation.annotation_id, annotation.labels
    )
    return replace(annotation, teaches=False) if machine else annotation


def _annotations_deleted(
    connection: Connection, event: WebhookEvent, answers: _Answers, settings: Settings, now: float
) -> None:
    """ANNOTATIONS_DELETED, which carries ids only, and label-studio-ml's ANNOTATION_DELETED."""
    for task in human_annotations.delete(connection, event.project_key, event.annotation_ids, now):
        teaching.correct_rewards(connection, event.project_key, task, settings, now)
        labelled_texts.forget_texts(connection, event.project_key, task)


def _tasks_deleted(
    connection: Connection, event: WebhookEvent, answers: _Answers, settings: Settings, now: float
) -> None:
    """TASKS_DELETED: Label Studio sends no event for the annotations; stored texts and answers go too.

    The records of many tasks are forgotten in the background, by :func:`forget_next`.
    """
    deleted_tasks.mark(connection, event.project_key, event.task_ids, now)
    if len(event.task_ids) <= _CORRECTED:
        _forget(connection, event.project_key, event.task_ids, settings, now)


def forget_next(connection: Connection, settings: Settings, now: float) -> bool:
    """Forget the next deleted tasks, as many as one quick transaction can.

    Args:
        connection: a write transaction.
        settings: the server's settings.
        now: unix seconds.

    Returns:
        Whether there were any, so that there may be more.
    """
    left = deleted_tasks.left_to_forget(connection, _FORGOTTEN)
    if left is None:
        return False
    project, tasks = left
    own_settings, _ = project_settings(projects.get(connection, project), settings)
    _forget(connection, project, tasks, own_settings, now)
    return True


def _forget(
    connection: Connection, project: str, tasks: Sequence[int], settings: Settings, now: float
) -> None:
    """Take human labels out of the rewards and texts from the student, and forget the tasks.

    The first takes milliseconds a task, and the second nearly one. If many of the tasks have human labels or
    texts that taught, only the first of those are forgotten.
    """
    taught = rounds.tasks_with_texts(connection, project, tasks)
    if len(taught) > _UNTAUGHT:
        tasks = taught[:_UNTAUGHT]
    labelled = rounds.labelled_tasks(connection, project, tasks)
    if len(labelled) > _CORRECTED:
        tasks = labelled = labelled[:_CORRECTED]
    human_annotations.forget_tasks(connection, project, labelled)
    for task in labelled:
        teaching.correct_rewards(connection, project, task, settings, now)
    teaching.forget_texts(connection, project, tasks, now)
    deleted_tasks.forget(connection, project, tasks)


def _project_updated(
    connection: Connection, event: WebhookEvent, answers: _Answers, settings: Settings, now: float
) -> None:
    """PROJECT_UPDATED: changed labels need no action, since the epoch is a hash of them."""
    if event.model_version not in (None, settings.model_version):
        _log.warning(
            "model_version_differs",
            project=event.project_key,
            label_studio=event.model_version,
            backend=settings.model_version,
            fix="set the backend's title in Label Studio to model_version, or the scores stay blank",
        )


def _tasks_created(
    connection: Connection, event: WebhookEvent, answers: _Answers, settings: Settings, now: float
) -> None:
    """TASKS_CREATED: only the number of the project's tasks has changed."""


_Action = Callable[[Connection, WebhookEvent, _Answers, Settings, float], None]

ACTIONS: Mapping[str, _Action] = {
    "ANNOTATION_CREATED": _annotated,
    "ANNOTATION_UPDATED": _annotated,
    "ANNOTATIONS_CREATED": _annotated,
    "ANNOTATIONS_DELETED": _annotations_deleted,
    "ANNOTATION_DELETED": _annotations_deleted,
    "TASKS_CREATED": _tasks_created,
    "TASKS_DELETED": _tasks_deleted,
    "PROJECT_UPDATED": _project_updated,
}
"""The function for each of Label Studio's actions that CaMVo handles."""

"""Label Studio's webhook actions, and what each of them changes in the ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog
from sqlalchemy import Connection

from backend.errors import BadLabelConfigError
from backend.label_studio.annotations import annotations_in
from backend.label_studio.webhooks import WebhookEvent
from backend.learning import labelled_texts, teaching
from backend.learning.projects import project_settings, remember_project
from backend.ledger import deleted_tasks, human_annotations
from backend.ledger.human_annotations import Annotation
from backend.questions import LabelConfig, parse_label_config
from backend.settings import Settings

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Answers:
    """The human answers of an event; ``config`` is ``None`` if the event's label config cannot be read."""

    config: LabelConfig | None = None
    annotations: Sequence[Annotation] = ()


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
        columns = {"label_config": event.label_config, "model_version": event.model_version}
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
        if human_annotations.store(connection, annotation, now) and task is not None:
            teaching.correct_rewards(connection, event.project_key, task, settings, now)
    labelled_texts.keep_texts(connection, event, answers.config, settings)


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
    """TASKS_DELETED: Label Studio sends no event for the annotations; stored texts and answers go too."""
    for task in event.task_ids:
        human_annotations.forget_task(connection, event.project_key, task)
        teaching.correct_rewards(connection, event.project_key, task, settings, now)
        deleted_tasks.delete_task(connection, event.project_key, task, now)


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


_Action = Callable[[Connection, WebhookEvent, _Answers, Settings, float], None]

ACTIONS: Mapping[str, _Action] = {
    "ANNOTATION_CREATED": _annotated,
    "ANNOTATION_UPDATED": _annotated,
    "ANNOTATIONS_CREATED": _annotated,
    "ANNOTATIONS_DELETED": _annotations_deleted,
    "ANNOTATION_DELETED": _annotations_deleted,
    "TASKS_DELETED": _tasks_deleted,
    "PROJECT_UPDATED": _project_updated,
}
"""The function for each of Label Studio's actions that CaMVo handles."""

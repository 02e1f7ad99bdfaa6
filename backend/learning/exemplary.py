"""Which texts are kept for examples: those of tasks that a human has labelled, where examples are wanted."""

from __future__ import annotations

from sqlalchemy import Connection

from backend.errors import TaskError
from backend.label_studio.webhooks import WebhookEvent
from backend.ledger import deleted_tasks, example_texts, human_annotations
from backend.questions import ConfigQuestion, LabelConfig
from backend.questions.controls.closed_set import OneOf
from backend.questions.epoch import question_hash
from backend.settings import Settings


def label_texts(question: ConfigQuestion) -> dict[str, str] | None:
    """Label → the text that models know it by; ``None`` for a question that takes no examples.

    Those that do are answered with one label of a closed set.
    """
    if not isinstance(question.control, OneOf):
        return None
    return {label.value: label.text for label in question.control.labels}


def keep(connection: Connection, event: WebhookEvent, config: LabelConfig, settings: Settings) -> None:
    """Keep the texts of the event's tasks, as far as they have a human label and the project wants examples.

    Where it does not (any more), all that were kept go. ``settings`` are the project's own.
    """
    project = event.project_key
    if not settings.few_shot:
        example_texts.forget_project(connection, project)
        return
    for task in event.data:
        if forget(connection, project, task) or deleted_tasks.is_deleted(connection, project, task):
            continue
        for question in config.questions:
            if label_texts(question) is not None:
                _keep(connection, event, task, question)


def forget(connection: Connection, project: str, task: int) -> bool:
    """Delete a task's texts if no annotation of it teaches; whether that is so."""
    if any(one.teaches for one in human_annotations.of_task(connection, project, task)):
        return False
    example_texts.forget_task(connection, project, task)
    return True


def _keep(connection: Connection, event: WebhookEvent, task: int, question: ConfigQuestion) -> None:
    try:
        about = question.about(event.data[task])
    except TaskError:
        return
    if not about.images:
        hashed = question_hash(about.texts)
        example_texts.store(connection, event.project_key, task, question.name, hashed, about.texts)

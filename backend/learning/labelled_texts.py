"""The texts of human-labelled tasks, kept as prompt examples for projects that want them."""

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
    """The text that models see for each label; ``None`` if the question takes no examples.

    Only questions answered with one label of a closed set take examples.
    """
    if not isinstance(question.control, OneOf):
        return None
    return {label.value: label.text for label in question.control.labels}


def keep_texts(connection: Connection, event: WebhookEvent, config: LabelConfig, settings: Settings) -> None:
    """Keep the texts of the event's tasks that have a human label, if the project wants examples.

    If the project does not want examples, all its texts are deleted.

    Args:
        connection: a write transaction.
        event: the webhook.
        config: the project's label config.
        settings: the project's own settings.
    """
    project = event.project_key
    if not settings.few_shot:
        example_texts.forget_project(connection, project)
        return
    for task in event.data:
        if forget_texts(connection, project, task) or deleted_tasks.is_deleted(connection, project, task):
            continue
        for question in config.questions:
            if label_texts(question) is not None:
                _keep(connection, event, task, question)


def forget_texts(connection: Connection, project: str, task: int) -> bool:
    """Delete a task's texts if none of its annotations teaches; return whether that is the case."""
    annotations = human_annotations.of_task(connection, project, task)
    if any(annotation.teaches for annotation in annotations):
        return False
    example_texts.forget_tasks(connection, project, [task])
    return True


def _keep(connection: Connection, event: WebhookEvent, task: int, question: ConfigQuestion) -> None:
    try:
        task_question = question.about(event.data[task])
    except TaskError:
        return
    if not task_question.images:
        text_hash = question_hash(task_question.texts)
        example_texts.store(
            connection, event.project_key, task, question.name, text_hash, task_question.texts
        )

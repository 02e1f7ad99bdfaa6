"""Where a project is, what it is called, and how far it has come."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from backend.learning.projects import asked_questions
from backend.ledger import open_rounds, reports
from backend.ledger.projects import Project, is_of_label_studio
from backend.questions import LabelConfig


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """How many of a project's tasks have a label.

    Attributes:
        tasks: the project's tasks, ``None`` before the first webhook.
        predicted: tasks with a label.
        outdated: how many of them have labels of an earlier label config, prompt or embedder only.
        config_changed: controls whose question in the label config is not the one that was predicted.
    """

    tasks: int | None
    predicted: int
    outdated: int
    config_changed: tuple[str, ...]


def progress_report(connection: Connection, stored: Project, config: LabelConfig | None) -> ProgressReport:
    """Count a project's tasks.

    Args:
        connection: a read transaction.
        stored: the project.
        config: its label config, ``None`` if it is unknown or cannot be read.
    """
    predicted = reports.count_tasks(connection, stored.key)
    current = reports.count_tasks(connection, stored.key, open_rounds.latest_epochs(connection, stored.key))
    # Tasks that are deleted, or new since the last webhook, must not make a number beyond the whole.
    tasks = None if stored.task_number is None else max(stored.task_number, predicted)
    return ProgressReport(tasks, predicted, predicted - current, _changed(stored, config))


def _changed(stored: Project, config: LabelConfig | None) -> tuple[str, ...]:
    if config is None or not stored.predicted:
        return ()
    now = asked_questions(config)
    names = sorted({*now, *stored.predicted})
    return tuple(name for name in names if now.get(name) != stored.predicted.get(name))


def label_studio_address(stored: Project, configured: str | None) -> str | None:
    """The address of a project's Label Studio for links; ``None`` if it is unknown.

    It is the one that Label Studio gives itself, since a browser can open it; the configured one may be known
    inside a network of containers only. Each project has its own, so two Label Studios are kept apart.
    """
    if not is_of_label_studio(stored.key):
        return None
    address = (stored.hostname or configured or "").rstrip("/")
    return address if address.startswith(("http://", "https://")) and "@" not in address else None

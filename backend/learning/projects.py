"""The ledger's facts about a project: its own settings, and what Label Studio last reported."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from backend.errors import BadLabelConfigError, ConfigError
from backend.ledger import projects
from backend.ledger.human_annotations import studio_time
from backend.ledger.projects import Project
from backend.questions import ConfigQuestion, LabelConfig, parse_label_config
from backend.questions.label_config import labels_decided
from backend.settings import Settings
from backend.settings.mistakes import did_you_mean
from camvo.votes.labels import has_vote_model

_LEFT_OUT = {"label_config", "title", "hostname"}
"""Columns that are unchanged if Label Studio does not report them, or reports nothing in them."""

_KEPT = {"instructions", "changed_at", "task_number"}
"""Columns that are unchanged if Label Studio does not report them; it may report "" or 0."""


def project_settings(stored: Project | None, settings: Settings) -> tuple[Settings, ConfigError | None]:
    """The settings of a project: with its overrides, Label Studio's ``extra_params``, and its instructions.

    Args:
        stored: the project, ``None`` if the ledger does not know it.
        settings: the server's settings.

    Returns:
        The project's settings. If its overrides no longer fit the server's settings: the server's settings,
        and the error that says why. Either way ``instructions`` begins with those of the project.
    """
    if stored is None:
        return settings, None
    try:
        return settings.for_project(stored.extra_params).with_instructions(stored.instructions), None
    except ConfigError as error:
        return settings.with_instructions(stored.instructions), error


def require_known_labels(settings: Settings, config: LabelConfig, where: str) -> None:
    """Require that values by label, such as ``worth: {Fraud: 50}``, are about labels of the label config.

    Args:
        settings: the project's settings.
        config: its label config.
        where: the section that holds the values.

    Raises:
        ConfigError: no question is decided by such a label.
    """
    known = sorted({label for question in config.questions for label in labels_decided(question)})
    for name, labels in settings.policy.by_label.items():
        for label in sorted(labels - set(known)):
            wrong = "is no label of a question whose answer is one label"
            raise ConfigError(wrong, where=f"{where}.{name}.{label}", fix=did_you_mean(label, known))


def closed_controls(stored: Project) -> Mapping[str, bool] | None:
    """Control → whether its answers are labels of the config; other answers may quote a task's text.

    Controls that cannot be voted on are absent. ``None`` if the label config is unknown or cannot be read.
    """
    questions = stored_questions(stored)
    return None if questions is None else {q.name: has_vote_model(q.control.aggregation) for q in questions}


def stored_questions(stored: Project) -> tuple[ConfigQuestion, ...] | None:
    """The questions of a project's label config; ``None`` if it is unknown or cannot be read."""
    if stored.label_config is None:
        return None
    try:
        return parse_label_config(stored.label_config).questions
    except BadLabelConfigError:
        return None


def shown_instructions(stored: Project | None, settings: Settings) -> str | None:
    """The project's labelling instructions as they are part of prompts; ``None`` for none."""
    return stored.instructions or None if stored is not None and settings.project_instructions else None


def asked_questions(config: LabelConfig, instructions: str | None) -> dict[str, str]:
    """Control → a hash of its question and the instructions, by which a report knows that it has changed."""
    return {
        question.name: hashlib.sha256(f"{question.digest} {instructions or ''}".encode()).hexdigest()[:16]
        for question in config.questions
    }


def is_new(stored: Project | None, columns: Mapping[str, Any]) -> bool:
    """Whether columns of a project differ from the stored ones; what Label Studio left out never does."""
    return stored is None or any(getattr(stored, name) != value for name, value in _said(columns).items())


def remember_project(
    connection: Connection, key: str, columns: Mapping[str, Any], now: float
) -> Project | None:
    """Store what Label Studio reported about a project, unless the ledger holds the same.

    Args:
        connection: a write transaction.
        key: the project's key.
        columns: some columns of :class:`Project`; all instructions that it has had are kept. An empty label
            config, and a title, hostname or number of tasks that is ``None``, leave the stored one as it is.
            If they are from before the project's last change, all of them do.
        now: unix seconds.

    Returns:
        The project as it was stored before.
    """
    stored = projects.get(connection, key)
    if is_new(stored, columns) and not _is_outdated(stored, columns):
        said = _said(columns)
        before = None if stored is None else stored.instructions
        projects.remember(connection, key, **said, now=now)
        if said.get("instructions", before) != before:
            projects.note_instructions(connection, key, said["instructions"], now)
    return stored


def _is_outdated(stored: Project | None, columns: Mapping[str, Any]) -> bool:
    """Whether a webhook says what a project was before the last change that the ledger knows.

    Webhooks may come late, and a catch-up repeats for minutes what its webhook said.
    """
    changed_at = columns.get("changed_at")
    if stored is None or stored.changed_at is None or changed_at is None:
        return False
    return studio_time(changed_at) < studio_time(stored.changed_at)


def _said(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The columns without those that Label Studio left out."""
    return {
        name: value
        for name, value in columns.items()
        if (value or name not in _LEFT_OUT) and (value is not None or name not in _KEPT)
    }

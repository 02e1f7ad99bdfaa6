"""What a certificate says. It holds no text of a task, no key and no address; instructions are a hash."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from backend.learning.projects import project_settings
from backend.ledger import blind_tasks, open_rounds
from backend.ledger.certificates.blind_queue import BlindQueue
from backend.ledger.certificates.hashes import CoveredLabels, hash_evidence, hash_labels, resting_on
from backend.ledger.certificates.issued import current_counting
from backend.ledger.projects import Project
from backend.ledger.recounts import countings
from backend.ledger.reports import counts
from backend.server.status.report import ProjectReport, QuestionReport
from backend.settings import Settings
from backend.settings.policies import policy_in_force, policy_of


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model as the certificate names it: its name, litellm's name, and what was set of it."""

    name: str
    model: str
    settings: str


@dataclass(frozen=True, slots=True)
class Contents:
    """What a certificate says beyond the project's report.

    Attributes:
        counting: the number of the counting whose labels it covers, 0 for the first labels.
        counted_at: when that was, unix seconds; for the first labels when the last task was decided.
        through: the last round that it covers.
        covered: the labels' number and hash.
        evidence: control → ``epoch``, number of ``blind`` tasks and ``hash``.
        config_hash: SHA-256 of the label config.
        instructions_hash: SHA-256 of the instructions, ``None`` without any.
        voters: the models.
        settings: name → value of the settings that bear on labels.
    """

    counting: int
    counted_at: float
    through: int
    covered: CoveredLabels
    evidence: Mapping[str, Mapping[str, Any]]
    config_hash: str
    instructions_hash: str | None
    voters: tuple[NamedModel, ...]
    settings: Mapping[str, str]


def current_questions(project: ProjectReport) -> list[QuestionReport]:
    """The questions of a project as they are asked now."""
    return [question for question in project.questions if question.current]


def contents(connection: Connection, stored: Project, settings: Settings) -> Contents:
    """Gather what a certificate says. Reads every round of the project.

    Args:
        connection: a read transaction.
        stored: the project.
        settings: the settings of every project.
    """
    own, _ = project_settings(stored, settings)
    epochs = open_rounds.latest_epochs(connection, stored.key)
    queues = blind_tasks.queues(connection, stored.key)
    through = counts.newest(connection, stored.key)
    counting = current_counting(connection, stored.key)
    made = countings.of_project(connection, stored.key)
    evidence = {}
    for control, epoch in sorted(epochs.items()):
        blind = resting_on(queues.get((control, epoch), BlindQueue()))
        evidence[control] = {"epoch": epoch, "blind": len(blind), "hash": hash_evidence(blind)}
    return Contents(
        counting=counting,
        counted_at=made[0].created_at if made else counts.newest_at(connection, stored.key),
        through=through,
        covered=hash_labels(connection, stored.key, epochs, through),
        evidence=evidence,
        config_hash=_sha256(stored.label_config or ""),
        instructions_hash=_sha256(own.instructions) if own.instructions else None,
        voters=tuple(_voters(own)),
        settings=_settings(own),
    )


def _voters(settings: Settings) -> list[NamedModel]:
    shown = ("temperature", "max_tokens", "structured_output", "system_message", "vision", "logprobs")
    return [
        NamedModel(
            model.name,
            model.model,
            ", ".join(
                f"{name} {getattr(model, name)}".lower()
                for name in shown
                if name in model.model_fields_set and getattr(model, name) is not None
            ),
        )
        for model in settings.models
    ]


def _settings(settings: Settings) -> dict[str, str]:
    """The settings that bear on labels. None of them is a text, an address or a path."""
    name, _ = policy_in_force(settings.policy)
    policy = settings.policy.model_dump(exclude={"name"}, exclude_unset=True, exclude_none=True)
    parameters = ", ".join(f"{key} {value}" for key, value in sorted(policy.items()))
    return {
        "policy": f"{name} ({parameters})" if parameters else name,
        "right, as wanted": f"{settings.guarantee:g}",
        "scores are calibrated": _yes(settings.calibrate),
        "people's labels teach": _yes(settings.human_rewards),
        "examples in prompts": str(settings.few_shot),
        "a student votes": _yes(settings.has_student(policy_of(settings.policy))),
        "texts are redacted": _yes(settings.redact is not None),
        "embedder": _sha256(settings.embedder) if "/" in settings.embedder else settings.embedder,
    }


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

"""What the ledger says of a project's predictions: their scores, which are blind, which are certified."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from backend.errors import ConfigError
from backend.ledger import blind_tasks, open_rounds
from backend.ledger.certificates.blind_queue import BlindQueue
from backend.ledger.open_rounds import OpenRound
from backend.ledger.projects import Project
from backend.server.status.parts.guarantee import covered_rounds


@dataclass(frozen=True, slots=True)
class Decided:
    """One task's decided questions.

    Attributes:
        score: the prediction's score, the product of the questions' scores.
        labels: control → the voted label.
        certified: whether blind labels cover the label of every question.
    """

    score: float
    labels: Mapping[str, str]
    certified: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known about a project's tasks.

    Attributes:
        decided: task → its decided questions; only tasks that nobody has annotated and that are not blind.
        blind: the tasks that are or were blind.
        threshold: the lowest score that the certificates of all questions cover; ``None`` without one.
    """

    decided: Mapping[int, Decided]
    blind: frozenset[int]
    threshold: float | None


def load_evidence(connection: Connection, project: Project, target: float) -> Evidence:
    """Read what the ledger knows about a project's tasks.

    Args:
        connection: a read transaction.
        project: the project.
        target: the share of labels that must be right, as set.
    """
    epochs = open_rounds.latest_epochs(connection, project.key)
    queues = blind_tasks.queues(connection, project.key)
    covers = {
        control: covered_rounds(queues.get((control, epoch), BlindQueue()), target)
        for control, epoch in epochs.items()
    }
    rounds: dict[int, dict[str, OpenRound]] = {}
    for control, epoch in epochs.items():
        for round_ in open_rounds.latest_per_task(connection, project.key, control, epoch):
            rounds.setdefault(round_.task, {})[control] = round_

    def is_certified(control: str, round_: OpenRound) -> bool:
        if (cover := covers[control]) is None:
            return False
        certified, after, through = cover
        return round_.score >= certified.threshold and after < round_.id <= through

    decided = {
        task: Decided(
            score=math.prod(round_.score for round_ in of_task.values()),
            labels={control: round_.label for control, round_ in of_task.items()},
            certified=all(is_certified(*item) for item in of_task.items()),
        )
        for task, of_task in rounds.items()
    }
    thresholds = [None if cover is None else cover[0].threshold for cover in covers.values()]
    return Evidence(
        decided,
        frozenset(blind.task for queue in queues.values() for blind in queue),
        max((each for each in thresholds if each is not None), default=None)
        if all(covers.values())
        else None,
    )


def require_certificate(evidence: Evidence, above: float) -> None:
    """Refuse to accept labels that no blind label certifies.

    Raises:
        ConfigError: no certificate covers scores from ``above`` on.
    """
    if evidence.threshold is None:
        raise ConfigError(
            "no label is certified yet",
            where="--above",
            fix="label blind tasks (camvo review lists them; they need the setting audit), or accept on your"
            " own responsibility with --uncertified",
        )
    if above < evidence.threshold:
        raise ConfigError(
            f"labels with a score of {above:g} are not certified, only those from {evidence.threshold:g} on",
            where="--above",
            fix=f"give --above {evidence.threshold:g}, label more blind tasks, or use --uncertified",
        )

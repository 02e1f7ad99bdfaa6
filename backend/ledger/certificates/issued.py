"""The certificates that were issued about a project's labels, and whether each still holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from sqlalchemy import Connection, func, insert, select

from backend.ledger import blind_tasks, open_rounds
from backend.ledger.certificates.blind_queue import BlindQueue
from backend.ledger.certificates.hashes import hash_evidence, hash_labels, resting_on
from backend.ledger.database import tables
from backend.ledger.recounts import countings

_table = tables.certificates

Reason = Literal["recounted", "question_changed", "labels_changed", "evidence_changed"]
"""Why a certificate no longer holds."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate that was issued.

    Attributes:
        number: 1, 2, 3 … within the project.
        issued_at: unix seconds.
        counting: the number of the counting whose labels it covers, 0 for the first labels.
        through: the last round that it covers.
        labels: how many labels it covers.
        labels_hash: their hash (:func:`hash_labels`).
        evidence: control → ``epoch``, the number of ``blind`` tasks that it rests on, and their ``hash``.
        file_hash: SHA-256 of the page.
    """

    number: int
    issued_at: float
    counting: int
    through: int
    labels: int
    labels_hash: str
    evidence: Mapping[str, Mapping[str, Any]]
    file_hash: str


@dataclass(frozen=True, slots=True)
class Standing:
    """A certificate, and why it no longer holds; ``None`` if it does."""

    certificate: Issued
    reason: Reason | None


def next_number(connection: Connection, project: str) -> int:
    """Return the number of the project's next certificate."""
    newest = select(func.coalesce(func.max(_table.c.number), 0)).where(_table.c.project == project)
    return int(connection.scalars(newest).one()) + 1


def store(connection: Connection, project: str, certificate: Issued) -> None:
    """Store a certificate, with the number of :func:`next_number` in the same transaction."""
    connection.execute(insert(_table), {"project": project, **asdict(certificate)})


def of_project(connection: Connection, project: str) -> list[Issued]:
    """Return a project's certificates, the latest first."""
    names = [_table.c[field.name] for field in fields(Issued)]
    query = select(*names).where(_table.c.project == project).order_by(_table.c.number.desc())
    return [Issued(**row._mapping) for row in connection.execute(query)]


def standings(connection: Connection, project: str) -> list[Standing]:
    """Return how a project's certificates stand, the latest first. Reads every round that one covers.

    A certificate holds until

    - votes are counted again with a change, which makes other labels;
    - the question, its prompt or the embedder changes, so that later labels belong to another epoch;
    - a label that it covers is gone, as when its task was deleted;
    - people change, withdraw or delete an answer that it rests on. Further answers change nothing.
    """
    certificates = of_project(connection, project)
    if not certificates:
        return []
    counting = current_counting(connection, project)
    epochs = open_rounds.latest_epochs(connection, project)
    return [Standing(each, _reason(connection, project, each, counting, epochs)) for each in certificates]


def current_counting(connection: Connection, project: str) -> int:
    """The number of the counting whose labels are handed out, 0 for the first labels."""
    return countings.next_number(connection, project) - 1


def _reason(
    connection: Connection, project: str, certificate: Issued, counting: int, epochs: Mapping[str, str]
) -> Reason | None:
    if certificate.counting != counting:
        return "recounted"
    covered = {control: rests["epoch"] for control, rests in certificate.evidence.items()}
    if any(epochs.get(control) not in (epoch, None) for control, epoch in covered.items()):
        return "question_changed"
    queues = blind_tasks.queues(connection, project)
    for control, rests in certificate.evidence.items():
        blind = resting_on(queues.get((control, rests["epoch"]), BlindQueue()))[: rests["blind"]]
        if len(blind) != rests["blind"] or hash_evidence(blind) != rests["hash"]:
            return "evidence_changed"
    labels = hash_labels(connection, project, covered, certificate.through)
    return None if labels.hash == certificate.labels_hash else "labels_changed"

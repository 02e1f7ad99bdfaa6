"""The certificates that were issued about a project's labels, and whether each still holds."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from backend.ledger.certificates import issued
from backend.ledger.certificates.issued import Reason

WHY: dict[Reason, str] = {
    "recounted": "votes were counted again since, which changed labels or scores",
    "question_changed": "the question, its prompt or the embedder has changed since",
    "labels_changed": "labels that it covers are gone, since their tasks were deleted",
    "evidence_changed": "people have changed or withdrawn answers that it rests on",
}
"""What each reason means."""


@dataclass(frozen=True, slots=True)
class CertificateReport:
    """A certificate that was issued (docs/certificate.md).

    Attributes:
        number: 1, 2, 3 … within the project.
        issued_at: unix seconds.
        labels: how many labels it covers.
        labels_hash: SHA-256 of these labels.
        file_hash: SHA-256 of the page.
        reason: why it no longer holds; ``None`` if it holds.
        message: the same in words.
    """

    number: int
    issued_at: float
    labels: int
    labels_hash: str
    file_hash: str
    reason: Reason | None
    message: str


def certificate_reports(connection: Connection, project: str) -> tuple[CertificateReport, ...]:
    """The certificates of a project, the latest first. Reads every round that one covers."""
    return tuple(
        CertificateReport(
            number=standing.certificate.number,
            issued_at=standing.certificate.issued_at,
            labels=standing.certificate.labels,
            labels_hash=standing.certificate.labels_hash,
            file_hash=standing.certificate.file_hash,
            reason=standing.reason,
            message="it holds" if standing.reason is None else WHY[standing.reason],
        )
        for standing in issued.standings(connection, project)
    )

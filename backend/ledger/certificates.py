"""The certificates that were issued about a project's labels, and whether each still holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from sqlalchemy import Connection, func, insert, select

from backend.ledger import recounts
from backend.ledger.blind_tasks import BlindQueue, BlindQueues, QueuedTask
from backend.ledger.database import tables
from backend.ledger.recounts import Recounts
from backend.ledger.rounds import ProjectRounds, QuestionRounds

_columns = tables.rounds.c

_PAGE = 1000
"""Rounds that are read together."""


@dataclass(frozen=True, slots=True)
class CoveredLabels:
    """The labels that a certificate covers: their number, and their SHA-256."""

    count: int
    hash: str


def hash_evidence(blind: Sequence[QueuedTask]) -> str:
    """SHA-256 of blind tasks, their human answers, and the rewards of their labels."""
    listed = [[each.task, each.answers, each.reward] for each in blind]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()


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
        labels_hash: their hash (:meth:`Certificates.hash_labels`).
        evidence: control → ``epoch``, the number of ``blind`` tasks that it rests on, their ``hash``, and how
            many labels they ``certified``.
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
class _Standing:
    """A certificate, and why it no longer holds; ``None`` if it does."""

    certificate: Issued
    reason: Reason | None


@dataclass(frozen=True, slots=True)
class Certificates:
    """The certificates that were issued about a project's labels."""

    connection: Connection
    project: str

    def hash_labels(self, epochs: Mapping[str, str], through: int) -> CoveredLabels:
        """Digest all labels that are handed out. Reads every round.

        For each label there is one line in UTF-8: control, task, label, and score with six decimals, with
        tabs between them. Lines are ordered by control, task and round. A label is that of the latest
        counting.
        """
        digest, count = hashlib.sha256(), 0
        for control, epoch in sorted(epochs.items()):
            for page in self._pages(control, epoch, through):
                latest = recounts.latest(self.connection, [row.id for row in page])
                for row in page:
                    now = latest.get(row.id, row)
                    digest.update(f"{control}\t{row.task}\t{now.label}\t{now.score:.6f}\n".encode())
                count += len(page)
        return CoveredLabels(count, digest.hexdigest())

    def next_number(self) -> int:
        """Return the number of the project's next certificate."""
        newest = select(func.max(_table.c.number)).where(_table.c.project == self.project)
        return (self.connection.scalars(newest).one() or 0) + 1

    def store(self, certificate: Issued) -> None:
        """Store a certificate, with the number of :meth:`next_number` in the same transaction."""
        self.connection.execute(insert(_table), {"project": self.project, **asdict(certificate)})

    def all(self) -> list[Issued]:
        """Return a project's certificates, the latest first."""
        names = [_table.c[field.name] for field in fields(Issued)]
        query = select(*names).where(_table.c.project == self.project).order_by(_table.c.number.desc())
        return [Issued(**row._mapping) for row in self.connection.execute(query)]

    def standings(self) -> list[_Standing]:
        """Return the state of each certificate, the latest first. Reads every round that they cover.

        A certificate holds until

        - votes are counted again with a change, which makes other labels;
        - the question, its prompt or the embedder changes, so that later labels belong to another epoch;
        - a label that it covers is gone, as when its task was deleted;
        - people change, withdraw or delete an answer that it rests on. Further answers change nothing.
        """
        certificates = self.all()
        if not certificates:
            return []
        counting = Recounts(self.connection, self.project).latest_number()
        epochs = ProjectRounds(self.connection, self.project).latest_epochs()
        return [_Standing(each, self._reason(each, counting, epochs)) for each in certificates]

    def damages(self) -> Iterator[tuple[int, str]]:
        """Yield the certificates that cannot be as they are, each with what is wrong.

        Reads every round that a certificate of the present labels covers.
        """
        certificates = self.all()[::-1]
        counting = Recounts(self.connection, self.project).latest_number() if certificates else 0
        for expected, certificate in enumerate(certificates, start=1):
            if certificate.number != expected:
                yield certificate.number, f"certificate {expected} is missing before it"
                return
            if certificate.counting > counting:
                yield (
                    certificate.number,
                    f"it covers counting {certificate.counting}, and the last is {counting}",
                )
            if certificate.counting != counting:
                continue
            covered = {control: rests["epoch"] for control, rests in certificate.evidence.items()}
            labels = self.hash_labels(covered, certificate.through)
            if labels.count == certificate.labels and labels.hash != certificate.labels_hash:
                yield certificate.number, "a label or score that it covers was changed without a counting"

    def _reason(self, certificate: Issued, counting: int, epochs: Mapping[str, str]) -> Reason | None:
        if certificate.counting != counting:
            return "recounted"
        covered = {control: rests["epoch"] for control, rests in certificate.evidence.items()}
        if any(epochs.get(control) not in (epoch, None) for control, epoch in covered.items()):
            return "question_changed"
        queues = BlindQueues(self.connection, self.project).all()
        for control, rests in certificate.evidence.items():
            blind = queues.get((control, rests["epoch"]), BlindQueue()).resting[: rests["blind"]]
            if len(blind) != rests["blind"] or hash_evidence(blind) != rests["hash"]:
                return "evidence_changed"
        labels = self.hash_labels(covered, certificate.through)
        return None if labels.hash == certificate.labels_hash else "labels_changed"

    def _pages(self, control: str, epoch: str, through: int) -> Iterator[Sequence[Any]]:
        of_question = QuestionRounds(self.connection, self.project, control, epoch).condition
        query = (
            select(_columns.id, _columns.task, _columns.label, _columns.score)
            .where(of_question, _columns.id <= through)
            .order_by(_columns.task, _columns.id)
            .limit(_PAGE)
        )
        page = self.connection.execute(query).all()
        while page:
            yield page
            last = page[-1]
            behind = (_columns.task > last.task) | ((_columns.task == last.task) & (_columns.id > last.id))
            page = self.connection.execute(query.where(behind)).all()

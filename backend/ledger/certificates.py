"""The certificates that were issued about a project's labels, and whether each still holds."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from sqlalchemy import Connection, func, insert, select

from backend.ledger import blind_tasks, recounts
from backend.ledger.blind_tasks import BlindQueue, QueuedTask
from backend.ledger.database import tables
from backend.ledger.database.statements import among
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


def hash_labels(
    connection: Connection, project: str, epochs: Mapping[str, str], through: int
) -> CoveredLabels:
    """Digest all labels that are handed out. Reads every round.

    For each label there is one line in UTF-8: control, task, label, and score with six decimals, with tabs
    between them. Lines are ordered by control, task and round. A label is that of the latest counting.

    Args:
        connection: a read transaction.
        project: the project's key.
        epochs: control → epoch.
        through: the last round.
    """
    digest, count = hashlib.sha256(), 0
    for control, epoch in sorted(epochs.items()):
        for page in _pages(connection, project, control, epoch, through):
            latest = recounts.latest(connection, [row.id for row in page])
            for row in page:
                now = latest.get(row.id, row)
                digest.update(f"{control}\t{row.task}\t{now.label}\t{now.score:.6f}\n".encode())
            count += len(page)
    return CoveredLabels(count, digest.hexdigest())


def _pages(
    connection: Connection, project: str, control: str, epoch: str, through: int
) -> Iterator[Sequence[Any]]:
    names = (_columns.id, _columns.task, _columns.label, _columns.score)
    query = (
        select(*names)
        .where(QuestionRounds(connection, project, control, epoch).condition, _columns.id <= through)
        .order_by(_columns.task, _columns.id)
        .limit(_PAGE)
    )
    page = connection.execute(query).all()
    while page:
        yield page
        last = page[-1]
        behind = (_columns.task > last.task) | ((_columns.task == last.task) & (_columns.id > last.id))
        page = connection.execute(query.where(behind)).all()


def resting_on(queue: BlindQueue) -> list[QueuedTask]:
    """The blind tasks that something rests on: those of earlier countings, and the run of the latest."""
    behind = {blind.task for blind in queue.behind}
    return [blind for blind in queue if blind.task not in behind]


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
class _Standing:
    """A certificate, and why it no longer holds; ``None`` if it does."""

    certificate: Issued
    reason: Reason | None


def next_number(connection: Connection, project: str) -> int:
    """Return the number of the project's next certificate."""
    newest = select(func.coalesce(func.max(_table.c.number), 0)).where(_table.c.project == project)
    return int(connection.scalars(newest).one()) + 1


def store_certificate(connection: Connection, project: str, certificate: Issued) -> None:
    """Store a certificate, with the number of :func:`next_number` in the same transaction."""
    connection.execute(insert(_table), {"project": project, **asdict(certificate)})


def certificates_of(connection: Connection, project: str) -> list[Issued]:
    """Return a project's certificates, the latest first."""
    names = [_table.c[field.name] for field in fields(Issued)]
    query = select(*names).where(_table.c.project == project).order_by(_table.c.number.desc())
    return [Issued(**row._mapping) for row in connection.execute(query)]


def standings(connection: Connection, project: str) -> list[_Standing]:
    """Return the state of each certificate of a project, the latest first. Reads every round that they cover.

    A certificate holds until

    - votes are counted again with a change, which makes other labels;
    - the question, its prompt or the embedder changes, so that later labels belong to another epoch;
    - a label that it covers is gone, as when its task was deleted;
    - people change, withdraw or delete an answer that it rests on. Further answers change nothing.
    """
    certificates = certificates_of(connection, project)
    if not certificates:
        return []
    counting = current_counting(connection, project)
    epochs = ProjectRounds(connection, project).latest_epochs()
    return [_Standing(each, _reason(connection, project, each, counting, epochs)) for each in certificates]


def current_counting(connection: Connection, project: str) -> int:
    """The number of the counting whose labels are handed out, 0 for the first labels."""
    return Recounts(connection, project).latest_number()


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


def damages(connection: Connection, project: str) -> Iterator[tuple[int, str]]:
    """Yield the certificates that cannot be as they are, each with what is wrong.

    Reads every round that a certificate of the present labels covers.
    """
    certificates = certificates_of(connection, project)[::-1]
    counting = current_counting(connection, project) if certificates else 0
    for expected, certificate in enumerate(certificates, start=1):
        if certificate.number != expected:
            yield certificate.number, f"certificate {expected} is missing before it"
            return
        if certificate.counting > counting:
            yield certificate.number, f"it covers counting {certificate.counting}, and the last is {counting}"
        if certificate.counting != counting:
            continue
        covered = {control: rests["epoch"] for control, rests in certificate.evidence.items()}
        labels = hash_labels(connection, project, covered, certificate.through)
        if labels.count == certificate.labels and labels.hash != certificate.labels_hash:
            yield certificate.number, "a label or score that it covers was changed without a counting"


def count_answers(
    connection: Connection, project: str, control: str, epoch: str, through: int
) -> Counter[str]:
    """Count the models' answers to a question's tasks in an epoch. Reads every round of the question.

    Args:
        connection: a read transaction.
        project: the project's key.
        control: the name of the control tag.
        epoch: the epoch.
        through: the last round to count.
    """
    first = (
        select(func.min(_columns.id))
        .where(QuestionRounds(connection, project, control, epoch).condition, _columns.id <= through)
        .group_by(_columns.task)
    )
    query = (
        select(_columns.label, func.count().label("tasks"))
        .where(_columns.id.in_(first.scalar_subquery()))
        .group_by(_columns.label)
    )
    return Counter({row.label: row.tasks for row in connection.execute(query)})


@dataclass(frozen=True, slots=True)
class _BlindAnswer:
    """The answers to a blind task: the models', and the people's; ``None`` if it has none that counts."""

    label: str
    human: str | None


def blind_answers(connection: Connection, round_ids: Sequence[int]) -> list[_BlindAnswer]:
    """Return the answers of blind rounds; those of deleted tasks are absent."""
    query = select(_columns.label, _columns.human).where(
        among(connection.dialect, _columns.id, round_ids), _columns.audit
    )
    return [_BlindAnswer(row.label, row.human) for row in connection.execute(query.order_by(_columns.id))]

"""Hashes of what a certificate covers, and of what it rests on. Neither lets anybody read a label."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from backend.ledger.certificates.blind_queue import BlindQueue, QueuedTask
from backend.ledger.database import tables
from backend.ledger.recounts import rows as recounts
from backend.ledger.reports.label_sums import of_question

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
        .where(of_question(project, control, epoch), _columns.id <= through)
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
    """SHA-256 of blind tasks, what people said of them, and how right their labels count."""
    listed = [[each.task, each.answers, each.reward] for each in blind]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()

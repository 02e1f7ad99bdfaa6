"""The transaction that stores a counting: its recounts, and the queue of blind tasks for the new labels."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from backend.learning.human_labels import hear_blind
from backend.ledger import blind_tasks, projects, rounds
from backend.ledger.recounts import checks, countings
from backend.ledger.recounts import rows as recounts
from backend.ledger.recounts.countings import Counting, Reason
from backend.ledger.recounts.rows import Recount
from backend.recounting.counting import QuestionCount


def record(
    connection: Connection,
    project: str,
    found: Sequence[QuestionCount],
    *,
    reason: Reason,
    sequence: int,
    now: float,
) -> Counting | None:
    """Store what changes; safe to repeat, and for several processes at once.

    A task that somebody has annotated since it was counted is left out, and so is a result that the ledger
    holds already. Where something changes, the certificate of the question's earlier labels ends: a new queue
    of blind tasks begins.

    Args:
        connection: a write transaction.
        project: the project's key.
        found: what was counted, by question.
        reason: why it was counted.
        sequence: the project's last event that the counting knew.
        now: unix seconds.

    Returns:
        The counting; ``None`` if nothing changes.
    """
    news = [(question, _news(connection, project, question)) for question in found]
    changes = [recount for question, new in news for recount in new if recount.round_id not in question.blind]
    if not any(new for _, new in news):
        return None
    counting = Counting(
        number=countings.next_number(connection, project),
        reason=reason,
        sequence=sequence,
        counted=sum(question.counted for question in found),
        labels=sum(recount.label_changed for recount in changes),
        scores=sum(not recount.label_changed for recount in changes),
        created_at=now,
    )
    countings.store(connection, project, counting)
    for question, new in news:
        of_file = not projects.is_of_label_studio(project)
        hidden = {recount.round_id for recount in new} if of_file else question.blind
        recounts.store(connection, project, counting.number, new, hidden)
        if new:
            checks.store(connection, project, question.checks)
            _begin_queue(connection, question, new, counting.number)
    return counting


def _news(connection: Connection, project: str, question: QuestionCount) -> list[Recount]:
    """The results that change something; of blind tasks, those behind the run that certifies."""
    if not question.results:
        return []
    queue = blind_tasks.queue_of(connection, project, question.key.control, question.key.epoch)
    behind = [entry.task for entry in queue.behind]
    return recounts.new_ones(connection, project, question.results, behind)


def _begin_queue(
    connection: Connection, question: QuestionCount, new: Sequence[Recount], number: int
) -> None:
    key = question.key
    answered = blind_tasks.recounted(
        connection,
        key.project,
        key.control,
        key.epoch,
        number=number,
        results={recount.round_id: (recount.label, recount.score) for recount in new},
    )
    for task in answered:
        for round_ in rounds.of_task(connection, key.project, task):
            if round_.audit and (round_.key.control, round_.key.epoch) == (key.control, key.epoch):
                hear_blind(connection, round_, round_.id)

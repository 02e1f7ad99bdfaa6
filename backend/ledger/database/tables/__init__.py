"""The ledger's tables. The migrations create the same tables, and a test compares the two.

Times are unix seconds. There are deliberately no foreign keys. When a task is deleted, its rounds go but
their events and contexts stay, so that the state remains the sum of all events; calls and accounts stay for
ever. Old events may be folded into a base, which is their sum.
"""

from __future__ import annotations

from backend.ledger.database.tables.batches import batch_jobs, batch_lines, batch_tasks
from backend.ledger.database.tables.calls import (
    RESERVED,
    accounts,
    answer_tasks,
    answers,
    call_shares,
    calls,
    claims,
    pack_checks,
    readiness,
)
from backend.ledger.database.tables.countings import (
    certificates,
    countings,
    further_votes,
    recount_checks,
    recount_looks,
    recounts,
)
from backend.ledger.database.tables.learning import (
    bases,
    contexts,
    drift_tests,
    events,
    model_rates,
    reliabilities,
    snapshots,
)
from backend.ledger.database.tables.people import accepted, human_annotations, withdrawals
from backend.ledger.database.tables.projects import alerts, projects
from backend.ledger.database.tables.rounds import (
    blind_queues,
    blind_tasks,
    deleted_tasks,
    example_texts,
    failed_tasks,
    rounds,
    tasks_to_forget,
    votes,
)
from backend.ledger.database.tables.schema import metadata

__all__ = [
    "RESERVED",
    "accepted",
    "accounts",
    "alerts",
    "answer_tasks",
    "answers",
    "bases",
    "batch_jobs",
    "batch_lines",
    "batch_tasks",
    "blind_queues",
    "blind_tasks",
    "call_shares",
    "calls",
    "certificates",
    "claims",
    "contexts",
    "countings",
    "deleted_tasks",
    "drift_tests",
    "events",
    "example_texts",
    "failed_tasks",
    "further_votes",
    "human_annotations",
    "metadata",
    "model_rates",
    "pack_checks",
    "projects",
    "readiness",
    "recount_checks",
    "recount_looks",
    "recounts",
    "reliabilities",
    "rounds",
    "snapshots",
    "tasks_to_forget",
    "votes",
    "withdrawals",
]

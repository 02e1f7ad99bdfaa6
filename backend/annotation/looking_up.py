"""What the ledger holds of a task before anybody is asked about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from backend.ledger import failed_tasks, rounds
from backend.ledger.recounts import rows as recounts
from backend.ledger.rounds import Round, RoundKey


@dataclass(frozen=True, slots=True)
class LookUp:
    """A task to look up.

    Attributes:
        project: the project's key.
        task: the task's number.
        keys: the keys of the rounds of its questions.
    """

    project: str
    task: int
    keys: Sequence[RoundKey]


def look_up(connection: Connection, wanted: Sequence[LookUp]) -> list[tuple[dict[RoundKey, Round], bool]]:
    """Return for each task the stored rounds by their latest counting, and whether it failed the last time.

    Args:
        connection: a read transaction.
        wanted: the tasks.
    """
    found = rounds.find_by_key(connection, [key for each in wanted for key in each.keys])
    stored = recounts.with_latest(connection, found)
    failed = failed_tasks.failed_among(connection, [(each.project, each.task) for each in wanted])
    return [
        ({key: stored[key] for key in each.keys if key in stored}, (each.project, each.task) in failed)
        for each in wanted
    ]

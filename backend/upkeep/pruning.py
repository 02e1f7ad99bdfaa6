"""Pruning: old texts, answers and contexts go, and old events become their sum. What was learnt stays."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection

from backend.ledger import Ledger
from backend.ledger.database.clock import now
from backend.ledger.retention import bases, prunable
from backend.upkeep.folding import Fold
from backend.upkeep.sums import Advance

_EVENTS, _ROUNDS = 2000, 500
"""How many events and rounds one transaction changes: bounds how long the server's writes wait."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a prune of a project does.

    Attributes:
        project: the project's key.
        through: the number of the last event to be folded.
        events: how many events are folded.
        rounds: how many rounds lose their plan and context.
        answers: how many answers are deleted; 0 in a plan.
        lines: how many lines of providers' batches are deleted; 0 in a plan.
    """

    project: str
    through: int
    events: int
    rounds: int
    answers: int = 0
    lines: int = 0


def planned(ledger: Ledger, project: str, age: float) -> Pruned:
    """What :func:`prune` would do.

    Args:
        ledger: the migrated ledger.
        project: the project's key.
        age: seconds; everything older is pruned.
    """
    with ledger.read() as connection:
        before = now(connection) - age
        through = prunable.last_older(connection, project, before)
        events = prunable.count_through(connection, project, through)
        rounds = _prunable(connection, project, before, through)
        return Pruned(project, through, events, len(rounds))


def prune(ledger: Ledger, project: str, age: float, *, lambda_l: float, advance: Advance) -> Pruned:
    """Fold a project's old events into verified bases, and delete old contexts, answers and texts.

    Rounds keep their label, score, votes and cost, so that predictions are repeated and reports stay right.
    Blind rounds that wait for an answer are left alone, and so are rounds with an event that is not old.
    Servers may run meanwhile: after each transaction the function waits as long as that took. If it is
    interrupted, the same call does the rest.

    Args:
        ledger: the migrated ledger.
        project: the project's key.
        age: seconds; everything older is pruned.
        lambda_l: the ridge strength of the project's linear models.
        advance: called with how many events were added up.

    Raises:
        LedgerError: the ledger failed, or a sum is not what it must be; then nothing more was deleted.
    """
    with ledger.read() as connection:
        before = now(connection) - age
        through = prunable.last_older(connection, project, before)
        first = prunable.first_event(connection, project)
    Fold(project, through, lambda_l, before + age).run(ledger, advance)
    folded = sum(
        _written(ledger, partial(bases.delete_folded, project=project, first=start, last=end))
        for start, end in _ranges(first, through)
    )
    with ledger.read() as connection:
        ids = _prunable(connection, project, before, bases.folded_through(connection, project))
    for portion in _portions(ids):
        _written(ledger, partial(prunable.prune_rounds, ids=portion))
    lines = _written(ledger, partial(prunable.forget_batches, project=project, before=before))
    return Pruned(project, through, folded, len(ids), _forget(ledger, project, before, ids), lines)


def forget_orphans(ledger: Ledger) -> int:
    """Delete the contexts of deleted tasks whose events are folded, and return how many those are."""
    with ledger.read() as connection:
        orphans = prunable.orphaned_contexts(connection)
        ids = sorted(set(orphans) - prunable.rounds_of_events(connection, orphans))
    for portion in _portions(ids):
        _written(ledger, partial(prunable.forget_contexts, ids=portion))
    return len(ids)


def _prunable(connection: Connection, project: str, before: float, folded: int) -> list[int]:
    needed = prunable.unfolded_rounds(connection, project, folded)
    return [number for number in prunable.old_rounds(connection, project, before) if number not in needed]


def _forget(ledger: Ledger, project: str, before: float, ids: Sequence[int]) -> int:
    """Delete the texts and answers that no round can use any more; return how many answers that were."""
    with ledger.read() as connection:
        tasks = set(prunable.stale_tasks(connection, project, before))
        for portion in _portions(ids):
            tasks |= set(prunable.pruned_tasks(connection, portion))
    return sum(
        _written(ledger, partial(prunable.forget_texts, project=project, tasks=portion))
        for portion in _portions(sorted(tasks))
    )


def _written(ledger: Ledger, function: Callable[[Connection], _T]) -> _T:
    """Run a function in a write transaction, and let others write for as long as it took."""
    began = time.monotonic()
    with ledger.write() as connection:
        value = function(connection)
    time.sleep(time.monotonic() - began)
    return value


def _ranges(first: int, last: int) -> Iterator[tuple[int, int]]:
    for start in range(first, last + 1, _EVENTS):
        yield start, min(start + _EVENTS - 1, last)


def _portions(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(ids), _ROUNDS):
        yield ids[start : start + _ROUNDS]

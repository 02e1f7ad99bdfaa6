"""What counting the kept votes again has changed, and whether a command is to be run (docs/recount.md)."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from backend.ledger.recounts import countings, further_votes
from backend.ledger.recounts import rows as recounts
from backend.ledger.recounts.countings import Reason
from backend.ledger.recounts.further_votes import NO_FURTHER_VOTES, FurtherSum
from backend.server.status.parts.commands import commands_of


@dataclass(frozen=True, slots=True)
class RecountReport:
    """A project's recounts. Field names are keys of the report's JSON.

    Attributes:
        countings: how often votes were counted again with a change.
        labels: how many tasks have got another label since they were predicted, at any time.
        scores: how many have only got another score.
        last_at: when the latest counting was made, ``None`` before the first.
        last_reason: why: ``command``, ``training`` or ``automatic``.
        last_labels: how many labels it changed.
        pending: how many tasks' predictions in Label Studio are still to be replaced.
        would_change: how many labels a recount would change that waits for the command; 0 if none waits.
        would_count: of how many.
        would_move: by how much it would change the scores, on average.
        command: the command to run; ``None`` if there is nothing to do by hand.
        further: votes of models that rounds had left out, asked for where labels were in doubt.
        completed: such votes that the server asked for by itself on tasks that people labelled.
    """

    countings: int
    labels: int
    scores: int
    last_at: float | None
    last_reason: Reason | None
    last_labels: int
    pending: int
    would_change: int
    would_count: int
    would_move: float
    command: str | None
    further: FurtherSum = NO_FURTHER_VOTES
    completed: FurtherSum = NO_FURTHER_VOTES


def recount_report(connection: Connection, project: str) -> RecountReport:
    """The report of one project."""
    made, look = countings.of_project(connection, project), countings.last_look(connection, project)
    last = made[0] if made else None
    seen = last.sequence if last else 0
    waits = look if look is not None and look.by_hand and look.sequence > seen else None
    labels, scores = recounts.changed_labels(connection, project)
    sums = further_votes.sums(connection, project)
    return RecountReport(
        countings=len(made),
        labels=labels,
        scores=scores,
        last_at=last.created_at if last else None,
        last_reason=last.reason if last else None,
        last_labels=last.labels if last else 0,
        pending=recounts.count_pending(connection, project),
        would_change=waits.labels if waits else 0,
        would_count=waits.counted if waits else 0,
        would_move=waits.score_change if waits else 0.0,
        command=commands_of(project).recount if waits else None,
        further=sums.get("doubt", NO_FURTHER_VOTES),
        completed=sums.get("human", NO_FURTHER_VOTES),
    )

"""A ledger as lines of JSON, in a format that outlives its tables (docs/ledger.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, select

from backend.ledger import projects
from backend.ledger.database import tables
from backend.ledger.money.picodollars import from_picodollars
from backend.ledger.recounts import further_votes
from backend.ledger.recounts import rows as recounts

FORMAT = "camvo-ledger"
VERSION = 1

_PORTION = 500
_rounds, _annotations, _calls = tables.rounds.c, tables.human_annotations.c, tables.calls.c

Line = dict[str, Any]


def lines(connection: Connection, keys: Sequence[str] | None = None) -> Iterator[Line]:
    """Yield the export's lines: a header, then projects, rounds, annotations and calls, each in their order.

    Args:
        connection: a read transaction; all lines are of its one snapshot.
        keys: the keys of the projects; ``None`` for all.
    """
    stored = [each for each in projects.list_all(connection) if keys is None or each.key in keys]
    yield {"type": "header", "format": FORMAT, "version": VERSION, "projects": len(stored)}
    for project in stored:
        yield {
            "type": "project",
            "project": project.key,
            "title": project.title,
            "label_config": project.label_config,
            "events": project.sequence,
            "feedback_refused": project.feedback_refused,
        }
        yield from _round_lines(connection, project.key)
        yield from _annotation_lines(connection, project.key)
        yield from _call_lines(connection, project.key)


def _round_lines(connection: Connection, project: str) -> Iterator[Line]:
    query = select(tables.rounds).where(_rounds.project == project).order_by(_rounds.id)
    for portion in _portions(connection, query):
        ids = [row.id for row in portion]
        latest, further = recounts.latest(connection, ids), further_votes.of_rounds(connection, ids)
        for row in portion:
            recount = latest.get(row.id)
            yield {
                "type": "round",
                "project": row.project,
                "round": row.id,
                "task": row.task,
                "control": row.control,
                "epoch": row.epoch,
                "created_at": _time(row.created_at),
                "label": row.label,
                "score": row.score,
                "votes": row.votes,
                "further_votes": {vote.model: vote.vote for vote in further.get(row.id, ())},
                "confidences": row.plan.get("confidences", {}),
                "recounted_label": None if recount is None else recount.label,
                "recounted_score": None if recount is None else recount.score,
                "human": row.human,
                "confirmed": row.confirmed,
                "taught": row.taught,
                "taught_by": row.taught_by,
                "blind": row.audit,
                "pruned": row.pruned,
                "cost_usd": row.cost_usd,
                "full_cost_usd": row.full_cost_usd,
            }


def _annotation_lines(connection: Connection, project: str) -> Iterator[Line]:
    query = select(tables.human_annotations).where(_annotations.project == project)
    for portion in _portions(connection, query.order_by(_annotations.annotation_id)):
        for row in portion:
            yield {
                "type": "annotation",
                "project": row.project,
                "annotation": row.annotation_id,
                "task": row.task,
                "updated_at": row.updated_at,
                "labels": row.labels,
                "annotator": row.completed_by,
                "ground_truth": row.ground_truth,
                "teaches": row.teaches,
                "prediction_shown": row.prediction_shown,
                "deleted": row.deleted,
                "withdrawn": row.withdrawn,
                "lead_time": row.lead_time,
            }


def _call_lines(connection: Connection, project: str) -> Iterator[Line]:
    query = select(tables.calls).where(_calls.project == project).order_by(_calls.id)
    for portion in _portions(connection, query):
        for row in portion:
            yield {
                "type": "call",
                "project": row.project,
                "call": row.id,
                "task": row.task,
                "model": row.model,
                "state": row.state,
                "cost_usd": None if row.cost is None else from_picodollars(row.cost),
                "reserved_usd": from_picodollars(row.reserved),
                "input_tokens": row.input_tokens,
                "output_tokens": row.output_tokens,
                "error": row.error_code,
                "purse": row.purse,
                "seconds": row.seconds,
                "created_at": _time(row.created_at),
            }


def _portions(connection: Connection, query: Select[Any]) -> Iterator[Sequence[Row[Any]]]:
    """The rows of a query, a portion in memory at a time."""
    yield from connection.execution_options(yield_per=_PORTION).execute(query).partitions(_PORTION)


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")

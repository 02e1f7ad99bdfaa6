"""Copying a ledger into an empty database, from SQLite to PostgreSQL or the other way."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from sqlalchemy import Connection, Row, Select, Table, func, insert, select, text

from backend.errors import LedgerError
from backend.ledger import Ledger, projects, recounts
from backend.ledger.database import tables
from backend.ledger.money import from_picodollars
from camvo.state.state import State
from camvo.student.taught_texts import TaughtText

_TOLERANCE = 1e-6
"""The largest difference that rounding can leave, absolute and relative."""


def differences(state: State, other: State) -> list[str]:
    """Name the parts in which two states differ; none if they are the same sum.

    The linear models are compared only if both states keep them, and texts that teach by their seals: one of
    the states may know n-grams that were sealed since.
    """
    mine, theirs = _parts(state), _parts(other)
    different = [name for name in mine if not _same(mine[name], theirs.get(name))]
    if not different and state.linear and other.linear:
        different = [f"linear model of {arm}" for arm in state if not _same_model(state, other, arm)]
    return different


def _parts(state: State) -> dict[str, Any]:
    with np.load(io.BytesIO(state.snapshot()), allow_pickle=False) as archive:
        parts: dict[str, Any] = json.loads(archive["header"].tobytes())
        parts |= {"pair sums": archive["pairs"].tolist(), "kept contexts": archive["contexts"].tolist()}
    del parts["linear"]
    if "texts" in parts:
        kept, owed, learnt = parts["texts"]
        parts["texts"] = [[TaughtText.from_list(text).sealed for text in kept], owed, learnt]
    return parts


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float) or isinstance(other, float):
        return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    return bool(one == other)


def _same_model(state: State, other: State, arm: str) -> bool:
    pairs = ((state[arm].inverse.full(), other[arm].inverse.full()), (state[arm].b, other[arm].b))
    return all(np.allclose(*pair, rtol=_TOLERANCE, atol=_TOLERANCE) for pair in pairs)


_PORTION = 1000
_NUMBERED = tuple(table for table in tables.metadata.sorted_tables if table.autoincrement_column is not None)
"""The tables whose ids the database gives out."""

_Advance = Callable[[int], object]


def row_counts(connection: Connection) -> dict[str, int]:
    """Return table → its number of rows."""
    return {
        table.name: connection.scalars(select(func.count()).select_from(table)).one()
        for table in tables.metadata.sorted_tables
    }


def copy(source: Ledger, target: Ledger, advance: _Advance) -> Mapping[str, int]:
    """Copy every row of a ledger into an empty one, in one transaction on each side.

    Processes may keep using the source meanwhile; what they write after the beginning is not copied. So stop
    them first.

    Args:
        source: a migrated ledger.
        target: a migrated ledger without rows.
        advance: called with how many rows were copied.

    Returns:
        Table → how many rows were copied.

    Raises:
        LedgerError: the target is not empty, a database failed, or the copy has other rows than the source;
            then nothing is in the target.
    """
    with source.read() as reader, target.write() as writer:
        if filled := [name for name, count in row_counts(writer).items() if count]:
            raise LedgerError(
                f"the ledger is not empty: it has rows in {', '.join(filled)}",
                where=target.place,
                fix="copy into a new, empty database",
            )
        for table in tables.metadata.sorted_tables:
            _copy_rows(reader, writer, table, advance)
        _continue_ids(writer)
        before, after = row_counts(reader), row_counts(writer)
        if before != after:
            raise LedgerError(
                "the copy has other rows than its source", where=target.place, fix="repeat the command"
            )
    return after


def _copy_rows(reader: Connection, writer: Connection, table: Table, advance: _Advance) -> None:
    rows = reader.execution_options(yield_per=_PORTION).execute(select(table))
    for portion in rows.mappings().partitions(_PORTION):
        writer.execute(insert(table), [dict(row) for row in portion])
        advance(len(portion))


def _continue_ids(writer: Connection) -> None:
    """Let the ids of new rows begin after the last one; SQLite does that automatically."""
    if writer.dialect.name == "sqlite":
        return
    for table in _NUMBERED:
        last = writer.scalars(select(func.max(table.c.id))).one()
        if last is not None:
            statement = text("SELECT setval(pg_get_serial_sequence(:table, 'id'), :last)")
            writer.execute(statement, {"table": table.name, "last": last})


_FORMAT = "camvo-ledger"
_VERSION = 1

_EXPORT_PORTION = 500
_rounds, _annotations, _calls = tables.rounds.c, tables.human_annotations.c, tables.calls.c

_Line = dict[str, Any]


def lines(connection: Connection, keys: Sequence[str] | None = None) -> Iterator[_Line]:
    """Yield the export's lines: a header, then projects, rounds, annotations and calls, each in their order.

    Args:
        connection: a read transaction; all lines are of its one snapshot.
        keys: the keys of the projects; ``None`` for all.
    """
    stored = [each for each in projects.list_all(connection) if keys is None or each.key in keys]
    yield {"type": "header", "format": _FORMAT, "version": _VERSION, "projects": len(stored)}
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


def _round_lines(connection: Connection, project: str) -> Iterator[_Line]:
    query = select(tables.rounds).where(_rounds.project == project).order_by(_rounds.id)
    for portion in _portions(connection, query):
        ids = [row.id for row in portion]
        latest, further = recounts.latest(connection, ids), recounts.further_votes_of(connection, ids)
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
                "bounded_usd": row.bounded_usd,
            }


def _annotation_lines(connection: Connection, project: str) -> Iterator[_Line]:
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


def _call_lines(connection: Connection, project: str) -> Iterator[_Line]:
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
    yield from (
        connection.execution_options(yield_per=_EXPORT_PORTION).execute(query).partitions(_EXPORT_PORTION)
    )


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")

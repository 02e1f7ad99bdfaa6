"""Rounds beside the events that taught them, for checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from sqlalchemy import Connection, Row, select

from backend.ledger.database import tables
from backend.ledger.database.packing import unpack_context, unpack_text, with_context
from backend.ledger.recounts import further_votes
from camvo.student.ngrams import Ngrams
from camvo.typing import Array

_events, _rounds, _contexts = tables.events.c, tables.rounds.c, tables.contexts.c
_PORTION = 500


@dataclass(frozen=True, slots=True, eq=False)
class LearntRound:
    """A round that is not pruned, with its events.

    Attributes:
        row: the row of the table ``rounds``.
        context: e_t, shape (d,); shape (0,) if it is missing.
        text: the n-grams of the text that teaches the student; empty without one.
        votes: arm → label, with the further votes that its human label has taught with.
        events: (kind, packed contribution), in order.
    """

    row: Row[Any]
    context: Array
    text: Ngrams
    votes: Mapping[str, str | None]
    events: tuple[tuple[str, bytes], ...]


def learnt_rounds(connection: Connection, project: str) -> Iterator[LearntRound]:
    """Yield the rounds of a project that are not pruned, in the order of their ids, a portion in memory."""
    after = 0
    events = groupby(_stored_events(connection, project), key=lambda event: int(event.round_id))
    at = next(events, None)
    query = (
        select(tables.rounds, _contexts.context)
        .outerjoin(tables.contexts, _contexts.round_id == _rounds.id)
        .where(_rounds.project == project, ~_rounds.pruned)
        .order_by(_rounds.id)
        .limit(_PORTION)
    )
    while rows := connection.execute(query.where(_rounds.id > after)).all():
        further = further_votes.of_rounds(connection, [row.id for row in rows])
        for row in rows:
            while at is not None and at[0] < row.id:  # of deleted and of pruned rounds
                at = next(events, None)
            taught: tuple[tuple[str, bytes], ...] = ()
            if at is not None and at[0] == row.id:
                taught = tuple((each.kind, with_context(each.contribution, row.context)) for each in at[1])
                at = next(events, None)
            later = [vote for vote in further.get(row.id, ()) if vote.taught]
            votes = further_votes.all_votes(row.votes, later)
            beside = row.context
            yield LearntRound(row, unpack_context(beside), unpack_text(beside), votes, taught)
        after = rows[-1].id


def _stored_events(connection: Connection, project: str) -> Iterator[Any]:
    query = (
        select(_events.round_id, _events.kind, _events.contribution)
        .where(_events.project == project, _events.round_id.is_not(None))
        .order_by(_events.round_id, _events.sequence)
    )
    yield from connection.execution_options(yield_per=_PORTION).execute(query)

"""What the tests of each state have found so far, for reports. The state itself is what the events say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Connection, Dialect, Insert, select

from backend.ledger.database import tables
from backend.ledger.database.upsert import insert

_table = tables.drift_tests


@dataclass(frozen=True, slots=True)
class FoundRow:
    """The tests of one state.

    Attributes:
        control: the name of the question's control tag.
        epoch: the question's epoch.
        sequence: the number of the last event that they include.
        tests: what they have found (:func:`camvo.state.findings.findings`).
    """

    control: str
    epoch: str
    sequence: int
    tests: Mapping[str, Any]


def store(  # noqa: PLR0917 - the first four name a state, as in snapshots.save()
    connection: Connection,
    project: str,
    control: str,
    epoch: str,
    sequence: int,
    tests: Mapping[str, Any],
    *,
    now: float,
) -> None:
    """Replace what is stored of a state, unless that includes later events."""
    row = {
        "project": project,
        "control": control,
        "epoch": epoch,
        "sequence": sequence,
        "tests": dict(tests),
        "updated_at": now,
    }
    connection.execute(_store(connection.dialect), row)


def of_project(connection: Connection, project: str) -> list[FoundRow]:
    """Return the tests of all states of a project."""
    columns = (_table.c.control, _table.c.epoch, _table.c.sequence, _table.c.tests)
    rows = connection.execute(select(*columns).where(_table.c.project == project))
    return [FoundRow(**row._mapping) for row in rows]


@cache
def _store(dialect: Dialect) -> Insert:
    statement = insert(dialect, _table)
    return statement.on_conflict_do_update(
        index_elements=_table.primary_key.columns.keys(),
        set_={name: statement.excluded[name] for name in ("sequence", "tests", "updated_at")},
        where=_table.c.sequence <= statement.excluded.sequence,
    )

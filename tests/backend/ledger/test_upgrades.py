"""A ledger with data in every table, at every schema since the first release, is upgraded to the present one.

Each begins as the ledger that commit d9d5b7b wrote. It is migrated to the schema, and each table that is
still empty there gets a row, so that a later migration has something to lose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from first_ledger import PROJECT, restore
from sqlalchemy import Connection, Inspector, MetaData, Table, create_engine, func, insert, inspect, select

import backend.ledger
from backend.ledger import Ledger, events
from backend.ledger.database import database
from backend.ledger.database.tables import metadata
from backend.upkeep import verification
from backend.upkeep.pruning import nothing
from camvo.state.contribution import Change, Contribution
from camvo.state.state import State

FOLDER = Path(backend.ledger.__file__).parent / "migrations"
REVISIONS = sorted(script.revision for script in ScriptDirectory(str(FOLDER)).walk_revisions())
EARLIER = REVISIONS[:-1]

Counts = dict[str, int]


def to_revision(url: str, revision: str) -> None:
    engine = create_engine(database.normalise(url))
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    engine.dispose()


def stored_tables(connection: Connection) -> Iterator[Table]:
    found = MetaData()
    found.reflect(connection)
    yield from (table for table in found.sorted_tables if table.name != "alembic_version")


def counts(url: str) -> Counts:
    engine = create_engine(database.normalise(url))
    with engine.connect() as connection:
        found = {
            table.name: connection.scalar(select(func.count()).select_from(table)) or 0
            for table in stored_tables(connection)
        }
    engine.dispose()
    return found


def fill_empty_tables(url: str) -> None:
    engine = create_engine(database.normalise(url))
    with engine.begin() as connection:
        for table in stored_tables(connection):
            if not connection.scalar(select(func.count()).select_from(table)):
                connection.execute(insert(table), {column.name: _value(column) for column in table.columns})
    engine.dispose()


def _value(column: Any) -> Any:
    kind = column.type.python_type if str(column.type) != "JSON" else dict
    values = {str: "1.1", int: 1, float: 1.0, bool: False, bytes: b"{}", dict: {}}
    return values[kind]


def copied(source: str, target: str) -> None:
    """Copy the rows of a ledger into one of the same schema on PostgreSQL."""
    reader, writer = create_engine(source), create_engine(database.normalise(target))
    with reader.connect() as before, writer.begin() as after:
        tables = {table.name: table for table in stored_tables(after)}
        for table in stored_tables(before):
            if rows := [dict(row._mapping) for row in before.execute(select(table))]:
                after.execute(insert(tables[table.name]), rows)
    reader.dispose()
    writer.dispose()


@pytest.mark.parametrize("revision", EARLIER)
def test_every_row_of_an_earlier_schema_is_there_after_the_upgrade(revision: str, tmp_path: Path) -> None:
    check_upgrade(restore(tmp_path / "stored.sqlite"), revision)


@pytest.mark.parametrize("revision", [EARLIER[0], EARLIER[-1]])
def test_so_is_every_row_on_postgresql(
    revision: str, tmp_path: Path, new_postgres_url: Callable[[], str]
) -> None:
    url = new_postgres_url()
    to_revision(url, EARLIER[0])
    copied(restore(tmp_path / "stored.sqlite"), url)
    check_upgrade(url, revision)


def check_upgrade(url: str, revision: str) -> None:
    to_revision(url, revision)
    fill_empty_tables(url)
    before = counts(url)
    assert all(before.values())
    ledger = Ledger(url)
    ledger.migrate()
    with ledger.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        inspector: Inspector = inspect(connection)
        assert set(inspector.get_table_names()) - {"alembic_version"} == set(metadata.tables)
        problems = [each for each in verification.problems(connection, nothing) if PROJECT in each.where]
    ledger.close()
    after = counts(url)
    assert {table: after[table] for table in before} == before
    assert problems == []


def test_there_is_a_first_and_a_last_schema() -> None:
    assert (EARLIER[0], len(REVISIONS)) == ("0004", int(REVISIONS[-1]) - 3)


SNAPSHOT_7 = Path(__file__).parent / "snapshot_format_7.npz"
"""A state of fifty rounds with two models at d = 4, as versions with format 7 of snapshots store it."""


def test_a_base_of_format_7_is_read_after_the_upgrade(tmp_path: Path) -> None:
    """A base cannot be added up again: its events are deleted."""
    url = restore(tmp_path / "stored.sqlite")
    to_revision(url, "0021")
    data = SNAPSHOT_7.read_bytes()
    base = events.Base(PROJECT, "old", "e7", 50, 50, data, events.digest_of(data), 0.0)
    engine = create_engine(database.normalise(url))
    with engine.begin() as connection:
        connection.execute(insert(metadata.tables["bases"]), asdict(base))
    engine.dispose()
    ledger = Ledger(url)
    ledger.migrate()
    with ledger.read() as connection:
        stored = events.base_of(connection, PROJECT, "old", "e7")
    ledger.close()
    assert stored is not None
    state = State.restore(stored.state)
    assert {arm: (state[arm].rewards, state[arm].reward_sum) for arm in state} == {
        "large": (43, 42.0),
        "small": (43, 29.0),
    }
    assert (state.rounds, len(state.context_rounds.patterns)) == (50, 43)
    q, width = state.score(["large", "small"], np.array([1.0, 0.0, 0.0, 0.0]))
    np.testing.assert_allclose(q, [-0.76102624, -0.5621369], atol=1e-8)
    np.testing.assert_allclose(width, [0.34021528, 0.34021528], atol=1e-8)
    state.add(Contribution(np.array([1.0, 0.0, 0.0, 0.0]), (Change("small", 0.5, None, 1.0),)))
    assert state.rounds == 51

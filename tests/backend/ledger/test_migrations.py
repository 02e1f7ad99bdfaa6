from __future__ import annotations

from importlib.resources import files

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from ledger_workers import Together, migrate
from sqlalchemy import inspect, text

from backend.errors import LedgerError
from backend.ledger import Ledger, projects
from backend.ledger.database.tables import metadata


def test_a_new_ledger_has_exactly_the_tables_that_the_code_uses(ledger: Ledger) -> None:
    with ledger.read() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, metadata) == []
        assert set(inspect(connection).get_table_names()) == {*metadata.tables, "alembic_version"}


def test_the_comparison_would_see_a_missing_column(ledger: Ledger) -> None:
    with ledger.write() as connection:
        connection.execute(text("ALTER TABLE events DROP COLUMN kind"))
    with ledger.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) != []


def test_migrating_again_keeps_all_rows(ledger: Ledger) -> None:
    with ledger.write() as connection:
        projects.ensure(connection, "1.1", 5.0)
    ledger.migrate()
    with ledger.read() as connection:
        assert [project.key for project in projects.list_all(connection)] == ["1.1"]


def test_several_processes_can_migrate_at_the_same_time(database_url: str) -> None:
    assert Together(migrate, *[(database_url,)] * 3).succeeded()
    ledger = Ledger(database_url)
    with ledger.read() as connection:
        assert projects.list_all(connection) == []
    ledger.close()


@pytest.mark.parametrize("revision", ["0024", "9999"])
def test_a_ledger_of_another_revision_is_refused_and_unchanged(ledger: Ledger, revision: str) -> None:
    with ledger.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :other"), {"other": revision})
    with pytest.raises(LedgerError, match=f"does not know.*{revision}") as migrating:
        ledger.migrate()
    with pytest.raises(LedgerError, match=f"revision {revision}, and this CaMVo needs 0001") as checking:
        ledger.check_revision()
    assert migrating.value.code == checking.value.code == "ledger_failed"
    assert "install the version of CaMVo that wrote the ledger" in str(migrating.value.fix)
    assert "use the version of CaMVo that wrote it" in str(checking.value.fix)
    with ledger.read() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one() == revision


def test_a_new_ledger_is_at_the_newest_revision(ledger: Ledger) -> None:
    with ledger.read() as connection:
        head = ScriptDirectory(str(files("backend.ledger") / "migrations")).get_current_head()
        assert MigrationContext.configure(connection).get_current_revision() == head
    ledger.check_revision()

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest
from sqlalchemy import text

from backend.errors import LedgerError
from backend.ledger import Ledger, projects
from backend.ledger.database.statements import try_write


def test_a_read_sees_the_write_before_it(ledger: Ledger) -> None:
    with ledger.write() as connection:
        projects.ensure(connection, "1.1", 5.0)
    with ledger.read() as connection:
        assert projects.get(connection, "1.1") is not None


def test_an_exception_rolls_back_the_write_and_is_raised(ledger: Ledger) -> None:
    def write() -> None:
        with ledger.write() as connection:
            projects.ensure(connection, "1.1", 5.0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write()
    with ledger.read() as connection:
        assert projects.list_all(connection) == []


def test_a_reader_sees_one_snapshot_while_others_write(ledger: Ledger) -> None:
    with ledger.read() as reader:
        assert projects.list_all(reader) == []
        with ledger.write() as writer:
            projects.ensure(writer, "1.1", 5.0)
        assert projects.list_all(reader) == []


def test_a_reader_cannot_write(ledger: Ledger) -> None:
    with pytest.raises(LedgerError), ledger.read() as connection:
        projects.ensure(connection, "1.1", 5.0)


def test_a_connection_that_read_can_write_later(ledger: Ledger) -> None:
    with ledger.read() as connection:
        projects.list_all(connection)
    with ledger.write() as connection:
        projects.ensure(connection, "1.1", 5.0)


def test_a_writer_gives_up_when_its_turn_does_not_come(ledger: Ledger, ledger_url: str) -> None:
    hasty = Ledger(ledger_url, patience=0.05)
    message = "another process holds the ledger"
    with ledger.write(), pytest.raises(LedgerError, match=message), hasty.write():
        pass
    hasty.close()


def test_a_transaction_that_the_database_ended_by_itself_is_an_error(sqlite_ledger: Ledger) -> None:
    def write() -> None:
        with sqlite_ledger.write() as connection:
            projects.ensure(connection, "1.1", 5.0)
            connection.exec_driver_sql("ROLLBACK")

    with pytest.raises(LedgerError, match="rolled the transaction back"):
        write()


def test_sqlite_uses_a_write_ahead_log_and_syncs_to_the_disk(sqlite_ledger: Ledger) -> None:
    with sqlite_ledger.write() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2
        assert connection.exec_driver_sql("PRAGMA wal_autocheckpoint").scalar_one() == 8192


def test_a_compacted_file_is_not_kept_a_second_time_in_the_log_of_a_running_server(
    sqlite_ledger: Ledger, tmp_path: Path
) -> None:
    server = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    with server.read() as connection:
        projects.list_all(connection)  # its connection stays open
    with sqlite_ledger.write() as connection:
        projects.ensure(connection, "1.1", 5.0)
    sqlite_ledger.compact()
    assert (tmp_path / "ledger.sqlite-wal").stat().st_size == 0
    server.close()


def test_a_small_write_succeeds_once_the_ledger_is_migrated(database_url: str) -> None:
    ledger = Ledger(database_url)
    with pytest.raises(LedgerError), ledger.write() as connection:
        try_write(connection)
    ledger.migrate()
    with ledger.write() as connection:
        try_write(connection)
        try_write(connection)
    ledger.close()


def test_missing_tables_are_explained(database_url: str) -> None:
    ledger = Ledger(database_url)
    with pytest.raises(LedgerError, match="migrate the ledger"), ledger.read() as connection:
        projects.list_all(connection)
    ledger.close()


def test_a_missing_folder_is_explained(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path / 'missing' / 'ledger.sqlite'}")
    with pytest.raises(LedgerError, match="create the folder"):
        ledger.migrate()


def test_a_file_that_is_not_a_database_is_explained(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no database at all, only some words. " * 30)
    with pytest.raises(LedgerError, match="restore the file from a backup"):
        Ledger(f"sqlite:///{tmp_path / 'notes.txt'}").migrate()


def test_an_unreachable_server_is_explained_without_the_password() -> None:
    ledger = Ledger("postgresql://camvo:hunter2@127.0.0.1:9/ledger?password=hunter3")
    with pytest.raises(LedgerError, match="check that the database server runs") as caught, ledger.read():
        pass
    assert "hunter" not in str(caught.value)
    assert "hunter" not in str(caught.value.__cause__)


def test_a_failure_does_not_quote_the_values_of_the_write(ledger: Ledger) -> None:
    with pytest.raises(LedgerError) as caught, ledger.write() as connection:
        connection.execute(text("INSERT INTO nowhere VALUES (:content)"), {"content": "a private letter"})
    assert "private" not in str(caught.value)
    assert "private" not in str(caught.value.__cause__)


@pytest.mark.parametrize(
    "url",
    [
        "no url, but hunter2",
        "postgresql://camvo:hunter2@host:port/ledger",
        "mysql://camvo:hunter2@host/ledger",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///file:x?mode=memory&uri=true",
    ],
)
def test_an_invalid_url_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(LedgerError, match="CAMVO_DATABASE_URL") as caught:
        Ledger(url)
    assert "hunter2" not in str(caught.value)
    assert "sqlite:///camvo.sqlite" in str(caught.value)


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg", "postgresql+psycopg2"])
def test_every_spelling_of_postgresql_means_psycopg_3(scheme: str) -> None:
    place = Ledger(f"{scheme}://camvo:hunter2@host/ledger").place
    assert place == "postgresql+psycopg://camvo:***@host/ledger"


def test_a_read_only_file_is_explained(tmp_path: Path) -> None:
    file = tmp_path / "ledger.sqlite"
    ledger = Ledger(f"sqlite:///{file}")
    ledger.migrate()
    ledger.close()
    read_only = Ledger(f"sqlite:///file:{file}?immutable=1&uri=true")
    with pytest.raises(LedgerError, match="allow this user to write"), read_only.write() as connection:
        projects.ensure(connection, "1.1", 5.0)
    read_only.close()
    assert file.stat().st_mode & stat.S_IRUSR


def test_a_backup_made_by_sqlite_itself_can_be_opened(sqlite_ledger: Ledger, tmp_path: Path) -> None:
    with sqlite_ledger.write() as connection:
        projects.ensure(connection, "1.1", 5.0)
    source, copy = sqlite3.connect(tmp_path / "ledger.sqlite"), sqlite3.connect(tmp_path / "copy.sqlite")
    source.backup(copy)
    source.close()
    copy.close()
    restored = Ledger(f"sqlite:///{tmp_path / 'copy.sqlite'}")
    restored.migrate()
    with restored.read() as connection:
        assert [project.key for project in projects.list_all(connection)] == ["1.1"]
    restored.close()

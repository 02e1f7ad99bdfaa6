"""Outages of real databases: which failures pass, and what happens until they do."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import migrated
import psutil  # type: ignore[import-untyped]
import pytest
from ledger_workers import append_event as append
from postgres import Postgres
from sqlalchemy import Connection, text

from backend.errors import LedgerError, LedgerFullError
from backend.ledger import Ledger, LedgerAccess, Writer, projects
from backend.ledger.database import database
from backend.ledger.database import writer as outages
from backend.ledger.database.database import SpareRoom
from backend.ledger.events import ProjectEvents


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with Postgres(tmp_path_factory.mktemp("mortal")) as postgres:
        yield postgres


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_LAST_RESORT", 0.5)
    monkeypatch.setitem(database._CONNECT, "connect_timeout", 2)


def failure(ledger: Ledger, function: Callable[[Connection], object]) -> LedgerError:
    with pytest.raises(LedgerError) as caught, ledger.write() as connection:
        function(connection)
    return caught.value


def run(statement: str) -> Callable[[Connection], object]:
    return lambda connection: connection.execute(text(statement))


def written(ledger: Ledger) -> list[int]:
    with ledger.read() as connection:
        return [event.sequence for event in ProjectEvents(connection, "1.1").after(0)]


# -- which failures pass


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM nowhere",
        "SELECT no_column FROM projects",
        "SELECT FROM WHERE",
        "INSERT INTO projects (key, sequence, updated_at) VALUES ('1.1', NULL, 1.0)",
        "INSERT INTO deleted_tasks VALUES ('1.1', 1, 1.0), ('1.1', 1, 1.0)",
    ],
)
def test_a_mistake_does_not_pass(ledger: Ledger, statement: str) -> None:
    assert not failure(ledger, run(statement)).temporary


def test_a_value_that_does_not_fit_does_not_pass(ledger: Ledger) -> None:
    def too_large(connection: Connection) -> None:
        row = {"project": "1.1", "scope": "total", "spent": 2**70, "reserved": 0}
        query = "INSERT INTO accounts (project, scope, spent, reserved) VALUES (:project, :scope, :spent, 0)"
        connection.execute(text(query), row)

    with pytest.raises((LedgerError, OverflowError)) as caught, ledger.write() as connection:
        too_large(connection)
    assert not outages.is_temporary(caught.value)


def test_a_locked_ledger_passes(ledger: Ledger, ledger_url: str) -> None:
    hasty = Ledger(ledger_url, patience=0.05)
    with ledger.write():
        assert failure(hasty, append).temporary
    hasty.close()


def test_a_full_disk_passes(tmp_path: Path) -> None:
    """SQLite counts its pages as it would meet the end of the disk."""
    ledger = Ledger(migrated.sqlite(tmp_path / "ledger.sqlite"))

    def fill(connection: Connection) -> None:
        connection.exec_driver_sql("PRAGMA max_page_count=1")  # the number of pages that there are
        append(connection, b"x" * 1_000_000)

    error = failure(ledger, fill)
    assert isinstance(error, LedgerFullError)
    assert error.temporary
    assert "the disk is full" in str(error)
    ledger.close()


def test_a_disk_that_postgresql_finds_full_is_named(postgres: Postgres) -> None:
    def fill(connection: Connection) -> None:
        connection.exec_driver_sql(
            "DO $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = 'disk_full'; END $$"
        )

    with closing(Ledger(postgres.new_ledger_url())) as ledger:
        error = failure(ledger, fill)
    assert isinstance(error, LedgerFullError)
    assert error.temporary


# -- spare room


FULL = LedgerFullError("the disk is full", temporary=True)
LOCKED = LedgerError("the database is locked", temporary=True)


class Clock:
    """Monotonic seconds, in the hands of a test."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_no_call_may_start_once_the_disk_was_found_full(sqlite_ledger: Ledger) -> None:
    spare = SpareRoom(sqlite_ledger)
    spare.check()
    assert spare.judged(FULL) is FULL
    with pytest.raises(LedgerFullError, match="the disk is full"):
        spare.check()


def test_a_disk_that_stays_full_is_a_failure_that_does_not_pass(
    sqlite_ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    spare = SpareRoom(sqlite_ledger)
    assert [spare.judged(FULL).temporary, spare.judged(LOCKED).temporary] == [True, True]
    clock.now = 29.0
    assert spare.judged(FULL).temporary
    clock.now = 30.0
    assert [spare.judged(FULL).temporary, spare.judged(LOCKED).temporary] == [False, True]


@pytest.mark.usefixtures("whole_spare_room")
def test_the_room_is_kept_until_the_disk_is_full_or_the_writer_ends(tmp_path: Path) -> None:
    with closing(Ledger(migrated.sqlite(tmp_path / "ledger.sqlite"))) as ledger:
        spare = SpareRoom(ledger)
        kept = os.fstat(spare._file.fileno()).st_blocks * 512  # type: ignore[union-attr]
        assert kept >= 8_000_000
        spare.judged(FULL)
        assert spare._file is None
        last = SpareRoom(ledger)
        Writer(ledger, spare=last).close()
        assert last._file is None


def test_a_read_only_file_passes(tmp_path: Path) -> None:
    migrated.sqlite(tmp_path / "ledger.sqlite")
    ledger = Ledger(f"sqlite:///file:{tmp_path / 'ledger.sqlite'}?immutable=1&uri=true")
    assert failure(ledger, append).temporary
    ledger.close()


def test_a_damaged_file_does_not_pass(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no database at all, only some words. " * 30)
    assert not failure(Ledger(f"sqlite:///{tmp_path / 'notes.txt'}"), append).temporary


def test_a_server_that_is_not_there_passes() -> None:
    assert failure(Ledger("postgresql://camvo@127.0.0.1:9/ledger"), append).temporary


@pytest.mark.parametrize(
    ("statement", "passes"),
    [
        ("SELECT pg_terminate_backend(pg_backend_pid())", True),
        ("SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(5)", True),
        ("SET LOCAL statement_timeout = 10; SELECT pg_sleep(5)", True),
        ("SET TRANSACTION READ ONLY; DELETE FROM projects", True),
        ("SELECT 1 / 0", False),
        ("INSERT INTO projects (key, sequence, updated_at) VALUES ('a', 99999999999999999999, 1)", False),
    ],
)
def test_failures_of_postgresql(
    migrated_postgres_url: Callable[[], str], statement: str, passes: bool
) -> None:
    ledger = Ledger(migrated_postgres_url())
    first, _, second = statement.partition("; ")

    def fail(connection: Connection) -> None:
        connection.execute(text(first))
        connection.execute(text(second))

    assert failure(ledger, fail if second else run(first)).temporary is passes
    ledger.close()


# -- what happens until they pass


def test_a_writer_and_readers_outlast_a_killed_server(postgres: Postgres) -> None:
    ledger = Ledger(postgres.new_ledger_url())
    writer = Writer(ledger)
    access, down = LedgerAccess(ledger, writer, ThreadPoolExecutor(2)), threading.Event()

    async def check() -> list[object]:
        assert await writer.persist(append) == 1
        await asyncio.to_thread(postgres.kill)
        writes = [asyncio.create_task(writer.persist(append, on_outage=down.set)) for _ in range(20)]
        reading = asyncio.create_task(access.read(projects.list_all))
        assert await asyncio.to_thread(down.wait, 30)
        await asyncio.to_thread(postgres.start_again)
        return [await asyncio.gather(*writes), len(await reading)]

    numbers, count = asyncio.run(check())
    assert (sorted(numbers), count) == (list(range(2, 22)), 1)  # type: ignore[call-overload]
    assert written(ledger) == list(range(1, 22))
    writer.close()
    ledger.close()


def test_patience_with_an_outage_ends(postgres: Postgres) -> None:
    ledger = Ledger(postgres.new_ledger_url())
    writer, outages_noted = Writer(ledger), list[int]()

    async def check() -> None:
        await writer.persist(append, patience=0.3, on_outage=lambda: outages_noted.append(1))

    postgres.kill()
    try:
        with pytest.raises(LedgerError) as caught:
            asyncio.run(check())
    finally:
        postgres.start_again()
    assert (caught.value.temporary, len(outages_noted)) == (True, 1)
    assert asyncio.run(writer.run(append)) == 1
    writer.close()
    ledger.close()


def test_a_mistake_is_not_tried_again(ledger: Ledger) -> None:
    writer, tries = Writer(ledger), list[int]()

    def mistake(connection: Connection) -> None:
        tries.append(1)
        connection.execute(text("SELECT * FROM nowhere"))

    with pytest.raises(LedgerError):
        asyncio.run(writer.persist(mistake))
    writer.close()
    assert len(tries) == 1


def test_a_server_that_hangs_does_not_hang_the_writer(postgres: Postgres, hurried: None) -> None:
    """SIGSTOP: the kernel acknowledges everything, and the server says nothing."""
    ledger = Ledger(postgres.new_ledger_url(), patience=0.5)
    writer = Writer(ledger)
    assert writer.submit(append).result(30) == 1
    processes = _processes(ledger)
    for process in processes:
        process.suspend()
    try:
        error = writer.submit(append).exception(60)
    finally:
        for process in processes:
            process.resume()
    assert outages.is_temporary(error or Exception())
    assert asyncio.run(writer.persist(append)) in {2, 3}  # whether or not the server carried out the other
    writer.close()
    ledger.close()


def test_a_process_that_hangs_does_not_hold_up_the_others(postgres: Postgres) -> None:
    """A stopped process would hold the writers' turn for ever; the server ends its transaction."""
    url = postgres.new_ledger_url()
    stopped, other = Ledger(url, patience=0.3), Ledger(url, patience=30.0)

    def stop_for_a_while(connection: Connection) -> None:
        append(connection)
        with other.write() as second:
            append(second)
        append(connection)

    assert failure(stopped, stop_for_a_while).temporary
    assert written(other) == [1]
    stopped.close()
    other.close()


def test_a_migration_may_take_its_time(postgres: Postgres, hurried: None) -> None:
    ledger = Ledger(postgres.new_ledger_url(), patience=0.1)
    with ledger._transaction(database._unbounded(ledger._engine)) as connection:
        time.sleep(0.3)
        connection.execute(text("SELECT pg_sleep(1)"))
    with pytest.raises(LedgerError), ledger.write() as connection:
        connection.execute(text("SELECT pg_sleep(30)"))
    ledger.close()


def _processes(ledger: Ledger) -> list[psutil.Process]:
    """The server's processes, the postmaster first."""
    with ledger.read() as connection:
        worker = psutil.Process(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())
    postmaster = worker.parent()
    return [postmaster, *postmaster.children(recursive=True)]


# -- the SQLite file


def test_a_file_that_was_moved_takes_no_write_until_it_is_back(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(migrated.sqlite(path))
    with ledger.write() as connection:
        append(connection)
    path.rename(tmp_path / "moved.sqlite")
    for _ in range(2):
        error = failure(ledger, append)
        assert error.temporary
        assert "move the ledger's file back" in str(error)
    with pytest.raises(LedgerError), ledger.read():
        pass
    assert not path.exists()
    (tmp_path / "moved.sqlite").rename(path)
    with ledger.write() as connection:
        assert append(connection) == 2
    assert written(ledger) == [1, 2]
    ledger.close()


def test_a_file_that_is_moved_during_a_write_takes_no_commit(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(migrated.sqlite(path))

    def move(connection: Connection) -> None:
        append(connection)
        path.rename(tmp_path / "moved.sqlite")

    assert "was moved or deleted" in str(failure(ledger, move))
    (tmp_path / "moved.sqlite").rename(path)
    assert written(ledger) == []
    ledger.close()


def test_a_file_that_was_replaced_is_opened_anew(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(migrated.sqlite(path))
    with ledger.write() as connection:
        append(connection)
    for file in tmp_path.iterdir():  # with its write-ahead log
        file.unlink()
    migrated.sqlite(path)
    assert "was moved or deleted" in str(failure(ledger, append))
    with ledger.write() as connection:
        assert append(connection) == 1
    ledger.close()

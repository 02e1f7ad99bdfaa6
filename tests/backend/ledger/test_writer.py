from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from unittest.mock import Mock, patch

import pytest
from ledger_workers import append_event as append
from sqlalchemy import Connection, event, text
from sqlalchemy.pool import Pool

from backend.errors import BudgetExhaustedError, LedgerError
from backend.ledger import Ledger, Writer, projects
from backend.ledger.database import writer as batches
from backend.ledger.events import ProjectEvents

pytestmark = pytest.mark.usefixtures("patient")


def written(ledger: Ledger) -> list[bytes]:
    with ledger.read() as connection:
        return [event.contribution for event in ProjectEvents(connection, "1.1").after(0)]


class Gate:
    """A blocking function for the writer: the functions queued behind it share the next transaction."""

    def __init__(self) -> None:
        self.entered, self.open = threading.Event(), threading.Event()

    def __call__(self, _: Connection) -> None:
        self.entered.set()
        assert self.open.wait(30)


async def behind_a_gate(writer: Writer, *functions: Callable[[Connection], object]) -> list[object]:
    """Run the functions in one transaction and return their values and exceptions."""
    gate = Gate()
    first = asyncio.create_task(writer.run(gate))
    await asyncio.to_thread(gate.entered.wait, 30)
    tasks = [asyncio.create_task(writer.run(function)) for function in functions]
    await asyncio.sleep(0)
    gate.open.set()
    await first
    return list(await asyncio.gather(*tasks, return_exceptions=True))


def test_a_resolved_write_is_committed(ledger: Ledger, writer: Writer) -> None:
    async def check() -> tuple[int, list[bytes]]:
        number = await writer.run(append)
        return number, await asyncio.to_thread(written, ledger)

    assert asyncio.run(check()) == (1, [b"x"])


def test_many_callers_get_their_own_values(ledger: Ledger, writer: Writer) -> None:
    async def check() -> list[int]:
        return await asyncio.gather(*(writer.run(append) for _ in range(600)))

    assert asyncio.run(check()) == list(range(1, 601))
    assert len(written(ledger)) == 600


def test_waiting_functions_share_one_transaction(sqlite_ledger: Ledger) -> None:
    transactions: set[int] = set()

    def note(connection: Connection) -> None:
        transactions.add(id(connection.get_transaction()))
        append(connection)

    writer = Writer(sqlite_ledger)
    asyncio.run(behind_a_gate(writer, *[note] * 8))
    writer.close()
    assert (len(transactions), len(written(sqlite_ledger))) == (1, 8)


def test_functions_that_follow_one_another_closely_share_a_transaction(sqlite_ledger: Ledger) -> None:
    """The second comes while the writer still gathers after the first, and is not written alone."""
    commits: list[object] = []
    writer = Writer(sqlite_ledger)
    with patch("backend.ledger.database.writer._PAUSE", 60.0):
        writer.submit(append).result()
        event.listen(sqlite_ledger._engine, "commit", commits.append)
        waiting = [writer.submit(append) for _ in range(3)]
        writer.submit(append, urgent=True).result()
    writer.close()
    assert [future.result() for future in waiting] == [3, 4, 5]
    assert len(commits) == 2


def test_the_writer_gathers_for_as_long_as_its_last_transaction_took(sqlite_ledger: Ledger) -> None:
    """The clock moves in the first transaction only, so only an urgent function ends the gathering."""
    commits: list[object] = []
    clock = Mock(monotonic=Mock(return_value=0.0))
    writer = Writer(sqlite_ledger)
    with (
        patch("backend.ledger.database.writer.time", clock),
        patch("backend.ledger.database.writer._PAUSE", 0.0),
        patch("backend.ledger.database.writer._MOST_PAUSE", 60.0),
    ):
        writer.submit(lambda _: setattr(clock.monotonic, "return_value", 60.0)).result()
        event.listen(sqlite_ledger._engine, "commit", commits.append)
        waiting = [writer.submit(append) for _ in range(3)]
        with pytest.raises(TimeoutError):
            waiting[0].result(timeout=0.1)
        writer.submit(append, urgent=True).result()
        writer.close()
    assert [future.result() for future in waiting] == [2, 3, 4]
    assert len(commits) == 2


def test_urgent_functions_run_first(sqlite_ledger: Ledger) -> None:
    writer, gate, calls = Writer(sqlite_ledger), Gate(), list[str]()
    writer.submit(gate)
    assert gate.entered.wait(30)
    writer.submit(lambda _: calls.append("first"))
    writer.submit(lambda _: calls.append("second"))
    writer.submit(lambda _: calls.append("urgent"), urgent=True)
    gate.open.set()
    writer.close()
    assert calls == ["urgent", "first", "second"]


def test_urgent_functions_are_committed_before_others_begin(sqlite_ledger: Ledger) -> None:
    writer, gate, others = Writer(sqlite_ledger), Gate(), list[list[bytes]]()
    writer.submit(gate)
    assert gate.entered.wait(30)
    writer.submit(lambda _: others.append(written(sqlite_ledger)))
    writer.submit(append, urgent=True)
    gate.open.set()
    writer.close()
    assert others == [[b"x"]]


def test_an_urgent_function_ends_the_running_transaction_early(sqlite_ledger: Ledger) -> None:
    writer, first, second, others = Writer(sqlite_ledger), Gate(), Gate(), list[list[bytes]]()
    writer.submit(first)
    assert first.entered.wait(30)
    for function in (append, second, append):
        writer.submit(function)
    first.open.set()
    assert second.entered.wait(30)
    writer.submit(lambda _: others.append(written(sqlite_ledger)), urgent=True)
    second.open.set()
    writer.close()
    assert others == [[b"x"]]


def test_waiting_functions_share_one_transaction_after_an_urgent_one(sqlite_ledger: Ledger) -> None:
    transactions: set[int] = set()

    def note(connection: Connection) -> None:
        transactions.add(id(connection.get_transaction()))
        append(connection)

    writer = Writer(sqlite_ledger)
    writer.submit(append, urgent=True).result()
    asyncio.run(behind_a_gate(writer, *[note] * 8))
    writer.close()
    assert (len(transactions), len(written(sqlite_ledger))) == (1, 9)


def test_other_functions_run_between_two_urgent_transactions(sqlite_ledger: Ledger) -> None:
    """Each urgent function submits the next one, as in an endless rush of webhooks."""
    writer, gate, calls = Writer(sqlite_ledger), Gate(), list[str]()

    def urgent(_: Connection) -> None:
        calls.append("urgent")
        if len(calls) < 100 and "waits" not in calls:
            writer.submit(urgent, urgent=True)

    writer.submit(gate)
    assert gate.entered.wait(30)
    writer.submit(urgent, urgent=True)
    waits = writer.submit(lambda _: calls.append("waits"))
    gate.open.set()
    waits.result(30)
    writer.close()
    assert calls[:2] == ["urgent", "waits"]


def test_waiting_urgent_functions_share_one_transaction(sqlite_ledger: Ledger) -> None:
    writer, gate, transactions = Writer(sqlite_ledger), Gate(), list[object]()

    def note(connection: Connection) -> None:
        transactions.append(connection.get_transaction())
        writer.submit(append, urgent=True)

    writer.submit(gate)
    assert gate.entered.wait(30)
    for _ in range(3):
        writer.submit(note, urgent=True)
    gate.open.set()
    writer.submit(lambda _: None).result(30)
    writer.close()
    assert len(transactions) == 3
    assert len({id(transaction) for transaction in transactions}) == 1


def test_run_gives_way_before_it_writes(sqlite_ledger: Ledger) -> None:
    calls: list[str] = []
    writer = Writer(sqlite_ledger, give_way=lambda: calls.append("gave way"))
    asyncio.run(writer.run(lambda _: calls.append("wrote")))
    writer.close()
    assert calls == ["gave way", "wrote"]


def test_a_transaction_starts_no_function_after_its_time_limit(
    sqlite_ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "_SECONDS", 0.0)
    writer, gate, others = Writer(sqlite_ledger), Gate(), list[list[bytes]]()
    writer.submit(gate)
    assert gate.entered.wait(30)
    writer.submit(append)
    writer.submit(lambda _: others.append(written(sqlite_ledger)))
    gate.open.set()
    writer.close()
    assert others == [[b"x"]]


def test_a_function_that_raises_does_not_affect_the_others(ledger: Ledger, writer: Writer) -> None:
    def refuse(connection: Connection) -> None:
        append(connection, b"undone")
        raise BudgetExhaustedError("the money is spent")

    results = asyncio.run(
        behind_a_gate(writer, lambda c: append(c, b"before"), refuse, lambda c: append(c, b"after"))
    )
    assert (results[0], results[2]) == (1, 2)
    assert isinstance(results[1], BudgetExhaustedError)
    assert written(ledger) == [b"before", b"after"]


def test_a_database_error_in_one_function_does_not_affect_the_others(ledger: Ledger, writer: Writer) -> None:
    def wrong(connection: Connection) -> None:
        append(connection, b"undone")
        connection.execute(text("INSERT INTO nowhere VALUES (1)"))

    results = asyncio.run(
        behind_a_gate(writer, lambda c: append(c, b"before"), wrong, lambda c: append(c, b"after"))
    )
    assert (results[0], results[2]) == (1, 2)
    assert isinstance(results[1], LedgerError)
    assert written(ledger) == [b"before", b"after"]


def test_no_caller_of_a_lost_transaction_is_told_that_its_write_succeeded(
    sqlite_ledger: Ledger,
) -> None:
    def lose_everything(connection: Connection) -> None:
        connection.exec_driver_sql("ROLLBACK")  # as SQLite does by itself on a full disk

    writer = Writer(sqlite_ledger)
    results = asyncio.run(behind_a_gate(writer, append, lose_everything, append))
    writer.close()
    confirmed = [result for result in results if not isinstance(result, Exception)]
    assert isinstance(results[1], LedgerError)
    assert len(written(sqlite_ledger)) == len(confirmed)


def test_a_failed_commit_raises_in_every_caller(ledger: Ledger, writer: Writer) -> None:
    """A deferred constraint is the simplest way to make a COMMIT fail."""
    with ledger.write() as connection:
        connection.execute(text("CREATE TABLE parents (id INTEGER PRIMARY KEY)"))
        reference = "INTEGER REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED"
        connection.execute(text(f"CREATE TABLE children (parent {reference})"))

    def orphan(connection: Connection) -> None:
        connection.execute(text("INSERT INTO children VALUES (1)"))

    if ledger.place.startswith("sqlite"):
        event.listen(Pool, "checkout", _check_foreign_keys)
    try:
        results = asyncio.run(behind_a_gate(writer, append, orphan, append))
    finally:
        if ledger.place.startswith("sqlite"):
            event.remove(Pool, "checkout", _check_foreign_keys)
    assert [type(result) for result in results] == [LedgerError] * 3
    assert len({id(result) for result in results}) == 3
    assert written(ledger) == []


def _check_foreign_keys(connection: sqlite3.Connection, *_: object) -> None:
    connection.execute("PRAGMA foreign_keys=ON")


def test_a_stop_iteration_reaches_its_caller_as_a_runtime_error(writer: Writer) -> None:
    def exhaust(_: Connection) -> None:
        next(iter(()))

    async def check() -> None:
        await asyncio.wait_for(writer.run(exhaust), 30)

    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(check())


def test_a_cancelled_caller_does_not_stop_the_writer(ledger: Ledger, writer: Writer) -> None:
    async def check() -> int:
        gate = Gate()
        first = asyncio.create_task(writer.run(gate))
        await asyncio.to_thread(gate.entered.wait, 30)
        cancelled = asyncio.create_task(writer.run(lambda c: append(c, b"cancelled")))
        await asyncio.sleep(0)
        cancelled.cancel()
        first.cancel()
        await asyncio.gather(first, cancelled, return_exceptions=True)
        gate.open.set()
        return await writer.run(lambda c: append(c, b"next"))

    assert asyncio.run(check()) == 2
    assert written(ledger) == [b"cancelled", b"next"]


def test_a_closed_event_loop_does_not_stop_the_writer(ledger: Ledger, writer: Writer) -> None:
    gate = Gate()

    async def leave() -> None:
        tasks = [asyncio.create_task(writer.run(gate)), asyncio.create_task(writer.run(append))]
        await asyncio.to_thread(gate.entered.wait, 30)
        assert not any(task.done() for task in tasks)

    asyncio.run(leave())
    gate.open.set()
    assert asyncio.run(writer.run(append)) == 2


def test_closing_writes_all_queued_functions(ledger: Ledger) -> None:
    writer = Writer(ledger)

    async def check() -> list[int]:
        tasks = [asyncio.create_task(writer.run(append)) for _ in range(300)]
        await asyncio.sleep(0)
        await asyncio.to_thread(writer.close)
        return await asyncio.gather(*tasks)

    assert asyncio.run(check()) == list(range(1, 301))


def test_a_closed_writer_refuses(ledger: Ledger) -> None:
    writer = Writer(ledger)
    writer.close()
    writer.close()
    with pytest.raises(LedgerError, match="the ledger's writer is closed"):
        asyncio.run(writer.run(append))


def test_a_locked_ledger_raises_in_every_caller_until_it_is_free(ledger: Ledger, ledger_url: str) -> None:
    hasty = Ledger(ledger_url, patience=0.05)
    writer = Writer(hasty)

    async def check() -> list[object]:
        return list(await asyncio.gather(*(writer.run(append) for _ in range(3)), return_exceptions=True))

    with ledger.write() as connection:
        projects.ensure(connection, "1.1", 1.0)
        while_locked = asyncio.run(check())
    assert all(isinstance(result, LedgerError) for result in while_locked)
    assert asyncio.run(check()) == [1, 2, 3]
    writer.close()
    hasty.close()

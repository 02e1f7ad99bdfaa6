from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.pool import Pool

from backend.errors import BudgetExhaustedError, LedgerError
from backend.ledger import Ledger, Writer, events, projects
from backend.ledger.database import batches


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits shares a transaction, however slow the machine is."""
    monkeypatch.setattr(batches, "_SECONDS", 60.0)


@pytest.fixture
def writer(ledger: Ledger) -> Iterator[Writer]:
    writer = Writer(ledger)
    yield writer
    writer.close()


def append(connection: Connection, contribution: bytes = b"x") -> int:
    return events.append(
        connection,
        "1.1",
        control="topic",
        epoch="e",
        kind="round",
        contribution=contribution,
        round_id=None,
        now=1.0,
    )


def written(ledger: Ledger) -> list[bytes]:
    with ledger.read() as connection:
        return [event.contribution for event in events.after(connection, "1.1", 0)]


class Gate:
    """A function for the writer that waits, so that what is queued behind it shares the next transaction."""

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


def test_what_is_resolved_is_committed(ledger: Ledger, writer: Writer) -> None:
    async def check() -> tuple[int, list[bytes]]:
        number = await writer.run(append)
        return number, await asyncio.to_thread(written, ledger)

    assert asyncio.run(check()) == (1, [b"x"])


def test_many_callers_get_their_own_values(ledger: Ledger, writer: Writer) -> None:
    async def check() -> list[int]:
        return await asyncio.gather(*(writer.run(append) for _ in range(600)))

    assert asyncio.run(check()) == list(range(1, 601))
    assert len(written(ledger)) == 600


def test_what_waits_shares_one_transaction(sqlite_ledger: Ledger) -> None:
    transactions: set[int] = set()

    def note(connection: Connection) -> None:
        transactions.add(id(connection.get_transaction()))
        append(connection)

    writer = Writer(sqlite_ledger, batch=8)
    asyncio.run(behind_a_gate(writer, *[note] * 8))
    writer.close()
    assert (len(transactions), len(written(sqlite_ledger))) == (1, 8)


def test_what_is_urgent_goes_before_what_waits(sqlite_ledger: Ledger) -> None:
    writer, gate, seen = Writer(sqlite_ledger), Gate(), list[str]()
    writer.submit(gate)
    assert gate.entered.wait(30)
    writer.submit(lambda _: seen.append("first"))
    writer.submit(lambda _: seen.append("second"))
    writer.submit(lambda _: seen.append("urgent"), urgent=True)
    gate.open.set()
    writer.close()
    assert seen == ["urgent", "first", "second"]


def test_what_is_urgent_is_committed_before_what_waits_has_begun(sqlite_ledger: Ledger) -> None:
    writer, gate, others = Writer(sqlite_ledger), Gate(), list[list[bytes]]()
    writer.submit(gate)
    assert gate.entered.wait(30)
    writer.submit(lambda _: others.append(written(sqlite_ledger)))
    writer.submit(append, urgent=True)
    gate.open.set()
    writer.close()
    assert others == [[b"x"]]


def test_a_transaction_ends_when_somebody_is_in_a_hurry(sqlite_ledger: Ledger) -> None:
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


def test_after_something_urgent_what_waits_shares_one_transaction_again(sqlite_ledger: Ledger) -> None:
    transactions: set[int] = set()

    def note(connection: Connection) -> None:
        transactions.add(id(connection.get_transaction()))
        append(connection)

    writer = Writer(sqlite_ledger)
    writer.submit(append, urgent=True).result()
    asyncio.run(behind_a_gate(writer, *[note] * 8))
    writer.close()
    assert (len(transactions), len(written(sqlite_ledger))) == (1, 9)


def test_what_waits_is_written_between_two_that_are_urgent(sqlite_ledger: Ledger) -> None:
    """Each urgent function has the next one follow, as in a rush of webhooks that does not end."""
    writer, gate, seen = Writer(sqlite_ledger), Gate(), list[str]()

    def urgent(_: Connection) -> None:
        seen.append("urgent")
        if len(seen) < 100 and "waits" not in seen:
            writer.submit(urgent, urgent=True)

    writer.submit(gate)
    assert gate.entered.wait(30)
    writer.submit(urgent, urgent=True)
    waits = writer.submit(lambda _: seen.append("waits"))
    gate.open.set()
    waits.result(30)
    writer.close()
    assert seen[:2] == ["urgent", "waits"]


def test_urgent_functions_share_a_transaction_however_many_follow(sqlite_ledger: Ledger) -> None:
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
    assert len({id(one) for one in transactions}) == 1


def test_an_event_loop_gives_way_before_it_writes(sqlite_ledger: Ledger) -> None:
    seen: list[str] = []
    writer = Writer(sqlite_ledger, give_way=lambda: seen.append("gave way"))
    asyncio.run(writer.run(lambda _: seen.append("wrote")))
    writer.close()
    assert seen == ["gave way", "wrote"]


def test_a_transaction_takes_nothing_in_after_its_time(
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


def test_a_function_that_raises_does_not_hurt_the_others(ledger: Ledger, writer: Writer) -> None:
    def refuse(connection: Connection) -> None:
        append(connection, b"undone")
        raise BudgetExhaustedError("the money is spent")

    results = asyncio.run(
        behind_a_gate(writer, lambda c: append(c, b"before"), refuse, lambda c: append(c, b"after"))
    )
    assert (results[0], results[2]) == (1, 2)
    assert isinstance(results[1], BudgetExhaustedError)
    assert written(ledger) == [b"before", b"after"]


def test_a_function_that_the_database_refuses_does_not_hurt_the_others(
    ledger: Ledger, writer: Writer
) -> None:
    def wrong(connection: Connection) -> None:
        append(connection, b"undone")
        connection.execute(text("INSERT INTO nowhere VALUES (1)"))

    results = asyncio.run(
        behind_a_gate(writer, lambda c: append(c, b"before"), wrong, lambda c: append(c, b"after"))
    )
    assert (results[0], results[2]) == (1, 2)
    assert isinstance(results[1], LedgerError)
    assert written(ledger) == [b"before", b"after"]


def test_when_the_transaction_is_lost_nobody_is_told_that_it_was_written(
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


def test_when_the_commit_fails_everybody_is_told(ledger: Ledger, writer: Writer) -> None:
    """A constraint that is checked at the end is the plainest way to a COMMIT that fails."""
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


def test_an_exception_reaches_its_caller_whatever_it_is(writer: Writer) -> None:
    def exhaust(_: Connection) -> None:
        next(iter(()))

    async def check() -> None:
        await asyncio.wait_for(writer.run(exhaust), 30)

    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(check())


def test_a_caller_that_was_cancelled_does_not_stop_the_writer(ledger: Ledger, writer: Writer) -> None:
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


def test_a_loop_that_is_gone_does_not_stop_the_writer(ledger: Ledger, writer: Writer) -> None:
    gate = Gate()

    async def leave() -> None:
        tasks = [asyncio.create_task(writer.run(gate)), asyncio.create_task(writer.run(append))]
        await asyncio.to_thread(gate.entered.wait, 30)
        assert not any(task.done() for task in tasks)

    asyncio.run(leave())
    gate.open.set()
    assert asyncio.run(writer.run(append)) == 2


def test_closing_writes_what_is_queued(ledger: Ledger) -> None:
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


def test_a_ledger_that_cannot_be_written_is_an_error_for_everybody_and_passes(
    ledger: Ledger, ledger_url: str
) -> None:
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

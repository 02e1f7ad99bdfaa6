"""Reads that wait for one another share a transaction."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence

import pytest
from sqlalchemy import Connection

from backend.ledger import Ledger, LedgerAccess, projects
from backend.ledger.database.writer import GroupedReads


@pytest.fixture
def access(ledger: Ledger) -> Iterator[LedgerAccess]:
    with LedgerAccess.opened(ledger) as access:
        yield access


class Kind:
    """Looks projects up, and keeps what it was called with; the project ``bad`` raises an error."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.entered, self.open = threading.Event(), threading.Event()
        self.open.set()

    def __call__(self, connection: Connection, items: Sequence[str]) -> list[bool]:
        self.calls.append(list(items))
        self.entered.set()
        assert self.open.wait(30)
        if "bad" in items:
            raise ValueError("bad")
        return [projects.get(connection, item) is not None for item in items]


def test_reads_of_one_moment_share_a_transaction(ledger: Ledger, access: LedgerAccess) -> None:
    with ledger.write() as connection:
        projects.ensure(connection, "b", 1.0)
    kind = Kind()

    async def check() -> list[bool]:
        reads = GroupedReads(access, kind)
        return await asyncio.gather(*map(reads.read, "abc"))

    assert asyncio.run(check()) == [False, True, False]
    assert kind.calls == [["a", "b", "c"]]


def test_a_read_that_waits_sees_what_was_written_before_it(ledger: Ledger, access: LedgerAccess) -> None:
    kind = Kind()
    kind.open.clear()

    async def check() -> bool:
        reads = GroupedReads(access, kind)
        first = asyncio.create_task(reads.read("a"))
        await asyncio.to_thread(kind.entered.wait, 30)
        with ledger.write() as connection:
            projects.ensure(connection, "b", 1.0)
        second = asyncio.create_task(reads.read("b"))
        await asyncio.sleep(0)
        kind.open.set()
        await first
        return await second

    assert asyncio.run(check())


def test_an_error_is_raised_for_the_read_that_it_is_about(ledger: Ledger, access: LedgerAccess) -> None:
    async def check() -> list[object]:
        reads = GroupedReads(access, Kind())
        return list(await asyncio.gather(*map(reads.read, ("a", "bad", "c")), return_exceptions=True))

    first, second, third = asyncio.run(check())
    assert (first, type(second), third) == (False, ValueError, False)


def test_a_cancelled_read_leaves_the_others_their_values(ledger: Ledger, access: LedgerAccess) -> None:
    async def check() -> bool:
        reads = GroupedReads(access, Kind())
        cancelled, other = (asyncio.create_task(reads.read(name)) for name in "ab")
        await asyncio.sleep(0)
        cancelled.cancel()
        return await other

    assert asyncio.run(check()) is False


def test_equal_items_of_one_moment_are_read_once(ledger: Ledger, access: LedgerAccess) -> None:
    asked: list[str] = []

    def once(connection: Connection, item: str) -> str:
        asked.append(item)
        return item.upper()

    async def check() -> list[str]:
        reads = GroupedReads.of_equals(access, once)
        return await asyncio.gather(*map(reads.read, "abaab"))

    assert asyncio.run(check()) == list("ABAAB")
    assert asked == ["a", "b"]

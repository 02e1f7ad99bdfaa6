"""Paid answers and claims through outages, and with clocks that differ: each answer is bought once."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import migrated
import pytest
from postgres import Postgres
from server_process import wait_until
from sqlalchemy import Connection, event, func, select, text

from backend.errors import LedgerError, NotBookedError
from backend.ledger import Ledger, Writer, answers, claims, money
from backend.ledger.claims import Contacts
from backend.ledger.database import tables
from backend.ledger.money import Settlements
from backend.models import Pool, call_ledger
from backend.models.call_ledger import CallLedger, ModelQuery
from backend.models.pool import CachingPool
from backend.settings import BudgetSettings, ModelSettings
from backend.telemetry import metrics
from backend.testing import OpenAIServer, Reply

TASKS = range(1, 101)
CALL = 14_000_000
"""Picodollars of the usage (10, 2) at 1 $ and 2 $ a million."""


class Models:
    """A server of the model ``red`` that counts how often it is asked about each task."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.gate: threading.Event | None = None
        self.server = OpenAIServer(self._reply)

    def _reply(self, body: dict[str, Any]) -> Reply:
        self.asked[body["messages"][-1]["content"]] += 1
        reply = Reply.says(json.dumps({"mood": "Glad"}))
        return reply if self.gate is None else reply.held_until(self.gate)


class Turnstile(threading.Event):
    """An event for which only some may wait no longer, one by one, until it is set for all."""

    def __init__(self) -> None:
        super().__init__()
        self._turns = threading.Semaphore(0)

    def let_one_through(self) -> None:
        self._turns.release()

    def wait(self, timeout: float | None = None) -> bool:
        until = time.monotonic() + (60.0 if timeout is None else timeout)
        while time.monotonic() < until:
            if self.is_set() or self._turns.acquire(timeout=0.01):
                return True
        return False


class Process:
    """What one process needs to buy answers."""

    def __init__(self, url: str, server: OpenAIServer, clock: Callable[[], float] = time.time) -> None:
        self.ledger = Ledger(url, clock=clock)
        self.writer = Writer(self.ledger)
        self.calls = CallLedger(self.writer, clock)
        model = ModelSettings(
            name="red",
            model="openai/red",
            input_price=1.0,
            output_price=2.0,
            max_concurrency=20,
            parameters={"api_base": server.url},
        )
        self.pool = CachingPool(Pool([model]), self.calls, retries=0)

    async def ask(self, task: int, patience: float = 60.0) -> str:
        messages = [{"role": "user", "content": f"Day {task}."}]
        query = ModelQuery("7.1", task, "red", messages, {}, BudgetSettings())
        return (await self.pool.ask(query, patience)).content

    async def ask_all(self) -> Sequence[str]:
        keeper = asyncio.create_task(self.calls.renew_claims())
        try:
            return await asyncio.gather(*(self.ask(task) for task in TASKS))
        finally:
            keeper.cancel()

    def count(self, table: Any) -> int:
        with self.ledger.read() as connection:
            return connection.execute(select(func.count()).select_from(table)).scalar_one()

    def account(self) -> money.Account:
        with self.ledger.read() as connection:
            return money.balance(connection, "7.1", money.TOTAL)

    def close(self) -> None:
        self.writer.close()
        self.ledger.close()


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with Postgres(tmp_path_factory.mktemp("mortal")) as postgres:
        yield postgres


@pytest.fixture
def models() -> Iterator[Models]:
    models = Models()
    with models.server:
        yield models


def bought_once(process: Process, models: Models) -> None:
    """Every task was asked about once, and the ledger holds every answer, every cent and no claim."""
    assert models.asked == Counter(f"Day {task}." for task in TASKS)
    assert process.count(tables.answers) == len(TASKS)
    assert process.count(tables.claims) == 0
    assert process.account() == money.Account(spent=CALL * len(TASKS), reserved=0)


def unsettled() -> float:
    return metrics.unsettled_answers._value.get()


def ended_answers(process: Process, number: int) -> bool:
    """Whether this number of answers is stored or waits in memory."""
    return unsettled() + process.count(tables.answers) == number


def test_a_killed_server_costs_no_answer_twice(postgres: Postgres, models: Models) -> None:
    process = Process(postgres.new_ledger_url(), models.server)
    models.gate = threading.Event()
    contents: list[str] = []
    batch = threading.Thread(target=lambda: contents.extend(asyncio.run(process.ask_all())), daemon=True)
    batch.start()
    wait_until(lambda: len(models.asked) == 20, "calls in flight")
    postgres.kill()
    models.gate.set()
    wait_until(lambda: unsettled() == models.asked.total(), "answers in memory")
    assert 20 <= models.asked.total() <= 40  # no call starts any more, though the models answer at once
    postgres.start_again()
    batch.join(60)
    assert contents == ['{"mood": "Glad"}'] * len(TASKS)
    assert unsettled() == 0
    bought_once(process, models)
    process.close()


def test_a_full_disk_costs_no_answer_twice(tmp_path: Path, models: Models) -> None:
    """SQLite counts its pages as it would meet the end of the disk."""
    process = Process(migrated.sqlite(tmp_path / "ledger.sqlite"), models.server)
    full = threading.Event()

    def limit(connection: Connection) -> None:
        pages = 1 if full.is_set() else 1_000_000  # 1 is raised to the number of pages that there are
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")

    event.listen(process.ledger._engine, "begin", limit)
    models.gate = Turnstile()
    contents: list[str] = []
    batch = threading.Thread(target=lambda: contents.extend(asyncio.run(process.ask_all())), daemon=True)
    batch.start()
    wait_until(lambda: len(models.asked) == 20, "calls in flight")
    full.set()
    let_through = 0
    while not unsettled():  # the first answers may still fit into the pages that there are
        models.gate.let_one_through()
        let_through += 1
        wait_until(partial(ended_answers, process, let_through), "the answer")
    models.gate.set()
    wait_until(lambda: ended_answers(process, models.asked.total()), "answers in memory")
    assert unsettled() >= 20
    assert models.asked.total() <= 20 + let_through  # no call starts once it is known
    full.clear()
    batch.join(60)
    assert contents == ['{"mood": "Glad"}'] * len(TASKS)
    bought_once(process, models)
    process.close()


@pytest.mark.parametrize("skew", [20.0, -20.0])
def test_two_hosts_with_different_clocks_buy_nothing_twice(
    postgres: Postgres, models: Models, monkeypatch: pytest.MonkeyPatch, skew: float
) -> None:
    """The clocks differ by more than the lease of a claim."""
    monkeypatch.setattr(call_ledger, "POLL", 0.01)
    url = postgres.new_ledger_url()
    one = Process(url, models.server)
    other = Process(url, models.server, clock=lambda: time.time() + skew)
    models.gate = threading.Event()

    async def ask() -> None:
        first = asyncio.create_task(one.ask_all())
        assert await asyncio.to_thread(models.server.wait_for, 20)
        second = asyncio.create_task(other.ask_all())
        await asyncio.wait({second}, timeout=0.5)
        assert models.gate is not None
        models.gate.set()
        await asyncio.gather(first, second)

    asyncio.run(ask())
    bought_once(one, models)
    one.close()
    other.close()


@pytest.mark.parametrize("skew", [0.0, 20.0])
def test_the_skew_of_the_host_is_measured(
    postgres: Postgres, models: Models, monkeypatch: pytest.MonkeyPatch, skew: float
) -> None:
    monkeypatch.setattr(call_ledger, "_LEASE", 0.03)
    metrics.clock_skew.set(1000.0)
    process = Process(postgres.new_ledger_url(), models.server, clock=lambda: time.time() + skew)

    async def measure() -> None:
        keeper = asyncio.create_task(process.calls.renew_claims())
        await asyncio.to_thread(wait_until, lambda: metrics.clock_skew._value.get() != 1000.0, "measurement")
        keeper.cancel()

    asyncio.run(measure())
    assert metrics.clock_skew._value.get() == pytest.approx(skew, abs=2.0)
    process.close()


# -- a commit whose end is unknown


class Ambiguous:
    """Fails after chosen commits, as if the connection had broken before the database's confirmation."""

    def __init__(self, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        self.next = 0
        transaction = ledger._transaction

        def breaking(engine: Any) -> Any:
            return self._break(transaction(engine), ledger)

        monkeypatch.setattr(ledger, "_transaction", breaking)

    def _break(self, transaction: Any, ledger: Ledger) -> Any:
        @contextmanager
        def broken() -> Iterator[Connection]:
            with transaction as connection:
                yield connection
            if self.next:
                self.next -= 1
                raise LedgerError("the connection broke", where=ledger.place, temporary=True)

        return broken()


@pytest.mark.parametrize("broken", [1, 2, 3])
def test_a_commit_whose_end_is_unknown_reserves_and_books_once(
    tmp_path: Path, models: Models, monkeypatch: pytest.MonkeyPatch, broken: int
) -> None:
    process = Process(migrated.sqlite(tmp_path / "ledger.sqlite"), models.server)
    ambiguous = Ambiguous(process.ledger, monkeypatch)
    ambiguous.next = broken
    assert asyncio.run(process.ask(1)) == '{"mood": "Glad"}'
    assert (process.count(tables.calls), models.asked.total()) == (1, 1)
    assert process.account() == money.Account(spent=CALL, reserved=0)
    process.close()


# -- failures that do not pass


def test_an_answer_that_cannot_be_booked_is_a_missing_vote_and_its_money_stays_reserved(
    tmp_path: Path, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Process(migrated.sqlite(tmp_path / "ledger.sqlite"), models.server)

    def refuse(connection: Connection, *_: object, **__: object) -> None:
        connection.execute(text("INSERT INTO answers (key) VALUES ('a private letter')"))

    with monkeypatch.context() as context:
        context.setattr(answers, "_store_each", refuse)
        with pytest.raises(NotBookedError) as caught:
            asyncio.run(process.ask(1))
    assert "private" not in str(caught.value)
    account = process.account()
    assert (account.spent, account.reserved > 0) == (0, True)
    # The next attempt reserves for itself: the first call's money may have been charged.
    asyncio.run(process.ask(1))
    assert process.account() == money.Account(spent=CALL, reserved=account.reserved)
    process.close()


def test_money_beyond_all_bounds_is_a_missing_vote(
    tmp_path: Path, models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Process(migrated.sqlite(tmp_path / "ledger.sqlite"), models.server)
    monkeypatch.setattr(process.pool._pool["red"].model, "ceiling", lambda *_: 1e9)
    with pytest.raises(NotBookedError):
        asyncio.run(process.ask(1))
    assert models.asked.total() == 0
    process.close()


# -- no call starts while the ledger is down


def test_no_call_starts_between_a_failed_write_and_a_successful_one(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(migrated.sqlite(path))
    writer = Writer(ledger)
    settlements = Settlements(writer)
    writer.submit(lambda _: None).result()
    settlements.check()
    path.rename(tmp_path / "moved.sqlite")
    with pytest.raises(LedgerError):
        writer.submit(lambda _: None).result()
    assert settlements.waiting == 0
    with pytest.raises(LedgerError, match="no call may start"):
        settlements.check()
    (tmp_path / "moved.sqlite").rename(path)
    writer.submit(lambda _: None).result()
    settlements.check()
    writer.close()
    ledger.close()


# -- stopping


def test_a_process_that_stops_says_how_many_paid_answers_are_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(migrated.sqlite(path))
    writer = Writer(ledger)
    settlements = Settlements(writer)
    path.rename(tmp_path / "moved.sqlite")

    async def stop() -> None:
        tasks = [asyncio.create_task(settlements.settle(lambda _: None, paid=True)) for _ in range(3)]
        await asyncio.sleep(0)  # they begin
        await settlements.finish(0.3)
        for task in tasks:
            task.cancel()

    asyncio.run(stop())
    assert "paid_answers_lost" in (logged := capsys.readouterr().out)
    assert "answers=3" in logged
    writer.close()
    ledger.close()


def test_a_process_that_stops_waits_for_the_database(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger = Ledger(migrated.sqlite(path))
    writer = Writer(ledger)
    settlements, settled = Settlements(writer), list[int]()
    path.rename(tmp_path / "moved.sqlite")

    async def stop() -> None:
        task = asyncio.create_task(settlements.settle(lambda _: settled.append(1), paid=True))
        await asyncio.to_thread(wait_until, lambda: settlements.waiting, "outage")
        (tmp_path / "moved.sqlite").rename(path)
        await settlements.finish(30.0)
        await task

    asyncio.run(stop())
    assert settled == [1]
    writer.close()
    ledger.close()


# -- claims after an outage


def test_a_process_that_is_back_leaves_expired_claims_alone_for_a_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The claim's owner could not renew it during the outage either, and may hold an answer in memory."""
    now = [0.0]
    monkeypatch.setattr(claims, "monotonic", lambda: now[0])
    contacts = Contacts(call_ledger._LEASE)
    for now[0] in (0.0, 5.0, 10.0):
        contacts.note(now[0])
        assert contacts.lasting
    for now[0] in (40.0, 45.0, 50.0, 54.9):  # at first the ledger was not reached for two leases
        contacts.note(now[0])
        assert not contacts.lasting
    now[0] = 55.0
    assert contacts.lasting

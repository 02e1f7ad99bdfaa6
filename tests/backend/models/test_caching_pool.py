"""The caching pool: each prompt is paid for once, stored, and retried after temporary failures."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import migrated
import pytest
from answer_users import ANSWER_USERS
from ledger_workers import delete_task
from sqlalchemy import Connection, func, select
from structlog.testing import capture_logs

from backend.errors import (
    BudgetExhaustedError,
    LedgerError,
    ModelTimeoutError,
    RejectedError,
    StoppingError,
    UnavailableError,
)
from backend.ledger import Ledger, Writer, money
from backend.ledger.claims import Claims
from backend.ledger.database import tables
from backend.models import Pool, call_ledger
from backend.models import pool as caching_pool
from backend.models.call_ledger import CallLedger, ModelQuery
from backend.models.pool import CachingPool
from backend.settings import BudgetSettings, ModelSettings
from backend.testing import OpenAIServer, Reply

MESSAGES = [{"role": "system", "content": "Label it."}, {"role": "user", "content": "A long day."}]
GLAD = Reply.says('{"mood": "Glad"}')
CALL = (10 * 1.0 + 2 * 2.0) / 1e6
"""$ of the usage (10, 2) at 1 $ and 2 $ a million."""


class Processes:
    """Caching pools of several processes on one ledger, and the server of their only model ``red``."""

    def __init__(self, url: str, server: OpenAIServer) -> None:
        self.clock: Callable[[], float] = time.time
        self.ledger, self.server = Ledger(url, clock=self._now), server
        self.calls: list[CallLedger] = []
        self.writers: list[Writer] = []

    def pool(self, retries: int = 0, clock: Callable[[], float] = time.time) -> CachingPool:
        """Return a caching pool with its own writer, as every process has; ``clock`` is the ledger's too."""
        self.clock = clock
        model = ModelSettings(
            name="red",
            model="openai/red",
            input_price=1.0,
            output_price=2.0,
            structured_output=False,
            parameters={"api_base": self.server.url},
        )
        self.writers.append(Writer(self.ledger))
        self.calls.append(CallLedger(self.writers[-1], clock))
        return CachingPool(Pool([model]), self.calls[-1], retries=retries)

    def _now(self) -> float:
        return self.clock()

    def replies(self, *replies: Reply) -> None:
        """Let the model send these replies in turn, and then repeat the last one."""
        left = list(replies)
        self.server.script = lambda body: left.pop(0) if len(left) > 1 else left[0]

    async def delete(self, task: int) -> None:
        await self.writers[0].run(lambda connection: delete_task(connection, "7.1", task))

    async def waits_for_the_other(self) -> None:
        """Wait until the latest process has looked twice whether another one has the answer."""
        run, looks, twice = self.writers[-1].run, itertools.count(1), asyncio.Event()

        async def counted(function: Callable[[Connection], Any]) -> Any:
            result = await run(function)
            if next(looks) == 2:
                twice.set()
            return result

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.writers[-1], "run", counted)
            await asyncio.wait_for(twice.wait(), 30.0)

    def rows(self, table: Any) -> list[Any]:
        with self.ledger.read() as connection:
            return list(connection.execute(select(table)).all())

    def close(self) -> None:
        for writer in self.writers:
            writer.close()
        self.ledger.close()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with OpenAIServer(lambda body: GLAD) as server:
        processes = Processes(migrated.sqlite(tmp_path / "ledger.sqlite"), server)
        yield processes
        processes.close()


@pytest.fixture(scope="module", autouse=True)
def loaded(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Make one call: it loads litellm, which takes longer than the deadlines of some tests."""
    with OpenAIServer(lambda body: GLAD) as server:
        processes = Processes(migrated.sqlite(tmp_path_factory.mktemp("loaded") / "ledger.sqlite"), server)
        asyncio.run(processes.pool().ask(query(), 60.0))
        processes.close()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the random pause between attempts."""
    monkeypatch.setattr(random.SystemRandom, "uniform", lambda rng, low, high: 0.0)


def query(task: int = 1, project: str = "7.1", **budget: float) -> ModelQuery:
    return ModelQuery(project, task, "red", MESSAGES, {}, BudgetSettings(**budget))


def hurried() -> ModelQuery:
    return replace(query(), hurried=True)


# -- once


def test_an_answer_is_paid_once_and_then_found(processes: Processes) -> None:
    pool = processes.pool()

    async def ask() -> Sequence[Any]:
        return [await pool.ask(query(), 10.0) for _ in range(2)]

    first, second = asyncio.run(ask())
    assert (first.content, second.content) == ('{"mood": "Glad"}',) * 2
    assert (first.cost, second.cost) == (pytest.approx(CALL), 0.0)
    assert processes.server.count() == 1


def test_another_process_finds_the_answer(processes: Processes) -> None:
    asyncio.run(processes.pool().ask(query(), 10.0))
    reply = asyncio.run(processes.pool().ask(query(task=2), 10.0))
    assert (reply.content, reply.cost, processes.server.count()) == ('{"mood": "Glad"}', 0.0, 1)


def test_identical_queries_under_way_share_one_call_and_one_bill(processes: Processes) -> None:
    pool = processes.pool()

    async def ask() -> Sequence[Any]:
        return await asyncio.gather(*(pool.ask(query(task=number), 10.0) for number in range(5)))

    replies = asyncio.run(ask())
    assert processes.server.count() == 1
    assert sum(reply.cost for reply in replies) == pytest.approx(CALL)


def test_every_task_that_shared_a_call_is_noted_with_its_answer(processes: Processes) -> None:
    pool = processes.pool()

    async def ask() -> None:
        await asyncio.gather(*(pool.ask(query(task=number), 10.0) for number in range(3)))

    asyncio.run(ask())
    assert {row.task for row in processes.rows(ANSWER_USERS)} == {0, 1, 2}


def test_an_answer_is_kept_for_who_shared_the_call_of_a_task_that_is_deleted(processes: Processes) -> None:
    gate = threading.Event()
    processes.replies(GLAD.held_until(gate))
    pool = processes.pool()

    async def ask() -> Any:
        first = asyncio.create_task(pool.ask(query(task=1), 10.0))
        assert await asyncio.to_thread(processes.server.wait_for, 1)
        second = asyncio.create_task(pool.ask(query(task=2), 10.0))
        await asyncio.sleep(0)  # now its use is in the writer's queue
        await processes.delete(1)
        gate.set()
        await asyncio.gather(first, second)
        return await pool.ask(query(task=2), 10.0)

    assert (asyncio.run(ask()).cost, processes.server.count()) == (0.0, 1)
    assert {row.task for row in processes.rows(ANSWER_USERS)} == {2}


def test_a_deleted_task_holds_no_answer(processes: Processes) -> None:
    pool = processes.pool()

    async def ask() -> None:
        await pool.ask(query(task=1), 10.0)
        await processes.delete(2)
        await pool.ask(query(task=2), 10.0)

    asyncio.run(ask())
    assert {row.task for row in processes.rows(ANSWER_USERS)} == {1}


def test_two_processes_that_ask_the_same_pay_once(processes: Processes) -> None:
    gate = threading.Event()
    processes.replies(GLAD.held_until(gate))
    one, other = processes.pool(), processes.pool()

    async def ask() -> Sequence[Any]:
        first = asyncio.create_task(one.ask(query(), 10.0))
        assert await asyncio.to_thread(processes.server.wait_for, 1)
        second = asyncio.create_task(other.ask(query(), 10.0))
        _, waiting = await asyncio.wait({second}, timeout=0.3)
        assert waiting == {second}
        gate.set()
        return await asyncio.gather(first, second)

    first, second = asyncio.run(ask())
    assert (first.content, first.cost, second.cost) == (second.content, pytest.approx(CALL), 0.0)
    assert processes.server.count() == 1


def test_an_asker_that_gives_up_does_not_lose_the_answer(processes: Processes) -> None:
    gate = threading.Event()
    processes.replies(GLAD.held_until(gate))
    pool = processes.pool()

    async def ask() -> Any:
        first = asyncio.create_task(pool.ask(query(), 10.0))
        assert await asyncio.to_thread(processes.server.wait_for, 1)
        first.cancel()
        await asyncio.wait({first})
        gate.set()
        return await pool.ask(query(), 10.0)

    assert asyncio.run(ask()).content == '{"mood": "Glad"}'
    assert processes.server.count() == 1


@pytest.mark.usefixtures("stopped")
def test_a_call_under_way_outlives_the_patience_of_who_asked(processes: Processes) -> None:
    """The call is paid for, so waiting a little longer saves its answer for the next request."""
    gate = threading.Event()
    processes.replies(GLAD.held_until(gate))
    pool = processes.pool()

    async def ask() -> Any:
        running = asyncio.create_task(pool.ask(hurried(), 0.1))
        assert await asyncio.to_thread(processes.server.wait_for, 1)
        _, waiting = await asyncio.wait({running}, timeout=0.5)
        assert waiting == {running}
        gate.set()
        return await running

    assert asyncio.run(ask()).content == '{"mood": "Glad"}'


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing takes time; only calls that are sent do."""
    for module in (caching_pool, call_ledger):
        monkeypatch.setattr(module, "monotonic", lambda: 1000.0)


@pytest.fixture
def no_overtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching_pool, "OVERTIME", 0.0)


@pytest.mark.usefixtures("no_overtime", "stopped")
def test_the_call_of_a_job_has_the_model_s_timeout_from_when_it_is_sent(processes: Processes) -> None:
    gate = threading.Event()
    processes.replies(GLAD.held_until(gate))
    pool = processes.pool()

    async def ask() -> Any:
        running = asyncio.create_task(pool.ask(query(), 0.3))
        assert await asyncio.to_thread(processes.server.wait_for, 1)
        _, waiting = await asyncio.wait({running}, timeout=0.4)
        assert waiting == {running}
        gate.set()
        return await running

    assert asyncio.run(ask()).content == '{"mood": "Glad"}'


@pytest.mark.usefixtures("no_overtime")
def test_a_hurried_query_does_not_wait_for_the_call_of_a_job(processes: Processes) -> None:
    gate = threading.Event()
    processes.replies(GLAD.held_until(gate))
    pool = processes.pool()

    async def ask() -> Any:
        job = asyncio.create_task(pool.ask(query(), 60.0))
        assert await asyncio.to_thread(processes.server.wait_for, 1)
        with pytest.raises(ModelTimeoutError):
            await pool.ask(hurried(), 0.1)
        gate.set()
        return await job

    assert asyncio.run(ask()).content == '{"mood": "Glad"}'
    assert processes.server.count() == 1


@pytest.mark.usefixtures("no_overtime", "stopped")
def test_a_job_asks_for_itself_when_a_hurried_call_ran_out_of_time(processes: Processes) -> None:
    gate = threading.Event()
    processes.replies(GLAD.held_until(gate), GLAD)
    pool = processes.pool()

    async def ask() -> Sequence[Any]:
        first = asyncio.create_task(pool.ask(hurried(), 0.5))
        assert await asyncio.to_thread(processes.server.wait_for, 1)
        return await asyncio.gather(first, pool.ask(query(), 60.0), return_exceptions=True)

    late, reply = asyncio.run(ask())
    gate.set()
    assert isinstance(late, ModelTimeoutError)
    assert (reply.content, processes.server.count()) == ('{"mood": "Glad"}', 2)


# -- claims


def key_of(processes: Processes) -> str:
    model = ModelSettings(
        name="red",
        model="openai/red",
        input_price=1.0,
        output_price=2.0,
        structured_output=False,
        parameters={"api_base": processes.server.url},
    )
    return Pool([model])["red"].model.fingerprint(MESSAGES, {})[:32]


def claimed_by_the_dead(processes: Processes, until: float) -> None:
    processes.clock = lambda: 0.0
    with processes.ledger.write() as connection:
        assert Claims(connection).acquire(key_of(processes), "a process that died", until)


def test_an_expired_claim_is_taken_over(processes: Processes) -> None:
    claimed_by_the_dead(processes, until=1000.0)
    reply = asyncio.run(processes.pool(clock=lambda: 1000.0).ask(query(), 10.0))
    assert (reply.content, processes.server.count()) == ('{"mood": "Glad"}', 1)


def test_a_live_claim_is_waited_for_and_nobody_asked(processes: Processes) -> None:
    claimed_by_the_dead(processes, until=1000.0)
    with pytest.raises(ModelTimeoutError):
        asyncio.run(processes.pool(clock=lambda: 999.0).ask(query(), 0.1))
    assert processes.server.count() == 0


def test_a_claim_that_expires_while_somebody_waits_is_taken_over(processes: Processes) -> None:
    claimed_by_the_dead(processes, until=1000.0)
    now = [999.0]
    pool = processes.pool(clock=lambda: now[0])

    async def ask() -> Any:
        running = asyncio.create_task(pool.ask(query(), 10.0))
        _, waiting = await asyncio.wait({running}, timeout=0.05)
        assert waiting == {running}
        now[0] = 1000.5
        return await running

    assert asyncio.run(ask()).content == '{"mood": "Glad"}'


@pytest.mark.parametrize("hours", [1, -1])
def test_a_live_claim_is_not_taken_over_when_the_clock_is_set(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    monkeypatch.setattr(call_ledger, "POLL", 0.01)
    now, gate = [1e6], threading.Event()
    processes.replies(GLAD.held_until(gate))
    one, other = (processes.pool(clock=lambda: now[0]) for _ in range(2))

    async def ask() -> Sequence[Any]:
        first = asyncio.create_task(one.ask(query(), 10.0))
        assert await asyncio.to_thread(processes.server.wait_for, 1)
        second = asyncio.create_task(other.ask(query(), 10.0))
        await processes.waits_for_the_other()
        now[0] += hours * 3600.0
        await processes.waits_for_the_other()
        gate.set()
        return await asyncio.gather(first, second)

    first, second = asyncio.run(ask())
    assert (first.content, second.content, second.cost) == ('{"mood": "Glad"}', '{"mood": "Glad"}', 0.0)
    assert processes.server.count() == 1


def test_the_claim_of_a_slow_call_is_renewed(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other process waits for three leases, because the first one keeps renewing its claim."""
    monkeypatch.setattr(call_ledger, "_LEASE", 0.3)
    monkeypatch.setattr(call_ledger, "POLL", 0.01)
    now, gate = [1000.0], threading.Event()
    processes.replies(GLAD.held_until(gate))
    one, other = (processes.pool(clock=lambda: now[0]) for _ in range(2))
    run, renewed = processes.writers[0].run, asyncio.Event()

    async def noted(function: Callable[[Connection], Any]) -> Any:
        result = await run(function)
        renewed.set()
        return result

    async def ask() -> Sequence[Any]:
        first = asyncio.create_task(one.ask(query(), 1e6))
        assert await asyncio.to_thread(processes.server.wait_for, 1)
        monkeypatch.setattr(processes.writers[0], "run", noted)
        keeper = asyncio.create_task(processes.calls[0].renew_claims())
        second = asyncio.create_task(other.ask(query(), 1e6))
        for _ in range(8):
            await asyncio.wait_for(renewed.wait(), 30.0)
            renewed.clear()
            now[0] += 0.13
            await asyncio.wait({second}, timeout=0.03)
        asked = processes.server.count()
        gate.set()
        replies = await asyncio.gather(first, second)
        keeper.cancel()
        return [asked, *replies]

    asked, first, second = asyncio.run(ask())
    assert (asked, first.content, second.cost) == (1, second.content, 0.0)


def test_while_the_ledger_is_down_no_renewal_is_logged_as_failed(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger itself logs that it is down, once."""
    monkeypatch.setattr(call_ledger, "_LEASE", 0.0)
    processes.pool()
    run, failures = processes.writers[0].run, iter([LedgerError("read-only", temporary=True)] * 2)

    async def renew() -> None:
        renewed = asyncio.Event()

        async def failing(function: Callable[[Connection], Any]) -> Any:
            for failure in failures:
                raise failure
            result = await run(function)
            renewed.set()
            return result

        monkeypatch.setattr(processes.writers[0], "run", failing)
        keeper = asyncio.create_task(processes.calls[0].renew_claims())
        await asyncio.wait_for(renewed.wait(), 30.0)
        keeper.cancel()

    with capture_logs() as logged:
        asyncio.run(renew())
    assert logged == []


def test_a_reservation_is_kept_while_its_process_lives_and_lost_soon_after(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_ledger, "_LEASE", 0.03)
    now, gate = [1000.0], threading.Event()
    processes.replies(GLAD.held_until(gate))
    pool = processes.pool(clock=lambda: now[0])
    writer, run, renewed = processes.writers[0], processes.writers[0].run, asyncio.Event()

    async def noted(function: Callable[[Connection], Any]) -> Any:
        result = await run(function)
        renewed.set()
        return result

    async def ask() -> Sequence[int]:
        first = asyncio.create_task(pool.ask(query(), 1e6))
        assert await asyncio.to_thread(processes.server.wait_for, 1)
        now[0] += 50.0  # the call was reserved for the model's 30 seconds and 30 more
        monkeypatch.setattr(writer, "run", noted)
        keeper = asyncio.create_task(processes.calls[0].renew_claims())
        await renewed.wait()
        keeper.cancel()
        lost = []
        for seconds in (59.0, 2.0):
            now[0] += seconds
            lost.append(await run(money.expire))
        gate.set()
        await first
        return lost

    assert asyncio.run(ask()) == [0, 1]


def test_nobody_waits_for_another_process_s_call_when_the_process_stops(processes: Processes) -> None:
    claimed_by_the_dead(processes, until=1000.0)
    pool = processes.pool(clock=lambda: 999.0)

    async def ask() -> None:
        waiting = asyncio.create_task(pool.ask(query(), 1e6))
        await asyncio.wait({waiting}, timeout=0.1)
        pool._pool.gate.shut()
        await waiting

    with pytest.raises(StoppingError):
        asyncio.run(ask())


def test_a_renewal_that_had_to_wait_lasts_a_whole_lease(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_ledger, "_LEASE", 0.03)
    now, gate, entered, door = [1000.0], threading.Event(), threading.Event(), threading.Event()
    processes.replies(GLAD.held_until(gate))
    pool = processes.pool(clock=lambda: now[0])
    writer, run = processes.writers[0], processes.writers[0].run

    def block(_: Connection) -> None:
        entered.set()
        assert door.wait(30)

    async def ask() -> float:
        queued = asyncio.Event()

        async def noted(function: Callable[[Connection], Any]) -> Any:
            queued.set()
            return await run(function)

        first = asyncio.create_task(pool.ask(query(), 10.0))
        assert await asyncio.to_thread(processes.server.wait_for, 1)
        blocked = asyncio.create_task(run(block))
        assert await asyncio.to_thread(entered.wait, 30)
        monkeypatch.setattr(writer, "run", noted)
        keeper = asyncio.create_task(processes.calls[0].renew_claims())
        await queued.wait()
        keeper.cancel()  # the queued function runs nevertheless
        now[0] = 1100.0
        door.set()
        await blocked
        await run(lambda _: None)
        [claim] = processes.rows(tables.claims)
        gate.set()
        await first
        return float(claim.expires_at)

    assert asyncio.run(ask()) == pytest.approx(1100.03)


def test_the_claim_of_a_process_that_died_ends_with_its_lease(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No claim is renewed, as after a crash, so the other process asks while the first call still hangs."""
    monkeypatch.setattr(call_ledger, "_LEASE", 0.3)
    monkeypatch.setattr(call_ledger, "POLL", 0.01)
    gate = threading.Event()
    processes.replies(GLAD.held_until(gate), GLAD)
    dead, other = processes.pool(), processes.pool()

    async def ask() -> Any:
        lost = asyncio.create_task(dead.ask(query(), 10.0))
        assert await asyncio.to_thread(processes.server.wait_for, 1)
        reply = await other.ask(query(), 10.0)
        gate.set()
        await lost
        return reply

    assert asyncio.run(ask()).cost == pytest.approx(CALL)
    assert processes.server.count() == 2


@pytest.mark.parametrize("reply", [GLAD, Reply.fails(400), Reply.says("")])
def test_no_claim_is_left_behind(processes: Processes, reply: Reply) -> None:
    processes.replies(reply)

    async def ask() -> None:
        await asyncio.gather(processes.pool().ask(query(), 10.0), return_exceptions=True)

    asyncio.run(ask())
    assert processes.rows(tables.claims) == []


# -- retries


@pytest.mark.parametrize("failure", [Reply.fails(500), Reply.fails(503), Reply.fails(429), Reply.broken()])
def test_a_passing_failure_is_mended_by_another_attempt(processes: Processes, failure: Reply) -> None:
    processes.replies(failure, GLAD)
    reply = asyncio.run(processes.pool(retries=2).ask(query(), 10.0))
    assert (reply.content, processes.server.count()) == ('{"mood": "Glad"}', 2)


def test_a_request_that_the_provider_does_not_take_is_not_repeated(processes: Processes) -> None:
    processes.replies(Reply.fails(400))
    with pytest.raises(RejectedError):
        asyncio.run(processes.pool(retries=2).ask(query(), 10.0))
    assert processes.server.count() == 1


def test_retries_end(processes: Processes) -> None:
    processes.replies(Reply.fails(500))
    with pytest.raises(UnavailableError):
        asyncio.run(processes.pool(retries=2).ask(query(), 10.0))
    assert processes.server.count() == 3


def test_patience_ends_the_retries(processes: Processes) -> None:
    processes.replies(Reply.fails(500))
    with pytest.raises(UnavailableError):
        asyncio.run(processes.pool(retries=50).ask(query(), 0.0))
    assert processes.server.count() == 1


def test_a_model_that_is_put_to_rest_is_not_asked_again(processes: Processes) -> None:
    processes.replies(Reply.fails(500))
    with pytest.raises(UnavailableError):
        asyncio.run(processes.pool(retries=50).ask(query(), 10.0))
    assert processes.server.count() == 5


# -- money


@pytest.mark.usefixtures("no_overtime")
def test_a_call_that_was_never_sent_costs_nothing(processes: Processes) -> None:
    with pytest.raises(ModelTimeoutError):
        asyncio.run(processes.pool().ask(hurried(), 0.0))
    [call] = processes.rows(tables.calls)
    assert (call.error_code, call.cost, processes.server.count()) == ("model_timeout", 0, 0)


def test_every_attempt_is_a_settled_call(processes: Processes) -> None:
    processes.replies(Reply.fails(500), GLAD)
    asyncio.run(processes.pool(retries=1).ask(query(), 10.0))
    calls = [(row.state, row.error_code, row.cost) for row in processes.rows(tables.calls)]
    assert calls == [("settled", "model_unavailable", 0), ("settled", None, round(CALL * 1e12))]


def test_the_account_is_the_sum_of_the_calls_and_nothing_stays_reserved(processes: Processes) -> None:
    processes.replies(Reply.fails(500), Reply.says("", usage=(50, 30)), GLAD)
    pool = processes.pool(retries=1)

    async def ask() -> None:
        await asyncio.gather(pool.ask(query(), 10.0), return_exceptions=True)

    asyncio.run(ask())
    with processes.ledger.read() as connection:
        account = money.balance(connection, "7.1", money.TOTAL)
        calls = connection.scalar(select(func.sum(tables.calls.c.cost)))
    assert calls == round(110e6)
    assert account == money.Account(spent=calls, reserved=0)


def test_a_budget_that_does_not_cover_the_call_leaves_neither_a_claim_nor_a_call(
    processes: Processes,
) -> None:
    with pytest.raises(BudgetExhaustedError):
        asyncio.run(processes.pool().ask(query(project_usd=CALL), 10.0))
    assert (processes.rows(tables.claims), processes.rows(tables.calls), processes.server.count()) == (
        [],
        [],
        0,
    )


def test_an_answer_that_is_there_needs_no_budget(processes: Processes) -> None:
    asyncio.run(processes.pool().ask(query(), 10.0))
    reply = asyncio.run(processes.pool().ask(query(project="8.1", project_usd=0.0), 10.0))
    assert reply.content == '{"mood": "Glad"}'


def test_projects_with_money_share_one_call_when_the_first_asker_had_none(processes: Processes) -> None:
    pool = processes.pool()

    async def ask() -> Sequence[Any]:
        poor = pool.ask(query(project="7.1", project_usd=0.0), 10.0)
        rich = [pool.ask(query(task=number, project="8.1"), 10.0) for number in (2, 3)]
        return await asyncio.gather(poor, *rich, return_exceptions=True)

    poor, *rich = asyncio.run(ask())
    assert isinstance(poor, BudgetExhaustedError)
    assert [reply.content for reply in rich] == ['{"mood": "Glad"}'] * 2
    assert processes.server.count() == 1


@pytest.mark.usefixtures("no_overtime")
def test_a_call_that_timed_out_is_booked_at_its_expected_price(processes: Processes) -> None:
    """The provider may bill it, and the budget must not be exceeded."""
    released = threading.Event()
    processes.replies(GLAD.held_until(released))
    pool = processes.pool()
    with pytest.raises(ModelTimeoutError):
        asyncio.run(pool.ask(hurried(), 0.3))
    released.set()
    expected = pool._pool["red"].model.cost(MESSAGES)
    with processes.ledger.read() as connection:
        account = money.balance(connection, "7.1", money.TOTAL)
    assert account.spent == pytest.approx(expected * 1e12)
    assert expected > 0.0

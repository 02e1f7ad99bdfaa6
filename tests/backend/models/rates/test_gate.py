"""The gate of one process: the order of calls, concurrency, a ledger that is down, cancelled calls."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

import pytest
from quota_providers import TrailingWindow
from simulated_calls import SimulatedCalls, model_settings
from virtual_time import run_in_virtual_time

from backend.errors import RateLimitedError, WithdrawnError
from backend.models.rates.answers import CallEnd
from backend.models.rates.gate import _START, Cancellation, Concurrency, RateGate, cancellation, request_size


async def passes(gate: RateGate, size: int, order: list[int]) -> None:
    request_size.set(size)
    gate.leave(await gate.enter(100.0, 3600.0), CallEnd(seconds=0.1, tokens=100.0))
    order.append(size)


def test_a_single_task_does_not_wait_behind_a_batch() -> None:
    async def main() -> None:
        calls = SimulatedCalls(TrailingWindow(10_000), 1, settings=model_settings(rpm=60))
        (gate,) = calls.gates
        order: list[int] = []
        batch = [asyncio.create_task(passes(gate, 1000, order)) for _ in range(300)]
        await asyncio.sleep(70.0)
        done = len(order)
        assert 0 < done < 300
        await passes(gate, 1, order)
        # The calls of the second in which it arrived may go before it.
        assert order.index(1) <= done + 60
        assert len(order) < 300
        for task in batch:
            task.cancel()

    run_in_virtual_time(main())


def test_without_a_ledger_calls_go_on_at_half_the_rate_and_are_counted_afterwards() -> None:
    async def main() -> None:
        calls = SimulatedCalls(TrailingWindow(600), 1)
        await calls.full_demand(6)
        (store,) = calls.stores
        store.down = True
        await calls.full_demand(4)
        assert 0.2 <= calls.used(7, 10) <= 0.8
        store.down = False
        await calls.full_demand(4)
        assert calls.used(11, 14) >= 0.9
        assert calls.refused_share(6, 14) <= 0.01

    run_in_virtual_time(main())


def test_a_call_that_must_wait_longer_than_its_patience_fails_at_once() -> None:
    async def main() -> None:
        calls = SimulatedCalls(TrailingWindow(600), 1)
        (gate,) = calls.gates
        passage = await gate.enter(100.0, 5.0)
        patient = asyncio.create_task(gate.enter(100.0, 60.0))
        await asyncio.sleep(0)
        gate.leave(passage, CallEnd(refused=True, wait=30.0))
        before = asyncio.get_running_loop().time()
        with pytest.raises(RateLimitedError, match="30 s more"):
            await gate.enter(100.0, 5.0)
        assert asyncio.get_running_loop().time() == before
        gate.leave(await patient, CallEnd())

    run_in_virtual_time(main())


def test_a_waiting_call_is_told_when_the_wait_becomes_too_long() -> None:
    async def main() -> None:
        calls = SimulatedCalls(TrailingWindow(600), 1, settings=model_settings(max_concurrency=1))
        (gate,) = calls.gates
        passage = await gate.enter(100.0, 5.0)
        waiting = asyncio.create_task(gate.enter(100.0, 5.0))
        await asyncio.sleep(1.0)
        gate.leave(passage, CallEnd(refused=True, wait=30.0))
        with pytest.raises(RateLimitedError):
            await waiting

    run_in_virtual_time(main())


def test_a_refused_call_is_the_next_one_to_go() -> None:
    async def main() -> None:
        calls = SimulatedCalls(TrailingWindow(600), 1, settings=model_settings(max_concurrency=1))
        (gate,) = calls.gates
        order: list[str] = []

        async def call(name: str, refusals: int) -> None:
            passage = await gate.enter(1.0, 100.0)
            for _ in range(refusals):
                gate.leave(passage, CallEnd(refused=True))
                passage = await gate.enter(1.0, 100.0, refused=passage)
            order.append(name)
            await asyncio.sleep(1.0)
            gate.leave(passage, CallEnd(seconds=1.0))

        await asyncio.gather(call("refused", 2), call("second", 0), call("third", 0))
        assert order == ["refused", "second", "third"]

    run_in_virtual_time(main())


def test_cancelled_calls_leave_no_trace() -> None:
    async def main() -> None:
        calls = SimulatedCalls(TrailingWindow(600), 1, settings=model_settings(rpm=60, max_concurrency=4))
        (gate,) = calls.gates
        for _ in range(50):
            tasks = [asyncio.create_task(gate.enter(100.0, 10.0)) for _ in range(9)]
            await asyncio.sleep(0.3)
            for task in tasks:
                if task.done():
                    gate.leave(task.result(), CallEnd(seconds=0.1))
                task.cancel()
            for task in tasks:
                with suppress(asyncio.CancelledError):
                    await task
        await asyncio.sleep(100.0)
        assert gate.concurrency.under_way == 0
        passages = [await gate.enter(100.0, 3.0) for _ in range(4)]
        with pytest.raises(TimeoutError):
            await gate.enter(100.0, 3.0)
        for passage in passages:
            gate.leave(passage, CallEnd())

    run_in_virtual_time(main())


# -- concurrency


async def serve_slowly(concurrency: Concurrency, *, at_once: int, seconds: float, calls: int) -> list[float]:
    """Send calls to a server that works on some at once and never refuses; return how long they took."""
    workers, durations = asyncio.Semaphore(at_once), list[float]()
    loop = asyncio.get_running_loop()

    async def call() -> None:
        began = loop.time()
        async with workers:
            await asyncio.sleep(seconds)
        durations.append(loop.time() - began)
        concurrency.answered(durations[-1])
        concurrency.under_way -= 1

    tasks = []
    while len(tasks) < calls:
        if concurrency.free:
            concurrency.under_way += 1
            tasks.append(asyncio.create_task(call()))
        else:
            await asyncio.sleep(0.05)
    await asyncio.gather(*tasks)
    return durations


def test_a_slow_local_server_never_has_so_many_calls_that_they_time_out() -> None:
    durations = run_in_virtual_time(serve_slowly(Concurrency(30.0, None), at_once=1, seconds=1.0, calls=400))
    assert max(durations) < 30.0


def test_no_call_to_a_new_server_that_answers_one_in_four_seconds_times_out() -> None:
    careful = Concurrency(30.0, None, careful=True)
    durations = run_in_virtual_time(serve_slowly(careful, at_once=1, seconds=4.0, calls=80))
    assert max(durations) < 30.0


def test_the_first_quick_answer_of_a_new_server_frees_the_others() -> None:
    careful = Concurrency(30.0, None, careful=True)
    assert careful.limit < _START
    careful.under_way += 1
    careful.answered(0.3)
    assert careful.limit == _START


def test_a_server_that_works_on_many_at_once_is_given_many() -> None:
    concurrency = Concurrency(30.0, None)
    run_in_virtual_time(serve_slowly(concurrency, at_once=200, seconds=2.0, calls=3000))
    assert concurrency.limit >= 200


def test_a_model_that_always_takes_long_is_asked_more_and_more_at_once() -> None:
    concurrency = Concurrency(30.0, None)
    run_in_virtual_time(serve_slowly(concurrency, at_once=500, seconds=20.0, calls=500))
    assert concurrency.limit >= 64


def test_a_generation_of_timeouts_halves_the_number_once() -> None:
    concurrency = Concurrency(30.0, None)
    for _ in range(_START):
        concurrency.under_way += 1
    for _ in range(_START):
        concurrency.timed_out()
        concurrency.under_way -= 1
    assert concurrency.limit == _START / 2


def test_the_settings_bound_the_number() -> None:
    concurrency = Concurrency(30.0, 3)
    run_in_virtual_time(serve_slowly(concurrency, at_once=50, seconds=0.1, calls=100))
    assert concurrency.limit == 3


# -- the delay: by how much one more call delays the others


class AnyOrder:
    """A server's workers, which take the calls that wait in any order."""

    def __init__(self, workers: int) -> None:
        self._free, self._waiting, self._random = workers, list[asyncio.Future[None]](), Random(4)  # noqa: S311

    async def __aenter__(self) -> None:
        if self._free:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    async def __aexit__(self, *error: object) -> None:
        if self._waiting:
            self._waiting.pop(self._random.randrange(len(self._waiting))).set_result(None)
        else:
            self._free += 1


async def demand(
    gate: RateGate, *, at_once: int, seconds: float, calls: int, workers: int = 40, in_order: bool = True
) -> None:
    """Call a server that works on some calls at once; each takes some seconds, give or take a third."""
    free = asyncio.Semaphore(at_once) if in_order else AnyOrder(at_once)
    left, random = iter(range(calls)), Random(3)  # noqa: S311
    loop = asyncio.get_running_loop()

    async def work() -> None:
        for _ in left:
            passage = await gate.enter(100.0, 3600.0)
            began = loop.time()
            async with free:
                await asyncio.sleep(seconds * random.uniform(0.7, 1.3))
            gate.leave(passage, CallEnd(seconds=loop.time() - began, tokens=100.0))

    await asyncio.gather(*(work() for _ in range(workers)))


def delay_after(
    calls: int = 200, *, at_once: int, seconds: float, in_order: bool = True, **settings: float
) -> float:
    async def main() -> float:
        (gate,) = SimulatedCalls(TrailingWindow(10**6), 1, settings=model_settings(**settings)).gates
        await demand(gate, at_once=at_once, seconds=seconds, calls=calls, in_order=in_order)
        return gate.delay

    return run_in_virtual_time(main())


@pytest.mark.parametrize("in_order", [True, False])
def test_a_server_that_answers_one_call_at_a_time_is_delayed_by_each(in_order: bool) -> None:
    delay = delay_after(at_once=1, seconds=4.0, timeout=600, in_order=in_order)
    assert delay == pytest.approx(4.0, abs=1.0)


def limit_after(calls: int, *, at_once: int, seconds: float) -> float:
    async def main() -> float:
        settings = model_settings(timeout=600)
        (gate,) = SimulatedCalls(TrailingWindow(10**6), 1, settings=settings).gates
        await demand(gate, at_once=at_once, seconds=seconds, calls=calls)
        return gate.concurrency.limit

    return run_in_virtual_time(main())


def test_a_slow_server_is_sent_about_twice_as_many_calls_as_it_works_on() -> None:
    assert 4.0 <= limit_after(300, at_once=1, seconds=4.0) <= 8.0
    assert limit_after(600, at_once=6, seconds=4.0) == pytest.approx(12.0, abs=5.0)
    assert limit_after(600, at_once=500, seconds=4.0) > _START


@pytest.mark.parametrize("in_order", [True, False])
def test_few_answers_suffice_to_see_that(in_order: bool) -> None:
    delay = delay_after(20, at_once=1, seconds=4.0, timeout=600, in_order=in_order)
    assert delay == pytest.approx(4.0, abs=2.0)


def test_a_provider_that_answers_many_at_once_is_delayed_by_none() -> None:
    assert delay_after(at_once=500, seconds=20.0, timeout=600) == 0.0


def test_a_quick_server_is_delayed_by_none_worth_noticing() -> None:
    assert delay_after(at_once=1, seconds=0.05) == 0.0


def test_few_calls_at_once_by_the_settings_are_a_delay() -> None:
    assert delay_after(at_once=500, seconds=4.0, max_concurrency=4) == pytest.approx(1.0, abs=0.2)


def test_a_quota_is_a_delay() -> None:
    assert delay_after(80, at_once=500, seconds=0.5, rpm=60) == 1.0


def test_a_model_is_busy_while_a_call_is_under_way_that_delays_the_next() -> None:
    async def main() -> None:
        (gate,) = SimulatedCalls(TrailingWindow(10**6), 1).gates
        assert not gate.busy
        passage = await gate.enter(100.0, 5.0)
        assert gate.busy
        gate.leave(passage, CallEnd(seconds=1.0))
        assert not gate.busy

    run_in_virtual_time(main())


def test_under_a_quota_a_model_is_busy_while_calls_wait() -> None:
    async def main() -> None:
        settings = model_settings(rpm=60)
        (gate,) = SimulatedCalls(TrailingWindow(10**6), 1, settings=settings).gates
        gate.leave(await gate.enter(100.0, 5.0), CallEnd(seconds=1.0))
        await asyncio.sleep(60.0)
        passage = await gate.enter(100.0, 5.0)
        assert not gate.busy
        waiting = [asyncio.create_task(gate.enter(100.0, 600.0)) for _ in range(200)]
        await asyncio.sleep(1.0)
        assert gate.busy
        for task in waiting:
            task.cancel()
        gate.leave(passage, CallEnd(seconds=1.0))

    run_in_virtual_time(main())


# -- calls that are given up


def test_a_call_that_waits_for_its_turn_can_be_given_up_and_one_that_was_sent_cannot() -> None:
    async def main() -> None:
        (gate,) = SimulatedCalls(TrailingWindow(10**6), 1, settings=model_settings(max_concurrency=1)).gates
        given_up = Cancellation()
        cancellation.set(given_up)
        sent = await gate.enter(100.0, 5.0)
        waiting = asyncio.create_task(gate.enter(100.0, 3600.0))
        await asyncio.sleep(1.0)
        given_up.cancel()
        with pytest.raises(WithdrawnError):
            await waiting
        with pytest.raises(WithdrawnError):
            await gate.enter(100.0, 3600.0)
        gate.leave(sent, CallEnd(seconds=1.0))
        cancellation.set(None)
        gate.leave(await gate.enter(100.0, 5.0), CallEnd(seconds=1.0))

    run_in_virtual_time(main())

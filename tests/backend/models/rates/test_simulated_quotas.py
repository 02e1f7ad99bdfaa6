"""The controller and its gates against scripted quotas, in simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from quota_providers import FixedWindow, QuotaProvider, RefusedCalls, Sporadic, TokenBucket, TrailingWindow
from simulated_calls import SimulatedCalls, model_settings
from virtual_time import run_in_virtual_time

KINDS: list[Callable[[float], QuotaProvider]] = [FixedWindow, TrailingWindow, TokenBucket]


@pytest.mark.parametrize("processes", [1, 2, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_95_percent_of_a_quota_that_falls_is_used_and_1_percent_refused(
    kind: Callable[[float], QuotaProvider], processes: int
) -> None:
    async def main() -> None:
        calls = SimulatedCalls(kind(600), processes)
        await calls.full_demand(10)
        assert calls.used(2, 10) >= 0.95
        assert calls.refused_share(1, 10) <= 0.01
        calls.provider.quota = 200
        await calls.full_demand(10)
        # Window providers accept nothing until what they accepted before has left the window.
        assert calls.refused[10] + calls.refused[11] <= 60
        assert calls.used(12, 20) >= 0.95
        assert calls.refused_share(12, 20) <= 0.01

    run_in_virtual_time(main())


@pytest.mark.parametrize("kind", KINDS)
def test_a_quota_that_rises_is_found(kind: Callable[[float], QuotaProvider]) -> None:
    async def main() -> None:
        calls = SimulatedCalls(kind(200), 2)
        await calls.full_demand(5)
        calls.provider.quota = 600
        await calls.full_demand(18)
        assert calls.used(18, 23) >= 0.8

    run_in_virtual_time(main())


@pytest.mark.parametrize("capacity", [1 / 30, 1 / 6])
def test_a_bucket_that_holds_only_seconds_is_used_too(capacity: float) -> None:
    async def main() -> None:
        calls = SimulatedCalls(TokenBucket(600, capacity=capacity), 2)
        await calls.full_demand(20)
        assert calls.used(5, 20) >= 0.95
        assert calls.refused_share(1, 20) <= 0.01

    run_in_virtual_time(main())


@pytest.mark.parametrize("quota", [3, 20, 100])
def test_a_small_quota_is_not_probed_too_often(quota: int) -> None:
    async def main() -> None:
        calls = SimulatedCalls(TrailingWindow(quota), 2)
        await calls.full_demand(60)
        assert calls.used(5, 60) >= 0.9
        assert calls.refused_share(5, 60) <= 0.015

    run_in_virtual_time(main())


@pytest.mark.parametrize("latency", [0.2, 5.0])
def test_quick_and_slow_models_are_used_alike(latency: float) -> None:
    async def main() -> None:
        calls = SimulatedCalls(TrailingWindow(600), 2, latency)
        await calls.full_demand(12, workers=160)
        assert calls.used(2, 12) >= 0.95
        assert calls.refused_share(2, 12) <= 0.01

    run_in_virtual_time(main())


@pytest.mark.parametrize("kind", KINDS)
def test_no_call_of_a_burst_is_lost_or_refused_without_need(kind: Callable[[float], QuotaProvider]) -> None:
    async def main() -> None:
        calls = SimulatedCalls(kind(600), 2)
        await calls.full_demand(3)
        for burst in range(12):
            gate = calls.gates[burst % 2]
            await asyncio.gather(*(calls.call(gate, patience=60.0) for _ in range(80)))
            await asyncio.sleep(20.0)
        assert sum(calls.refused[minute] for minute in range(4, calls.minute + 1)) <= 10

    run_in_virtual_time(main())


def test_a_long_refusal_of_everything_does_not_end_in_a_crawl() -> None:
    async def main() -> None:
        calls = SimulatedCalls(TrailingWindow(600), 2)
        await calls.full_demand(4)
        calls.provider.quota = 0
        await calls.full_demand(10)
        assert sum(calls.refused[minute] for minute in range(6, 14)) <= 200  # a try every 6 seconds or so
        calls.provider.quota = 600
        await calls.full_demand(4)
        assert calls.used(16, 18) >= 0.5

    run_in_virtual_time(main())


@pytest.mark.parametrize("share", [0.02, 0.08, 0.2])
def test_refusals_that_do_not_depend_on_the_rate_do_not_lower_it(share: float) -> None:
    async def main() -> None:
        calls = SimulatedCalls(Sporadic(TokenBucket(1e9), share), 2)
        await calls.full_demand(10, workers=20)
        possible = 20 * 60 / calls.latency
        assert sum(calls.accepted[minute] for minute in range(4, 10)) >= 0.6 * 6 * possible

    run_in_virtual_time(main())


def test_a_quota_is_used_though_some_calls_are_refused_whatever_the_rate() -> None:
    async def main() -> None:
        calls = SimulatedCalls(Sporadic(TrailingWindow(600), 0.08), 1)
        await calls.full_demand(12)
        assert calls.used(3, 12) >= 0.7
        assert calls.refused_share(3, 12) <= 0.3

    run_in_virtual_time(main())


@pytest.mark.parametrize("share", [0.005, 0.02])
@pytest.mark.parametrize("quota", [60, 200, 600])
def test_a_few_refusals_at_random_leave_most_of_a_quota_usable(quota: int, share: float) -> None:
    async def main() -> None:
        used = list[float]()
        for seed in range(4):
            calls = SimulatedCalls(Sporadic(TrailingWindow(quota), share, seed), 1)
            await calls.full_demand(20)
            used.append(calls.used(5, 20))
            assert calls.refused_share(5, 20) <= 0.25
        assert sum(used) / len(used) >= 0.6

    run_in_virtual_time(main())


def test_one_more_refusal_while_the_rate_is_searched_for_does_not_stop_the_search() -> None:
    async def main() -> None:
        calls = SimulatedCalls(RefusedCalls({4, 400}), 1)
        await calls.full_demand(10, workers=20)
        assert calls.accepted[9] >= 600

    run_in_virtual_time(main())


def test_refusals_that_have_ended_are_expected_no_longer() -> None:
    async def main() -> None:
        provider = Sporadic(TrailingWindow(600), 0.08)
        calls = SimulatedCalls(provider, 1)
        await calls.full_demand(5)
        provider.share = 0.0
        await calls.full_demand(20)
        assert calls.used(15, 25) >= 0.9
        assert calls.refused_share(15, 25) <= 0.02

    run_in_virtual_time(main())


def test_a_limit_in_the_settings_is_never_exceeded_and_used_up() -> None:
    async def main() -> None:
        calls = SimulatedCalls(TrailingWindow(10_000), 3, settings=model_settings(rpm=120))
        await calls.full_demand(6)
        sent = sorted(calls.sent_at)
        assert all(later - first >= 60.0 for first, later in zip(sent, sent[120:], strict=False))
        assert len(sent) >= 0.95 * 6 * 120

    run_in_virtual_time(main())


def test_the_ledger_is_asked_once_a_second_and_never_while_nothing_happens() -> None:
    async def main() -> None:
        calls = SimulatedCalls(TrailingWindow(6000), 2, latency=0.2)
        await calls.full_demand(3)
        assert all(store.exchanges <= 3 * 60 + 2 for store in calls.stores)
        assert sum(calls.accepted.values()) > 5000
        await asyncio.sleep(10.0)
        idle = [store.exchanges for store in calls.stores]
        await asyncio.sleep(600.0)
        assert [store.exchanges for store in calls.stores] == idle

    run_in_virtual_time(main())

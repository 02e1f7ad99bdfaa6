"""Rates that processes share through a real ledger."""

from __future__ import annotations

import asyncio
import math
import multiprocessing
from collections.abc import Iterator

import pytest
from ledger_workers import Together
from rate_workers import MODEL, lease_calls, lease_for
from sqlalchemy import Connection

from backend.ledger import Ledger, Writer, answers
from backend.ledger.database import statements
from backend.models.rates.answers import RateReport
from backend.models.rates.controller import LedgerRates


class SetClock:
    """The ledger's clock, set by the test."""

    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def __call__(self, connection: Connection) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SetClock:
    clock = SetClock()
    monkeypatch.setattr(statements, "now", clock)
    return clock


@pytest.fixture
def writer(ledger: Ledger) -> Iterator[Writer]:
    running = Writer(ledger)
    yield running
    running.close()


def test_two_processes_together_lease_no_more_than_the_settings_allow(
    ledger: Ledger, ledger_url: str
) -> None:
    leased: multiprocessing.Queue[int] = multiprocessing.get_context("forkserver").Queue()
    processes = Together(lease_for, *[(ledger_url, 0.5, leased)] * 2)
    counts = [leased.get(timeout=100) for _ in range(2)]
    assert processes.succeeded()
    assert sum(counts) == 120


def test_what_a_crashed_process_leased_expires_by_itself(writer: Writer, clock: SetClock) -> None:
    crashed, survivor = LedgerRates(writer), LedgerRates(writer)
    assert lease_calls(crashed, RateReport("", wanted=100)) == 100
    clock.seconds += 6.0  # from now on its demand counts no more
    assert lease_calls(survivor, RateReport("", wanted=100)) == 20
    clock.seconds += 62.0
    assert lease_calls(survivor, RateReport("", wanted=100)) == 100


def test_what_a_process_does_not_use_another_gets(writer: Writer, clock: SetClock) -> None:
    one, other = LedgerRates(writer), LedgerRates(writer)
    assert lease_calls(one, RateReport("", wanted=120)) == 120
    assert lease_calls(one, RateReport("", unused=50)) == 0
    assert lease_calls(other, RateReport("", wanted=120)) == 50


def test_what_one_process_is_told_to_wait_holds_the_other_too(writer: Writer, clock: SetClock) -> None:
    one, other = LedgerRates(writer), LedgerRates(writer)
    asyncio.run(one.exchange(MODEL, RateReport("", wanted=1, refused=1, refused_epoch=0, wait=30.0)))
    lease = asyncio.run(other.exchange(MODEL, RateReport("", wanted=1)))
    assert (lease.calls, lease.hold) == (0, pytest.approx(30.0))


def test_a_clock_that_was_set_back_makes_nobody_wait_until_it_has_caught_up(
    writer: Writer, clock: SetClock
) -> None:
    rates = LedgerRates(writer)
    asyncio.run(rates.exchange(MODEL, RateReport("", wanted=1, refused=1, refused_epoch=0, wait=30.0)))
    assert lease_calls(rates, RateReport("", wanted=120)) == 0
    clock.seconds -= 3600.0
    assert lease_calls(rates, RateReport("", wanted=120)) == 120


def test_a_model_that_was_never_called_has_no_rates(ledger: Ledger) -> None:
    with ledger.read() as connection:
        assert answers.read_rates(connection, "test", until=math.inf) is None

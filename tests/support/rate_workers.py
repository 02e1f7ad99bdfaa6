"""What the processes of the rates' tests run; a process imports it by name."""

from __future__ import annotations

import asyncio
import math
import multiprocessing
import time

from ledger_workers import Start
from simulated_calls import model_settings

from backend.ledger import Ledger, Writer
from backend.models.rates.answers import RateReport
from backend.models.rates.controller import LedgerRates

MODEL = model_settings(rpm=120)


def lease_calls(rates: LedgerRates, report: RateReport) -> int:
    lease = asyncio.run(rates.exchange(MODEL, report))
    assert lease.calls is not None
    return lease.calls


def lease_for(start: Start, url: str, seconds: float, leased: multiprocessing.Queue[int]) -> None:
    """Lease calls until none is left, and for some seconds after that, then die without a word."""
    ledger = Ledger(url)
    writer = Writer(ledger)
    rates = LedgerRates(writer)
    start()
    until, count = math.inf, 0
    while time.monotonic() < until:
        leased_now = lease_calls(rates, RateReport("", wanted=7))
        count += leased_now
        if not leased_now:
            until = min(until, time.monotonic() + seconds)
    leased.put(count)

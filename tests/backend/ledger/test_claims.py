from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest
from reservations import reserve
from sqlalchemy import Connection

from backend.ledger import Ledger, claims, money
from backend.ledger.claims import Claim, Claims, end_lost_calls, process_owner


class Clock:
    """The ledger's clock, in the hands of a test."""

    now = 100.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(claims, "now", lambda _: clock.now)
    return clock


def test_a_claim_excludes_others(ledger: Ledger, clock: Clock) -> None:
    with ledger.write() as connection:
        assert Claims(connection).acquire("key", "a", 30.0)
        assert Claims(connection).acquire("another key", "b", 30.0)
        clock.now = 129.9
        assert not Claims(connection).acquire("key", "b", 30.0)


def test_an_expired_claim_can_be_taken_over(ledger: Ledger, clock: Clock) -> None:
    with ledger.write() as connection:
        Claims(connection).acquire("key", "a", 30.0)
        clock.now = 130.0
        assert Claims(connection).acquire("key", "b", 30.0)
        clock.now = 159.9
        assert not Claims(connection).acquire("key", "a", 30.0)


def test_after_an_outage_an_expired_claim_is_left_alone_however_long_it_was(
    ledger: Ledger, clock: Clock
) -> None:
    with ledger.write() as connection:
        Claims(connection).acquire("key", "a", 30.0)
        clock.now += 3600.0
        assert not Claims(connection).acquire("key", "b", 30.0, expires=False)


def test_an_owner_can_acquire_its_claim_again(ledger: Ledger, clock: Clock) -> None:
    with ledger.write() as connection:
        Claims(connection).acquire("key", "a", 30.0)
        clock.now = 120.0
        assert Claims(connection).acquire("key", "a", 30.0)
        clock.now = 149.9
        assert not Claims(connection).acquire("key", "b", 30.0)


def test_an_owner_finds_its_call_again_and_a_successor_does_not(ledger: Ledger, clock: Clock) -> None:
    with ledger.write() as connection:
        assert Claims(connection).acquire("key", "a", 30.0) == Claim(None)
        Claims(connection).note_call("key", "a", 7)
        Claims(connection).note_call("key", "b", 8)
        assert Claims(connection).acquire("key", "a", 30.0) == Claim(7)
        clock.now = 130.0
        assert Claims(connection).acquire("key", "b", 30.0) == Claim(None)


def test_a_renewed_claim_lasts_for_the_whole_time(ledger: Ledger, clock: Clock) -> None:
    with ledger.write() as connection:
        for key in ("first", "second", "third"):
            Claims(connection).acquire(key, "a", 30.0)
        Claims(connection).renew(["first", "second"], "a", 100.0)
        clock.now = 199.9
        assert [key for key in ("first", "second", "third") if Claims(connection).acquire(key, "b", 1.0)] == [
            "third"
        ]


def test_renewing_leaves_claims_of_other_owners_unchanged(ledger: Ledger, clock: Clock) -> None:
    with ledger.write() as connection:
        Claims(connection).acquire("key", "a", 30.0)
        clock.now = 130.0
        Claims(connection).acquire("key", "b", 30.0)
        Claims(connection).renew(["key"], "a", 370.0)
        clock.now = 160.0
        assert Claims(connection).acquire("key", "c", 30.0)


def test_a_released_claim_is_free(ledger: Ledger) -> None:
    with ledger.write() as connection:
        Claims(connection).acquire("key", "a", 30.0)
        Claims(connection).release(["key"], "a")
        assert Claims(connection).acquire("key", "b", 30.0)


def test_releasing_leaves_claims_of_other_owners_unchanged(ledger: Ledger) -> None:
    with ledger.write() as connection:
        Claims(connection).acquire("key", "a", 30.0)
        Claims(connection).release(["key"], "b")
        assert not Claims(connection).acquire("key", "b", 30.0)


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives until it is killed."""
    with subprocess.Popen(["sleep", "600"]) as process:  # noqa: S607 - any program
        yield process
        process.kill()


def owner_of(process: subprocess.Popen[bytes]) -> str:
    """The name that the process would have as an owner of claims."""
    host, *_ = process_owner().split(" ")
    return f"{host} {process.pid} {claims._started(process.pid)} a"


def reserved(connection: Connection) -> int:
    """The id of a call under way for which $0.50 is reserved."""
    return reserve(connection, task=4, model="small")


def booked(ledger: Ledger) -> money.Account:
    with ledger.read() as connection:
        return money.balance(connection, "1.1", money.TOTAL)


@pytest.mark.parametrize("reaped", [True, False], ids=["reaped", "zombie"])
def test_a_claim_of_a_killed_process_of_this_host_is_taken_over_at_once(
    ledger: Ledger, other: subprocess.Popen[bytes], reaped: bool
) -> None:
    dead, mine = owner_of(other), process_owner()
    with ledger.write() as connection:
        assert Claims(connection).acquire("key", dead, 30.0)
        assert not Claims(connection).acquire("key", mine, 30.0)
        other.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, other.pid, os.WEXITED | (0 if reaped else os.WNOWAIT))
        assert Claims(connection).acquire("key", mine, 30.0, expires=False) == Claim(None)


def test_who_takes_over_a_claim_of_a_killed_process_books_its_calls_as_lost(
    ledger: Ledger, other: subprocess.Popen[bytes]
) -> None:
    dead = owner_of(other)
    with ledger.write() as connection:
        call = reserved(connection)
        Claims(connection).add({"one": call, "two": call}, dead, 30.0)
    other.kill()
    other.wait()
    assert booked(ledger) == money.Account(0, 500_000_000_000)
    with ledger.write() as connection:
        assert Claims(connection).acquire("one", process_owner(), 30.0) == Claim(None)
    assert booked(ledger) == money.Account(500_000_000_000, 0)


def test_a_process_ends_the_calls_of_killed_ones_and_of_no_others(
    ledger: Ledger, other: subprocess.Popen[bytes]
) -> None:
    dead, living = owner_of(other), process_owner()
    with ledger.write() as connection:
        Claims(connection).add({"dead": reserved(connection)}, dead, 30.0)
        Claims(connection).add({"living": reserved(connection)}, living, 30.0)
    other.kill()
    other.wait()
    with ledger.write() as connection:
        end_lost_calls(connection)
        assert Claims(connection).claimed(["dead", "living"]) == {"living"}
    assert booked(ledger) == money.Account(500_000_000_000, 500_000_000_000)


def test_a_process_that_has_the_number_of_a_dead_one_is_not_that_one(ledger: Ledger) -> None:
    host, process, started, _ = process_owner().split(" ")
    with ledger.write() as connection:
        assert Claims(connection).acquire("key", f"{host} {process} {int(started) - 1} a", 30.0)
        assert Claims(connection).acquire("key", process_owner(), 30.0)


@pytest.mark.parametrize("owner", ["another-host 1 1 a", "batch:1", "a", "- 999999999 - a"])
def test_an_owner_of_whom_nothing_is_known_keeps_its_claim(ledger: Ledger, owner: str) -> None:
    with ledger.write() as connection:
        assert Claims(connection).acquire("key", owner, 30.0)
        assert not Claims(connection).acquire("key", process_owner(), 30.0)

from __future__ import annotations

import pytest

from backend.ledger import Ledger, answers
from backend.ledger.answers import Claim, Claims


class Clock:
    """The ledger's clock, in the hands of a test."""

    now = 100.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(answers, "now", lambda _: clock.now)
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


def test_an_expired_claim_is_left_alone_for_the_grace(ledger: Ledger, clock: Clock) -> None:
    with ledger.write() as connection:
        Claims(connection).acquire("key", "a", 30.0)
        clock.now = 139.9
        assert not Claims(connection).acquire("key", "b", 30.0, grace=10.0)
        clock.now = 140.0
        assert Claims(connection).acquire("key", "b", 30.0, grace=10.0)


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

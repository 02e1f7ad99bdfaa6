from __future__ import annotations

from backend.ledger import Ledger, claims


def test_a_claim_excludes_others(ledger: Ledger) -> None:
    with ledger.write() as connection:
        assert claims.acquire(connection, "key", "a", 100.0, 30.0)
        assert not claims.acquire(connection, "key", "b", 129.9, 30.0)
        assert claims.acquire(connection, "another key", "b", 100.0, 30.0)


def test_an_expired_claim_can_be_taken_over(ledger: Ledger) -> None:
    with ledger.write() as connection:
        claims.acquire(connection, "key", "a", 100.0, 30.0)
        assert claims.acquire(connection, "key", "b", 130.0, 30.0)
        assert not claims.acquire(connection, "key", "a", 159.9, 30.0)


def test_an_owner_can_renew_its_claim(ledger: Ledger) -> None:
    with ledger.write() as connection:
        claims.acquire(connection, "key", "a", 100.0, 30.0)
        assert claims.acquire(connection, "key", "a", 120.0, 30.0)
        assert not claims.acquire(connection, "key", "b", 149.9, 30.0)


def test_a_renewed_claim_lasts_until_its_new_end(ledger: Ledger) -> None:
    with ledger.write() as connection:
        for key in ("first", "second", "third"):
            claims.acquire(connection, key, "a", 100.0, 30.0)
        claims.renew(connection, ["first", "second"], "a", 200.0)
        free = [
            key for key in ("first", "second", "third") if claims.acquire(connection, key, "b", 199.9, 1.0)
        ]
        assert free == ["third"]


def test_renewing_leaves_claims_of_other_owners_unchanged(ledger: Ledger) -> None:
    with ledger.write() as connection:
        claims.acquire(connection, "key", "a", 100.0, 30.0)
        claims.acquire(connection, "key", "b", 130.0, 30.0)
        claims.renew(connection, ["key"], "a", 500.0)
        assert claims.acquire(connection, "key", "c", 160.0, 30.0)


def test_a_released_claim_is_free(ledger: Ledger) -> None:
    with ledger.write() as connection:
        claims.acquire(connection, "key", "a", 100.0, 30.0)
        claims.release(connection, "key", "a")
        assert claims.acquire(connection, "key", "b", 100.0, 30.0)


def test_releasing_leaves_claims_of_other_owners_unchanged(ledger: Ledger) -> None:
    with ledger.write() as connection:
        claims.acquire(connection, "key", "a", 100.0, 30.0)
        claims.release(connection, "key", "b")
        assert not claims.acquire(connection, "key", "b", 100.0, 30.0)

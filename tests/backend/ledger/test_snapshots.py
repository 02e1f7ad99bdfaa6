from __future__ import annotations

import pytest

from backend.ledger import Ledger
from backend.ledger.events import Snapshot, StateKey, StateRecords

KEY = StateKey("1.1", "topic", "e")


def test_the_latest_two_snapshots_of_a_state_are_kept_newest_first(ledger: Ledger) -> None:
    with ledger.write() as connection:
        for sequence in (500, 1000, 1500):
            StateRecords(connection, KEY).save_snapshot(sequence, b"%d" % sequence, now=float(sequence))
        expected = [Snapshot(1500, b"1500", 1500.0), Snapshot(1000, b"1000", 1000.0)]
        assert StateRecords(connection, KEY).snapshots() == expected


def test_a_snapshot_that_comes_late_does_not_replace_newer_ones(ledger: Ledger) -> None:
    with ledger.write() as connection:
        for sequence in (1000, 1500, 500):
            StateRecords(connection, KEY).save_snapshot(sequence, b"state", now=1.0)
        sequences = [snapshot.sequence for snapshot in StateRecords(connection, KEY).snapshots()]
        assert sequences == [1500, 1000]


def test_the_same_snapshot_twice_is_stored_once(ledger: Ledger) -> None:
    with ledger.write() as connection:
        StateRecords(connection, KEY).save_snapshot(500, b"first", now=1.0)
        StateRecords(connection, KEY).save_snapshot(500, b"second", now=2.0)
        assert StateRecords(connection, KEY).snapshots() == [Snapshot(500, b"first", 1.0)]


@pytest.mark.parametrize("other", [("2.1", "topic", "e"), ("1.1", "mood", "e"), ("1.1", "topic", "f")])
def test_snapshots_of_another_state_do_not_count(ledger: Ledger, other: tuple[str, str, str]) -> None:
    with ledger.write() as connection:
        StateRecords(connection, KEY).save_snapshot(1, b"mine", now=1.0)
        for sequence in (2, 3, 4):
            StateRecords(connection, StateKey(*other)).save_snapshot(sequence, b"another's", now=1.0)
        assert StateRecords(connection, KEY).snapshots() == [Snapshot(1, b"mine", 1.0)]

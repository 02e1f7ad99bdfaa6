"""Light workers on one ledger, killed with SIGKILL at random moments."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from ledger_audit import audited
from light_workers import AT_ONCE, MODELS, Killing, books_of, run_in_process

from backend.ledger import Ledger

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

KILLS = 50
"""For each kind of database, so that a run has 100."""


def test_nothing_is_lost_or_bought_twice_when_workers_are_killed(
    ledger_url: str, tmp_path: Path, seed: int
) -> None:
    killing = Killing(ledger_url, str(tmp_path), seed, KILLS)
    run_in_process(killing)
    books = books_of(killing.journal)
    with closing(Ledger(ledger_url)) as ledger:
        audit = audited(ledger, books)
    assert not audit.problems
    assert len(books.killed) >= KILLS
    assert set(books.predicted) == set(killing.tasks)
    assert books.annotated
    in_flight = AT_ONCE * len(MODELS)
    assert audit.bought_again <= in_flight * len(books.killed)

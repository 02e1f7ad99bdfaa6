"""Light workers on one ledger, killed with SIGKILL at random moments."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from ledger_audit import audited
from light_workers import AT_ONCE, MODELS, Killing, books_of, run_in_process

from backend import upkeep
from backend.ledger import Ledger

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

KILLS = {"joint": 35, "camvo": 15}
"""Policy → kills for each kind of database, so that a run has 100."""

AHEAD = 20.0
"""Seconds by which the clocks of some hosts are ahead. An SQLite ledger has one host, and so one clock."""


@pytest.mark.parametrize("policy", KILLS)
def test_nothing_is_lost_or_bought_twice_when_workers_are_killed(
    ledger_url: str, tmp_path: Path, seed: int, policy: str
) -> None:
    ahead = 0.0 if ledger_url.startswith("sqlite") else AHEAD
    killing = Killing(ledger_url, str(tmp_path), seed, KILLS[policy], policy, ahead)
    run_in_process(killing)
    books = books_of(killing.journal)
    with closing(Ledger(ledger_url)) as ledger:
        audit = audited(ledger, books)
        with ledger.read() as connection:
            verified = [*upkeep.problems(connection, lambda _: None)]
    assert (audit.problems, verified) == ({}, [])
    assert len(books.killed) >= KILLS[policy]
    assert set(books.predicted) == set(killing.tasks)
    assert books.annotated
    in_flight = AT_ONCE * len(MODELS)
    assert audit.bought_again <= in_flight * len(books.killed)

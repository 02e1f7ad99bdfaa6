"""Two hosts on one PostgreSQL whose clocks differ."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from ledger_audit import audited
from light_workers import MODELS, books_of
from postgres import Postgres
from skewed_host import predict_together

from backend.ledger import Ledger

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

AHEAD = 20.0
"""Seconds; more than a claim's lease, so a host that trusted its own clock would see claims expired."""

TASKS = 30
"""Fewer than the first tasks of a project, all of which ask every model."""


@pytest.mark.parametrize("ahead", [(0.0, AHEAD), (0.0, -AHEAD)], ids=["ahead", "behind"])
def test_hosts_with_different_clocks_buy_nothing_twice(
    postgres: Postgres, tmp_path: Path, ahead: tuple[float, float]
) -> None:
    url = postgres.new_ledger_url()
    books = books_of(predict_together(url, tmp_path, TASKS, ahead))
    with closing(Ledger(url)) as ledger:
        audit = audited(ledger, books)
    assert not audit.problems
    assert audit.bought_again == 0
    assert books.number_of_purchases() == TASKS * len(MODELS)
    assert set(books.predicted) == set(range(1, TASKS + 1))

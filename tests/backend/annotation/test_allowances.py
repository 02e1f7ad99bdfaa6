"""What each of a project's tasks may cost, by what is left of the budget and of the tasks."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from stored_rounds import a_key, a_round

from backend.annotation import planner
from backend.annotation.planner import Allowances
from backend.ledger import Ledger, LedgerAccess, projects, rounds
from camvo.policies.joint import Joint


def finish(ledger: Ledger, task: int) -> None:
    with ledger.write() as connection:
        rounds.insert_each(connection, [a_round(a_key(task, project="7.1"))])


def test_finished_tasks_are_counted_again_after_two_seconds(
    sqlite_ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = SimpleNamespace(project_usd=10.0, tasks=10)
    job: Any = SimpleNamespace(project="7.1", settings=SimpleNamespace(budget=budget), purse=None)
    with sqlite_ledger.write() as connection:
        projects.ensure(connection, "7.1", 0.0)
    seconds = [0.0]
    monkeypatch.setattr(planner, "monotonic", lambda: seconds[0])
    found = []
    with LedgerAccess.opened(sqlite_ledger) as access:
        allowances = Allowances(access)
        for task in (1, 2):
            finish(sqlite_ledger, task)
            found.append(asyncio.run(allowances.allowance(Joint(), job, {"red": 1.0})))
            seconds[0] += 2.1
    assert found == [pytest.approx(10.0 / 9), pytest.approx(10.0 / 8)]

"""Writes of one kind run together, and store what they would store one by one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, event, select

from backend.errors import BudgetExhaustedError, LedgerError, Usage
from backend.ledger import Ledger, Writer, answers, deletions, money, projects
from backend.ledger.answers import BoughtAnswer, CallOutcome, store_answers
from backend.ledger.database import tables
from backend.ledger.database import writer as batches
from backend.ledger.database.writer import GroupedWrite
from backend.ledger.money import Account, CallCost, Purse, Reservation
from backend.models.call_ledger import CallEstimate, CallLedger, ModelQuery, _ClaimResult
from backend.settings import BudgetSettings

CENT = 10_000_000_000
"""Picodollars."""


pytestmark = pytest.mark.usefixtures("patient")


class Kind:
    """Ensures projects, and keeps what it was called with; the project ``bad`` raises an error."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, connection: Connection, items: Sequence[str]) -> list[str]:
        self.calls.append(list(items))
        for item in items:
            projects.ensure(connection, item, 1.0)
        if "bad" in items:
            raise ValueError("bad")
        return [item.upper() for item in items]


async def in_one_transaction(writer: Writer, *functions: Any) -> list[Any]:
    """Run functions that wait behind another one; return their values and exceptions."""
    entered, opened = threading.Event(), threading.Event()

    def gate(_: Connection) -> None:
        entered.set()
        assert opened.wait(30)

    first = asyncio.create_task(writer.run(gate))
    await asyncio.to_thread(entered.wait, 30)
    tasks = [asyncio.create_task(writer.run(function)) for function in functions]
    await asyncio.sleep(0)
    opened.set()
    await first
    return list(await asyncio.gather(*tasks, return_exceptions=True))


def projects_of(ledger: Ledger) -> list[str]:
    with ledger.read() as connection:
        return [project.key for project in projects.list_all(connection)]


def test_writes_of_one_kind_run_together_and_each_gets_its_value(ledger: Ledger, writer: Writer) -> None:
    one, two = Kind(), Kind()
    writes = [GroupedWrite(kind, item) for kind, item in ((one, "a"), (two, "b"), (one, "c"))]
    assert asyncio.run(in_one_transaction(writer, *writes)) == ["A", "B", "C"]
    assert (one.calls, two.calls) == ([["a", "c"]], [["b"]])
    assert projects_of(ledger) == ["a", "b", "c"]


def test_a_write_that_raises_undoes_itself_and_no_other_of_its_kind(ledger: Ledger, writer: Writer) -> None:
    kind = Kind()
    results = asyncio.run(
        in_one_transaction(writer, *(GroupedWrite(kind, item) for item in ("a", "bad", "c")))
    )
    assert [results[0], type(results[1]), results[2]] == ["A", ValueError, "C"]
    assert projects_of(ledger) == ["a", "c"]


def test_writes_that_no_transaction_had_time_for_run_in_a_later_one(
    ledger: Ledger, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "_SECONDS", 0.0)
    one, two = Kind(), Kind()
    writes = [GroupedWrite(kind, item) for kind, item in ((one, "a"), (two, "b"), (one, "c"), (two, "d"))]
    assert asyncio.run(in_one_transaction(writer, *writes)) == ["A", "B", "C", "D"]
    assert (one.calls, two.calls) == ([["a", "c"]], [["b", "d"]])


# -- calls


def reservation(number: int, **changes: Any) -> Reservation:
    values: dict[str, Any] = {
        "project": f"{1 + number % 2}.1",
        "task": number,
        "model": "small",
        "key": f"{number:032x}"[::-1],
        "usd": 0.01 * number,
        "project_usd": None,
        "day_usd": None,
        "counted_tokens": 100 + number,
        "seconds": 60.0,
    }
    return Reservation(**(values | changes))


def settlement(call: int, number: int) -> CallCost:
    code = "model_timeout" if number == 3 else None
    return CallCost(call, Usage(number, 2, 0.005 * number), code, 0.5)


def money_of(ledger: Ledger) -> list[list[tuple[Any, ...]]]:
    """The rows of calls, without ids and times, and those of accounts."""
    left_out = {"id", "created_at", "expires_at"}
    calls = select(*(column for column in tables.calls.c if column.name not in left_out))
    with ledger.read() as connection:
        return [
            sorted((tuple(row) for row in connection.execute(query)), key=str)
            for query in (calls, select(tables.accounts))
        ]


def test_money_of_many_calls_is_that_of_the_calls_one_by_one(ledger: Ledger, sqlite_ledger: Ledger) -> None:
    purse = Purse("job", 1.0)
    wanted = [reservation(number, purse=purse if number > 2 else None) for number in range(1, 6)]
    with ledger.write() as connection:
        ids = money.reserve_each(connection, wanted)
        settled = [settlement(ids[each.key], each.task) for each in wanted[:4]]
        assert money.settle_each(connection, settled) == 4
        assert money.settle_each(connection, settled) == 0
    for each in wanted:
        with sqlite_ledger.write() as connection:
            call = money.reserve_each(connection, [each])[each.key]
            if each.task < 5:
                money.settle_each(connection, [settlement(call, each.task)])
    assert money_of(ledger) == money_of(sqlite_ledger)


def test_calls_that_do_not_fit_together_are_refused_together(ledger: Ledger) -> None:
    wanted = [reservation(number, project="1.1", usd=0.01, project_usd=0.015) for number in (1, 2)]
    with pytest.raises(BudgetExhaustedError), ledger.write() as connection:
        money.reserve_each(connection, wanted)
    assert money_of(ledger) == [[], []]


def test_keys_that_begin_alike_are_told_apart(ledger: Ledger) -> None:
    keys = ["0123456789", "0123456700", "abc"]
    with ledger.write() as connection:
        wanted = [reservation(number, key=key) for number, key in enumerate(keys, start=1)]
        ids = money.reserve_each(connection, wanted)
        rows = connection.execute(select(tables.calls.c.id, tables.calls.c.task)).all()
    assert {row.id: row.task for row in rows} == {ids[key]: 1 + keys.index(key) for key in keys}


def test_settling_a_call_that_is_not_there_is_refused(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="no call 7"), ledger.write() as connection:
        money.settle_each(connection, [settlement(7, 1)])


def query(task: int, **budget: Any) -> ModelQuery:
    return ModelQuery("7.1", task, "red", [], {}, BudgetSettings(**budget))


OUTCOME = CallOutcome('{"mood": "Glad"}', Usage(10, 2, 0.004), None, 0.1)


async def claim(calls: CallLedger, task: int, **budget: Any) -> _ClaimResult:
    """Claim a call; no time is left to wait for money that others hold."""
    return await calls.claim(f"key {task}", query(task, **budget), CallEstimate(0.01, 100), 1.0, 60.0)


def test_calls_claimed_together_take_few_statements(ledger: Ledger, writer: Writer) -> None:
    calls = CallLedger(writer, lambda: 1.0)
    sent: list[str] = []

    async def check() -> list[_ClaimResult]:
        await claim(calls, 0)
        event.listen(ledger._engine, "before_cursor_execute", lambda *each: sent.append(each[2]))
        return list(await asyncio.gather(*(claim(calls, task) for task in range(1, 41))))

    claimed = asyncio.run(check())
    assert len({each.call for each in claimed} - {None}) == 40
    assert len(sent) < 40
    with ledger.read() as connection:
        held = money.balance(connection, "7.1", money.TOTAL)
        assert held == Account(0, 41 * CENT)
        rows = connection.execute(select(tables.claims.c.key, tables.claims.c.call)).all()
    expected = {f"key {task}": each.call for task, each in enumerate(claimed, start=1)}
    assert {row.key: row.call for row in rows if row.key != "key 0"} == expected


def test_of_calls_claimed_together_those_that_the_budget_covers_are_reserved(
    ledger: Ledger, writer: Writer
) -> None:
    calls = CallLedger(writer, lambda: 1.0)

    async def check() -> list[object]:
        claims = (claim(calls, task, project_usd=0.035) for task in range(1, 6))
        return list(await asyncio.gather(*claims, return_exceptions=True))

    results = asyncio.run(check())
    assert sum(isinstance(each, _ClaimResult) for each in results) == 3
    assert sum(isinstance(each, BudgetExhaustedError) for each in results) == 2


def test_calls_settled_together_store_their_answers_and_free_their_claims(
    ledger: Ledger, writer: Writer
) -> None:
    calls = CallLedger(writer, lambda: 1.0)

    async def check() -> None:
        claimed = await asyncio.gather(*(claim(calls, task) for task in range(1, 11)))
        await asyncio.gather(
            *(
                calls.settle(f"key {task}", query(task), each.call, OUTCOME)
                for task, each in enumerate(claimed, start=1)
            )
        )

    asyncio.run(check())
    with ledger.read() as connection:
        stored = answers.find_by_key(connection, [f"key {task}" for task in range(1, 11)])
        assert {each.content for each in stored.values()} == {OUTCOME.content}
        assert len(stored) == 10
        assert connection.execute(select(tables.claims)).all() == []
        assert money.balance(connection, "7.1", money.TOTAL) == Account(40 * CENT // 10, 0)


def test_an_answer_of_a_deleted_task_is_dropped_and_others_of_the_transaction_stay(ledger: Ledger) -> None:
    def bought(task: int) -> BoughtAnswer:
        return BoughtAnswer(
            key=f"key {task}", model="red", payer=("7.1", task), content="yes", outcome=OUTCOME
        )

    with ledger.write() as connection:
        deletions.mark_deleted(connection, "7.1", [2], 1.0)
        assert store_answers(connection, [bought(task) for task in (1, 2, 3)], now=1.0) == {"key 1", "key 3"}
        assert answers.find_by_key(connection, ["key 1", "key 2", "key 3"]).keys() == {"key 1", "key 3"}


def test_stored_answers_found_together_take_few_statements(ledger: Ledger, writer: Writer) -> None:
    calls, numbers = CallLedger(writer, lambda: 1.0), range(1, 41)
    sent: list[str] = []

    async def find(task: int) -> _ClaimResult:
        asked = replace(query(task), project="8.1")
        return await calls.claim(f"key {task}", asked, CallEstimate(0.01, 100), 1.0, 60.0)

    async def check() -> list[_ClaimResult]:
        claimed = await asyncio.gather(*map(partial(claim, calls), numbers))
        ends = zip(numbers, claimed, strict=True)
        settled = (calls.settle(f"key {task}", query(task), each.call, OUTCOME) for task, each in ends)
        await asyncio.gather(*settled)
        event.listen(ledger._engine, "before_cursor_execute", lambda *each: sent.append(each[2]))
        return list(await asyncio.gather(*map(find, numbers)))

    found = asyncio.run(check())
    assert [each.answer and each.answer.content for each in found] == [OUTCOME.content] * 40
    assert len(sent) < 40
    with ledger.read() as connection:
        links = connection.execute(select(tables.answer_tasks.c.key, tables.answer_tasks.c.task)).all()
    assert {row.key: row.task for row in links} == {f"key {task}": task for task in numbers}

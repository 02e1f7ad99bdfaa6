"""Sums over calls: what accounts must hold, what each task cost, and the tokens that each model used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, case, func, select

from backend.ledger.database import tables
from backend.ledger.database.statements import among
from backend.ledger.money import EVERY_PROJECT, PURSES, TOTAL, from_picodollars

_audited_calls, _accounts = tables.calls.c, tables.accounts.c

_Sums = dict[tuple[str, str], tuple[int, int]]
"""(owner, scope) → picodollars spent and picodollars reserved."""


def _account_sums(connection: Connection) -> _Sums:
    """Return what the accounts of all projects, purses and days must hold, by their calls."""
    spent = func.coalesce(func.sum(_audited_calls.cost), 0)
    reserved = func.coalesce(
        func.sum(case((_audited_calls.state == tables.RESERVED, _audited_calls.reserved), else_=0)), 0
    )
    sums: _Sums = {}
    for column in (_audited_calls.project, _audited_calls.day):
        for name, *amounts in connection.execute(select(column, spent, reserved).group_by(column)):
            owner = (name, TOTAL) if column is _audited_calls.project else (EVERY_PROJECT, name)
            sums[owner] = (int(amounts[0]), int(amounts[1]))
    names = _audited_calls.project, _audited_calls.purse
    by_purse = select(*names, spent, reserved).where(_audited_calls.purse.is_not(None)).group_by(*names)
    for project, purse, *amounts in connection.execute(by_purse):
        sums[project, purse] = (int(amounts[0]), int(amounts[1]))
    return sums


def wrong_accounts(connection: Connection) -> Iterator[tuple[str, str, tuple[int, int], tuple[int, int]]]:
    """Yield owner, scope, what the account has, and what its calls add up to, where the two differ."""
    sums = _account_sums(connection)
    stored = {
        (row.project, row.scope): (row.spent, row.reserved)
        for row in connection.execute(
            select(_accounts.project, _accounts.scope, _accounts.spent, _accounts.reserved)
        )
        if row.scope in {TOTAL, *PURSES} or row.project == EVERY_PROJECT
    }
    for name in sorted({*sums, *stored}):
        has, must = stored.get(name, (0, 0)), sums.get(name, (0, 0))
        if has != must:
            yield *name, has, must


_task_calls, _shares = tables.calls.c, tables.call_shares.c


def spent_on_tasks(connection: Connection, project: str, tasks: Sequence[int]) -> dict[int, float]:
    """Return what was spent on each of these tasks, in $, with all failed calls; others are absent.

    A task has its share of a call that was for several.
    """
    alone = (
        select(_task_calls.task, func.sum(_task_calls.cost).label("cost"))
        .where(_task_calls.project == project, among(connection.dialect, _task_calls.task, tasks))
        .where(_task_calls.cost.is_not(None), _task_calls.tasks == 1)
        .group_by(_task_calls.task)
    )
    shared = (
        select(_shares.task, func.sum(_task_calls.cost * _shares.share).label("cost"))
        .where(_shares.project == project, among(connection.dialect, _shares.task, tasks))
        .where(_task_calls.id == _shares.call, _task_calls.cost.is_not(None))
        .group_by(_shares.task)
    )
    spent: dict[int, int] = {}
    for query in (alone, shared):
        for row in connection.execute(query):
            spent[row.task] = spent.get(row.task, 0) + round(row.cost)
    return {task: from_picodollars(cost) for task, cost in spent.items()}


_calls = tables.calls


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """The answered calls to one model.

    Attributes:
        calls: number of answered calls.
        counted_tokens: their input tokens, by CaMVo's own count.
        input_tokens: their input tokens, as believed of what the provider reported.
        output_tokens: their output tokens, as believed of what the provider reported.
        tasks: the number of tasks that they were about.
        cached_tokens: the part of their input tokens that the provider read from its cache.
    """

    calls: int
    counted_tokens: int
    input_tokens: int
    output_tokens: int
    tasks: int
    cached_tokens: int


def usage_by_model(
    connection: Connection, most_output: Mapping[str, int], *, max_factor: int
) -> dict[str, ModelUsage]:
    """Return the usage of those models that ever answered, over all projects, by the model's name.

    Each call counts with at most what it could take, so that no absurd number raises the expected prices.

    Args:
        connection: a read transaction.
        most_output: the models, and the most output tokens of one of their answers about a task; not empty.
        max_factor: the most input tokens per counted token.
    """
    most_input = max_factor * _calls.c.counted_tokens
    longest = case(most_output, value=_calls.c.model) * _calls.c.tasks
    query = (
        select(
            _calls.c.model,
            func.count().label("calls"),
            func.sum(_calls.c.tasks).label("tasks"),
            func.coalesce(func.sum(_calls.c.cached_tokens), 0).label("cached_tokens"),
            func.sum(_calls.c.counted_tokens).label("counted_tokens"),
            func.sum(_smaller(_calls.c.input_tokens, most_input)).label("input_tokens"),
            func.sum(_smaller(_calls.c.output_tokens, longest)).label("output_tokens"),
        )
        .where(
            _calls.c.state == "settled", _calls.c.error_code.is_(None), _calls.c.model.in_(list(most_output))
        )
        .group_by(_calls.c.model)
        .order_by(_calls.c.model)
    )
    return {
        row.model: ModelUsage(
            calls=row.calls,
            tasks=int(row.tasks),
            cached_tokens=int(row.cached_tokens),
            counted_tokens=int(row.counted_tokens),  # PostgreSQL sums big integers to a Decimal
            input_tokens=int(row.input_tokens),
            output_tokens=int(row.output_tokens),
        )
        for row in connection.execute(query)
    }


def _smaller(one: ColumnElement[int], other: ColumnElement[int]) -> ColumnElement[int]:
    return case((one < other, one), else_=other)

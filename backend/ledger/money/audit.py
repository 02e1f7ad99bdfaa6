"""Whether every account is the sum of its calls."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import Connection, case, func, select

from backend.ledger.database import tables
from backend.ledger.money.accounts import EVERY_PROJECT, PURSES, TOTAL

_calls, _accounts = tables.calls.c, tables.accounts.c

Sums = dict[tuple[str, str], tuple[int, int]]
"""(owner, scope) → picodollars spent and picodollars reserved."""


def account_sums(connection: Connection) -> Sums:
    """Return what the accounts of all projects, purses and days must hold, by their calls."""
    spent = func.coalesce(func.sum(_calls.cost), 0)
    reserved = func.coalesce(func.sum(case((_calls.state == tables.RESERVED, _calls.reserved), else_=0)), 0)
    sums: Sums = {}
    for column in (_calls.project, _calls.day):
        for name, *amounts in connection.execute(select(column, spent, reserved).group_by(column)):
            owner = (name, TOTAL) if column is _calls.project else (EVERY_PROJECT, name)
            sums[owner] = (int(amounts[0]), int(amounts[1]))
    names = _calls.project, _calls.purse
    by_purse = select(*names, spent, reserved).where(_calls.purse.is_not(None)).group_by(*names)
    for project, purse, *amounts in connection.execute(by_purse):
        sums[project, purse] = (int(amounts[0]), int(amounts[1]))
    return sums


def wrong_accounts(connection: Connection) -> Iterator[tuple[str, str, tuple[int, int], tuple[int, int]]]:
    """Yield owner, scope, what the account has, and what its calls add up to, where the two differ."""
    sums = account_sums(connection)
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

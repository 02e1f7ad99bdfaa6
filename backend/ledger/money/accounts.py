"""Accounts in whole picodollars: what each project has spent and set aside, and all together on a UTC day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from sqlalchemy import Connection, Dialect, Insert, bindparam, select

from backend.errors import BudgetExhaustedError
from backend.ledger.database import tables
from backend.ledger.database.upsert import insert
from backend.ledger.money.picodollars import from_picodollars, to_picodollars

EVERY_PROJECT = "*"
"""The owner of the accounts by day: a day's budget is for everything that the ledger pays."""

TOTAL = "total"
"""The scope of the account over all days; any other scope is a day, as in 2026-03-14."""

_table = tables.accounts
_READ = select(_table.c.spent, _table.c.reserved).where(
    _table.c.project == bindparam("owner"), _table.c.scope == bindparam("of")
)


@dataclass(frozen=True, slots=True)
class Account:
    """Picodollars spent, and picodollars reserved for calls under way."""

    spent: int = 0
    reserved: int = 0


def day_of(now: float) -> str:
    """The UTC day of a time in unix seconds."""
    return datetime.fromtimestamp(now, UTC).date().isoformat()


def read(connection: Connection, project: str, scope: str) -> Account:
    """One account; an empty one when nothing was booked yet."""
    row = connection.execute(_READ, {"owner": project, "of": scope}).one_or_none()
    return Account() if row is None else Account(row.spent, row.reserved)


def check(connection: Connection, project: str, scope: str, amount: int, usd: float | None) -> None:
    """Make sure that ``amount`` picodollars more stay within ``usd`` dollars (``None``: no limit).

    Raises:
        BudgetExhaustedError: they do not.
    """
    if usd is None:
        return
    account = read(connection, project, scope)
    if account.spent + account.reserved + amount <= to_picodollars(usd):
        return
    spent, held, next_call = map(from_picodollars, (account.spent, account.reserved, amount))
    name, period, wait = (
        ("project_usd", "project's", "")
        if scope == TOTAL
        else ("day_usd", "day's", ", or wait for the next UTC day")
    )
    raise BudgetExhaustedError(
        f"the {period} budget of {usd:.6g} $ does not cover the next call: {spent:.6g} $ are spent, "
        f"{held:.6g} $ are reserved for calls under way, the next one may cost {next_call:.6g} $",
        where="every project" if project == EVERY_PROJECT else f"project {project}",
        fix=f"raise budget.{name} in camvo.yaml{wait}",
    )


def book(connection: Connection, project: str, day: str, *, spent: int = 0, reserved: int = 0) -> None:
    """Add to what a project and a day have spent and reserved; picodollars, negative to take away."""
    amounts = {"spent": spent, "reserved": reserved}
    accounts = ({"project": project, "scope": TOTAL}, {"project": EVERY_PROJECT, "scope": day})
    connection.execute(_addition(connection.dialect), [account | amounts for account in accounts])


@cache
def _addition(dialect: Dialect) -> Insert:
    statement = insert(dialect, _table)
    return statement.on_conflict_do_update(
        index_elements=[_table.c.project, _table.c.scope],
        set_={
            "spent": _table.c.spent + statement.excluded.spent,
            "reserved": _table.c.reserved + statement.excluded.reserved,
        },
    )

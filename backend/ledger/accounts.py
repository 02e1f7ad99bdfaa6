"""Accounts in whole picodollars: what each project has spent and set aside, and all together on a UTC day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, select

from backend.ledger import tables
from backend.ledger.picodollars import from_picodollars, to_picodollars
from backend.ledger.upsert import insert
from camvo.errors import BudgetExhaustedError

EVERY_PROJECT = "*"
"""The owner of the accounts by day: a day's budget is for everything that the ledger pays."""

TOTAL = "total"
"""The scope of the account over all days; any other scope is a day, as in 2026-03-14."""

_table = tables.accounts


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
    row = connection.execute(
        select(_table.c.spent, _table.c.reserved).where(_table.c.project == project, _table.c.scope == scope)
    ).one_or_none()
    return Account() if row is None else Account(row.spent, row.reserved)


def check(connection: Connection, project: str, scope: str, amount: int, usd: float | None) -> None:
    """Make sure that ``amount`` picodollars more stay within ``usd`` dollars (``None``: no limit).

    Raises:
        BudgetExhaustedError: they do not.
    """
    account = read(connection, project, scope)
    if usd is None or account.spent + account.reserved + amount <= to_picodollars(usd):
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
    for owner, scope in ((project, TOTAL), (EVERY_PROJECT, day)):
        statement = insert(connection, _table).values(
            project=owner, scope=scope, spent=spent, reserved=reserved
        )
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=[_table.c.project, _table.c.scope],
                set_={"spent": _table.c.spent + spent, "reserved": _table.c.reserved + reserved},
            )
        )

"""Accounts: money spent and reserved by each project, and by all projects on each UTC day."""

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
"""The owner of the daily accounts: a day's budget covers all projects of the ledger."""

TOTAL = "total"
"""The scope of a project's account over all days; any other scope is a day, such as 2026-03-14."""

JOB = "job"
"""The scope of what a project has spent on its job: all runs of ``camvo label`` on it."""

_table = tables.accounts
_READ = select(_table.c.spent, _table.c.reserved).where(
    _table.c.project == bindparam("owner"), _table.c.scope == bindparam("of")
)


@dataclass(frozen=True, slots=True)
class Account:
    """Picodollars spent, and picodollars reserved for running calls."""

    spent: int = 0
    reserved: int = 0


def day_of(now: float) -> str:
    """Return the UTC day of a time in unix seconds, such as 2026-03-14."""
    return datetime.fromtimestamp(now, UTC).date().isoformat()


def balance(connection: Connection, project: str, scope: str) -> Account:
    """Return one account, with zeros if nothing has been booked yet."""
    row = connection.execute(_READ, {"owner": project, "of": scope}).one_or_none()
    return Account() if row is None else Account(row.spent, row.reserved)


def check_budget(
    connection: Connection, project: str, scope: str, amount: int, budget_usd: float | None
) -> None:
    """Check that ``amount`` more picodollars fit into the budget.

    Args:
        connection: in a write transaction.
        project: the project's key, or :data:`EVERY_PROJECT`.
        scope: :data:`TOTAL`, :data:`JOB`, or a UTC day.
        amount: picodollars that the next call may cost.
        budget_usd: in $; ``None`` for no limit.

    Raises:
        BudgetExhaustedError: the amount does not fit.
    """
    if budget_usd is None:
        return
    account = balance(connection, project, scope)
    if account.spent + account.reserved + amount <= to_picodollars(budget_usd):
        return
    spent, reserved, next_call = map(from_picodollars, (account.spent, account.reserved, amount))
    period, fix = _WORDS.get(
        scope, ("day's", "raise budget.day_usd in camvo.yaml, or wait for the next UTC day")
    )
    error = BudgetExhaustedError(
        f"the {period} budget of ${budget_usd:.6g} does not cover the next call: ${spent:.6g} is spent, "
        f"${reserved:.6g} is reserved for running calls, and the next call may cost ${next_call:.6g}",
        where="every project" if project == EVERY_PROJECT else f"project {project}",
        fix=fix,
    )
    error.held = account.reserved > 0 and account.spent + amount <= to_picodollars(budget_usd)
    raise error


_WORDS = {
    TOTAL: ("project's", "raise budget.project_usd in camvo.yaml"),
    JOB: ("job's", "run the same command again with a higher --budget"),
}
"""Scope → whose budget it is, and what to do when it is spent."""


def book(
    connection: Connection,
    project: str,
    day: str,
    *,
    spent: int = 0,
    reserved: int = 0,
    of_job: bool = False,
) -> None:
    """Add picodollars to the accounts of a project and of a day; negative amounts are taken away.

    Args:
        connection: in a write transaction.
        project: the project's key.
        day: the UTC day.
        spent: picodollars spent.
        reserved: picodollars reserved.
        of_job: whether they belong to the project's job as well.
    """
    amounts = {"spent": spent, "reserved": reserved}
    accounts = [{"project": project, "scope": TOTAL}, {"project": EVERY_PROJECT, "scope": day}]
    if of_job:
        accounts.append({"project": project, "scope": JOB})
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

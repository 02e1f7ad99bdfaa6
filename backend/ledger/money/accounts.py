"""Accounts: money spent and reserved by each project, and by all projects on each UTC day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Final, Literal

from sqlalchemy import Connection, Dialect, Insert, bindparam, select

from backend.errors import BudgetExhaustedError
from backend.ledger.database import tables
from backend.ledger.database.upsert import insert
from backend.ledger.money.picodollars import from_picodollars, to_picodollars

EVERY_PROJECT = "*"
"""The owner of the daily accounts: a day's budget covers all projects of the ledger."""

TOTAL = "total"
"""The scope of a project's account over all days; any other is a purse, or a day, such as 2026-03-14."""

PurseName = Literal["job", "further", "background"]
"""What the money of a project is set aside for: the job of ``camvo label``, which is all its runs on the
project; votes that somebody asked for after the first round (``--ask-more``); and votes that the server asks
for by itself (``background_share``)."""

_PURPOSES: Final[dict[PurseName, str]] = {
    "job": "the job",
    "further": "further votes",
    "background": "votes that the server asks for by itself",
}

_FIXES: Final[dict[PurseName, str]] = {
    "job": "run the same command again with a higher --budget",
    "further": "raise --ask-more",
    "background": "raise background_share in camvo.yaml",
}

JOB: Final = "job"
"""The scope of the account of a project's job."""

PURSES: Final = frozenset(_PURPOSES)

_table = tables.accounts
_READ = select(_table.c.spent, _table.c.reserved).where(
    _table.c.project == bindparam("owner"), _table.c.scope == bindparam("of")
)


@dataclass(frozen=True, slots=True)
class Account:
    """Picodollars spent, and picodollars reserved for running calls."""

    spent: int = 0
    reserved: int = 0


@dataclass(frozen=True, slots=True)
class Purse:
    """An account inside a project's account, with a limit of its own.

    Attributes:
        name: its name, which is also its scope.
        usd: the most that may be spent from it, over all runs, in $; ``None`` for no limit.
    """

    name: PurseName
    usd: float | None


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
        scope: :data:`TOTAL`, or a UTC day.
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
    name, period, wait = (
        ("project_usd", "project's", "")
        if scope == TOTAL
        else ("day_usd", "day's", ", or wait for the next UTC day")
    )
    error = BudgetExhaustedError(
        f"the {period} budget of ${budget_usd:.6g} does not cover the next call: ${spent:.6g} is spent, "
        f"${reserved:.6g} is reserved for running calls, and the next call may cost ${next_call:.6g}",
        where="every project" if project == EVERY_PROJECT else f"project {project}",
        fix=f"raise budget.{name} in camvo.yaml{wait}",
    )
    error.held = account.reserved > 0 and account.spent + amount <= to_picodollars(budget_usd)
    raise error


def check_purse(connection: Connection, project: str, purse: Purse, amount: int) -> None:
    """Check that ``amount`` more picodollars fit into a purse.

    Args:
        connection: in a write transaction.
        project: the project's key.
        purse: the purse.
        amount: picodollars that the next call may cost.

    Raises:
        BudgetExhaustedError: the amount does not fit.
    """
    if purse.usd is None:
        return
    account, limit = balance(connection, project, purse.name), to_picodollars(purse.usd)
    if account.spent + account.reserved + amount <= limit:
        return
    error = BudgetExhaustedError(
        f"${purse.usd:.6g} for {_PURPOSES[purse.name]} do not cover the next call: "
        f"${from_picodollars(account.spent):.6g} is spent, ${from_picodollars(account.reserved):.6g} is "
        f"reserved for running calls, and the next call may cost ${from_picodollars(amount):.6g}",
        where=f"project {project}",
        fix=_FIXES[purse.name],
    )
    error.held = account.reserved > 0 and account.spent + amount <= limit
    raise error


class Bookings:
    """Amounts for accounts, added up and then booked together."""

    def __init__(self) -> None:
        self._amounts: dict[tuple[str, str], Account] = {}

    def add(self, project: str, day: str, purse: str | None, *, spent: int = 0, reserved: int = 0) -> None:
        """Add picodollars for a project, a day and a purse; negative amounts are taken away."""
        owners = [(project, TOTAL), (EVERY_PROJECT, day)]
        for owner in owners if purse is None else [*owners, (project, purse)]:
            before = self._amounts.get(owner, Account())
            self._amounts[owner] = Account(before.spent + spent, before.reserved + reserved)

    def book(self, connection: Connection) -> None:
        """Add everything to the accounts, in a write transaction."""
        rows = [
            {"project": project, "scope": scope, "spent": amount.spent, "reserved": amount.reserved}
            for (project, scope), amount in self._amounts.items()
        ]
        if rows:
            connection.execute(_addition(connection.dialect), rows)


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

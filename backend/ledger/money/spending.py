"""Spending: money is reserved before a call and settled after it, within the budgets.

Every call is a row. The accounts of its project and of its UTC day hold the sums of these rows. If the
process dies during a call, the reservation counts as spent, because the provider may have charged for it.
Days and expiry go by the ledger's clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, select, update

from backend.errors import LedgerError
from backend.ledger.database import tables
from backend.ledger.database.clock import now
from backend.ledger.money import accounts
from backend.ledger.money.accounts import Purse
from backend.ledger.money.picodollars import to_picodollars

NOBODY_ELSE: Mapping[int, float] = MappingProxyType({})
"""The shares of a call that is for one task alone."""

_calls = tables.calls
_RESERVE = insert(_calls).returning(_calls.c.id)
_SHARE = insert(tables.call_shares)
_CALL = select(_calls).where(_calls.c.id == bindparam("call"))
_END = update(_calls).where(_calls.c.id == bindparam("call"))


def reserve(
    connection: Connection,
    *,
    project: str,
    task: int,
    model: str,
    key: str,
    usd: float,
    project_usd: float | None,
    day_usd: float | None,
    counted_tokens: int,
    seconds: float,
    shares: Mapping[int, float] = NOBODY_ELSE,
    purse: Purse | None = None,
) -> int:
    """Reserve money for one call, before it is made.

    Args:
        connection: in a write transaction.
        project: the key of the project that pays.
        task: the number of the task that the call is for; one of them if it is for several.
        model: the model's name in the pool.
        key: the key under which the answer will be stored.
        usd: the most that the call can cost, in $.
        project_usd: the project's budget, in $; ``None`` for no limit.
        day_usd: the budget of all projects for one UTC day, in $; ``None`` for no limit.
        counted_tokens: the prompt's input tokens by CaMVo's own count.
        seconds: time until the reservation expires.
        shares: the tasks of a call that is for several, each with its share of the cost; together 1.
        purse: an account inside the project's that must cover the call, too; ``None`` for none.

    Returns:
        The call's id, for :func:`settle`.

    Raises:
        BudgetExhaustedError: a budget does not cover the call; nothing is reserved.
    """
    at = now(connection)
    amount, day = to_picodollars(usd), accounts.day_of(at)
    accounts.check_budget(connection, project, accounts.TOTAL, amount, project_usd)
    accounts.check_budget(connection, accounts.EVERY_PROJECT, day, amount, day_usd)
    if purse is not None:
        accounts.check_purse(connection, project, purse, amount)
    name = None if purse is None else purse.name
    accounts.book(connection, project, day, name, reserved=amount)
    call = {
        "project": project,
        "task": task,
        "model": model,
        "key": key,
        "state": "reserved",
        "reserved": amount,
        "counted_tokens": counted_tokens,
        "day": day,
        "expires_at": at + seconds,
        "created_at": at,
        "tasks": len(shares) or 1,
        "purse": name,
    }
    number = int(connection.execute(_RESERVE, call).scalar_one())
    if shares:
        rows = [
            {"call": number, "project": project, "task": member, "share": share}
            for member, share in shares.items()
        ]
        connection.execute(_SHARE, rows)
    return number


def settle(
    connection: Connection,
    call_id: int,
    *,
    usd: float,
    input_tokens: int,
    output_tokens: int,
    error_code: str | None,
    seconds: float | None,
    cached_tokens: int = 0,
) -> bool:
    """Book the actual cost of a call on the day it was reserved for.

    Settling a call twice changes nothing. A call that :func:`expire` gave up can still be settled: its cost
    then replaces the reservation.

    Args:
        connection: in a write transaction.
        call_id: as :func:`reserve` returned it.
        usd: the actual cost, in $.
        input_tokens: as counted by the provider.
        output_tokens: as counted by the provider.
        error_code: the error's code if the call gave no vote, ``None`` for an answer.
        seconds: duration of the call, ``None`` if unknown.
        cached_tokens: the part of the input tokens that the provider read from its cache.

    Returns:
        Whether this settled the call.

    Raises:
        LedgerError: there is no such call.
    """
    call = connection.execute(_CALL, {"call": call_id}).one_or_none()
    if call is None:
        raise LedgerError(f"there is no call {call_id}", where="money", fix="call spending.reserve first")
    if call.state == "settled":
        return False
    cost = to_picodollars(usd)
    _end(
        connection,
        call,
        "settled",
        cost,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        error_code=error_code,
        seconds=seconds,
        cached_tokens=cached_tokens,
    )
    return True


def shares_of(connection: Connection, call: int) -> dict[int, float]:
    """Return task → its share of a call that was for several; empty for any other call."""
    table = tables.call_shares.c
    query = select(table.task, table.share).where(table.call == call)
    return {row.task: row.share for row in connection.execute(query)}


def expire(connection: Connection) -> int:
    """Mark calls whose reservation has expired as lost, and count their reservations as spent in full.

    Returns:
        How many calls were marked.
    """
    overdue = connection.execute(
        select(_calls).where(_calls.c.state == tables.RESERVED, _calls.c.expires_at <= now(connection))
    ).all()
    for call in overdue:
        _end(connection, call, "lost", call.reserved)
    return len(overdue)


def _end(connection: Connection, call: Row[Any], state: str, cost: int, **report: object) -> None:
    still_reserved = call.reserved if call.state == "reserved" else 0
    already_spent = call.cost or 0
    connection.execute(_END, {"call": call.id, "state": state, "cost": cost, **report})
    accounts.book(
        connection,
        call.project,
        call.day,
        call.purse,
        spent=cost - already_spent,
        reserved=-still_reserved,
    )

"""Money: reserved before a call, settled after it, and never more of it than the budget.

Every call is a row; the account of its project and that of its UTC day hold the sums of these rows.
A reservation whose process died counts as spent, since nobody knows whether the provider charged it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, select, update

from backend.errors import LedgerError
from backend.ledger.database import tables
from backend.ledger.money import accounts
from backend.ledger.money.picodollars import from_picodollars, to_picodollars
from backend.ledger.money.usage import ModelUsage, calls_by_model, usage_by_model

__all__ = [
    "ModelUsage",
    "Spending",
    "calls_by_model",
    "expire",
    "reserve",
    "settle",
    "spent",
    "usage_by_model",
]

_calls = tables.calls
_RESERVE = insert(_calls).returning(_calls.c.id)
_CALL = select(_calls).where(_calls.c.id == bindparam("call"))
_END = update(_calls).where(_calls.c.id == bindparam("call"))


@dataclass(frozen=True, slots=True)
class Spending:
    """In $: what a project has spent in all and reserved for calls under way, and what all spent today."""

    total_usd: float
    today_usd: float
    reserved_usd: float


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
    now: float,
    seconds: float,
) -> int:
    """Set money aside for one call, before it is made.

    Args:
        connection: in a write transaction.
        project: whose budget it is.
        task: the task that the call is for.
        model: the model's name in the pool.
        key: the key of the answer that is hoped for.
        usd: what the call can cost at the very most, in $.
        project_usd: the budget of the project, in $; ``None`` for no limit.
        day_usd: the budget of all projects for one UTC day, in $; ``None`` for no limit.
        counted_tokens: what our own count says of the prompt.
        now: unix seconds; decides the day.
        seconds: until the reservation expires.

    Returns:
        The call's id, to settle it by.

    Raises:
        BudgetExhaustedError: a budget does not cover the call; nothing was reserved.
    """
    amount, day = to_picodollars(usd), accounts.day_of(now)
    accounts.check(connection, project, accounts.TOTAL, amount, project_usd)
    accounts.check(connection, accounts.EVERY_PROJECT, day, amount, day_usd)
    accounts.book(connection, project, day, reserved=amount)
    call = {
        "project": project,
        "task": task,
        "model": model,
        "key": key,
        "state": "reserved",
        "reserved": amount,
        "counted_tokens": counted_tokens,
        "day": day,
        "expires_at": now + seconds,
        "created_at": now,
    }
    return int(connection.execute(_RESERVE, call).scalar_one())


def settle(
    connection: Connection,
    call_id: int,
    *,
    usd: float,
    input_tokens: int,
    output_tokens: int,
    error_code: str | None,
    seconds: float | None,
) -> bool:
    """Book what a call really cost, on the day it was reserved for; a second time nothing happens.

    One that was given up as lost is settled too: now it is known what it cost.

    Returns:
        Whether it was settled now.

    Raises:
        LedgerError: there is no such call.
    """
    call = connection.execute(_CALL, {"call": call_id}).one_or_none()
    if call is None:
        raise LedgerError(f"there is no call {call_id}", where="money", fix="reserve before settling")
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
    )
    return True


def expire(connection: Connection, now: float) -> int:
    """Give up calls whose time has passed: what was reserved for them counts as spent, in full.

    Returns:
        How many were given up.
    """
    overdue = connection.execute(
        select(_calls).where(_calls.c.state == "reserved", _calls.c.expires_at <= now)
    ).all()
    for call in overdue:
        _end(connection, call, "lost", call.reserved)
    return len(overdue)


def spent(connection: Connection, project: str, *, now: float) -> Spending:
    """The project's accounts at the time ``now``."""
    total = accounts.read(connection, project, accounts.TOTAL)
    today = accounts.read(connection, accounts.EVERY_PROJECT, accounts.day_of(now))
    return Spending(
        total_usd=from_picodollars(total.spent),
        today_usd=from_picodollars(today.spent),
        reserved_usd=from_picodollars(total.reserved),
    )


def _end(connection: Connection, call: Row[Any], state: str, cost: int, **report: object) -> None:
    held = call.reserved if call.state == "reserved" else 0
    booked = call.cost or 0
    connection.execute(_END, {"call": call.id, "state": state, "cost": cost, **report})
    accounts.book(connection, call.project, call.day, spent=cost - booked, reserved=-held)

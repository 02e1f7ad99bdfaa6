"""Spending: money is reserved before a call and settled after it, within the budgets.

Every call is a row. The accounts of its project and of its UTC day hold the sums of these rows. If the
process dies during a call, the reservation counts as spent, because the provider may have charged for it.
Days and expiry go by the ledger's clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Row, bindparam, insert, select, update

from backend.errors import LedgerError
from backend.ledger.database import tables
from backend.ledger.database.clock import now
from backend.ledger.money import accounts
from backend.ledger.money.accounts import Bookings, Purse
from backend.ledger.money.picodollars import to_picodollars

NOBODY_ELSE: Mapping[int, float] = MappingProxyType({})
"""The shares of a call that is for one task alone."""

_calls = tables.calls
_RESERVE = insert(_calls).returning(_calls.c.id, _calls.c.key)
_SHARE = insert(tables.call_shares)
_BOOKED = ("id", "project", "day", "purse", "state", "reserved", "cost")
_CALLS = select(*(_calls.c[name] for name in _BOOKED)).where(
    _calls.c.id.in_(bindparam("calls", expanding=True))
)
_END = update(_calls).where(_calls.c.id == bindparam("call"))


_KEY_DIGITS = 8
"""Digits of the answer's key in the row of a call: the answer's own row has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Money to reserve for one call.

    Attributes:
        project: the key of the project that pays.
        task: the number of the task that the call is for; one of them if it is for several.
        model: the model's name in the pool.
        key: the key under which the answer will be stored.
        usd: the most that the call can cost, in $.
        project_usd: the project's budget, in $; ``None`` for no limit.
        day_usd: the budget of all projects for one UTC day, in $; ``None`` for no limit.
        counted_tokens: the prompt's input tokens by CaMVo's own count.
        seconds: time until the reservation expires.
        purse: an account inside the project's that must cover the call, too; ``None`` for none.
        tasks: the number of tasks that the call is for.
    """

    project: str
    task: int
    model: str
    key: str
    usd: float
    project_usd: float | None
    day_usd: float | None
    counted_tokens: int
    seconds: float
    purse: Purse | None = None
    tasks: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCost:
    """What one call cost.

    Attributes:
        call: its id, as :func:`reserve_each` returned it.
        usd: the actual cost, in $.
        input_tokens: as counted by the provider.
        output_tokens: as counted by the provider.
        error_code: the error's code if the call gave no vote, ``None`` for an answer.
        seconds: its duration, ``None`` if unknown.
        cached_tokens: the part of the input tokens that the provider read from its cache.
    """

    call: int
    usd: float
    input_tokens: int
    output_tokens: int
    error_code: str | None
    seconds: float | None
    cached_tokens: int = 0


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
        The call's id, for :func:`settle_each`.

    Raises:
        BudgetExhaustedError: a budget does not cover the call; nothing is reserved.
    """
    wanted = Reservation(
        project=project,
        task=task,
        model=model,
        key=key,
        usd=usd,
        project_usd=project_usd,
        day_usd=day_usd,
        counted_tokens=counted_tokens,
        seconds=seconds,
        purse=purse,
        tasks=len(shares) or 1,
    )
    number = reserve_each(connection, [wanted])[key]
    if shares:
        rows = [
            {"call": number, "project": project, "task": member, "share": share}
            for member, share in shares.items()
        ]
        connection.execute(_SHARE, rows)
    return number


def reserve_each(connection: Connection, wanted: Sequence[Reservation]) -> dict[str, int]:
    """Reserve money for calls whose keys differ, before they are made, and return key → the call's id.

    Args:
        connection: in a write transaction.
        wanted: the reservations.

    Raises:
        BudgetExhaustedError: a budget does not cover all of them; nothing is reserved.
    """
    at = now(connection)
    day = accounts.day_of(at)
    _check_budgets(connection, wanted, day)
    bookings, rows, names = Bookings(), [], _short_names([each.key for each in wanted])
    for each in wanted:
        amount, purse = to_picodollars(each.usd), None if each.purse is None else each.purse.name
        bookings.add(each.project, day, purse, reserved=amount)
        rows.append(
            {
                "project": each.project,
                "task": each.task,
                "model": each.model,
                "key": names[each.key],
                "state": "reserved",
                "reserved": amount,
                "counted_tokens": each.counted_tokens,
                "day": day,
                "expires_at": at + each.seconds,
                "created_at": at,
                "tasks": each.tasks,
                "purse": purse,
            }
        )
    bookings.book(connection)
    ids = {row.key: int(row.id) for row in connection.execute(_RESERVE, rows)} if rows else {}
    return {key: ids[name] for key, name in names.items()}


def _short_names(keys: Sequence[str]) -> dict[str, str]:
    """Key → what a call's row holds of it: the beginning, by which a person finds the answer in its table."""
    names = {key: key[:_KEY_DIGITS] for key in keys}
    return names if len(set(names.values())) == len(names) else {key: key for key in keys}


def _check_budgets(connection: Connection, wanted: Sequence[Reservation], day: str) -> None:
    """Return if the budgets cover all the reservations together."""
    of_projects: Counter[str] = Counter()
    of_purses: Counter[tuple[str, Purse]] = Counter()
    for each in wanted:
        amount = to_picodollars(each.usd)
        of_projects[each.project] += amount
        if each.purse is not None:
            of_purses[each.project, each.purse] += amount
    for project, limit in dict.fromkeys((each.project, each.project_usd) for each in wanted):
        accounts.check_budget(connection, project, accounts.TOTAL, of_projects[project], limit)
    for limit in dict.fromkeys(each.day_usd for each in wanted):
        accounts.check_budget(connection, accounts.EVERY_PROJECT, day, of_projects.total(), limit)
    for (project, purse), amount in of_purses.items():
        accounts.check_purse(connection, project, purse, amount)


def settle_each(connection: Connection, settlements: Sequence[CallCost]) -> int:
    """Book the actual cost of different calls on the days they were reserved for.

    Settling a call twice changes nothing. A call that :func:`expire` gave up can still be settled: its cost
    then replaces the reservation.

    Returns:
        How many of the calls this settled.

    Raises:
        LedgerError: there is no such call.
    """
    if not settlements:
        return 0
    rows = connection.execute(_CALLS, {"calls": [each.call for each in settlements]})
    calls = {row.id: row for row in rows}
    ends: list[tuple[Row[Any], dict[str, Any]]] = []
    for each in settlements:
        call = calls.get(each.call)
        if call is None:
            raise LedgerError(
                f"there is no call {each.call}", where="money", fix="call spending.reserve first"
            )
        if call.state != "settled":
            report = {
                "input_tokens": each.input_tokens,
                "output_tokens": each.output_tokens,
                "error_code": each.error_code,
                "seconds": each.seconds,
                "cached_tokens": each.cached_tokens,
            }
            ends.append((call, {"state": "settled", "cost": to_picodollars(each.usd), **report}))
    _end(connection, ends)
    return len(ends)


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
    _end(connection, [(call, {"state": "lost", "cost": call.reserved}) for call in overdue])
    return len(overdue)


def _end(connection: Connection, ends: Sequence[tuple[Row[Any], dict[str, Any]]]) -> None:
    """Store how calls ended: the rows of the calls, each with the new values of its columns."""
    if not ends:
        return
    connection.execute(_END, [{"call": call.id, **values} for call, values in ends])
    bookings = Bookings()
    for call, values in ends:
        bookings.add(
            call.project,
            call.day,
            call.purse,
            spent=values["cost"] - (call.cost or 0),
            reserved=-call.reserved if call.state == "reserved" else 0,
        )
    bookings.book(connection)

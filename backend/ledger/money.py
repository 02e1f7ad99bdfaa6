"""Spending: money is reserved before a call and settled after it, within the budgets.

Every call is a row. The accounts of its project and of its UTC day hold the sums of these rows. If the
process dies during a call, what such a call usually costs counts as spent, because the provider may have
charged for it. Days and expiry go by the ledger's clock.

What the accounts must hold, what a task cost and what models used are sums over calls, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

import structlog
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    case,
    func,
    insert,
    or_,
    select,
    update,
)

from backend.errors import BudgetExhaustedError, LedgerError, Usage
from backend.ledger.database import tables
from backend.ledger.database.statements import among, now, upsert
from backend.ledger.database.writer import Writer
from backend.telemetry import metrics
from camvo.errors import InvalidParameterError

_PER_DOLLAR = 10**12

MAX_USD = 1e6
"""The largest amount of one entry, in $; a 64-bit integer holds nine times as much."""


def to_picodollars(usd: float) -> int:
    """Convert dollars to the nearest number of picodollars; $0.1 is exactly 10**11."""
    if not (math.isfinite(usd) and 0 <= usd <= MAX_USD):
        raise InvalidParameterError(f"an amount of money must be between $0 and ${MAX_USD:,.0f}, got {usd}")
    return round(Decimal(repr(float(usd))) * _PER_DOLLAR)


def from_picodollars(picodollars: int) -> float:
    """Convert picodollars to dollars, as the nearest float."""
    return picodollars / _PER_DOLLAR


EVERY_PROJECT = "*"
"""The owner of the daily accounts: a day's budget covers all projects of the ledger."""

TOTAL = "total"
"""The scope of a project's account over all days; any other is a purse, or a day, such as 2026-03-14."""

_PurseName = Literal["job", "further", "background", "try", "refine"]
"""The purposes that a project's money is set aside for: the job of ``camvo label``, which is all its runs on
the project; votes that somebody requested after the first round (``--ask-more``); votes that the server
requests on its own (``background_share``); trials of other texts (``camvo try``); and proposals of other
texts with their trials (``camvo refine``)."""

_PURPOSES: Final[dict[str, str]] = {
    "job": "the job",
    "try": "trials of other texts",
    "refine": "proposals of other texts",
    "further": "further votes",
    "background": "votes that the server asks for by itself",
}

_FIXES: Final[dict[str, str]] = {
    "job": "run the same command again with a higher --budget",
    "try": "run the same command again with a higher --budget",
    "refine": "run the same command again with a higher --budget",
    "further": "raise --ask-more",
    "background": "raise background_share in camvo.yaml",
}

JOB: Final = "job"
"""The scope of the account of a project's job."""

_PURSES: Final = frozenset(_PURPOSES)

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

    name: _PurseName
    usd: float | None


def day_of(now: float) -> str:
    """Return the UTC day of a time in unix seconds, such as 2026-03-14."""
    return datetime.fromtimestamp(now, UTC).date().isoformat()


def balance(connection: Connection, project: str, scope: str) -> Account:
    """Return one account, with zeros if nothing has been booked yet."""
    row = connection.execute(_READ, {"owner": project, "of": scope}).one_or_none()
    return Account() if row is None else Account(row.spent, row.reserved)


def _check_budget(
    connection: Connection, project: str, scope: str, amount: int, budget_usd: float | None
) -> None:
    """Check that ``amount`` more picodollars fit into a budget: of a project, of a day, or of a purse."""
    if budget_usd is None:
        return
    account, limit = balance(connection, project, scope), to_picodollars(budget_usd)
    if account.spent + account.reserved + amount <= limit:
        return
    spent, reserved, next_call = map(from_picodollars, (account.spent, account.reserved, amount))
    if scope in _PURSES:
        money, fix = f"${budget_usd:.6g} for {_PURPOSES[scope]} do", _FIXES[scope]
    elif project == EVERY_PROJECT:
        money = f"the day's budget of ${budget_usd:.6g} does"
        fix = "raise budget.day_usd in camvo.yaml, or wait for the next UTC day"
    else:
        money = f"the project's budget of ${budget_usd:.6g} does"
        fix = "raise budget.project_usd in camvo.yaml"
    error = BudgetExhaustedError(
        f"{money} not cover the next call: ${spent:.6g} is spent, ${reserved:.6g} is reserved for running "
        f"calls, and the next call may cost ${next_call:.6g}",
        where="every project" if project == EVERY_PROJECT else f"project {project}",
        fix=fix,
    )
    error.held = account.reserved > 0 and account.spent + amount <= limit
    raise error


_entry = upsert(_table)
_ADD = _entry.on_conflict_do_update(
    index_elements=[_table.c.project, _table.c.scope],
    set_={
        "spent": _table.c.spent + _entry.excluded.spent,
        "reserved": _table.c.reserved + _entry.excluded.reserved,
    },
)


def _book(connection: Connection, entries: Iterable[tuple[str, str, str | None, int, int]]) -> None:
    """Add entries to the accounts: project, day, purse, picodollars spent, and picodollars reserved."""
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for project, day, purse, spent, reserved in entries:
        owners = [(project, TOTAL), (EVERY_PROJECT, day)]
        for owner in owners if purse is None else [*owners, (project, purse)]:
            before = sums.get(owner, (0, 0))
            sums[owner] = before[0] + spent, before[1] + reserved
    rows = [
        {"project": project, "scope": scope, "spent": spent, "reserved": reserved}
        for (project, scope), (spent, reserved) in sums.items()
    ]
    if rows:
        connection.execute(_ADD, rows)


_WOKEN: Final = 2
"""Waiting calls that check again after a settlement. A settled call cost less than it reserved, so the freed
money may suffice for more than one; a third would mostly find none."""


class MoneyQueue:
    """The calls of one process that wait for money, in their order. Used from one event loop only."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait(self, seconds: float) -> None:
        """Wait until a settlement may have freed money, for at most ``seconds``."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(turn, seconds)

    def release(self) -> None:
        """Let the first waiting calls check again, because a call was settled."""
        woken = 0
        while self._waiting and woken < _WOKEN:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                woken += 1


_log = structlog.get_logger(__name__)


class Settlements:
    """The settlements of one process. Used from one event loop only."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._under_way: set[object] = set()
        self._waiting: set[object] = set()
        self._none_waits, self._none_under_way = asyncio.Event(), asyncio.Event()
        self._none_waits.set()
        self._none_under_way.set()

    @property
    def waiting(self) -> int:
        """How many paid answers wait in memory because the database is down."""
        return len(self._waiting)

    async def settle(self, write: Callable[[Connection], None], *, paid: bool) -> None:
        """Run a settlement in a write transaction, however long the database is down.

        Args:
            write: settles one call; must be safe to run twice.
            paid: whether the call cost something; nothing waits for the settlement of one that did not.

        Raises:
            LedgerError: the ledger cannot store it, for a reason that does not pass.
        """
        if not paid:
            return await self._writer.persist(write)
        settlement = object()
        self._under_way.add(settlement)
        self._none_under_way.clear()
        try:
            await self._writer.persist(write, on_outage=lambda: self._wait(settlement))
        finally:
            self._end(settlement)

    async def none_waits(self, patience: float) -> None:
        """Return once no settlement waits for the database.

        Raises:
            LedgerError: some still wait after ``patience``.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(patience, 0.0)):
                await self._none_waits.wait()
        self._check_none_waits()

    def check(self) -> None:
        """Return if, as far as is known, the answer of a call that starts now could be stored.

        Raises:
            LedgerError: the latest write failed, settlements wait for the database, or the process must end
                because the disk is full.
        """
        if self._writer.spare is not None:
            self._writer.spare.check()
        self._check_none_waits()
        if self._writer.ledger.is_down:
            raise _no_call("the ledger cannot be written")

    def _check_none_waits(self) -> None:
        if self._waiting:
            raise _no_call(f"{len(self._waiting)} paid answers wait to be stored")

    async def finish(self, patience: float) -> None:
        """Wait for the settlements under way, at most ``patience`` seconds, before the process ends."""
        try:
            async with asyncio.timeout(patience):
                await self._none_under_way.wait()
        except TimeoutError:
            _log.error(
                "paid_answers_lost",
                answers=len(self._under_way),
                fix="the database did not come back in time; what they usually cost counts as spent",
            )

    def _wait(self, settlement: object) -> None:
        self._waiting.add(settlement)
        self._none_waits.clear()
        metrics.unsettled_answers.inc()

    def _end(self, settlement: object) -> None:
        self._under_way.discard(settlement)
        if settlement in self._waiting:
            self._waiting.discard(settlement)
            metrics.unsettled_answers.dec()
        if not self._waiting:
            self._none_waits.set()
        if not self._under_way:
            self._none_under_way.set()


def _no_call(reason: str) -> LedgerError:
    return LedgerError(f"no call may start: {reason}", fix="look for ledger_down in the log", temporary=True)


_calls = tables.calls
_RESERVE = insert(_calls).returning(_calls.c.id, _calls.c.key)
_SHARE = insert(tables.call_shares)
_BOOKED = ("id", "project", "day", "purse", "state", "reserved", "cost")
_CALLS = select(*(_calls.c[name] for name in _BOOKED)).where(among(_calls.c.id, "calls"))
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
        shares: the tasks of a call that is for several, each with its share of the cost; together 1.
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
    shares: Mapping[int, float] = field(default_factory=dict)


class CallCost(NamedTuple):
    """The cost of a call, by its id as :func:`reserve_each` returned it.

    ``error_code`` is ``None`` for an answer, and ``seconds`` if the duration is unknown.
    """

    call: int
    usage: Usage
    error_code: str | None
    seconds: float | None


def reserve_each(connection: Connection, wanted: Sequence[Reservation]) -> dict[str, int]:
    """Reserve money for calls whose keys differ, before they are made, and return key → the call's id.

    Raises:
        BudgetExhaustedError: a budget does not cover all of them; nothing is reserved.
    """
    at = now(connection)
    day = day_of(at)
    _check_budgets(connection, wanted, day)
    # The row of a call has the beginning of its key, by which people find the answer in its table.
    names = {each.key: each.key[:_KEY_DIGITS] for each in wanted}
    if len(set(names.values())) < len(names):
        names = {key: key for key in names}
    rows: list[dict[str, Any]] = [
        {
            "project": each.project,
            "task": each.task,
            "model": each.model,
            "key": names[each.key],
            "state": "reserved",
            "reserved": to_picodollars(each.usd),
            "counted_tokens": each.counted_tokens,
            "day": day,
            "expires_at": at + each.seconds,
            "created_at": at,
            "tasks": len(each.shares) or 1,
            "purse": None if each.purse is None else each.purse.name,
        }
        for each in wanted
    ]
    _book(connection, [(row["project"], day, row["purse"], 0, row["reserved"]) for row in rows])
    ids = {row.key: int(row.id) for row in connection.execute(_RESERVE, rows)} if rows else {}
    shares = [
        {"call": ids[names[each.key]], "project": each.project, "task": task, "share": share}
        for each in wanted  # the row of a call for one task names that task itself
        for task, share in (each.shares.items() if len(each.shares) > 1 else ())
    ]
    if shares:
        connection.execute(_SHARE, shares)
    return {key: ids[name] for key, name in names.items()}


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
        _check_budget(connection, project, TOTAL, of_projects[project], limit)
    for limit in dict.fromkeys(each.day_usd for each in wanted):
        _check_budget(connection, EVERY_PROJECT, day, of_projects.total(), limit)
    for (project, purse), amount in of_purses.items():
        _check_budget(connection, project, purse.name, amount, purse.usd)


def settle_each(connection: Connection, settlements: Sequence[CallCost]) -> int:
    """Book the actual cost of different calls on the days they were reserved for.

    Settling a call twice changes nothing. A call that :func:`expire` gave up can still be settled: its cost
    then replaces the reservation.
    """
    if not settlements:
        return 0
    rows = connection.execute(_CALLS, {"calls": [each.call for each in settlements]})
    calls = {row.id: row for row in rows}
    ends: list[tuple[Row[Any], dict[str, Any]]] = []
    for each in settlements:
        call = calls.get(each.call)
        if call is None:
            raise LedgerError(f"there is no call {each.call}", where="money", fix="reserve it first")
        if call.state != "settled":
            names = ("input_tokens", "output_tokens", "cached_tokens")
            end = {"state": "settled", "cost": to_picodollars(each.usage.cost)}
            end |= {name: getattr(each.usage, name) for name in names}
            ends.append((call, end | {"error_code": each.error_code, "seconds": each.seconds}))
    _end(connection, ends)
    return len(ends)


def unsettled(connection: Connection, calls: Collection[int]) -> set[int]:
    """Return those of the calls whose cost is not booked yet: under way, or lost."""
    rows = connection.execute(_CALLS, {"calls": sorted(set(calls))})
    return {row.id for row in rows if row.state != "settled"}


def shares_of(connection: Connection, call: int) -> dict[int, float]:
    """Return task → its share of a call that was for several; empty for any other call."""
    table = tables.call_shares.c
    query = select(table.task, table.share).where(table.call == call)
    return {row.task: row.share for row in connection.execute(query)}


_RENEW = (
    update(_calls)
    .where(among(_calls.c.id, "calls"), _calls.c.state == tables.RESERVED)
    .values(expires_at=bindparam("until"))
)


_LATEST: Final = 5_000
"""Calls of all models, of which the answered ones say what a model's calls usually cost."""


def renew(connection: Connection, calls: Mapping[int, float]) -> None:
    """Let the reservations of calls that are not settled last for some seconds more, call → seconds."""
    at = now(connection)
    for seconds in sorted(set(calls.values())):
        some = sorted(call for call, own in calls.items() if own == seconds)
        connection.execute(_RENEW, {"calls": some, "until": at + seconds})


def expire(connection: Connection) -> int:
    """Book calls whose reservation has expired as lost; see :func:`lose`."""
    return _lose(connection, _calls.c.expires_at <= now(connection))


def lose(connection: Connection, calls: Collection[int]) -> int:
    """Book calls as lost, since their process or answer is gone: the provider may have charged for them.

    A lost call counts with the share of its reservation that the latest answered calls of its model have
    cost, or with all of it if there are none.
    """
    return _lose(connection, _calls.c.id.in_(sorted(calls)))


def _lose(connection: Connection, which: ColumnElement[bool]) -> int:
    lost = connection.execute(select(_calls).where(_calls.c.state == tables.RESERVED, which)).all()
    shares = {model: _usual_share(connection, model) for model in sorted({call.model for call in lost})}
    ends = [(call, {"state": "lost", "cost": round(shares[call.model] * call.reserved)}) for call in lost]
    _end(connection, ends)
    return len(lost)


def _usual_share(connection: Connection, model: str) -> float:
    """What a model's calls usually cost for each dollar that is reserved for them."""
    newest = select(func.max(_calls.c.id)).scalar_subquery()
    answered = and_(_calls.c.model == model, _calls.c.state == "settled", _calls.c.error_code.is_(None))
    sums = select(func.sum(_calls.c.cost), func.sum(_calls.c.reserved))
    cost, reserved = connection.execute(sums.where(answered, _calls.c.id > newest - _LATEST)).one()
    return min(float(cost / reserved), 1.0) if reserved else 1.0


def lost_calls(connection: Connection, project: str) -> tuple[int, float, float]:
    """Return how many calls of a project are lost, the $ counted for them, and the $ at most."""
    sums = (func.count(), func.sum(_calls.c.cost), func.sum(_calls.c.reserved))
    query = select(*sums).where(_calls.c.project == project, _calls.c.state == "lost")
    calls, cost, reserved = connection.execute(query).one()
    return calls, from_picodollars(int(cost or 0)), from_picodollars(int(reserved or 0))


def _end(connection: Connection, ends: Sequence[tuple[Row[Any], dict[str, Any]]]) -> None:
    """Store how calls ended: the rows of the calls, each with the new values of its columns."""
    if not ends:
        return
    connection.execute(_END, [{"call": call.id, **values} for call, values in ends])
    freed = [-call.reserved if call.state == "reserved" else 0 for call, _ in ends]
    _book(
        connection,
        [
            (call.project, call.day, call.purse, values["cost"] - (call.cost or 0), reserved)
            for (call, values), reserved in zip(ends, freed, strict=True)
        ],
    )


_Sums = dict[tuple[str, str], tuple[int, int]]
"""(owner, scope) → picodollars spent and picodollars reserved."""


def _account_sums(connection: Connection) -> _Sums:
    """Return what the accounts of all projects, purses and days must hold, by their calls."""
    spent = func.coalesce(func.sum(_calls.c.cost), 0)
    reserved = func.coalesce(
        func.sum(case((_calls.c.state == tables.RESERVED, _calls.c.reserved), else_=0)), 0
    )
    sums: _Sums = {}
    for column in (_calls.c.project, _calls.c.day):
        for name, *amounts in connection.execute(select(column, spent, reserved).group_by(column)):
            owner = (name, TOTAL) if column is _calls.c.project else (EVERY_PROJECT, name)
            sums[owner] = (int(amounts[0]), int(amounts[1]))
    names = _calls.c.project, _calls.c.purse
    by_purse = select(*names, spent, reserved).where(_calls.c.purse.is_not(None)).group_by(*names)
    for project, purse, *amounts in connection.execute(by_purse):
        sums[project, purse] = (int(amounts[0]), int(amounts[1]))
    return sums


def wrong_accounts(connection: Connection) -> Iterator[tuple[str, str, tuple[int, int], tuple[int, int]]]:
    """Yield owner, scope, what the account has, and what its calls add up to, where the two differ."""
    sums = _account_sums(connection)
    stored = {
        (row.project, row.scope): (row.spent, row.reserved)
        for row in connection.execute(select(_table))
        if row.scope in {TOTAL, *_PURSES} or row.project == EVERY_PROJECT
    }
    for name in sorted({*sums, *stored}):
        has, must = stored.get(name, (0, 0)), sums.get(name, (0, 0))
        if has != must:
            yield *name, has, must


_shares = tables.call_shares.c
_COSTS_OF_TASKS = (
    select(_calls.c.task, func.sum(_calls.c.cost).label("cost"))
    .where(_calls.c.project == bindparam("of"), among(_calls.c.task, "numbers"))
    .where(_calls.c.cost.is_not(None), _calls.c.tasks == 1)
    .group_by(_calls.c.task),
    select(_shares.task, func.sum(_calls.c.cost * _shares.share).label("cost"))
    .where(_shares.project == bindparam("of"), among(_shares.task, "numbers"))
    .where(_calls.c.id == _shares.call, _calls.c.cost.is_not(None))
    .group_by(_shares.task),
)
"""The costs of some tasks' own calls, and their shares of calls that were for several tasks."""


def spent_on_tasks(connection: Connection, project: str, tasks: Sequence[int]) -> dict[int, float]:
    """Return what was spent on each of these tasks, in $, with all failed calls; others are absent.

    A task has its share of a call that was for several.
    """
    spent: dict[int, int] = {}
    for query in _COSTS_OF_TASKS:
        for row in connection.execute(query, {"of": project, "numbers": tasks}):
            spent[row.task] = spent.get(row.task, 0) + round(row.cost)
    return {task: from_picodollars(cost) for task, cost in spent.items()}


@dataclass(frozen=True, slots=True)
class _ModelUsage:
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
) -> dict[str, _ModelUsage]:
    """Return the usage of those models that ever answered, over all projects, by the model's name.

    Refusals and other answers that could not be used are answers too. Each call counts with at most what it
    could take, so that no absurd number raises the expected prices.

    Args:
        connection: a read transaction.
        most_output: the models, and the most output tokens of one of their answers about a task; not empty.
        max_factor: the most input tokens per counted token.
    """
    query = _usage_of(tuple(most_output.items()), max_factor)
    return {
        row.model: _ModelUsage(
            calls=row.calls,
            tasks=int(row.tasks),
            cached_tokens=int(row.cached_tokens),
            counted_tokens=int(row.counted_tokens),  # PostgreSQL sums big integers to a Decimal
            input_tokens=int(row.input_tokens),
            output_tokens=int(row.output_tokens),
        )
        for row in connection.execute(query)
    }


@lru_cache(maxsize=16)
def _usage_of(most_output: tuple[tuple[str, int], ...], max_factor: int) -> Select[Any]:
    """The query of :func:`usage_by_model`, built once for a pool."""
    most_input = max_factor * _calls.c.counted_tokens
    longest = case(dict(most_output), value=_calls.c.model) * _calls.c.tasks
    return (
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
            _calls.c.state == "settled",
            or_(_calls.c.error_code.is_(None), _calls.c.output_tokens > 0),
            _calls.c.model.in_([model for model, _ in most_output]),
        )
        .group_by(_calls.c.model)
        .order_by(_calls.c.model)
    )


def _smaller(one: ColumnElement[int], other: ColumnElement[int]) -> ColumnElement[int]:
    return case((one < other, one), else_=other)

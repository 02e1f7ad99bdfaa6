"""Run several jobs in one write transaction.

Jobs of one kind run together (:mod:`grouped`), with statements that serve them all.

A savepoint for each job would take two statements more, a fifth of all. Jobs that raise are rare, so the
transaction first runs without; if a job raises, it is rolled back and repeated with a savepoint for each, one
by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from backend.errors import LedgerError
from backend.ledger.database.grouped.writes import GroupedWrite
from backend.ledger.database.ledger import Ledger
from backend.ledger.database.outages import is_temporary

_SECONDS = 0.01
"""Seconds for which one transaction starts further jobs, so that other processes get their turn."""

_GROUP = 64
"""The most jobs that run together."""


@dataclass(frozen=True, slots=True, eq=False)
class WriteJob:
    """One function to run in a write transaction.

    Attributes:
        function: takes the transaction's connection; must be safe to run twice.
        urgent: whether the job goes before jobs that are not urgent.
        future: receives the function's value once it is committed, or its exception.
    """

    function: Callable[[Connection], Any]
    urgent: bool
    future: Future[Any] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class _Outcome:
    value: Any = None
    error: BaseException | None = None


def run_batch(ledger: Ledger, jobs: Sequence[WriteJob], *, interrupted: Callable[[], bool]) -> list[WriteJob]:
    """Run jobs in one transaction and resolve their futures.

    The transaction starts no further job after :data:`_SECONDS`, or once ``interrupted`` is true and a job
    that is not urgent has run.

    Args:
        ledger: the migrated ledger.
        jobs: at least one, in the order in which they run, except that jobs of one kind run with the first.
        interrupted: whether an urgent job is waiting.

    Returns:
        The jobs that were not run, in their order.
    """
    outcomes = _together(ledger, jobs, interrupted) if len(jobs) > 1 else {jobs[0]: _alone(ledger, jobs[0])}
    for job, outcome in outcomes.items():
        _resolve(job.future, outcome)
    return [job for job in jobs if job not in outcomes]


def _groups(jobs: Sequence[WriteJob]) -> list[list[WriteJob]]:
    """Put jobs of one kind together, each group at the place of its first job."""
    groups: list[list[WriteJob]] = []
    open_groups: dict[object, list[WriteJob]] = {}
    for job in jobs:
        kind = job.function.together if isinstance(job.function, GroupedWrite) else job
        group = open_groups.get(kind)
        if group is None or len(group) == _GROUP:
            group = open_groups[kind] = []
            groups.append(group)
        group.append(job)
    return groups


def _alone(ledger: Ledger, job: WriteJob) -> _Outcome:
    try:
        with ledger.write() as connection:
            value = job.function(connection)
    except BaseException as error:  # passed to the caller; the writer's thread must survive
        return _Outcome(error=error)
    return _Outcome(value)


def _together(
    ledger: Ledger, jobs: Sequence[WriteJob], interrupted: Callable[[], bool]
) -> dict[WriteJob, _Outcome]:
    """Run jobs in one transaction; if one raises an error of its own, again with a savepoint for each."""
    try:
        return _in_one_transaction(ledger, _groups(jobs), interrupted, _run)
    except _JobRaisedError:
        return _in_one_transaction(ledger, [[job] for job in jobs], interrupted, _in_savepoint)


def _in_one_transaction(
    ledger: Ledger,
    groups: Sequence[Sequence[WriteJob]],
    interrupted: Callable[[], bool],
    step: Callable[[Connection, Sequence[WriteJob]], list[_Outcome]],
) -> dict[WriteJob, _Outcome]:
    outcomes: dict[WriteJob, _Outcome] = {}
    transaction_began = all_ran = False
    try:
        with ledger.write() as connection:
            transaction_began = True
            until = time.monotonic() + _SECONDS
            for group in groups:
                outcomes |= zip(group, step(connection, group), strict=True)
                if (interrupted() and not group[0].urgent) or time.monotonic() >= until:
                    break
            all_ran = True
    except _JobRaisedError:
        raise
    except Exception as error:  # the writer's thread must survive any failure
        jobs = [job for group in groups for job in group]
        if transaction_began and not all_ran and not is_temporary(error):
            return {job: _alone(ledger, job) for job in jobs}
        return {job: _Outcome(error=_copy(error)) for job in (outcomes if all_ran else jobs)}
    return outcomes


class _JobRaisedError(Exception):
    """A job raised an error of its own, so the transaction must begin anew with savepoints."""


def _run(connection: Connection, group: Sequence[WriteJob]) -> list[_Outcome]:
    """Run jobs of one kind. Whatever they raise ends the transaction."""
    try:
        writes = [job.function for job in group if isinstance(job.function, GroupedWrite)]
        if len(writes) > 1:
            values = writes[0].together(connection, [write.item for write in writes])
        else:
            values = [group[0].function(connection)]
    except SQLAlchemyError:
        raise
    except BaseException as error:
        raise _JobRaisedError from error
    # On a full disk SQLite rolls back by itself; what follows would be written outside any transaction.
    if not getattr(connection.connection.dbapi_connection, "in_transaction", True):
        raise OperationalError("job", None, RuntimeError("SQLite rolled the transaction back by itself"))
    return [_Outcome(value) for value in values]


def _in_savepoint(connection: Connection, group: Sequence[WriteJob]) -> list[_Outcome]:
    """Run one job in a savepoint. Database failures are raised, as they may have ended the transaction."""
    (job,) = group
    # connection.begin_nested() would compile both statements anew every time.
    connection.exec_driver_sql("SAVEPOINT job")
    try:
        outcome = _Outcome(job.function(connection))
    except SQLAlchemyError:
        raise
    except BaseException as error:  # passed to the caller
        connection.exec_driver_sql("ROLLBACK TO SAVEPOINT job")
        outcome = _Outcome(error=error)
    connection.exec_driver_sql("RELEASE SAVEPOINT job")
    return [outcome]


def _copy(error: Exception) -> Exception:
    """Copy a ledger error for each waiter: one object raised in many tasks would mix up the tracebacks."""
    if isinstance(error, LedgerError):
        copy = LedgerError(error.message, where=error.where, fix=error.fix, temporary=error.temporary)
        copy.__cause__ = error.__cause__
        return copy
    return error


def _resolve(future: Future[Any], outcome: _Outcome) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if outcome.error is None:
        future.set_result(outcome.value)
    elif isinstance(outcome.error, StopIteration):  # asyncio futures refuse a StopIteration
        future.set_exception(RuntimeError("a function of the ledger raised StopIteration"))
    else:
        future.set_exception(outcome.error)

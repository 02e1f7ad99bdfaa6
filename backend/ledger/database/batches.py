"""Run several jobs in one write transaction.

A savepoint for each job would take two statements more, a fifth of all. Jobs that raise are rare, so the
transaction first runs without; if a job raises, it is rolled back and repeated with a savepoint for each.
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
from backend.ledger.database.ledger import Ledger
from backend.ledger.database.outages import is_temporary

_SECONDS = 0.01
"""Seconds for which one transaction starts further jobs, so that other processes get their turn."""


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


def run_batch(ledger: Ledger, jobs: Sequence[WriteJob], *, interrupted: Callable[[], bool]) -> int:
    """Run jobs in one transaction and resolve their futures.

    The transaction starts no further job after :data:`_SECONDS`, or once ``interrupted`` is true and a job
    that is not urgent has run.

    Args:
        ledger: the migrated ledger.
        jobs: at least one, in the order in which they run.
        interrupted: whether an urgent job is waiting.

    Returns:
        How many of the jobs were run, counted from the first.
    """
    outcomes = _together(ledger, jobs, interrupted, _run) if len(jobs) > 1 else [_alone(ledger, jobs[0])]
    for job, outcome in zip(jobs, outcomes, strict=False):
        _resolve(job.future, outcome)
    return len(outcomes)


def _alone(ledger: Ledger, job: WriteJob) -> _Outcome:
    try:
        with ledger.write() as connection:
            value = job.function(connection)
    except BaseException as error:  # passed to the caller; the writer's thread must survive
        return _Outcome(error=error)
    return _Outcome(value)


def _together(
    ledger: Ledger,
    jobs: Sequence[WriteJob],
    interrupted: Callable[[], bool],
    step: Callable[[Connection, WriteJob], _Outcome],
) -> list[_Outcome]:
    outcomes: list[_Outcome] = []
    transaction_began = all_ran = False
    try:
        with ledger.write() as connection:
            transaction_began = True
            until = time.monotonic() + _SECONDS
            for job in jobs:
                outcomes.append(step(connection, job))
                if (interrupted() and not job.urgent) or time.monotonic() >= until:
                    break
            all_ran = True
    except _JobRaisedError:
        return _together(ledger, jobs, interrupted, _in_savepoint)
    except Exception as error:  # the writer's thread must survive any failure
        if transaction_began and not all_ran and not is_temporary(error):
            return [_alone(ledger, job) for job in jobs]
        return [_Outcome(error=_copy(error)) for _ in (outcomes if all_ran else jobs)]
    return outcomes


class _JobRaisedError(Exception):
    """A job raised an error of its own, so the transaction must begin anew with savepoints."""


def _run(connection: Connection, job: WriteJob) -> _Outcome:
    """Run one job. Whatever it raises ends the transaction."""
    try:
        outcome = _Outcome(job.function(connection))
    except SQLAlchemyError:
        raise
    except BaseException as error:
        raise _JobRaisedError from error
    # On a full disk SQLite rolls back by itself; what follows would be written outside any transaction.
    if not getattr(connection.connection.dbapi_connection, "in_transaction", True):
        raise OperationalError("job", None, RuntimeError("SQLite rolled the transaction back by itself"))
    return outcome


def _in_savepoint(connection: Connection, job: WriteJob) -> _Outcome:
    """Run one job in a savepoint. Database failures are raised, as they may have ended the transaction."""
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
    return outcome


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

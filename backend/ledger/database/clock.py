"""The ledger's clock: one for all processes, since the clocks of two hosts differ."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, text

_OPTION = "camvo_clock"
_NOW = text("SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision)")


def now(connection: Connection) -> float:
    """Return the database's time in unix seconds.

    It is PostgreSQL's own. Processes that share a SQLite file run on one host, so there it is the clock that
    the ``Ledger`` was given.
    """
    if connection.dialect.name == "sqlite":
        clock: Callable[[], float] = connection.get_execution_options()[_OPTION]
        return clock()
    return float(connection.execute(_NOW).scalar_one())


def option(clock: Callable[[], float]) -> dict[str, Callable[[], float]]:
    """Return the execution option that holds the clock for :func:`now`."""
    return {_OPTION: clock}

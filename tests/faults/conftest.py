"""Seeds, databases and ledgers of the fault tests."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import migrated
import pytest
from postgres import Postgres


@pytest.fixture(scope="session")
def seed() -> int:
    """A seed for this run, new each time; ``CAMVO_FAULT_SEED`` repeats a printed one."""
    given = os.environ.get("CAMVO_FAULT_SEED")
    return random.SystemRandom().randrange(10**9) if given is None else int(given)


@pytest.fixture(autouse=True)
def printed_seed(seed: int) -> None:
    """Print the seed into the report of a test that fails."""
    print(f"to repeat: CAMVO_FAULT_SEED={seed}")  # noqa: T201 - pytest shows it


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    with Postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a new ledger with its tables; the test runs on both kinds."""
    if request.param == "sqlite":
        return migrated.sqlite(tmp_path / "ledger.sqlite")
    server: Postgres = request.getfixturevalue("postgres")
    return server.new_ledger_url()

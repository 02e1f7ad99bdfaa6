"""A ledger with old and new rounds; each test gets its own copy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from backend.ledger import Ledger


@pytest.fixture
def folder(old_ledger_folder: Path) -> Path:
    return old_ledger_folder


@pytest.fixture
def ledger(folder: Path) -> Iterator[Ledger]:
    with closing(Ledger(f"sqlite:///{folder / 'ledger.sqlite'}")) as ledger:
        yield ledger

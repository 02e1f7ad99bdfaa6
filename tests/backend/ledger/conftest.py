"""A writer whose waiting functions share a transaction on a slow machine too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from backend.ledger import Ledger, Writer
from backend.ledger.database import writer as batches


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction waits for no clock."""
    monkeypatch.setattr(batches, "_SECONDS", 60.0)


@pytest.fixture
def writer(ledger: Ledger, patient: None) -> Iterator[Writer]:
    writer = Writer(ledger)
    yield writer
    writer.close()

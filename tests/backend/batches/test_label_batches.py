"""``camvo label --batch``: the same labels at half the price, whatever happens on the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from batch_provider import BatchServer
from labelling import LabelFolder
from whole_backend import prompt_of

from backend.batches import desk
from backend.commands.label import batch_run
from backend.errors import BatchesUnsupportedError, PriceMissingError
from backend.ledger.batches import jobs, lines, tasks
from backend.ledger.money import accounts
from backend.testing import Reply

CALL = (10 * 1.0 + 2 * 2.0) / 1e6
"""Cost in $ of one call of the scripted models, asked at once."""


def moods(body: dict[str, Any]) -> Reply:
    """Both models say "Sad" of texts with "gloomy"; red alone says it of those with "mixed"."""
    prompt = prompt_of(body)
    sad = "gloomy" in prompt or ("mixed" in prompt and body["model"] == "red")
    return Reply.says({"label": "Sad" if sad else "Glad"})


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with patch.object(desk, "LEASE", 0.1), patch.object(batch_run, "_FIRST_PAUSE", 0.02):
        yield BatchServer(moods)


def folder_of(path: Path, server: BatchServer, **settings: Any) -> LabelFolder:
    path.mkdir(exist_ok=True)
    return LabelFolder(path, moods, server=server, of_models={"batch_discount": 0.5}, **settings)


def label(folder: LabelFolder, **options: Any) -> Any:
    return folder.label(**{"batch": True, "wait": True, **options})


def spent(folder: LabelFolder) -> float:
    with folder.ledger.read() as connection:
        account = accounts.balance(connection, "in", accounts.TOTAL)
        assert account.reserved == 0
        return account.spent / 1e12


def test_every_row_is_labelled_at_half_the_price(tmp_path: Path, server: BatchServer) -> None:
    with folder_of(tmp_path / "a", server) as folder:
        folder.table("lovely", "gloomy", "mixed")
        assert not label(folder).left
        assert [row["camvo_label"] for row in folder.rows()] == ["Glad", "Sad", "Glad"]
        assert spent(folder) == pytest.approx(6 * CALL / 2)
        assert not server.at_once
        assert sum(float(row["camvo_cost_usd"]) for row in folder.rows()) == pytest.approx(spent(folder))
        assert not server.files  # the provider keeps nothing

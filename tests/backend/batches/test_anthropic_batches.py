"""Anthropic's Message Batches: the same labels, and a lost batch is held until its lines say whose it is."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from batch_provider import Batch, BatchServer
from labelling import LabelFolder
from whole_backend import prompt_of

from backend.annotation import batch_desk
from backend.commands.bulk import batch_run
from backend.errors import UnavailableError
from backend.ledger import money
from backend.ledger.batches import Jobs
from backend.models.batches.anthropic_batches import AnthropicBatches
from backend.models.batches.provider import ProviderBatch
from backend.settings import ModelSettings
from backend.testing import Reply

CALL = (10 * 1.0 + 2 * 2.0) / 1e6


def moods(body: dict[str, Any]) -> Reply:
    return Reply.says({"label": "Sad" if "gloomy" in prompt_of(body) else "Glad"})


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with patch.object(batch_desk, "_LEASE", 0.1), patch.object(batch_run, "_FIRST_PAUSE", 0.02):
        yield BatchServer(moods)


def folder_of(path: Path, server: BatchServer) -> LabelFolder:
    path.mkdir()
    model = {"batch_discount": 0.5, "model": "anthropic/claude-haiku-4-5", "api_key_env": "OPENAI_API_KEY"}
    of_models = {**model, "api_base": server.anthropic_url}
    return LabelFolder(path, moods, server=server, of_models=of_models, models=("red",))


def label(folder: LabelFolder, *, wait: bool = True) -> Any:
    return folder.label(batch=True, wait=wait)


def test_messages_are_labelled_at_half_the_price_and_deleted(tmp_path: Path, server: BatchServer) -> None:
    with folder_of(tmp_path / "a", server) as folder:
        folder.table("lovely", "gloomy")
        assert not label(folder).left
        assert [row["camvo_label"] for row in folder.rows()] == ["Glad", "Sad"]
        with folder.ledger.read() as connection:
            account = money.balance(connection, "in", money.TOTAL)
        assert account.spent / 1e12 == pytest.approx(2 * CALL / 2)
        assert account.reserved == 0
        assert not server.batches


def test_expired_and_failed_messages_are_sent_again_alone(tmp_path: Path, server: BatchServer) -> None:
    late = {"gloomy"}
    server.lapses = lambda body: "gloomy" in str(body["messages"]) and bool(late and late.pop())
    with folder_of(tmp_path / "a", server) as folder:
        config = folder.path / "camvo.yaml"
        config.write_text(config.read_text().replace("retries: 0", "retries: 2"))
        folder.table("lovely", "gloomy")
        assert not label(folder).left
        assert set(server.bought.values()) == {1}


def test_messages_whose_results_are_gone_are_counted_as_lost(tmp_path: Path, server: BatchServer) -> None:
    server.refused = lambda method, path: 404 if path.endswith("/results") else 0
    with folder_of(tmp_path / "a", server) as folder:
        folder.table("lovely")
        label(folder)
        with folder.ledger.read() as connection:
            calls, usd, most = money.lost_calls(connection, "in")
            account = money.balance(connection, "in", money.TOTAL)
    assert calls == server.bought.total() > 0
    assert usd == most == pytest.approx(account.spent / 1e12)


def test_a_lost_batch_is_held_until_a_line_says_whose_it_is(tmp_path: Path, server: BatchServer) -> None:
    """The provider has the batch, and the process died before the ledger knew."""
    running = True
    server.ends = lambda batch: not running
    lost: list[str] = []

    def cut(method: str, path: str) -> bool:
        if (method, path) == ("POST", "/v1/messages/batches") and not lost:
            lost.append(path)
            return True
        return False

    server.cut = cut
    with folder_of(tmp_path / "a", server) as folder:
        foreign = Batch("msgbatch_other", {"theirs-1": {"model": "x", "messages": []}}, {})
        server.batches[foreign.id] = foreign
        folder.table("lovely")
        label(folder, wait=False)
        time.sleep(0.15)  # the lease of the lost job ends
        label(folder, wait=False)
        assert "may be one of 2 batches" in folder.console.file.getvalue()  # type: ignore[attr-defined]
        assert len(server.batches) == 2  # nothing was sent again
        with folder.ledger.read() as connection:
            assert money.balance(connection, "in", money.TOTAL).reserved > 0
            assert [job.state for job in Jobs(connection).find()] == ["sending"]
        running = False
        foreign.results.append({"custom_id": "theirs-1", "result": {"type": "expired"}})
        for batch in list(server.batches.values()):
            if batch is not foreign:
                server._end_messages(batch)
        foreign.status = "completed"
        time.sleep(0.15)
        assert not label(folder).left
        assert set(server.bought.values()) == {1}
        assert list(server.batches) == [foreign.id]  # only ours was deleted


def test_a_batch_whose_results_could_not_be_read_once_is_not_taken_for_a_foreign_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its job would be sent again, and paid for twice."""
    failures = [UnavailableError("503")]
    line = json.dumps({"custom_id": "ours-1", "result": {"type": "expired"}}).encode()

    async def listed(self: AnthropicBatches, since: float) -> list[ProviderBatch]:
        return [ProviderBatch("msgbatch_1", ended=True, created_at=since)]

    async def lines(self: AnthropicBatches, batch: ProviderBatch) -> AsyncIterator[bytes]:
        if failures:
            raise failures.pop()
        yield line

    monkeypatch.setattr(AnthropicBatches, "_listed", listed)
    monkeypatch.setattr(AnthropicBatches, "_lines", lines)

    async def search() -> ProviderBatch | None:
        settings = ModelSettings(name="red", model="anthropic/red", input_price=1.0, output_price=1.0)
        provider = AnthropicBatches(settings, "key")
        with pytest.raises(UnavailableError):
            await provider.search("ours", 0.0, ())
        return (await provider.search("ours", 0.0, ())).batch

    found = asyncio.run(search())
    assert found is not None
    assert found.id == "msgbatch_1"

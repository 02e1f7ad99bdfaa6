"""A run that is killed at any request or any write: nothing is bought twice, and nothing is lost."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from batch_provider import BatchServer
from labelling import LabelFolder

from backend.annotation import batch_desk
from backend.annotation.batch_filling import Settlement
from backend.commands.bulk import batch_run
from backend.ledger import money
from backend.models.batches.openai_batches import OpenAIBatches
from backend.testing import Reply

KILLS = 4


class _KilledError(BaseException):
    """The process is gone."""


def moods(body: dict[str, Any]) -> Reply:
    return Reply.answers(body, lambda text: {"label": "Sad" if "gloomy" in text else "Glad"})


def answered_lines(server: BatchServer) -> int:
    return sum(len(batch.lines) for batch in server.batches.values() if batch.status == "completed")


@contextmanager
def killed_at(step: int, *, after: bool) -> Iterator[list[int]]:
    """Kill the run at its n-th request or write, before it is done or just after."""
    steps = [0]

    def deadly(function: Any) -> Any:
        async def wrapped(*args: Any, **kwargs: Any) -> Any:
            steps[0] += 1
            if steps[0] >= step and not after:
                raise _KilledError
            value = await function(*args, **kwargs)
            if steps[0] >= step:
                raise _KilledError
            return value

        return wrapped

    with (
        patch.object(OpenAIBatches, "_call", deadly(OpenAIBatches._call)),
        patch.object(Settlement, "_book", deadly(Settlement._book)),
        patch.object(batch_desk.Desk, "_found", deadly(batch_desk.Desk._found)),
    ):
        yield steps


@pytest.mark.parametrize("pack", [None, 4])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.soak)])
def test_a_run_that_is_killed_at_random_buys_nothing_twice_and_loses_nothing(
    tmp_path: Path, seed: int, pack: int | None
) -> None:
    chance = random.Random(seed)  # noqa: S311 - not a secret
    server = BatchServer(moods)
    of_models = {"batch_discount": 0.5, "pack": pack}
    with (
        patch.object(batch_desk, "_LEASE", 0.05),
        patch.object(batch_run, "_FIRST_PAUSE", 0.01),
        LabelFolder(
            tmp_path, moods, server=server, of_models=of_models, policy={"name": "joint", "agreement": 0.99}
        ) as folder,
    ):
        folder.table(*(f"{word} {n}" for n in range(6) for word in ("lovely", "gloomy")))
        for _ in range(KILLS if seed == 0 else 50):
            with killed_at(chance.randint(1, 12), after=chance.random() < 0.5), suppress(_KilledError):
                folder.label(batch=True, wait=True)
            time.sleep(0.06)  # the dead process's lease ends
        assert not folder.label(batch=True, wait=True).left
        assert set(server.bought.values()) == {1}
        assert {row["camvo_label"] for row in folder.rows()} == {"Glad", "Sad"}
        with folder.ledger.read() as connection:
            account = money.balance(connection, "in", money.TOTAL)
        assert account.reserved == 0
        assert account.spent / 1e12 == pytest.approx(answered_lines(server) * 7e-6)
        assert not server.files

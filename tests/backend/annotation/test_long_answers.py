"""Reading a long answer does not keep other tasks waiting."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from backend.annotation import asking


def test_the_event_loop_goes_on_while_a_long_answer_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    went_on = threading.Event()

    def read(content: str, questions: object) -> dict[str, str]:
        assert went_on.wait(30.0)
        return {"mood": content[:4]}

    async def read_and_go_on() -> dict[str, str]:
        prompt: Any = SimpleNamespace(questions=())
        votes = asking._Reader(prompt).votes("Glad" + "!" * 10_000)
        reading = asyncio.create_task(votes)
        await asyncio.sleep(0)
        went_on.set()
        return await reading

    monkeypatch.setattr(asking, "votes_in", read)
    assert asyncio.run(read_and_go_on()) == {"mood": "Glad"}


def test_the_event_loop_goes_on_while_votes_with_many_spans_are_weighed() -> None:
    went_on = threading.Event()

    async def weigh_and_go_on() -> bool:
        votes = {arm: {"names": '[0, 5, "PER"], ' * 1_000} for arm in ("red", "green")}
        weighing = asyncio.create_task(asking.weigh(votes, lambda: went_on.wait(30.0)))
        await asyncio.sleep(0)
        went_on.set()
        return await weighing

    assert asyncio.run(weigh_and_go_on())

"""Which tasks share a prompt, and how long they wait for each other."""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from backend.models import packed_pool
from backend.models.call_ledger import ModelQuery, PaidAnswer
from backend.models.pack_ledger import Member
from backend.models.packed_pool import _Collector
from backend.questions.prompts.packs import PackedTask
from backend.settings import BudgetSettings

QUERY = ModelQuery("7", 1, "red:3", (), {}, BudgetSettings())


def member(text: str = "Sun.", system: str = "Label it.", patience: float = 1000.0, **query: Any) -> Member:
    future: asyncio.Future[PaidAnswer] = asyncio.get_running_loop().create_future()
    task = PackedTask(system, {"note": text}, {})
    return Member(replace(QUERY, **query), task, text, time.monotonic() + patience, bool, future)


def on_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on an event loop of its own."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return run


class Sent:
    """A collector, and the prompts that it has sent."""

    def __init__(self) -> None:
        self.prompts: list[list[Member]] = []
        self.collector = _Collector(self._send)
        self.more = asyncio.Event()

    async def _send(self, members: list[Member]) -> None:
        self.prompts.append(members)
        self.more.set()

    async def sizes(self) -> list[int]:
        """The sizes of the prompts that have been sent by now."""
        await asyncio.sleep(0)
        return [len(members) for members in self.prompts]


@on_a_loop
async def test_a_prompt_is_sent_when_it_is_full() -> None:
    sent = Sent()
    with sent.collector.preparing():
        for number in range(7):
            sent.collector.add(member(str(number)), 3)
        assert await sent.sizes() == [3, 3]


@on_a_loop
async def test_what_is_left_is_sent_when_nobody_else_is_on_the_way() -> None:
    sent = Sent()
    with sent.collector.preparing():
        with sent.collector.preparing():
            sent.collector.add(member(), 3)
        assert await sent.sizes() == []
    await asyncio.wait_for(sent.more.wait(), 1.0)


@on_a_loop
async def test_nobody_waits_for_a_task_that_waits_for_answers() -> None:
    sent = Sent()
    with sent.collector.preparing(), sent.collector.waiting():
        with sent.collector.preparing():
            sent.collector.add(member(), 3)
        await asyncio.wait_for(sent.more.wait(), 1.0)


@on_a_loop
async def test_a_task_waits_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed_pool, "_LONGEST", 0.02)
    sent = Sent()
    with sent.collector.preparing():
        sent.collector.add(member(), 3)
        await asyncio.wait_for(sent.more.wait(), 10.0)


@on_a_loop
async def test_a_task_in_a_hurry_waits_less() -> None:
    sent = Sent()
    with sent.collector.preparing():
        sent.collector.add(member(), 3)
        sent.collector.add(member("Rain.", patience=0.1), 3)
        await asyncio.wait_for(sent.more.wait(), 1.0)
    assert await sent.sizes() == [2]


@pytest.mark.parametrize("other", [{"project": "8"}, {"model": "green:3"}, {"system": "Other instructions."}])
@on_a_loop
async def test_projects_arms_and_questions_never_share_a_prompt(other: dict[str, str]) -> None:
    sent = Sent()
    with sent.collector.preparing():
        sent.collector.add(member("Sun."), 2)
        sent.collector.add(member("Rain.", **other), 2)
        sent.collector.add(member("Snow."), 2)
    assert await sent.sizes() == [2]
    assert [each.key for each in sent.prompts[0]] == ["Sun.", "Snow."]


@on_a_loop
async def test_a_prompt_has_a_bounded_length() -> None:
    sent = Sent()
    with sent.collector.preparing():
        for number in range(3):
            sent.collector.add(member(f"{number} day" * 4000), 10)
        assert await sent.sizes() == [1, 1]

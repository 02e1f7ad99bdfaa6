"""A prompt about several tasks, some of which another process asks about."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from backend.errors import BudgetExhaustedError, UnavailableError
from backend.models import Pool, packed_pool
from backend.models.call_ledger import ModelQuery, PaidAnswer
from backend.models.pack_ledger import Member, Pack, _PackClaim
from backend.models.packed_pool import PackedPool
from backend.questions.prompts.packs import PackedTask
from backend.settings import BudgetSettings, ModelSettings

MODEL = ModelSettings(name="red", model="openai/red", input_price=1.0, output_price=2.0, pack=4)


class AtOnce(random.Random):
    """Draws pauses that take no time."""

    def uniform(self, a: float, b: float) -> float:
        return 0.0


class ScriptedPacks:
    """The ledger's side of the prompts: another process asks about the task ``held``."""

    def __init__(self) -> None:
        self.asked: list[set[str]] = []
        self.freed = asyncio.Event()

    async def claim(self, pack: Pack[Member], *_: Any) -> _PackClaim:
        keys = {member.key for member in pack.members.values()}
        self.asked.append(keys)
        if len(self.asked) == 2:
            raise BudgetExhaustedError("too dear together")
        return _PackClaim({}, tuple(keys - {"held"}), 1)

    async def find_or_free(self, _: Member) -> PaidAnswer | None:
        return PaidAnswer("theirs", 0.0) if self.freed.is_set() else None

    def stop_renewing(self, _: object) -> None: ...


def test_a_task_that_another_process_asks_about_is_not_asked_about_when_its_prompt_is_halved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(packed_pool, "POLL", 0.0)

    async def main() -> tuple[list[str], list[set[str]], list[Any]]:
        troubles: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))
        calls: Any = None
        pool = PackedPool(Pool([MODEL]), calls, retries=1)
        rng: Any = AtOnce(0)
        pool._rng = rng
        packs: Any = ScriptedPacks()
        pool._packs = packs
        monkeypatch.setattr(pool, "_call", answering())
        members = [member(key) for key in ("held", "a", "b", "c")]
        await pool._send(members)
        packs.freed.set()
        answers = [(await each.answer).content for each in members]
        await asyncio.sleep(0)
        return answers, packs.asked, troubles

    answers, asked, troubles = asyncio.run(main())
    assert answers == ["theirs", "mine", "mine", "mine"]
    assert [keys for keys in asked if "held" in keys] == [{"held", "a", "b", "c"}]
    assert troubles == []


def answering() -> Callable[..., Any]:
    """Calls of which the first fails."""
    sent = []

    async def call(pack: Pack[Member], *_: Any) -> None:
        sent.append(pack)
        if len(sent) == 1:
            raise UnavailableError("down")
        for each in pack.members.values():
            each.end(PaidAnswer("mine", 0.0))

    return call


def member(key: str) -> Member:
    future: asyncio.Future[PaidAnswer] = asyncio.get_running_loop().create_future()
    query = ModelQuery("7.1", 1, "red:4", (), {}, BudgetSettings())
    task = PackedTask("Label it.", {"note": key}, {"mood": {"type": "string"}})
    return Member(query, task, key, time.monotonic() + 1000.0, bool, future)

"""A prompt about several tasks, some of which another process asks about."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from backend.errors import BudgetExhaustedError, TaskError, UnavailableError
from backend.models import Pool, packed_pool
from backend.models.call_ledger import ModelQuery, PaidAnswer
from backend.models.pack_ledger import Member, Pack, _PackClaim
from backend.models.packed_pool import PackedPool
from backend.questions.prompts.packs import PackedTask, packed_messages
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


@pytest.mark.parametrize("error", [BudgetExhaustedError("too dear"), UnavailableError("HTTP 500")])
def test_a_task_that_fails_every_prompt_costs_no_other_its_answer(
    error: TaskError, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def call(pack: Pack[Member], *_: Any) -> None:
        if any(each.key == "bad" for each in pack.members.values()):
            raise error
        for each in pack.members.values():
            each.end(PaidAnswer("mine", 0.0))

    async def main() -> list[PaidAnswer | BaseException]:
        pool = scripted_pool(OnePurse(), monkeypatch, call)
        members = [member(key, waits=True) for key in ("bad", "a", "b", "c")]
        await pool._send(members)
        return await asyncio.gather(*(each.answer for each in members), return_exceptions=True)

    bad, *others = asyncio.run(main())
    assert isinstance(bad, type(error))
    assert [answer.content for answer in others if isinstance(answer, PaidAnswer)] == ["mine"] * 3


TASK = PackedTask("Label it.", {"note": "A day."}, {"mood": {"type": "string"}})


def query(project: str) -> ModelQuery:
    return ModelQuery(project, 1, "red:4", (), {}, BudgetSettings())


def test_a_project_with_money_asks_for_itself_when_it_shared_the_call_of_one_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> list[PaidAnswer | BaseException]:
        pool = scripted_pool(OnePurse(), monkeypatch)
        asking = [pool.ask(query(project), TASK, 1000.0, bool) for project in ("poor", "rich")]
        return await asyncio.gather(*asking, return_exceptions=True)

    poor, rich = asyncio.run(main())
    assert isinstance(poor, BudgetExhaustedError)
    assert isinstance(rich, PaidAnswer)


def test_a_query_asks_for_itself_when_the_one_that_it_shared_was_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> PaidAnswer:
        purse = OnePurse(looked=asyncio.Event())
        pool = scripted_pool(purse, monkeypatch)
        first, second = (
            asyncio.create_task(pool.ask(query(project), TASK, 1000.0, bool)) for project in ("a", "b")
        )
        await asyncio.sleep(0)  # the first one looks into the ledger, and the second one shares its future
        first.cancel()
        purse.looked.set()
        return await asyncio.wait_for(second, 30.0)

    assert asyncio.run(main()).content == "mine"


class OnePurse:
    """The ledger's side of prompts, which holds no answer and pays for all projects except ``poor``."""

    def __init__(self, looked: asyncio.Event | None = None) -> None:
        self.looked = looked or asyncio.Event()
        if looked is None:
            self.looked.set()

    async def find(self, _: Member) -> PaidAnswer | None:
        await self.looked.wait()
        return None

    async def claim(self, pack: Pack[Member], *_: Any) -> _PackClaim:
        if any(each.query.project == "poor" for each in pack.members.values()):
            raise BudgetExhaustedError("it has no money left")
        return _PackClaim({}, tuple(each.key for each in pack.members.values()), 1)

    async def record_use(self, *_: Any) -> None: ...

    def stop_renewing(self, _: object) -> None: ...


async def answered(pack: Pack[Member], *_: Any) -> None:
    for each in pack.members.values():
        each.end(PaidAnswer("mine", 0.0))


def scripted_pool(
    ledger: Any, monkeypatch: pytest.MonkeyPatch, call: Callable[..., Any] = answered
) -> PackedPool:
    """Packed arms whose prompts are not sent: ``call`` answers them."""
    pool = PackedPool(Pool([MODEL]), ledger, retries=0)
    pool._packs = ledger
    monkeypatch.setattr(pool, "_call", call)
    return pool


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


def member(key: str, *, waits: bool = False) -> Member:
    future: asyncio.Future[PaidAnswer] = asyncio.get_running_loop().create_future()
    task = replace(TASK, texts={"note": key})
    return Member(replace(query("7.1"), waits=waits), task, key, time.monotonic() + 1000.0, bool, future)


def test_the_prices_of_packed_tasks_add_up_to_that_of_their_prompt() -> None:
    settings = ModelSettings(name="m", model="openai/m", input_price=1.0, output_price=0.0, pack=20)
    arm = Pool([settings])["m:20"].model
    tasks = {str(100_000 + n): PackedTask("Label the texts.", {"text": f"words {n}"}, {}) for n in range(20)}
    each = sum(arm.packed_cost(*task.parts()) for task in tasks.values())
    assert each == pytest.approx(arm.cost(packed_messages(tasks), tasks=20), rel=0.01)

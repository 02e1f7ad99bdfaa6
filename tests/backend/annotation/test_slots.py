from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from backend.annotation.queue import _Slots


async def let_others_run() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def work(slots: _Slots, size: int, done: list[int]) -> Coroutine[Any, Any, None]:
    async def run() -> None:
        async with slots.slot(size):
            done.append(size)
            await asyncio.sleep(0)

    return run()


async def one_holds_and_two_wait(
    slots: _Slots, done: list[int]
) -> tuple[asyncio.Event, asyncio.Task[None], list[asyncio.Task[None]]]:
    """One task holds the slot until the event is set; two others wait for it."""
    gate = asyncio.Event()

    async def hold() -> None:
        async with slots.slot(1):
            await gate.wait()

    holder = asyncio.create_task(hold())
    waiters = [asyncio.create_task(work(slots, size, done)) for size in (2, 3)]
    await let_others_run()
    return gate, holder, waiters


def test_the_smallest_request_goes_first_whenever_it_came() -> None:
    async def scene() -> list[int]:
        slots, done = _Slots(1), list[int]()
        await asyncio.gather(*(work(slots, size, done) for size in (9, 100, 100, 1, 5)))
        return done

    assert asyncio.run(scene()) == [9, 1, 5, 100, 100]


@given(st.integers(1, 4), st.lists(st.integers(1, 9), max_size=20))
def test_no_more_than_the_free_slots_are_taken_and_everybody_gets_one(free: int, sizes: list[int]) -> None:
    async def scene() -> tuple[int, int]:
        slots = _Slots(free)
        holding = most = served = 0

        async def hold(size: int) -> None:
            nonlocal holding, most, served
            async with slots.slot(size):
                holding += 1
                most = max(most, holding)
                await asyncio.sleep(0)
                holding -= 1
                served += 1

        await asyncio.gather(*(hold(size) for size in sizes))
        return most, served

    most, served = asyncio.run(scene())
    assert served == len(sizes)
    assert most <= free


def test_a_cancelled_waiter_leaves_its_place_to_the_next() -> None:
    async def scene() -> list[int]:
        slots, done = _Slots(1), list[int]()
        gate, holder, waiters = await one_holds_and_two_wait(slots, done)
        waiters[0].cancel()
        gate.set()
        await asyncio.gather(holder, *waiters, return_exceptions=True)
        return done

    assert asyncio.run(scene()) == [3]


def test_a_slot_given_to_a_waiter_cancelled_at_that_moment_is_passed_on() -> None:
    async def scene() -> list[int]:
        slots, done = _Slots(1), list[int]()
        gate, holder, waiters = await one_holds_and_two_wait(slots, done)
        holder.add_done_callback(lambda _: waiters[0].cancel())
        gate.set()
        await asyncio.gather(holder, *waiters, return_exceptions=True)
        await asyncio.wait_for(work(slots, 4, done), 1.0)
        return done

    assert asyncio.run(scene())[-2:] == [3, 4]


def test_a_failure_inside_gives_the_slot_back() -> None:
    async def scene() -> bool:
        slots = _Slots(1)
        try:
            async with slots.slot(1):
                raise RuntimeError
        except RuntimeError:
            pass
        async with slots.slot(1):
            return True

    assert asyncio.run(scene())

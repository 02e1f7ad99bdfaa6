"""Calls that wait for money look again in their order, two for each settlement."""

from __future__ import annotations

import asyncio

from backend.ledger.money import MoneyQueue

LONG = 60.0


def test_the_first_two_look_again_after_a_settlement() -> None:
    async def scenario() -> list[int]:
        queue, woken = MoneyQueue(), list[int]()

        async def wait(number: int) -> None:
            await queue.wait(LONG)
            woken.append(number)

        tasks = [asyncio.create_task(wait(number)) for number in range(3)]
        await asyncio.sleep(0)
        queue.release()
        await asyncio.gather(*tasks[:2])
        tasks[2].cancel()
        return woken

    assert asyncio.run(scenario()) == [0, 1]


def test_whoever_has_given_up_does_not_take_a_turn() -> None:
    async def scenario() -> bool:
        queue = MoneyQueue()
        gone = [asyncio.create_task(queue.wait(LONG)) for _ in range(2)]
        await asyncio.sleep(0)
        for task in gone:
            task.cancel()
        await asyncio.gather(*gone, return_exceptions=True)
        waiting = asyncio.create_task(queue.wait(LONG))
        await asyncio.sleep(0)
        queue.release()
        await waiting
        return True

    assert asyncio.run(scenario())


def test_without_a_settlement_the_wait_ends_by_itself() -> None:
    asyncio.run(MoneyQueue().wait(0.001))

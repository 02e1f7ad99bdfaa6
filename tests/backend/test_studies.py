"""The studies of one process: which one a plan is given, and when the next one is made."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from backend.states import StateKey
from backend.studies import Studies
from camvo.rows import CastVote, Head, Row
from camvo.study import Material

KEY = StateKey("7.1", "mood", "epoch")


def material(n: int) -> Material:
    said = (CastVote("blue", "Glad", 0.7), CastVote("red", "Sad", 0.7))
    head = Head(tuple(Row(said, "Glad", everyone=True) for _ in range(n)))
    return Material(head, ("Glad", "Sad"), ("blue", "red"), (0.5, 0.5), 1 / 75, 3)


@pytest.fixture
def worker() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as made:
        yield made


def test_the_first_study_is_of_what_there_is(worker: ThreadPoolExecutor) -> None:
    given = material(20)
    assert asyncio.run(Studies(worker).current(KEY, given)) == given.study()


def test_a_plan_takes_the_study_that_is_there_while_the_next_one_is_made(worker: ThreadPoolExecutor) -> None:
    before, after = material(20), material(40)

    async def run() -> None:
        studies, free = Studies(worker), threading.Event()
        await studies.current(KEY, before)
        worker.submit(free.wait)
        assert await studies.current(KEY, after) == before.study()
        free.set()
        await studies._fits.settled()
        assert await studies.current(KEY, after) == after.study()

    asyncio.run(run())


def test_another_order_of_asking_has_a_study_of_its_own(worker: ThreadPoolExecutor) -> None:
    one = material(20)
    other = replace(one, order=("red", "blue"))

    async def run() -> None:
        studies = Studies(worker)
        first = await studies.current(KEY, one)
        assert await studies.current(KEY, other) == other.study()
        assert await studies.current(KEY, one) is first

    asyncio.run(run())

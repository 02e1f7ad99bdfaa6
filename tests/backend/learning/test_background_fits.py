"""The background fits of one process: which fit a plan gets, and when the next one starts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from backend.learning import states
from backend.learning.states import _PAUSE, BackgroundFits, Students
from backend.ledger.events import StateKey
from camvo.policies.policy import Fit, FitData, JointFitData, fitted
from camvo.state.contribution import ConfidenceCounts, KeptRound, LatestRounds, SureVote
from camvo.state.exploration import PatternCounts, VotePattern
from camvo.student import Lessons, TaughtText, hashed_ngrams, teach

KEY = StateKey("7.1", "mood", "epoch")
SHORT_PAUSE = 5.0
"""Seconds after a fit of one second before a fit of more votes."""


NO_ROUNDS = PatternCounts()


def fit_data(n: int) -> JointFitData:
    said = {"blue": "Glad", "red": "Sad"}
    latest = LatestRounds(tuple(KeptRound.of(said, "Glad") for _ in range(n)))
    return JointFitData(NO_ROUNDS, latest, ("Glad", "Sad"), (("blue", 0.0), ("red", 0.0)))


def with_votes(data: JointFitData, rounds: int) -> JointFitData:
    """The same data with votes of some rounds that asked everyone."""
    voted = VotePattern(("blue", "red"), (0, 1), everyone=True, labels=("Glad", "Sad"))
    return replace(data, evidence=PatternCounts({voted: rounds}, rounds))


class Process:
    """One process's background fits, with a clock set by hand and a single worker thread."""

    def __init__(self, worker: ThreadPoolExecutor) -> None:
        self.now, self.worker = 0.0, worker
        self.computed = 0.0
        self._fits = BackgroundFits(worker)

    async def current(self, data: FitData, *, now: bool = False) -> Fit:
        return await self._fits.current(KEY, data, now=now)

    def stopwatch(self) -> float:
        """Seconds of computing; each fit takes one, since it is read before and after it."""
        self.computed += 1.0
        return self.computed

    async def settled(self) -> None:
        """Wait until every other task of the event loop has ended: the fits that nobody awaits."""
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    with ThreadPoolExecutor(1) as worker:
        process = Process(worker)
        monkeypatch.setattr(states, "monotonic", lambda: process.now)
        monkeypatch.setattr(states, "perf_counter", process.stopwatch)
        yield process


def test_the_first_plan_waits_for_a_fit(process: Process) -> None:
    data = fit_data(20)
    assert asyncio.run(process.current(data)) == fitted(data)


def test_a_plan_gets_the_latest_fit_while_the_next_one_is_under_way(process: Process) -> None:
    before, after = fit_data(20), fit_data(40)

    async def run() -> None:
        await process.current(before)
        process.now += _PAUSE
        busy = threading.Event()
        process.worker.submit(busy.wait)
        assert await process.current(after) == fitted(before)
        busy.set()
        await process.settled()
        assert await process.current(after) == fitted(after)

    asyncio.run(run())


def test_a_plan_that_needs_the_fit_of_now_waits_for_it(process: Process) -> None:
    before, after = fit_data(20), fit_data(40)

    async def run() -> None:
        await process.current(before)
        assert await process.current(after, now=True) == fitted(after)

    asyncio.run(run())


def test_a_fit_of_older_data_under_way_is_not_the_fit_of_now(process: Process) -> None:
    first, before, after = fit_data(10), fit_data(20), fit_data(40)

    async def run() -> None:
        await process.current(first)
        process.now += _PAUSE
        busy = threading.Event()
        process.worker.submit(busy.wait)
        await process.current(before)  # starts its fit
        waiting = asyncio.create_task(process.current(after, now=True))
        await asyncio.sleep(0)
        busy.set()
        assert await waiting == fitted(after)

    asyncio.run(run())


def test_a_fit_that_fails_is_tried_again_after_a_pause(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = fit_data(20), fit_data(40)
    tried: list[FitData] = []

    def fails(data: FitData) -> Fit:
        tried.append(data)
        raise ValueError

    async def run() -> None:
        await process.current(before)
        monkeypatch.setattr(states, "fitted", fails)
        process.now += _PAUSE
        for _ in range(3):
            await process.current(after)
            await process.settled()
        assert tried == [after]
        process.now += _PAUSE
        await process.current(after)
        await process.settled()
        assert tried == [after, after]

    asyncio.run(run())


def test_new_data_within_the_pause_starts_no_fit(process: Process) -> None:
    before, after = fit_data(20), fit_data(40)

    async def run() -> None:
        await process.current(before)
        process.now += _PAUSE / 2
        await process.current(after)
        await process.settled()
        assert await process.current(after) == fitted(before)

    asyncio.run(run())


def test_the_pause_after_a_quick_fit_is_short(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = fit_data(20), fit_data(40)
    monkeypatch.setattr(states, "_PAUSES", 5.0)

    async def run() -> None:
        await process.current(before)
        process.now += 5.0
        await process.current(after)
        await process.settled()
        assert await process.current(after) == fitted(after)

    asyncio.run(run())


def test_a_plan_waits_for_a_fit_of_twice_as_many_rounds(process: Process) -> None:
    before, after = with_votes(fit_data(20), 18), with_votes(fit_data(20), 36)

    async def run() -> None:
        await process.current(before)
        assert await process.current(after) is fitted(after)

    asyncio.run(run())


def test_votes_that_have_grown_start_a_fit_after_a_short_pause(process: Process) -> None:
    before, after = with_votes(fit_data(20), 40), with_votes(fit_data(20), 49)

    async def run() -> None:
        await process.current(before)
        process.now += SHORT_PAUSE - 0.1
        await process.current(after)
        await process.settled()
        process.now += 0.1
        assert await process.current(after) is fitted(before)
        await process.settled()
        assert await process.current(after) is fitted(after)

    asyncio.run(run())


def test_confidences_that_have_grown_start_a_fit_after_a_short_pause(process: Process) -> None:
    before = with_votes(fit_data(20), 40)
    after = replace(before, confidences=ConfidenceCounts({SureVote("blue", "Glad", 50, True): 9}))

    async def run() -> None:
        await process.current(before)
        process.now += SHORT_PAUSE
        await process.current(after)
        await process.settled()
        assert await process.current(after) is fitted(after)

    asyncio.run(run())


def test_where_the_fit_of_more_rounds_fails_the_earlier_one_serves(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, after = with_votes(fit_data(20), 1), with_votes(fit_data(20), 36)
    tried: list[FitData] = []

    def fails(data: FitData) -> Fit:
        tried.append(data)
        raise ValueError

    async def run() -> None:
        first = await process.current(before)
        monkeypatch.setattr(states, "fitted", fails)
        assert [await process.current(after) for _ in range(3)] == [first] * 3

    asyncio.run(run())
    assert tried == [after]


def test_another_pool_has_its_own_fit(process: Process) -> None:
    one = fit_data(20)
    other = replace(one, prices=(*one.prices, ("green", 0.0)))

    async def run() -> None:
        first = await process.current(one)
        assert await process.current(other) == fitted(other)
        assert await process.current(one) is first

    asyncio.run(run())


def lessons(texts: int) -> Lessons:
    moods = ("Glad", "Sad")
    return Lessons(
        tuple(TaughtText(hashed_ngrams(f"{moods[n % 2]} room {n}"), moods[n % 2]) for n in range(texts))
    )


def test_lessons_that_have_grown_teach_a_student_after_a_short_pause(process: Process) -> None:
    students = Students(process.worker)
    before, after = lessons(300), lessons(375)

    async def run() -> None:
        students.current(KEY, before)
        await process.settled()
        process.now += SHORT_PAUSE - 0.1
        students.current(KEY, after)
        await process.settled()
        process.now += 0.1
        assert students.current(KEY, after) is teach(before)
        await process.settled()
        assert students.current(KEY, after) is teach(after)

    asyncio.run(run())


def test_a_lesson_that_is_taken_back_teaches_a_student_after_the_pause(process: Process) -> None:
    students = Students(process.worker)
    before, after = lessons(301), lessons(300)

    async def run() -> None:
        students.current(KEY, before)
        await process.settled()
        students.current(KEY, after)
        await process.settled()
        assert students.current(KEY, after) is teach(before)
        process.now += _PAUSE
        students.current(KEY, after)
        await process.settled()
        assert students.current(KEY, after) is teach(after)

    asyncio.run(run())


def test_a_first_student_that_cannot_be_taught_is_tried_again_after_a_pause(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    students, tried = Students(process.worker), list[Lessons]()

    def fails(known: Lessons) -> None:
        tried.append(known)
        raise ValueError

    monkeypatch.setattr(states, "teach", fails)

    async def run() -> None:
        for _ in range(3):
            students.current(KEY, lessons(300))
            await process.settled()
        assert len(tried) == 1
        process.now += _PAUSE
        students.current(KEY, lessons(300))
        await process.settled()
        assert len(tried) == 2

    asyncio.run(run())

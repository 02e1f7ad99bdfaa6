"""The scorers of one process: which rounds they are fitted to, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from label_studio_requests import task
from sqlalchemy import text
from stored_rounds import a_key, a_round
from whole_backend import Backend, votes

from backend.learning import states
from backend.learning.states import _PAUSE, Scorers
from backend.ledger import Ledger, LedgerAccess, rounds
from backend.ledger.database import packing
from backend.ledger.events import StateKey
from camvo.scores.scorer import Scorer

KEY = StateKey("7.1", "mood", "epoch")
ARMS, LABELS = ("red", "green", "blue"), ("Glad", "Sad")


def store(ledger: Ledger, tasks: Sequence[int], confirmed: float | None, arms: Sequence[str] = ARMS) -> None:
    with ledger.write() as connection:
        for number in tasks:
            key = a_key(number, project=KEY.project, control=KEY.control, epoch=KEY.epoch)
            round_ = a_round(key, votes=dict.fromkeys(arms, "Glad"), confirmed=confirmed)
            rounds.insert_each(connection, [round_])[0]


class Process:
    """One process's scorers, with a clock set by hand."""

    def __init__(self, access: LedgerAccess) -> None:
        self.now = 0.0
        self._scorers = Scorers(access)

    async def current(self, arms: Sequence[str] = ARMS) -> Scorer:
        return await self._scorers.current(KEY, arms, LABELS)

    async def caught_up(self) -> Scorer:
        """The scorer of a prediction once the background fits have ended."""
        self.now += _PAUSE
        await self.current()
        await nothing_under_way()
        return await self.current()


@pytest.fixture
def process(sqlite_ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    with LedgerAccess.opened(sqlite_ledger) as access:
        process = Process(access)
        monkeypatch.setattr(states, "monotonic", lambda: process.now)
        yield process


async def nothing_under_way() -> None:
    """Wait until every other task of the event loop has ended: the fits that nobody awaits."""
    if others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)


def labels_behind(scorer: Scorer) -> int:
    return scorer.calibration.labels


def test_the_first_scorer_knows_the_ledger(sqlite_ledger: Ledger, process: Process) -> None:
    store(sqlite_ledger, range(1, 41), 1.0)
    store(sqlite_ledger, range(41, 61), None)
    assert labels_behind(asyncio.run(process.current())) == 40


def test_new_labels_are_learnt_beside_the_predictions(sqlite_ledger: Ledger, process: Process) -> None:
    async def run() -> list[int]:
        store(sqlite_ledger, range(1, 41), 1.0)
        first = await process.current()
        store(sqlite_ledger, range(41, 51), 0.0)
        soon = await process.current()
        process.now += _PAUSE
        late = await process.current()
        return [labels_behind(one) for one in (first, soon, late, await process.caught_up())]

    assert asyncio.run(run()) == [40, 40, 40, 50]


def test_a_scorer_is_kept_while_hardly_anything_has_come(sqlite_ledger: Ledger, process: Process) -> None:
    async def run() -> bool:
        store(sqlite_ledger, range(1, 41), 1.0)
        first = await process.current()
        store(sqlite_ledger, range(41, 45), 0.0)
        return await process.caught_up() is first

    assert asyncio.run(run())


def test_a_later_fit_reads_only_the_plans_of_new_rounds(
    sqlite_ledger: Ledger, process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    decompress, read = packing._decompress, list[bytes]()

    def counted(data: bytes) -> bytes:
        read.append(data)
        return decompress(data)

    async def run() -> list[int]:
        store(sqlite_ledger, range(1, 41), None)
        first = await process.current()
        plans = [len(read)]
        store(sqlite_ledger, range(41, 51), None)
        assert await process.caught_up() is not first
        return [*plans, len(read)]

    monkeypatch.setattr(packing, "_decompress", counted)
    assert asyncio.run(run()) == [40, 50]


def test_withdrawn_labels_leave_the_score(sqlite_ledger: Ledger, process: Process) -> None:
    async def run() -> tuple[Scorer, Scorer, Scorer]:
        store(sqlite_ledger, range(1, 41), None)
        before = await process.current()
        with sqlite_ledger.write() as connection:
            connection.execute(text("UPDATE rounds SET confirmed = 0.0"))
        wrong = await process.caught_up()
        with sqlite_ledger.write() as connection:
            connection.execute(text("UPDATE rounds SET confirmed = NULL"))
        return before, wrong, await process.caught_up()

    before, wrong, after = asyncio.run(run())
    vote = dict.fromkeys(ARMS, "Glad")
    assert wrong.score(vote, "Glad") < before.score(vote, "Glad") - 0.2
    assert after == before


def test_a_model_that_joins_is_known_at_once(sqlite_ledger: Ledger, process: Process) -> None:
    async def run() -> tuple[str, ...]:
        store(sqlite_ledger, range(1, 11), None)
        await process.current()
        return (await process.current((*ARMS, "grey"))).panel.arms

    assert asyncio.run(run()) == ("blue", "green", "grey", "red")


def test_a_ledger_that_fails_costs_no_prediction(sqlite_ledger: Ledger, process: Process) -> None:
    async def run() -> bool:
        first = await process.current()
        with sqlite_ledger.write() as connection:
            connection.execute(text("ALTER TABLE rounds RENAME TO elsewhere"))
        return await process.caught_up() is first

    assert asyncio.run(run())


def test_a_round_keeps_the_policys_own_score(tmp_path: Path) -> None:
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Glad")) as backend:
        [prediction] = backend.predict(task(1))
        [round_] = backend.rounds(1)
    assert prediction["score"] == round_.score != round_.plan["score"]


def test_a_repeated_prediction_has_the_score_it_was_given_first(tmp_path: Path) -> None:
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Sad")) as backend:
        [first] = backend.predict(task(1))
        backend.predict(*(task(number, f"Entry {number}.") for number in range(2, 20)))
        [again] = backend.predict(task(1))
    assert again["score"] == first["score"]


def test_without_calibration_the_policys_own_score_is_shown(tmp_path: Path) -> None:
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Sad"), calibrate=False) as backend:
        [prediction] = backend.predict(task(1))
        [round_] = backend.rounds(1)
    assert prediction["score"] == round_.score == round_.plan["score"]

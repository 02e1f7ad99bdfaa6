"""States in memory are sums over the ledger, with or without snapshots."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from label_studio_requests import Annotation, annotated, task
from sqlalchemy import select, update
from stored_events import append_events
from whole_backend import Backend, says, votes

from backend.learning import states as module
from backend.learning.states import States, latest_findings
from backend.ledger import Ledger, LedgerAccess, events
from backend.ledger.database import tables
from backend.ledger.events import ProjectEvents, StateKey
from backend.testing import Reply
from camvo.state.contribution import Change, Contribution
from camvo.state.exploration import ExplorationRound, VotePattern
from camvo.state.state import State

KEY = StateKey("7.1", "mood", "epoch")
SPLIT = votes(red="Glad", green="Glad", blue="Sad")
D = 3


@pytest.fixture
def access(sqlite_ledger: Ledger) -> Iterator[LedgerAccess]:
    with LedgerAccess.opened(sqlite_ledger, lambda: 5.0) as access:
        yield access


class Process:
    """One process's copies of the states."""

    def __init__(self, access: LedgerAccess) -> None:
        self._access, self._states = access, States(access)

    def restart(self) -> None:
        self._states = States(self._access)

    def current(self, key: StateKey = KEY, lambda_l: float = 1.0, *, linear: bool = True) -> State:
        return asyncio.run(self._states.current(key, dimension=D, lambda_l=lambda_l, linear=linear))


@pytest.fixture
def process(access: LedgerAccess) -> Process:
    return Process(access)


def lesson(seed: int) -> Contribution:
    chance = np.random.default_rng(seed)
    context = chance.normal(size=D)
    changes = tuple(
        Change(arm, float(chance.uniform()), None, float(chance.integers(2))) for arm in ("red", "blue")
    )
    return Contribution(context / np.linalg.norm(context), changes)


def append(ledger: Ledger, contribution: Contribution, key: StateKey = KEY) -> None:
    append_events(ledger, key, [contribution])


def summed(*seeds: int, lambda_l: float = 1.0) -> State:
    state = State(D, lambda_l)
    for seed in seeds:
        state.add(lesson(seed))
    return state


def assert_equal(state: State, expected: State) -> None:
    """Equal counts, and equal sums up to rounding."""
    assert (state.rounds, list(state)) == (expected.rounds, list(expected))
    for name in state:
        arm, other = state[name], expected[name]
        assert arm.rewards == other.rewards
        np.testing.assert_allclose(arm.inverse.full(), other.inverse.full(), rtol=0.0, atol=1e-12)
        np.testing.assert_allclose(arm.b, other.b, rtol=0.0, atol=1e-12)
        np.testing.assert_allclose(arm.mixture.to_list(), other.mixture.to_list(), rtol=0.0, atol=1e-12)


def snapshots(ledger: Ledger) -> list[int]:
    with ledger.read() as connection:
        return sorted(connection.scalars(select(tables.snapshots.c.sequence)))


# -- catching up


def test_a_state_without_events_is_fresh(process: Process) -> None:
    assert_equal(process.current(), State(D))


def test_a_state_is_the_sum_of_its_events_in_order(process: Process, sqlite_ledger: Ledger) -> None:
    for seed in range(5):
        append(sqlite_ledger, lesson(seed))
    assert_equal(process.current(), summed(*range(5)))


def test_news_are_added_at_every_look(process: Process, sqlite_ledger: Ledger) -> None:
    append(sqlite_ledger, lesson(0))
    process.current()
    append(sqlite_ledger, lesson(1))
    assert_equal(process.current(), summed(0, 1))


def test_more_events_than_one_portion_are_all_added(
    process: Process, sqlite_ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PORTION", 2)
    for seed in range(6):
        append(sqlite_ledger, lesson(seed))
    assert_equal(process.current(), summed(*range(6)))


def test_a_look_ends_though_others_append_faster_than_it_reads(
    process: Process, sqlite_ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PORTION", 2)
    seeds = iter(range(4, 1000))
    after = ProjectEvents.after

    def after_and_more(*arguments: Any, **options: Any) -> list[events.Event]:
        found = after(*arguments, **options)
        for seed in itertools.islice(seeds, 3):
            append(sqlite_ledger, lesson(seed))
        return found

    for seed in range(4):
        append(sqlite_ledger, lesson(seed))
    monkeypatch.setattr(ProjectEvents, "after", after_and_more)
    assert 4 <= process.current().rounds < 20


def test_events_of_other_questions_epochs_and_projects_are_left_out(
    process: Process, sqlite_ledger: Ledger
) -> None:
    append(sqlite_ledger, lesson(0))
    for seed, other in enumerate(
        (
            StateKey("7.1", "topic", "epoch"),
            StateKey("7.1", "mood", "other"),
            StateKey("8.1", "mood", "epoch"),
        ),
        start=1,
    ):
        append(sqlite_ledger, lesson(seed), other)
    append(sqlite_ledger, lesson(9))
    assert_equal(process.current(), summed(0, 9))


def test_two_looks_at_once_add_the_news_once(sqlite_ledger: Ledger, access: LedgerAccess) -> None:
    for seed in range(4):
        append(sqlite_ledger, lesson(seed))
    states = States(access)

    async def looks() -> list[State]:
        return await asyncio.gather(*(states.current(KEY, dimension=D, lambda_l=1.0) for _ in range(5)))

    for state in asyncio.run(looks()):
        assert_equal(state, summed(*range(4)))


def test_looks_that_wait_for_one_another_share_a_read(
    sqlite_ledger: Ledger, access: LedgerAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    after = ProjectEvents.after

    def counted(stored: ProjectEvents, sequence: int, **options: Any) -> Any:
        reads.append(sequence)
        return after(stored, sequence, **options)

    monkeypatch.setattr(ProjectEvents, "after", counted)
    states = States(access)

    async def looks() -> None:
        await asyncio.gather(*(states.current(KEY, dimension=D, lambda_l=1.0) for _ in range(5)))

    asyncio.run(looks())
    assert reads == [0]


def test_a_look_sees_what_was_written_before_it_while_another_reads(
    sqlite_ledger: Ledger, access: LedgerAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, opened = threading.Event(), threading.Event()
    after = ProjectEvents.after

    def held(*arguments: Any, **options: Any) -> Any:
        found = after(*arguments, **options)
        entered.set()
        assert opened.wait(30)
        return found

    monkeypatch.setattr(ProjectEvents, "after", held)
    states = States(access)

    async def looks() -> State:
        first = asyncio.create_task(states.current(KEY, dimension=D, lambda_l=1.0))
        await asyncio.to_thread(entered.wait, 30)
        append(sqlite_ledger, lesson(0))
        second = asyncio.create_task(states.current(KEY, dimension=D, lambda_l=1.0))
        await asyncio.sleep(0)
        opened.set()
        await first
        return await second

    assert_equal(asyncio.run(looks()), summed(0))


def test_two_processes_on_one_ledger_have_equal_states(
    process: Process, sqlite_ledger: Ledger, access: LedgerAccess
) -> None:
    other = Process(access)
    for seed in range(3):
        append(sqlite_ledger, lesson(seed))
        process.current()
    assert_equal(other.current(), process.current())


def test_a_state_that_was_dropped_from_memory_comes_back(
    process: Process, sqlite_ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_COPIES", 1)
    append(sqlite_ledger, lesson(0))
    process.current()
    process.current(StateKey("8.1", "mood", "epoch"))
    assert_equal(process.current(), summed(0))


# -- snapshots


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SNAPSHOT_EVERY", 3)


@pytest.mark.usefixtures("often")
def test_a_snapshot_is_saved_every_so_many_events_and_two_are_kept(
    process: Process, sqlite_ledger: Ledger
) -> None:
    for seed in range(10):
        append(sqlite_ledger, lesson(seed))
        process.current()
    assert snapshots(sqlite_ledger) == [6, 9]


@pytest.mark.usefixtures("often")
def test_a_snapshot_and_the_tail_equal_the_sum_from_zero(process: Process, sqlite_ledger: Ledger) -> None:
    for seed in range(8):
        append(sqlite_ledger, lesson(seed))
        process.current()
    process.restart()
    assert_equal(process.current(), summed(*range(8)))


@pytest.mark.usefixtures("often")
def test_a_restart_begins_with_the_latest_snapshot(process: Process, sqlite_ledger: Ledger) -> None:
    """The earlier events are deleted from this ledger, so only the snapshot holds them."""
    for seed in range(7):
        append(sqlite_ledger, lesson(seed))
        process.current()
    with sqlite_ledger.write() as connection:
        connection.execute(tables.events.delete().where(tables.events.c.sequence <= 6))
    process.restart()
    assert_equal(process.current(), summed(*range(7)))


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("damaged", [[6], [3, 6]], ids=["the-latest", "both"])
@pytest.mark.parametrize("garbage", [b"", b"no snapshot", None], ids=["empty", "text", "cut-off"])
def test_a_damaged_snapshot_is_skipped(
    process: Process, sqlite_ledger: Ledger, damaged: list[int], garbage: bytes | None
) -> None:
    for seed in range(7):
        append(sqlite_ledger, lesson(seed))
        process.current()
    state = summed(*range(6)).snapshot()[:-40] if garbage is None else garbage
    with sqlite_ledger.write() as connection:
        for sequence in damaged:
            connection.execute(
                update(tables.snapshots).where(tables.snapshots.c.sequence == sequence).values(state=state)
            )
    process.restart()
    assert_equal(process.current(), summed(*range(7)))


@pytest.mark.usefixtures("often")
def test_another_lambda_sums_anew(process: Process, sqlite_ledger: Ledger) -> None:
    for seed in range(7):
        append(sqlite_ledger, lesson(seed))
        process.current()
    assert_equal(process.current(lambda_l=2.0), summed(*range(7), lambda_l=2.0))


# -- whole backends


def rewards(backend: Backend, number: int) -> dict[str, float]:
    [round_] = backend.rounds(number)
    return {arm: row["rewards"] for arm, row in round_.plan["arms"].items()}


def test_a_process_plans_with_rounds_of_another_process(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT) as one, Backend(tmp_path, SPLIT) as other:
        one.predict(task(1))
        other.predict(task(2))
        one.predict(task(3))
        assert set(rewards(other, 2).values()) == {1}
        assert set(rewards(one, 3).values()) == {2}


def test_a_human_answer_to_one_process_reaches_the_others_plans(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT) as one, Backend(tmp_path, SPLIT) as other:
        one.predict(task(1))
        other.predict(task(2))
        one.hook(annotated(Annotation(number=1, task=1, mood="Sad")))
        other.predict(task(3))
        [round_] = other.rounds(3)
        assert {arm: row["agreement"] for arm, row in round_.plan["arms"].items()} == {
            "red": 0.5,
            "green": 0.5,
            "blue": 0.5,
        }


def test_a_prediction_of_one_process_is_repeated_by_another_for_nothing(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT) as one, Backend(tmp_path, SPLIT) as other:
        assert one.predict(task(1)) == other.predict(task(1))
        assert other.server.count() == 0
        assert len(one.events()) == 1


def test_two_processes_that_annotate_the_same_task_at_once_record_one_round(tmp_path: Path) -> None:
    """The second process finds the round of the first when it records its own."""
    gate = threading.Event()

    def script(body: dict[str, Any]) -> Reply:
        return says(mood="Glad").held_until(gate)

    with (
        Backend(tmp_path, script) as one,
        Backend(tmp_path, script) as other,
        ThreadPoolExecutor(2) as people,
    ):
        asked = [people.submit(backend.predict, task(1)) for backend in (one, other)]
        assert one.server.wait_for(3)
        assert other.server.wait_for(3)
        gate.set()
        first, second = (future.result() for future in asked)
        assert first == second
        assert (len(one.rounds(1)), len(one.events())) == (1, 1)


def test_a_restart_continues_where_it_stopped(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT) as backend:
        before = backend.predict(task(1))
    with Backend(tmp_path, SPLIT) as backend:
        assert backend.predict(task(1)) == before
        backend.predict(task(2))
        assert set(rewards(backend, 2).values()) == {1}


def test_a_restarted_pool_knows_the_usage_of_its_models(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "How much is this?"}]
    with Backend(tmp_path, SPLIT) as backend:
        backend.predict(task(1))
        before = backend.runtime.pool["red"].model.cost(messages)
    with Backend(tmp_path, SPLIT) as backend:
        assert backend.runtime.pool["red"].model.cost(messages) == pytest.approx(before)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_policy_that_begins_to_read_linear_models_has_them_of_all_events(
    restarted: bool, process: Process, sqlite_ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_SNAPSHOT_EVERY", 1)
    lessons = [lesson(seed) for seed in range(3)]
    for one in lessons:
        append(sqlite_ledger, one)
        assert not process.current(linear=False).linear
    if restarted:
        process.restart()
    whole = State(D)
    whole.add(*lessons)
    assert_equal(process.current(linear=True), whole)
    without = process.current(linear=False)
    assert (without.linear, without.rounds) == (False, 3)


def test_what_the_tests_found_does_not_depend_on_which_process_read_the_state_last(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT) as backend:
        for number in range(30):
            backend.predict(task(number, f"Entry {number}."))
        [question] = [event for event in backend.events() if event.sequence == 1]
        key = StateKey(question.project, question.control, question.epoch)
        pattern = VotePattern.of(("red", "blue"), {"red": "Glad", "blue": "Glad"}, everyone=True)
        tested = Contribution(
            np.zeros(backend.runtime.embedder.dimension), (), 1, ExplorationRound(pattern, True)
        )
        append(backend.ledger, tested, key)
        with backend.ledger.read() as connection:
            [found] = latest_findings(connection, key.project).values()
        assert (found["all"], found["rounds"]) == ({"tried": 1, "right": 1}, 31)

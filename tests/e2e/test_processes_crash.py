"""One server through a killed worker, a killed process group, a stop under load, and two Ctrl-C.

Starting a server takes seconds, so all tests share one scenario; each checks one fact that it left behind.
"""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest
from server_process import MODELS, ServerProcess, config_for, task_of, wait_until
from sqlalchemy import Row, func, select

from backend.ledger.database import tables
from backend.testing import OpenAIServer, Reply

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

CALM, WORKER_DIES, GROUP_DIES, STOPPED, LAST = (
    range(1, 9),
    range(20, 32),
    range(40, 52),
    range(60, 66),
    range(80, 82),
)
SEATS = 6
"""Predictions that wait at once for models that hang, while the other endpoints are requested."""

_calls, _events, _rounds, _annotations = tables.calls, tables.events, tables.rounds, tables.human_annotations


class Models:
    """A script of three models that agree on every task.

    While a batch is held back, all models answer its first third and only "red" its second third. The other
    answers wait for :meth:`release`.
    """

    def __init__(self) -> None:
        self.asked: Counter[tuple[int, str]] = Counter()
        self._held: range | None = None
        self._released = threading.Event()
        self._lock = threading.Lock()

    def hold(self, tasks: range) -> None:
        self._held, self._released = tasks, threading.Event()

    def release(self) -> None:
        self._held = None
        self._released.set()

    def __call__(self, body: dict[str, Any]) -> Reply:
        number, model, held = task_of(body), body["model"], self._held
        with self._lock:
            self.asked[number, model] += 1
        reply = Reply.says('{"mood": "Glad"}')
        if held is None or number not in held:
            return reply
        third = (number - held.start) * 3 // len(held)
        answers = third == 0 or (third == 1 and model == "red")
        return reply if answers else reply.held_until(self._released)


@dataclass
class Crash:
    """What a kill during a batch left, and the results of the repeated request.

    Attributes:
        tasks: those of the batch.
        acknowledged: (task, model) of the answers in the ledger at the kill.
        under_way: the calls that were under way then, with what was reserved for each.
        results: the results of the repeated request.
    """

    tasks: range
    acknowledged: set[tuple[int, str]] = field(default_factory=set)
    under_way: dict[int, int] = field(default_factory=dict)
    results: list[Any] = field(default_factory=list)


@dataclass
class Day:
    """What the scenario left behind."""

    server: ServerProcess
    asked: Counter[tuple[int, str]]
    crashes: dict[str, Crash] = field(default_factory=dict)
    annotated: set[int] = field(default_factory=set)
    while_seats_are_taken: dict[str, int] = field(default_factory=dict)
    in_flight: list[list[Any]] = field(default_factory=list)
    codes: dict[str, int] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    first_answers: list[Any] = field(default_factory=list)
    repeated_answers: list[Any] = field(default_factory=list)
    calls_of_the_repeat: int = -1
    sequence_before_stop: int = -1
    sequences_after_start: list[int] = field(default_factory=list)


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    folder, models = tmp_path_factory.mktemp("day"), Models()
    with OpenAIServer(models) as openai:
        config = config_for(openai, folder, deadline=20, policy={"name": "joint"})
        with ServerProcess(folder, config) as server, ThreadPoolExecutor(16) as people:
            day = Day(server, models.asked)
            server.start()
            day.first_answers = server.predict(CALM)
            _annotate(day, CALM.start)

            crash = _in_the_middle(day, models, people, WORKER_DIES)
            server.kill_worker()
            day.crashes["worker"] = _afterwards(day, models, crash)

            crash = _in_the_middle(day, models, people, GROUP_DIES)
            server.kill()
            server.ledger.close()
            server.start()
            day.crashes["group"] = _afterwards(day, models, crash)

            _stop_under_load(day, models, people)
            server.start()
            _work_on(day)
            _interrupt(day)
            yield day
            models.release()


def _annotate(day: Day, number: int) -> None:
    assert day.server.annotate(number, "Sad").status_code == 200
    day.annotated.add(number)


def _in_the_middle(day: Day, models: Models, people: ThreadPoolExecutor, tasks: range) -> Crash:
    """Start a batch; return when a third is decided, a third has one answer and a third has none."""
    models.hold(tasks)
    people.submit(day.server.predict, tasks)
    answered = len(tasks) // 3 * (len(MODELS) + 1)
    wait_until(
        lambda: len(_asked_of(day, tasks)) == len(tasks) * 3 and len(_settled(day, tasks)) == answered,
        "batch half done",
    )
    wait_until(lambda: len(_rounds_of(day, tasks)) == len(tasks) // 3, "rounds of the first third")
    _annotate(day, tasks[0])  # its round is recorded
    _annotate(day, tasks[-1])  # its round is not, because no model has answered
    open_calls = day.server.rows(select(_calls.c.id, _calls.c.reserved).where(_calls.c.state == "reserved"))
    return Crash(tasks, _settled(day, tasks), {row.id: row.reserved for row in open_calls})


def _afterwards(day: Day, models: Models, crash: Crash) -> Crash:
    """Repeat the request to the restarted process, which takes over what the dead one had under way."""
    models.release()
    day.server.await_ready()
    for pair in [pair for pair in day.asked if pair[0] in crash.tasks]:
        day.asked[pair] = 0
    crash.results = day.server.predict(crash.tasks)
    return crash


def _stop_under_load(day: Day, models: Models, people: ThreadPoolExecutor) -> None:
    """Take every seat, request the other endpoints, then send SIGTERM twice."""
    models.hold(range(STOPPED.start - len(STOPPED) * 10, STOPPED.stop))  # puts all of them in the last third
    waiting: list[Future[list[Any]]] = [
        people.submit(day.server.predict, [number]) for number in STOPPED[:SEATS]
    ]
    wait_until(lambda: len(_asked_of(day, STOPPED)) == len(STOPPED) * 3, "models hanging")
    day.while_seats_are_taken["/health"] = day.server.get("/health").status_code
    day.while_seats_are_taken["/webhook"] = day.server.annotate(STOPPED[0], "Sad").status_code
    day.annotated.add(STOPPED[0])
    assert not any(request.done() for request in waiting)
    day.server.signal(signal.SIGTERM)
    wait_until(lambda: not day.server.listens, "closed door")
    day.server.signal(signal.SIGTERM)
    models.release()
    day.in_flight = [request.result() for request in waiting]
    day.codes["two SIGTERMs"] = day.server.end()
    day.logs["two SIGTERMs"] = day.server.log
    day.sequence_before_stop = max(row.sequence for row in day.server.rows(select(_events.c.sequence)))


def _work_on(day: Day) -> None:
    """Predict the first batch again, then new tasks."""
    before = sum(day.asked.values())
    day.repeated_answers = day.server.predict(CALM)
    day.calls_of_the_repeat = sum(day.asked.values()) - before
    day.server.predict(LAST)
    newer = select(_events.c.sequence).where(_events.c.sequence > day.sequence_before_stop)
    day.sequences_after_start = sorted(row.sequence for row in day.server.rows(newer))


def _interrupt(day: Day) -> None:
    """Send Ctrl-C twice, as from a terminal."""
    day.server.signal(signal.SIGINT, group=True)
    day.server.signal(signal.SIGINT, group=True)
    day.codes["two Ctrl-C"] = day.server.end()
    day.logs["two Ctrl-C"] = day.server.log


def _asked_of(day: Day, tasks: range) -> set[tuple[int, str]]:
    return {pair for pair in list(day.asked) if pair[0] in tasks}


def _settled(day: Day, tasks: range) -> set[tuple[int, str]]:
    """(task, model) of every answer in the ledger."""
    query = select(_calls.c.task, _calls.c.model).where(_calls.c.state == "settled")
    return {(row.task, row.model) for row in day.server.rows(query) if row.task in tasks}


def _rounds_of(day: Day, tasks: range) -> list[Row[Any]]:
    return [row for row in day.server.rows(select(_rounds)) if row.task in tasks]


crashes = pytest.mark.parametrize("victim", ["worker", "group"])


@crashes
def test_an_answer_that_was_stored_before_kill_9_is_not_asked_for_again(day: Day, victim: str) -> None:
    crash = day.crashes[victim]
    assert len(crash.acknowledged) == 16
    assert not [pair for pair in crash.acknowledged if day.asked[pair]]


@crashes
def test_what_was_not_stored_is_asked_for_once_after_kill_9(day: Day, victim: str) -> None:
    crash = day.crashes[victim]
    missing = {(number, model) for number in crash.tasks for model in MODELS} - crash.acknowledged
    assert {pair: day.asked[pair] for pair in missing} == dict.fromkeys(missing, 1)


@crashes
def test_every_task_has_its_prediction_after_kill_9(day: Day, victim: str) -> None:
    assert all(result for result in day.crashes[victim].results)


@crashes
def test_no_round_is_recorded_twice_after_kill_9(day: Day, victim: str) -> None:
    tasks = day.crashes[victim].tasks
    assert Counter(row.task for row in _rounds_of(day, tasks)) == Counter(tasks)


@crashes
def test_a_call_that_died_counts_with_what_such_calls_usually_cost(day: Day, victim: str) -> None:
    under_way = day.crashes[victim].under_way
    assert len(under_way) == 20
    rows = day.server.rows(select(_calls).where(_calls.c.id.in_(under_way)))
    assert {row.state for row in rows} == {"lost"}
    (usual,) = day.server.rows(select(func.avg(_calls.c.cost)).where(_calls.c.state == "settled"))[0]
    assert [row.cost for row in rows] == pytest.approx([usual] * len(rows), rel=0.1)
    assert all(row.cost < row.reserved / 2 for row in rows)


def test_the_account_is_the_sum_of_all_calls_and_nothing_stays_reserved(day: Day) -> None:
    query = select(tables.accounts).where(tables.accounts.c.scope == "total")
    (account,) = day.server.rows(query)
    assert account.reserved == 0
    assert account.spent == day.server.rows(select(func.sum(_calls.c.cost)))[0][0]


def test_no_human_answer_that_was_accepted_is_lost(day: Day) -> None:
    stored = {row.task: row.labels for row in day.server.rows(select(_annotations))}
    assert stored == {number: {"mood": "Sad"} for number in day.annotated}
    assert len(stored) == 6


def test_every_human_answer_teaches_its_round_whether_it_came_before_or_after(day: Day) -> None:
    rounds = {row.task: row for row in day.server.rows(select(_rounds))}
    by_human = {number for number, row in rounds.items() if row.taught_by == "human"}
    assert by_human == day.annotated
    assert {rounds[number].taught for number in by_human} == {"Sad"}


def test_event_numbers_have_no_gaps_and_no_doubles_after_everything(day: Day) -> None:
    sequences = [
        row.sequence for row in day.server.rows(select(_events.c.sequence).order_by(_events.c.sequence))
    ]
    assert sequences == list(range(1, len(sequences) + 1))


def test_every_round_taught_exactly_once(day: Day) -> None:
    taught = day.server.rows(select(_events.c.round_id).where(_events.c.kind == "round"))
    assert sorted(row.round_id for row in taught) == sorted(
        row.id for row in day.server.rows(select(_rounds))
    )


@pytest.mark.parametrize("path", ["/health", "/webhook"])
def test_other_endpoints_answer_while_every_prediction_seat_is_taken(day: Day, path: str) -> None:
    assert day.while_seats_are_taken[path] == 200


def test_a_prediction_in_flight_is_answered_after_sigterm(day: Day) -> None:
    assert [[len(result["result"]) for result in results] for results in day.in_flight] == [[1]] * SEATS


def test_predictions_answered_during_the_stop_are_in_the_ledger(day: Day) -> None:
    assert {row.task for row in _rounds_of(day, STOPPED)} == set(STOPPED)


def test_a_repeat_after_a_restart_asks_no_model(day: Day) -> None:
    assert day.calls_of_the_repeat == 0


def test_a_repeat_after_a_restart_brings_the_same_predictions(day: Day) -> None:
    assert day.repeated_answers == day.first_answers


def test_event_numbers_continue_after_a_restart(day: Day) -> None:
    first = day.sequence_before_stop + 1
    assert day.sequences_after_start == list(range(first, first + len(LAST)))


@pytest.mark.parametrize("stop", ["two SIGTERMs", "two Ctrl-C"])
def test_a_stopped_server_ends_with_code_0(day: Day, stop: str) -> None:
    assert day.codes[stop] == 0


@pytest.mark.parametrize("stop", ["two SIGTERMs", "two Ctrl-C"])
def test_a_stopped_server_prints_no_traceback(day: Day, stop: str) -> None:
    assert "Traceback" not in day.logs[stop]


def test_a_stopped_server_leaves_no_temporary_folder(day: Day) -> None:
    # the group that was killed with -9 could not tidy up; the other two starts did
    left = list(day.server.temporary.glob("camvo-*"))
    assert len(left) == 1


def test_no_text_of_a_task_is_in_the_log(day: Day) -> None:
    assert "of the diary" not in day.server.log_path.read_text()

"""Two worker processes on one ledger: many requests at once, each model answer paid for once."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil  # type: ignore[import-untyped]
import pytest
from prometheus_client.mmap_dict import MmapedDict
from prometheus_client.parser import text_string_to_metric_families
from server_process import MODELS, ServerProcess, config_for, task_of, wait_until
from sqlalchemy import func, select

from backend.ledger.database import tables
from backend.ledger.database.packing import with_context
from backend.ledger.rounds import ProjectRounds, Round
from backend.testing import OpenAIServer, Reply
from camvo.state.contribution import Contribution
from camvo.state.state import State

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

TASKS = range(1, 13)
FIRST, SECOND = range(1, 9), range(5, 13)
"""The tasks of the first and of the second worker, four of them shared.

A process begins with eight calls of a model at once, so no more are held back.
"""

TIMES = 4
_LABELS = ("Glad", "Sad", "Calm")


class Models:
    """A script of models that disagree and answer once ``answer`` is set."""

    def __init__(self) -> None:
        self.answer = threading.Event()

    def __call__(self, body: dict[str, Any]) -> Reply:
        number, model = task_of(body), body["model"]
        label = {"red": _LABELS[number % 3], "green": _LABELS[number % 2], "blue": "Glad"}[model]
        return Reply.says({"mood": label}).held_until(self.answer)


@dataclass
class Rush:
    """What many simultaneous requests left behind."""

    server: ServerProcess
    models: OpenAIServer
    results: dict[range, list[list[Any]]] = field(default_factory=dict)
    requests_by_worker: dict[int, float] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)


@pytest.fixture(scope="module")
def rush(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rush]:
    folder, models = tmp_path_factory.mktemp("rush"), Models()
    with (
        OpenAIServer(models) as openai,
        ThreadPoolExecutor(2 * TIMES) as people,
        ServerProcess(folder, config_for(openai, folder)) as server,
    ):
        server.start("--workers", "2")
        rush = Rush(server, openai)
        wait_until(lambda: len(_requests_by_worker(server)) == 2, "second worker")
        first, second = server.workers
        # A stopped worker accepts no request, so each worker gets four identical ones.
        with _stopped(second):
            asked = [people.submit(server.predict, FIRST) for _ in range(TIMES)]
            assert openai.wait_for(len(FIRST) * len(MODELS))
        with _stopped(first):
            asked += [people.submit(server.predict, SECOND) for _ in range(TIMES)]
            assert openai.wait_for(len(TASKS) * len(MODELS))
        models.answer.set()
        rush.results = {
            FIRST: [request.result() for request in asked[:TIMES]],
            SECOND: [request.result() for request in asked[TIMES:]],
        }
        rush.requests_by_worker = _requests_by_worker(server)
        rush.metrics = _exposed(server)
        yield rush


@contextmanager
def _stopped(worker: int) -> Iterator[None]:
    os.kill(worker, signal.SIGSTOP)
    wait_until(lambda: psutil.Process(worker).status() == psutil.STATUS_STOPPED, "stopped worker")
    try:
        yield
    finally:
        os.kill(worker, signal.SIGCONT)


def _requests_by_worker(server: ServerProcess) -> dict[int, float]:
    """Worker → requests counted in its own file; makes one more request first."""
    server.get("/versions")
    counted: dict[int, float] = {}
    for worker in server.workers:
        for path in server.temporary.glob(f"camvo-metrics-*/counter_{worker}.db"):
            values = MmapedDict.read_all_values_from_file(str(path))  # type: ignore[no-untyped-call]
            counted[worker] = sum(value for key, value, *_ in values if "camvo_requests" in key)
    return {worker: number for worker, number in counted.items() if number}


def _exposed(server: ServerProcess) -> dict[str, float]:
    """Metric → its value in GET /metrics, summed over labels."""
    sums: dict[str, float] = defaultdict(float)
    for family in text_string_to_metric_families(server.get("/metrics").text):
        for sample in family.samples:
            sums[sample.name] += sample.value
    return sums


def _rounds(rush: Rush) -> list[Round]:
    with rush.server.ledger.read() as connection:
        columns = tables.rounds.c
        tasks = connection.execute(select(columns.project, columns.task).distinct()).all()
        return [round_ for key, number in tasks for round_ in ProjectRounds(connection, key).of_task(number)]


def test_each_model_is_asked_once_for_each_task(rush: Rush) -> None:
    asked = Counter((task_of(request.body), request.model) for request in rush.models.requests)
    assert asked == Counter((number, model) for number in TASKS for model in MODELS)


def test_each_answer_is_paid_for_once(rush: Rush) -> None:
    paid = rush.server.rows(select(tables.calls.c.task, tables.calls.c.model, tables.calls.c.state))
    assert Counter(map(tuple, paid)) == Counter(
        (number, model, "settled") for number in TASKS for model in MODELS
    )


def test_there_is_one_round_for_each_task(rush: Rush) -> None:
    assert sorted(round_.key.task for round_ in _rounds(rush)) == list(TASKS)


@pytest.mark.parametrize("tasks", [FIRST, SECOND])
def test_identical_requests_get_identical_answers(rush: Rush, tasks: range) -> None:
    first, *others = rush.results[tasks]
    assert all(first)
    assert others == [first] * (TIMES - 1)


def test_both_workers_predict_the_same_for_a_task(rush: Rush) -> None:
    by_first, by_second = (dict(zip(tasks, rush.results[tasks][0], strict=True)) for tasks in (FIRST, SECOND))
    shared = set(FIRST) & set(SECOND)
    assert {number: by_first[number] for number in shared} == {number: by_second[number] for number in shared}


def test_event_numbers_are_gapless(rush: Rush) -> None:
    column = tables.events.c.sequence
    assert [row[0] for row in rush.server.rows(select(column).order_by(column))] == list(TASKS)


def test_the_sum_over_the_ledger_is_the_one_counted_from_the_rounds(rush: Rush) -> None:
    events, contexts = tables.events.c, tables.contexts.c
    stored = (
        select(events.contribution, contexts.context)
        .join(tables.contexts, contexts.round_id == events.round_id)
        .order_by(events.sequence)
    )
    contributions = [Contribution.unpack(with_context(*row)) for row in rush.server.rows(stored)]
    state = State(len(contributions[0].context))
    for contribution in contributions:
        state.add(contribution)
    recorded = _rounds(rush)
    for model in MODELS:
        contexts = np.array([round_.context for round_ in recorded])
        rewards = np.array([float(round_.votes[model] == round_.label) for round_ in recorded])
        inverse = np.linalg.inv(np.eye(state.dimension) + contexts.T @ contexts)
        arm = state[model]
        assert (arm.rewards, arm.reward_sum) == (len(TASKS), rewards.sum())
        assert np.allclose(arm.b, contexts.T @ rewards, rtol=0, atol=1e-9)
        assert np.allclose(arm.inverse.full(), inverse, rtol=0, atol=1e-9)


def test_the_models_earned_different_rewards(rush: Rush) -> None:
    earned = {model: sum(r.votes[model] == r.label for r in _rounds(rush)) for model in MODELS}
    assert len(set(earned.values())) > 1


def test_metrics_sum_over_both_workers(rush: Rush) -> None:
    assert rush.metrics["camvo_model_calls_total"] == len(TASKS) * len(MODELS)
    assert rush.metrics["camvo_rounds_total"] == len(TASKS)
    assert len(rush.requests_by_worker) == 2
    # the request for the metrics counts itself only afterwards
    assert rush.metrics["camvo_requests_total"] == sum(rush.requests_by_worker.values())


def test_money_in_metrics_is_the_money_in_the_ledger(rush: Rush) -> None:
    cost = rush.server.rows(select(func.sum(tables.calls.c.cost)))[0][0]
    assert rush.metrics["camvo_model_dollars_total"] == pytest.approx(cost / 1e12)


def test_the_status_sums_over_both_workers(rush: Rush) -> None:
    status = rush.server.get("/status").json()
    (project,) = status["projects"]
    assert status["server"]["tasks"] == {"predicted": TIMES * (len(FIRST) + len(SECOND))}
    assert 0.0 < status["server"]["started_at"] < status["generated_at"]
    assert (project["rounds"], project["tasks_under_way"]) == (len(TASKS), 0)


def test_a_worker_that_ends_leaves_the_others_their_metrics(rush: Rush) -> None:
    """Runs last: a successor that does not find the metrics' folder would stop the whole server."""
    server = rush.server
    old = set(server.workers)
    os.kill(min(old), signal.SIGTERM)
    wait_until(lambda: len(set(server.workers) - old) == 1, "successor")
    (new,) = set(server.workers) - old
    wait_until(lambda: not server.running or _has_file(server.temporary, new), "successor's metrics")
    assert server.running, server.log
    assert _exposed(server)["camvo_model_calls_total"] == len(TASKS) * len(MODELS)


def _has_file(folder: Path, worker: int) -> bool:
    return any(folder.glob(f"camvo-metrics-*/*_{worker}.db"))

"""SIGTERM during a batch that Label Studio waits for, and a restart after it."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from installation import Installation, variables
from label_studio import LabelStudio
from server_process import MODELS, ServerProcess, config_for, wait_until

from backend.testing import OpenAIServer, Reply

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

DEADLINE = 10.0
"""Seconds for the request that the signal interrupts."""

BOUND = DEADLINE + 15.0
"""Seconds after which gunicorn kills a worker that has not ended by itself."""

SOON, STOPPING, NEVER = "soon", "while the server stops", "not before the next start"
TASKS = {SOON: 6, STOPPING: 4, NEVER: 4}
"""When "blue" answers → for how many tasks; "red" and "green" answer at once.

A process begins with eight calls of a model at once, so no more are held back.
"""

TEXTS = [f"Day {number}, {when}." for when, count in TASKS.items() for number in range(count)]


class Models:
    """A script of three models that agree; "blue" holds back some answers."""

    def __init__(self) -> None:
        self.may = {STOPPING: threading.Event(), NEVER: threading.Event()}

    def __call__(self, body: dict[str, Any]) -> Reply:
        reply = Reply.says({"mood": "Glad"})
        if body["model"] != "blue":
            return reply
        text = body["messages"][-1]["content"]
        return next((reply.held_until(event) for when, event in self.may.items() if when in text), reply)


@dataclass(frozen=True)
class Stop:
    """What the scenario left behind.

    Attributes:
        code: the server's exit code.
        seconds: from the signal to the server's end.
        stopped: the number of predictions of each task after the stop.
        restarted: the same after a restart and a retrieve.
        asked: (when "blue" answers, model) → how often the model was asked about such tasks in all.
    """

    code: int
    seconds: float
    stopped: list[int]
    restarted: list[int]
    asked: Counter[tuple[str, str]]


@pytest.fixture(scope="module")
def stop(studio: LabelStudio, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stop]:
    folder, script = tmp_path_factory.mktemp("server"), Models()
    with (
        OpenAIServer(script) as models,
        ServerProcess(folder, config_for(models, folder, deadline=DEADLINE), **variables(studio)) as server,
        ThreadPoolExecutor(1) as person,
    ):
        server.start()
        installation = Installation(studio, server)
        project = installation.connected()
        installation.add(project, *({"text": text} for text in TEXTS))
        retrieving = person.submit(installation.retrieve, project)
        wait_until(lambda: models.count() == len(TEXTS) * len(MODELS), "question to every model")
        server.signal(signal.SIGTERM)
        signalled = time.monotonic()
        wait_until(lambda: not server.listens, "closed door")
        assert not retrieving.done()
        script.may[STOPPING].set()
        retrieving.result()
        code, seconds = server.end(), time.monotonic() - signalled
        stopped = installation.per_task(project)
        script.may[NEVER].set()
        server.start("--port", server.url.rpartition(":")[2])
        installation.retrieve(project)
        yield Stop(
            code,
            seconds,
            stopped,
            installation.per_task(project),
            Counter((_kind(request.body), request.model) for request in models.requests),
        )


def _kind(body: dict[str, Any]) -> str:
    text = body["messages"][-1]["content"]
    return next(when for when in TASKS if when in text)


def test_what_is_decided_before_the_deadline_reaches_label_studio(stop: Stop) -> None:
    assert stop.stopped == [1] * (TASKS[SOON] + TASKS[STOPPING]) + [0] * TASKS[NEVER]


def test_the_server_ends_by_itself_with_code_0(stop: Stop) -> None:
    assert stop.code == 0
    assert stop.seconds < BOUND


def test_after_a_restart_a_retrieve_gives_every_task_its_prediction(stop: Stop) -> None:
    assert stop.restarted == [1] * len(TEXTS)


def test_no_model_is_asked_again_what_it_has_answered(stop: Stop) -> None:
    once = {(when, model): count for when, count in TASKS.items() for model in MODELS}
    assert stop.asked == once | {(NEVER, "blue"): 2 * TASKS[NEVER]}

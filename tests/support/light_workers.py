"""Worker processes that start in milliseconds, and a supervisor that kills them at random moments.

::

    python light_workers.py '{"url": …, "folder": …, "seed": 7, "kills": 100}'

Each worker is a fork of the supervisor, which has imported the backend already. It is a whole runtime, with
the real ledger, the real pool, and the real annotator; only litellm and the embedder are replaced
(:mod:`scripted_litellm`). It predicts tasks and posts annotations until it is killed. What it bought, and
which writes were acknowledged to it, is in a :class:`Journal`, for :mod:`ledger_audit`.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import migrated
import yaml
from journal import Journal
from label_studio_requests import Annotation, Project, annotated, task
from ledger_audit import Books
from scripted_litellm import LABELS, HashedTexts, ScriptedLitellm
from server_process import child, open_calls, wait_until

from backend import runtime as annotation_process
from backend import settings
from backend.label_studio.payloads import parse_webhook
from backend.models import model as litellm_info
from backend.models.call_ledger import CallLedger
from backend.questions import parse_label_config
from backend.server.runtime import Runtime
from backend.settings import Environment

MODELS = ("red", "green", "blue")
AT_ONCE = 4
"""Tasks in one request, and so at most ``AT_ONCE * len(MODELS)`` purchases in flight in a worker."""

PATIENCE = 240.0
"""Seconds after which a run of the supervisor has failed."""

_WINDOW = 16
"""Tasks that a worker chooses from. The windows of consecutive workers overlap, so that they meet."""

_PORTION = 40
"""Tasks of one request after the kills."""

_STEP = 3
"""By how many tasks a worker's window is ahead of the previous one's."""


@dataclass(frozen=True)
class Killing:
    """One run of the supervisor.

    Attributes:
        url: the migrated ledger.
        folder: where ``journal.jsonl`` is written.
        seed: of the moments, the victims and the order of tasks.
        kills: how many workers are killed with SIGKILL.
        policy: the name of the policy.
        ahead: by how many seconds the clock of every third worker is ahead, as on another host.
        workers: how many run at a time.
        longest: seconds that a worker which has started is left alone before it is killed, at most.
    """

    url: str
    folder: str
    seed: int
    kills: int
    policy: str = "joint"
    ahead: float = 0.0
    workers: int = 3
    longest: float = 0.25

    @property
    def journal(self) -> Path:
        return Path(self.folder) / "journal.jsonl"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def window(self, worker: int) -> range:
        """The tasks of the worker with this number, counted over all that were started."""
        return range(1 + _STEP * worker, 1 + _STEP * worker + _WINDOW)

    @property
    def tasks(self) -> range:
        """Every task that a worker may have predicted."""
        return range(1, self.window(self.kills + self.workers).stop)


@contextlib.contextmanager
def light_runtime(
    url: str,
    folder: Path,
    purchased: Callable[[str, str], str],
    *,
    seconds: Callable[[], float],
    clock: Callable[[], float] = time.time,
    deadline: float = 60.0,
    policy: str = "joint",
) -> Iterator[Runtime]:
    """A runtime with the scripted provider, which replaces litellm in this process meanwhile."""
    provider = ScriptedLitellm(purchased, seconds)
    config = folder / "camvo.yaml"
    if not config.exists():
        temporary = folder / f"camvo.{os.getpid()}.yaml"
        entries = [
            {
                "name": name,
                "model": f"openai/{name}",
                "api_base": "-",
                "input_price": 1.0,
                "output_price": 2.0,
            }
            for name in MODELS
        ]
        temporary.write_text(
            yaml.safe_dump(
                {"models": entries, "deadline": deadline, "prefill": 0.0, "policy": {"name": policy}}
            )
        )
        temporary.rename(config)
    environment = Environment(database_url=url, config=config)
    _forget_counts()
    with patch.multiple(litellm_info, litellm=lambda: provider, complete=provider.complete):
        with patch.object(annotation_process, "Embedder", return_value=HashedTexts()):
            runtime = Runtime(settings.load(config), environment, clock=clock)
        try:
            yield runtime
        finally:
            runtime.close()
            _forget_counts()


def _forget_counts() -> None:
    """Forget the counted tokens, which the scripted litellm counts in another way."""
    for counter in (litellm_info.count_tokens, litellm_info._of_message, litellm_info._of_prompt):
        counter.cache_clear()


def predict(runtime: Runtime, numbers: Sequence[int]) -> dict[int, str]:
    """The labels of the tasks that got a prediction, as :meth:`Runtime.predict` acknowledged them."""
    project = Project()
    config, settings = parse_label_config(project.label_config), runtime.projects.to_predict(project.key)
    answers = runtime.predict(project.key, config, settings, [task(number) for number in numbers]).result()
    return {
        number: answer.prediction["result"][0]["value"]["choices"][0]
        for number, answer in zip(numbers, answers, strict=True)
        if isinstance(answer.prediction, dict)
    }


class _KnownCalls(CallLedger):
    """The call ledger of a worker, which notes that the worker has started."""

    journal: Journal
    worker: int

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.journal.note("started", worker=self.worker)


def _work(killing: Killing, number: int) -> None:
    """Predict and annotate until killed."""
    rng = random.Random(f"{killing.seed} worker {number}")  # noqa: S311 - a repeatable run
    journal = Journal(killing.journal)
    _KnownCalls.journal, _KnownCalls.worker = journal, number
    annotation_process.CallLedger = _KnownCalls  # type: ignore[misc]
    true_time, ahead = time.time, 0.0 if number % 3 else killing.ahead

    def clock() -> float:
        return true_time() + ahead

    with (
        patch("time.time", clock),
        light_runtime(
            killing.url,
            Path(killing.folder),
            purchases(journal, number),
            seconds=lambda: rng.uniform(0.0, 0.05),
            clock=clock,
            policy=killing.policy,
        ) as runtime,
    ):
        for count in itertools.count(1):
            numbers = rng.sample(killing.window(number), AT_ONCE)
            for predicted, label in predict(runtime, numbers).items():
                journal.note("predicted", task=predicted, label=label)
            # Some annotations come before the prediction of their task, and some after it.
            annotated_task, first = rng.choice(killing.window(number)), 1000 * number + 2 * count
            # The same annotator may annotate a task again, and see it in another way.
            for annotation in range(first, first + rng.choice((1, 2))):
                annotate(runtime, journal, annotation, annotated_task, rng.choice(LABELS))


def purchases(journal: Journal, buyer: int) -> Callable[[str, str], str]:
    """The provider's own account: a function that notes one purchase of a process and returns its number."""
    count = itertools.count()

    def purchased(model: str, prompt: str) -> str:
        number = f"{buyer}.{next(count)}"
        journal.note("bought", number=number, model=model, prompt=prompt, buyer=buyer)
        return number

    return purchased


def annotate(runtime: Runtime, journal: Journal, number: int, task_number: int, mood: str) -> None:
    """Post a webhook, and note it once it is acknowledged."""
    runtime.learn(parse_webhook(annotated(Annotation(number=number, task=task_number, mood=mood))))
    journal.note("annotated", annotation=number, task=task_number, mood=mood)


def run(killing: Killing) -> None:
    """Start workers, kill them one by one, and at last let one worker predict every task in peace."""
    rng = random.Random(killing.seed)  # noqa: S311 - a repeatable run
    _rehearse()
    journal = Journal(killing.journal)
    numbers = itertools.count()
    alive: dict[int, int] = {}  # worker → process
    for _ in range(killing.workers):
        _start(killing, next(numbers), alive)
    try:
        for _ in range(killing.kills):
            victim = rng.choice(sorted(alive))
            _await_start(journal, victim, alive[victim])
            time.sleep(rng.uniform(0.0, killing.longest))
            _kill(journal, victim, alive.pop(victim))
            _start(killing, next(numbers), alive)
    finally:
        for worker, process in alive.items():
            _kill(journal, worker, process)
    _predict_everything(killing, journal, next(numbers))


def _rehearse() -> None:
    """Predict once, so that the workers inherit what a first request imports and compiles."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        journal = Journal(folder / "journal.jsonl")
        url = migrated.sqlite(folder / "ledger.sqlite")
        with light_runtime(url, folder, purchases(journal, 0), seconds=lambda: 0.0) as runtime:
            annotate(runtime, journal, 1, 1, LABELS[0])
            predict(runtime, range(1, 9))
        journal.close()
    gc.freeze()
    if threading.active_count() > 1:
        raise SystemExit(f"a fork would lose these threads: {threading.enumerate()}")


def _start(killing: Killing, number: int, alive: dict[int, int]) -> None:
    process = os.fork()
    if process:
        alive[number] = process
        return
    try:
        _work(killing, number)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)  # a worker ends by SIGKILL; any other end is a failure


def _await_start(journal: Journal, worker: int, process: int) -> None:
    while not any(event["worker"] == worker for event in journal.events("started")):
        if os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            raise SystemExit(f"worker {worker} ended by itself, see its traceback above")
        time.sleep(0.005)


def _kill(journal: Journal, worker: int, process: int) -> None:
    """Kill a worker; the others take over what it has claimed."""
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    if not os.WIFSIGNALED(status):
        raise SystemExit(f"worker {worker} ended by itself, see its traceback above")
    journal.note("killed", worker=worker)


def _predict_everything(killing: Killing, journal: Journal, number: int) -> None:
    with light_runtime(
        killing.url,
        Path(killing.folder),
        purchases(journal, number),
        seconds=lambda: 0.0,
        policy=killing.policy,
    ) as runtime:
        wait_until(lambda: not open_calls(runtime.ledger), "booking of the lost calls")
        for start in range(0, len(killing.tasks), _PORTION):
            for predicted, label in predict(runtime, killing.tasks[start : start + _PORTION]).items():
                journal.note("predicted", task=predicted, label=label)
    journal.note("done")


def run_in_process(killing: Killing) -> None:
    """Run the supervisor in a process of its own: only a process without threads may fork."""
    subprocess.run(  # noqa: S603 - our own program
        [sys.executable, __file__, killing.to_json()],
        env=child(PYTHONPATH=python_path()),
        check=True,
        timeout=PATIENCE,
    )


def python_path() -> str:
    """The PYTHONPATH with which a program in tests/support finds what this process finds."""
    return os.pathsep.join(filter(None, sys.path))


def books_of(path: Path) -> Books:
    """The provider's and the clients' books, from a journal."""
    journal, books = Journal(path), Books()
    for event in journal.events("bought"):
        books.buy(event["number"], event["model"], event["prompt"], event["buyer"])
    books.killed = {event["worker"] for event in journal.events("killed")}
    books.predicted = {event["task"]: event["label"] for event in journal.events("predicted")}
    books.annotated = {
        event["annotation"]: (event["task"], event["mood"]) for event in journal.events("annotated")
    }
    journal.close()
    return books


if __name__ == "__main__":
    run(Killing(**json.loads(sys.argv[1])))

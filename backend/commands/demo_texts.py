"""The demo's server, and texts that are sent to it as Label Studio sends them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from typing import IO, Any

import httpx
from rich.console import Console
from rich.markup import escape

from backend.commands.shared.backend_client import BackendClient
from backend.commands.shared.output import say
from backend.ledger import Ledger
from backend.ledger.database.statements import portions
from backend.ledger.rounds import ProjectRounds, Round
from backend.questions import parse_label_config
from backend.settings import Environment, child_environment
from camvo.errors import CamvoError
from camvo.student import STUDENT

_CREATED = datetime(2026, 11, 1, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _DemoProject:
    """A Label Studio project: its number, title and label config."""

    number: int
    title: str
    label_config: str

    @property
    def key(self) -> str:
        """The project's key in ``/setup`` and ``/predict``: its id and the Unix time of its creation."""
        return f"{self.number}.{int(_CREATED.timestamp())}"

    def annotation(self, task: Mapping[str, Any], region: Mapping[str, Any]) -> dict[str, Any]:
        """A webhook's body about a human label with one region."""
        now = datetime.now(UTC).isoformat()
        return {
            "action": "ANNOTATION_CREATED",
            "annotation": {
                "id": task["id"],
                "result": [{**region, "id": f"region-{task['id']}", "origin": "manual"}],
                "was_cancelled": False,
                "ground_truth": False,
                "created_at": now,
                "updated_at": now,
                "lead_time": 4.2,
                "task": task["id"],
                "completed_by": 1,
                "parent_prediction": None,
            },
            "task": dict(task),
            "project": {
                "id": self.number,
                "title": self.title,
                "label_config": self.label_config,
                "model_version": "camvo",
                "created_at": _CREATED.isoformat(),
            },
        }


@dataclass(frozen=True, slots=True)
class _DemoText:
    """A text of the demo: the task as Label Studio sends it, and the right label."""

    task: dict[str, Any]
    gold: str


@dataclass(frozen=True, slots=True)
class _LabelledText:
    """A text with its prediction and its round in the ledger."""

    text: _DemoText
    prediction: dict[str, Any]
    round: Round

    @property
    def right(self) -> bool:
        """Whether the voted label is the right one."""
        return self.round.label == self.text.gold


_BEFORE_THE_TEXT = 27
"""The width of a prediction's mark, label and score."""

_SHOWN = 3
"""Predictions of each project that are printed."""


def _print_predictions(console: Console, labelled: Sequence[_LabelledText]) -> None:
    """Print a line for each prediction."""
    width = console.width - _BEFORE_THE_TEXT
    for result in labelled:
        label, score = escape(result.round.label), result.prediction["score"]
        mark = "[green]✓[/]" if result.right else "[red]✗[/]"
        text = result.text.task["data"]["text"]
        short = text if len(text) <= width else text[: width - 1] + "…"
        line = f"{mark} [bold]{label:<18}[/] {score:.2f}  {escape(short)}"
        say(console, line)


_PATIENCE = 90.0
"""Seconds until the server must be ready; importing torch and litellm takes most of them."""


@dataclass(frozen=True, slots=True)
class _RunningServer:
    """The server's address, its ledger and its process."""

    url: str
    database_url: str
    process: subprocess.Popen[bytes]


@contextmanager
def running_server(port: int) -> Iterator[_RunningServer]:
    """Run ``camvo serve`` on the loopback interface until the block ends, then delete its ledger."""
    with tempfile.TemporaryDirectory(prefix="camvo-demo-", ignore_cleanup_errors=True) as folder:
        database_url = f"sqlite:///{Path(folder) / 'demo.sqlite'}"
        log_path = Path(folder) / "server.log"
        command = [sys.executable, "-m", "backend.cli", "serve", "--host", "127.0.0.1", "--port", str(port)]
        with log_path.open("wb") as log:
            process = _start(command, log, database_url)
        try:
            url = f"http://127.0.0.1:{port}"
            _await_ready(url, process, log_path)
            yield _RunningServer(url, database_url, process)
        finally:
            process.terminate()
            process.wait(timeout=120)


def _start(command: list[str], log: IO[bytes], database_url: str) -> subprocess.Popen[bytes]:
    environment = child_environment(CAMVO_DATABASE_URL=database_url)
    # In a process group of its own: Ctrl-C must reach the demo alone, which then stops the server. Otherwise
    # the server could drop a request before the demo knows that it was interrupted.
    return subprocess.Popen(  # noqa: S603 - our own
        command, stdout=log, stderr=subprocess.STDOUT, env=environment, process_group=0
    )


def _await_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until and process.poll() is None:
        try:
            if httpx.get(f"{url}/ready", timeout=5.0).status_code == httpx.codes.OK:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.2)
    tail = log.read_text(errors="replace")[-2000:]
    raise CamvoError(
        "the demo's server did not become ready", where="camvo serve", fix=f"its log ends: {tail}"
    )


_PORTION = 5
"""Tasks in one request. The policy learns between two requests."""

_ANNOTATED = 10
"""Tasks of each project that get a human label."""


@dataclass(frozen=True, slots=True)
class LabelledTexts:
    """What became of all texts.

    Attributes:
        texts: how many there are.
        right: how many labels are right.
        calls: how many calls of models they took.
        full: how many calls asking every model would take.
        annotations: how many human labels were sent.
    """

    texts: int
    right: int
    calls: int
    full: int
    annotations: int


def label_texts(console: Console, server: _RunningServer) -> LabelledTexts:
    """Send texts and human labels to the server as Label Studio does, and print some of the predictions."""
    backend = BackendClient(server.url, Environment())
    ledger = Ledger(server.database_url)
    all_labelled: list[_LabelledText] = []
    for number, name in enumerate(("sentiment", "topic"), start=1):
        project = _DemoProject(number, f"demo: {name}", _label_config(name))
        _post(server, "/setup", {"project": project.key, "schema": project.label_config})
        texts = _texts(project, name)
        labelled: list[_LabelledText] = []
        for portion in portions(texts, _PORTION):
            answers = backend.predict(project.key, project.label_config, [text.task for text in portion])
            new = _with_rounds(ledger, project, portion, [answer.predictions[0] for answer in answers])
            _print_predictions(console, new[: max(0, _SHOWN - len(labelled))])
            labelled += new
        _annotate(server, project, labelled)
        all_labelled += labelled
    backend.close()
    ledger.close()
    return LabelledTexts(
        texts=len(all_labelled),
        right=sum(result.right for result in all_labelled),
        calls=sum(len(result.round.votes.keys() - {STUDENT}) for result in all_labelled),
        full=sum(len(result.round.plan["arms"].keys() - {STUDENT}) for result in all_labelled),
        annotations=2 * _ANNOTATED,
    )


def _post(server: _RunningServer, path: str, body: Mapping[str, Any]) -> None:
    httpx.post(f"{server.url}{path}", json=body, timeout=100.0).raise_for_status()


def _annotate(server: _RunningServer, project: _DemoProject, labelled: Sequence[_LabelledText]) -> None:
    """Label the least certain texts as a person would, whose form may be blank."""
    [question] = parse_label_config(project.label_config).questions
    by_score = sorted(labelled, key=lambda result: result.round.score)
    for result in by_score[:_ANNOTATED]:
        [region] = question.about(result.text.task["data"]).result_items(result.text.gold)
        _post(server, "/webhook", project.annotation(result.text.task, region))


def _with_rounds(
    ledger: Ledger, project: _DemoProject, texts: Sequence[_DemoText], predictions: Sequence[Any]
) -> list[_LabelledText]:
    """Add the rounds, because the models asked are in the ledger and not in the prediction."""
    with ledger.read() as connection:
        stored = [ProjectRounds(connection, project.key).of_task(text.task["id"]) for text in texts]
    return [
        _LabelledText(text, prediction, of_text[0])
        for text, prediction, of_text in zip(texts, predictions, stored, strict=True)
    ]


def _texts(project: _DemoProject, name: str) -> list[_DemoText]:
    texts = json.loads((files("backend.commands") / "resources" / "demo_texts.json").read_text("utf-8"))
    return [
        _DemoText({"id": project.number * 100 + position, "data": {"text": entry["text"]}}, entry["gold"])
        for position, entry in enumerate(texts[name], start=1)
    ]


def _label_config(name: str) -> str:
    return files("label_config").joinpath(f"{name}.xml").read_text("utf-8")

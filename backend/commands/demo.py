"""``camvo demo``: real texts through a real server, without an API key or a network."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import httpx
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from backend.ledger import Ledger
from backend.ledger.events import ProjectEvents
from backend.ledger.rounds import ProjectRounds, Round
from backend.settings import PolicySettings, child_environment
from backend.settings.policies import policy_in_force, policy_of
from camvo.errors import CamvoError
from camvo.policies.ensemble import Baseline
from camvo.replays.replay import replay
from camvo.replays.synthetic import SyntheticModel, draw_votes_table
from camvo.state.contribution import Contribution
from camvo.state.state import State
from camvo.student.taught_texts import STUDENT

_CREATED = datetime(2026, 11, 1, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _DemoProject:
    """A Label Studio project: its number, title, label config and extra params."""

    number: int
    title: str
    label_config: str
    extra_params: Mapping[str, Any] | None = None

    @property
    def key(self) -> str:
        """The project's key in ``/setup`` and ``/predict``: its id and the Unix time of its creation."""
        return f"{self.number}.{int(_CREATED.timestamp())}"

    def payload(self, model_version: str) -> dict[str, Any]:
        """Return the project as webhooks carry it, with keys a backend reads and keys it must not."""
        return {
            "id": self.number,
            "title": self.title,
            "label_config": self.label_config,
            "model_version": model_version,
            "created_at": _stamp(_CREATED),
            "sampling": "Sequential sampling",
            "show_collab_predictions": True,
            "maximum_annotations": 1,
            "task_data_login": None,
            "task_data_password": None,
        }

    def task(self, number: int, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return a task as ``/predict`` carries it."""
        return {
            "id": number,
            "data": dict(data),
            "meta": {},
            "created_at": _stamp(_CREATED),
            "updated_at": _stamp(_CREATED),
            "is_labeled": False,
            "overlap": 1,
            "inner_id": number,
            "total_annotations": 0,
            "cancelled_annotations": 0,
            "total_predictions": 0,
            "comment_count": 0,
            "unresolved_comment_count": 0,
            "last_comment_updated_at": None,
            "project": self.number,
            "updated_by": None,
            "file_upload": None,
            "comment_authors": [],
            "annotations": [],
            "predictions": [],
        }


class _DemoLabelStudio:
    """The part of Label Studio that talks to an ML backend, over real HTTP."""

    def __init__(self, url: str, model_version: str = "camvo") -> None:
        self._http = httpx.Client(base_url=url, timeout=100.0)
        self._model_version = model_version

    def connect(self, project: _DemoProject) -> None:
        """Send GET /health and POST /setup, as Label Studio does before each use of a backend."""
        self._http.get("/health").raise_for_status()
        body = {"project": project.key, "schema": project.label_config, "extra_params": project.extra_params}
        self._http.post("/setup", json=body).raise_for_status()

    def predict(self, project: _DemoProject, tasks: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Send POST /predict and return the results, one for each task."""
        body = {
            "tasks": list(tasks),
            "project": project.key,
            "label_config": project.label_config,
            "params": {"login": None, "password": None, "context": None},
        }
        response = self._http.post("/predict", json=body).raise_for_status()
        results: list[Any] = response.json()["results"]
        return results

    def annotate(
        self, project: _DemoProject, task: Mapping[str, Any], number: int, region: Mapping[str, Any]
    ) -> None:
        """Send POST /webhook with ANNOTATION_CREATED: a human label with one region."""
        now = _stamp(datetime.now(UTC))
        annotation = {
            "id": number,
            "result": [{**region, "id": f"region-{number}", "origin": "manual"}],
            "was_cancelled": False,
            "ground_truth": False,
            "created_at": now,
            "updated_at": now,
            "lead_time": 4.2,
            "prediction": {},
            "bulk_created": False,
            "task": task["id"],
            "project": project.number,
            "completed_by": 1,
            "parent_prediction": None,
            "parent_annotation": None,
        }
        body = {
            "action": "ANNOTATION_CREATED",
            "annotation": annotation,
            "task": dict(task),
            "project": project.payload(self._model_version),
        }
        self._http.post("/webhook", json=body).raise_for_status()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


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


_ITEMS = 3000
_SEED = 7
_MODELS = {
    "opal": SyntheticModel(0.93, 15.0),
    "onyx": SyntheticModel(0.91, 10.0),
    "jade": SyntheticModel(0.91, 5.0),
    "ruby": SyntheticModel(0.89, 3.5),
    "topaz": SyntheticModel(0.87, 1.2),
    "amber": SyntheticModel(0.86, 0.9),
    "flint": SyntheticModel(0.80, 0.35),
}
_BARS = 24
_BOUNDS = (0, 25, 50, 100, 200, 400, 800, 1600, _ITEMS)


def _show_replay(console: Console) -> None:
    """Replay the default policy and the full vote, and draw how the cost falls."""
    table = draw_votes_table(
        _MODELS, items=_ITEMS, labels=("World", "Sports", "Business", "Science"), seed=_SEED
    )
    settings = PolicySettings()
    started = time.perf_counter()
    trace = replay(policy_of(settings), table)
    seconds = time.perf_counter() - started
    full_vote = replay(Baseline(), table)

    console.rule("[bold]with more items: a synthetic replay")
    console.print(
        f"{_ITEMS} synthetic items, {len(_MODELS)} synthetic models (seed {_SEED}), the same policy:"
        f" {policy_in_force(settings)[0]}. No human label. {seconds:.1f}\N{NO-BREAK SPACE}s.\n",
        highlight=False,
    )
    chart = Table(box=None, pad_edge=False)
    for name in ("items", "cost of asking all", "", "accuracy"):
        chart.add_column(name, justify="left" if name == "" else "right", no_wrap=True)
    for start, end in pairwise(_BOUNDS):
        part = slice(start, end)
        share = float(trace.costs[part].mean()) / table.full_cost
        right = float((trace.labels[part] == table.truth[part]).mean())
        bar = f"[cyan]{'█' * round(share * _BARS):<{_BARS}}[/]"
        chart.add_row(f"{start + 1}–{end}", f"{share:.0%}", bar, f"{right:.1%}")
    console.print(chart)
    share = trace.costs.mean() / table.full_cost
    accuracy = float((trace.labels == table.truth).mean())
    full_accuracy = float((full_vote.labels == table.truth).mean())
    agreement = float((trace.labels == full_vote.labels).mean())
    console.print(
        f"\nCaMVo: [bold]{accuracy:.1%}[/] right at [bold]{share:.0%}[/] of the cost of asking every model"
        f" every time, which is {full_accuracy:.1%} right.",
        f"{agreement:.1%} of the labels are the same.",
        highlight=False,
    )


_BEFORE_THE_TEXT = 27
"""The width of a prediction's mark, label and score."""


def _print_opening(console: Console) -> None:
    """Print what the demo does."""
    console.rule("[bold]CaMVo demo")
    _paragraph(
        console,
        "A real server labels 60 short texts, sent as Label Studio sends them. The models are the embedded",
        "voters: small zero-shot classifiers that need no API key and no network. They are weak, and their",
        "prices are nominal. All settings are the defaults.",
    )
    _paragraph(
        console,
        "For each text: whether the label is right, the label, its score, the text, and the models asked.",
    )


def _print_project_title(console: Console, title: str) -> None:
    """Print the heading of one project."""
    console.rule(f"[bold]{title}")


def _print_predictions(console: Console, labelled: Sequence[_LabelledText]) -> None:
    """Print a line for each prediction, and a line for the models asked."""
    width = console.width - _BEFORE_THE_TEXT
    for result in labelled:
        label, score = escape(result.round.label), result.prediction["score"]
        mark = "[green]✓[/]" if result.right else "[red]✗[/]"
        text = result.text.task["data"]["text"]
        short = text if len(text) <= width else text[: width - 1] + "…"
        _line(console, f"{mark} [bold]{label:<18}[/] {score:.2f}  {escape(short)}")
        asked = sorted(result.round.votes.keys() - {STUDENT})
        everyone = len(asked) == len(result.round.plan["arms"].keys() - {STUDENT})
        names = f"all {len(asked)}" if everyone else f"{len(asked)}: {escape(', '.join(asked))}"
        _line(console, f"  [dim]asked {names}[/]")


def _mean_rewards(ledger: Ledger, project: str) -> Mapping[str, tuple[int, float]]:
    """Return model → number of rewards and their mean, from the sum over the ledger."""
    with ledger.read() as connection:
        stored = ProjectEvents(connection, project).after(0)
    contributions = [Contribution.unpack(event.contribution) for event in stored]
    state = State(len(contributions[0].context))
    state.add(*contributions)
    return {arm: (state[arm].rewards, state[arm].mu or 0.0) for arm in state}


def _print_human_answers(
    console: Console,
    answered: Sequence[_LabelledText],
    before: Mapping[str, tuple[int, float]],
    after: Mapping[str, tuple[int, float]],
) -> None:
    """Print what the human labels changed: each model's mean reward before and after."""
    wrong = sum(not result.right for result in answered)
    console.print()
    _paragraph(
        console,
        f"{len(answered)} annotations arrive by webhook: wrong predictions first, then the least certain.",
        f"{wrong} of them correct the vote. A human label replaces the voted one in its round's rewards:",
    )
    table = Table(box=None, pad_edge=False)
    for name in ("model", "rounds", "mean reward before", "after"):
        table.add_column(name, justify="left" if name == "model" else "right")
    for arm in sorted(after):
        count, mean = after[arm]
        table.add_row(escape(arm), str(count), f"{before[arm][1]:.2f}", f"{mean:.2f}")
    console.print(table)
    console.print()


def _print_summary(console: Console, labelled: Sequence[_LabelledText]) -> None:
    """Print the accuracy, the cost share, and the calls of each model."""
    right = sum(result.right for result in labelled)
    cost = sum(result.round.cost_usd for result in labelled)
    full = sum(result.round.full_cost_usd for result in labelled)
    calls = Counter(arm for result in labelled for arm in result.round.votes if arm != STUDENT)
    share = f"{cost / full:.0%} of asking every model every time (${cost:.4f} of ${full:.4f}, nominal)"
    console.rule("[bold]summary")
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_row("accuracy", f"{right} of {len(labelled)} gold labels ({right / len(labelled):.0%})")
    table.add_row("cost", share)
    table.add_row(
        "calls", escape(", ".join(f"{model}\N{NO-BREAK SPACE}{n}" for model, n in sorted(calls.items())))
    )
    console.print(table)
    console.print()
    _paragraph(
        console,
        f"{len(labelled)} tasks are too few to learn much: the first tasks of a project ask every model,",
        "or nearly every one. It learns more below.",
    )


def _print_serving(console: Console, url: str) -> None:
    """Print how to connect Label Studio to the running server."""
    console.rule("[bold]still running")
    _paragraph(
        console,
        f"Connect Label Studio to [bold]{url}[/] with the title [bold]camvo[/] (see README.md).",
        "The ledger is temporary. Press Ctrl-C to stop the server.",
    )


def _line(console: Console, text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True)


def _paragraph(console: Console, *sentences: str) -> None:
    console.print(" ".join(sentences), highlight=False)
    console.print()


_PATIENCE = 90.0
"""Seconds until the server must be ready; importing torch and litellm takes most of them."""


@dataclass(frozen=True, slots=True)
class _RunningServer:
    """The server's address, its ledger and its process."""

    url: str
    database_url: str
    process: subprocess.Popen[bytes]


@contextmanager
def _running_server(port: int) -> Iterator[_RunningServer]:
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


def run_demo(*, console: Console, serve: bool, port: int | None = None) -> None:
    """Run the demo."""
    _print_opening(console)
    port = port or _free_port()
    with console.status("starting the server (importing torch takes a while) …"):
        context = _running_server(port)
        server = context.__enter__()
    try:
        _label_texts(console, server)
        _show_replay(console)
        if serve:
            _print_serving(console, server.url)
            server.process.wait()  # until Ctrl-C
    except KeyboardInterrupt:
        console.print("stopped")
    finally:
        context.__exit__(None, None, None)


def _label_texts(console: Console, server: _RunningServer) -> None:
    label_studio = _DemoLabelStudio(server.url)
    ledger = Ledger(server.database_url)
    all_labelled: list[_LabelledText] = []
    for number, name in enumerate(("sentiment", "topic"), start=1):
        project = _DemoProject(number, f"demo: {name}", _label_config(name))
        label_studio.connect(project)
        _print_project_title(console, project.title)
        texts = _texts(project, name)
        for start in range(0, len(texts), _PORTION):
            portion = texts[start : start + _PORTION]
            predictions = label_studio.predict(project, [text.task for text in portion])
            labelled = _with_rounds(ledger, project, portion, predictions)
            _print_predictions(console, labelled)
            all_labelled += labelled
        _annotate(console, label_studio, ledger, project, all_labelled[-len(texts) :])
    _print_summary(console, all_labelled)
    label_studio.close()
    ledger.close()


def _annotate(
    console: Console,
    label_studio: _DemoLabelStudio,
    ledger: Ledger,
    project: _DemoProject,
    labelled: Sequence[_LabelledText],
) -> None:
    """Label some tasks as a human would, wrong predictions first, and print what changes for the models."""
    before = _mean_rewards(ledger, project.key)
    by_error = sorted(labelled, key=lambda result: (result.right, result.round.score))
    for number, result in enumerate(by_error[:_ANNOTATED], start=1):
        region = dict(result.prediction["result"][0])
        region.pop("score")
        region["value"] = {"choices": [result.text.gold]}
        label_studio.annotate(project, result.text.task, project.number * 1000 + number, region)
    after = _mean_rewards(ledger, project.key)
    _print_human_answers(console, by_error[:_ANNOTATED], before, after)


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
    entries = json.loads((files("backend.commands") / "resources" / "demo_texts.json").read_text("utf-8"))[
        name
    ]
    return [
        _DemoText(project.task(project.number * 100 + position, {"text": entry["text"]}), entry["gold"])
        for position, entry in enumerate(entries, start=1)
    ]


def _label_config(name: str) -> str:
    return files("label_config").joinpath(f"{name}.xml").read_text("utf-8")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

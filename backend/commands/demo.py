"""``camvo demo``: a server labels texts, and eight classifiers that really err label digits."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import IO, Any

import httpx
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import camvo
from backend.commands.shared.backend_client import BackendClient
from backend.commands.shared.output import say
from backend.ledger import Ledger
from backend.ledger.database.statements import portions
from backend.ledger.rounds import ProjectRounds, Round
from backend.questions import parse_label_config
from backend.settings import Environment, child_environment
from camvo.errors import CamvoError
from camvo.policies.past_rounds import PastRound, recount
from camvo.scores.guarantee import ScoreCounts
from camvo.student import STUDENT
from camvo.typing import Array

_SEED = 7
_STUDIED = 297
"""Images that the classifiers are trained on. They vote on the other 1,500."""

_LABELS = tuple("0123456789")


@dataclass(frozen=True, slots=True)
class _Classifier:
    """A classifier of the demo."""

    name: str
    images: int
    price: float
    right: float


@dataclass(frozen=True, slots=True)
class _DigitLabels:
    """The share of right labels, and what their votes cost, in dollars."""

    right: float
    cost: float


@dataclass(frozen=True, slots=True)
class _Review:
    """What a person's labels of the least certain images changed.

    ``corrected`` of the ``labelled`` images had a wrong label. Of the others, ``changed`` got another label,
    of which ``mended`` are right now and ``broken`` were. ``before`` and ``after`` are 95% intervals of the
    share of CaMVo's labels that are right: by their scores alone, and by those that the person has checked.
    """

    labelled: int
    corrected: int
    changed: int
    mended: int
    broken: int
    right: float
    before: str
    after: str


def _vote_on_digits() -> _Digits:
    """Train the classifiers on some of scikit-learn's handwritten digits, and let them vote on the others.

    The pool resembles one of language models: the better models are the dearer ones, one is poor, two are of
    one family, and all have studied the same, some less of it, so that they often err together.
    """
    # scikit-learn takes a second to import, which the texts before it need not wait for
    from sklearn.datasets import load_digits  # noqa: PLC0415
    from sklearn.ensemble import RandomForestClassifier  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.naive_bayes import GaussianNB  # noqa: PLC0415
    from sklearn.neighbors import KNeighborsClassifier  # noqa: PLC0415
    from sklearn.neural_network import MLPClassifier  # noqa: PLC0415
    from sklearn.svm import SVC  # noqa: PLC0415
    from sklearn.tree import DecisionTreeClassifier  # noqa: PLC0415

    network = MLPClassifier((32,), solver="lbfgs", max_iter=1000, random_state=_SEED)
    pool: dict[str, tuple[Any, int, float]] = {  # the classifier, its training images, $ per 1,000 images
        "kernel": (SVC(), 200, 15.0),
        "neighbour": (KNeighborsClassifier(1), 120, 10.0),
        "forest": (RandomForestClassifier(random_state=_SEED), 200, 5.0),
        "neighbours": (KNeighborsClassifier(3), 120, 3.5),
        "network": (network, 150, 1.2),
        "linear": (LogisticRegression(max_iter=1000), 100, 0.9),
        "bayes": (GaussianNB(var_smoothing=0.01), 80, 0.35),
        "tree": (DecisionTreeClassifier(random_state=_SEED), 150, 0.2),
    }
    data = load_digits()
    order = np.random.default_rng(_SEED).permutation(len(data.target))
    pixels, truth = data.data[order] / 16.0, data.target[order]
    votes = [
        classifier.fit(pixels[:images], truth[:images]).predict(pixels[_STUDIED:])
        for classifier, images, _ in pool.values()
    ]
    right = [float((vote == truth[_STUDIED:]).mean()) for vote in votes]
    classifiers = [
        _Classifier(name, images, price / 1000.0, share)
        for (name, (_, images, price)), share in zip(pool.items(), right, strict=True)
    ]
    return _Digits(classifiers, pixels[_STUDIED:], np.stack(votes, axis=1), truth[_STUDIED:])


class _Digits:
    """The votes of all classifiers on some images, and CaMVo's way through them."""

    def __init__(
        self,
        classifiers: list[_Classifier],
        pixels: Array,
        votes: NDArray[np.int64],
        truth: NDArray[np.int64],
    ) -> None:
        self.classifiers = classifiers
        self._contexts = pixels / np.linalg.norm(pixels, axis=1, keepdims=True)
        self._votes, self._truth = votes, truth
        self._prices = {each.name: each.price for each in classifiers}
        self._question = camvo.Question(_LABELS, prices=self._prices, dimension=pixels.shape[1])
        self._tasks: list[camvo.Task] = []

    def __len__(self) -> int:
        """The number of images."""
        return len(self._truth)

    def best(self) -> _Classifier:
        """The classifier that is most often right."""
        return max(self.classifiers, key=lambda each: each.right)

    def ask_everyone(self) -> _DigitLabels:
        """Ask every classifier about every image, and take the label with the most votes."""
        labels = np.array([np.bincount(row, minlength=len(_LABELS)).argmax() for row in self._votes])
        return self._outcome(labels, sum(self._prices.values()) * len(self))

    def ask_camvo(self) -> _DigitLabels:
        """Label the images with CaMVo, as the library's users do: the default policy, no human label."""
        cost = 0.0
        for context, row in zip(self._contexts, self._votes, strict=True):
            said = dict(zip(self._prices, (str(vote) for vote in row), strict=True))
            task = self._question.task(context)
            while models := task.ask():
                task.add({model: said[model] for model in models})
                cost += sum(self._prices[model] for model in models)
            task.learn()
            self._tasks.append(task)
        return self._outcome(self._decided[0], cost)

    def review(self, count: int) -> _Review:
        """Label the images with the lowest scores as a person would, and count the other votes again."""
        labels, scores = self._decided
        reviewed = np.argsort(scores, kind="stable")[:count]
        for image in reviewed:
            self._tasks[image].learn(human=str(self._truth[image]))
        new_labels = self._counted_again()
        others = np.ones(len(self), dtype=np.bool_)
        others[reviewed] = False
        changed = others & (new_labels != labels)
        checked = [(float(scores[i]), float(labels[i] == self._truth[i])) for i in reviewed]
        return _Review(
            labelled=count,
            corrected=int((labels != self._truth)[reviewed].sum()),
            changed=int(changed.sum()),
            mended=int((changed & (new_labels == self._truth)).sum()),
            broken=int((changed & (labels == self._truth)).sum()),
            right=float((~others | (new_labels == self._truth)).mean()),
            before=_estimate(scores, []),
            after=_estimate(scores, checked),
        )

    @cached_property
    def _decided(self) -> tuple[NDArray[np.int64], Array]:
        decisions = [task.decide() for task in self._tasks]
        return (
            np.array([int(each.label) for each in decisions]),
            np.array([each.score for each in decisions]),
        )

    def _counted_again(self) -> NDArray[np.int64]:
        """The labels of all images by their kept votes and by what is known now."""
        question, labels = self._question, []
        for context, task in zip(self._contexts, self._tasks, strict=True):
            past = PastRound(context, task.votes, _LABELS, self._prices)
            decision = recount(question.policy, question.state, past) or task.decision
            labels.append(int(decision.label))
        return np.array(labels)

    def _outcome(self, labels: NDArray[np.int64], cost: float) -> _DigitLabels:
        return _DigitLabels(float((labels == self._truth).mean()), cost)


def _estimate(scores: Array, checked: list[tuple[float, float]]) -> str:
    found = ScoreCounts.of(scores.tolist(), checked).share_right()
    return f"{found.low:.0%} to {found.high:.0%}"


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
        say(console, line, markup=True)


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
            process = _start(command, log, database_url, folder)
        try:
            url = f"http://127.0.0.1:{port}"
            _await_ready(url, process, log_path)
            yield _RunningServer(url, database_url, process)
        finally:
            process.terminate()
            process.wait(timeout=120)


def _start(command: list[str], log: IO[bytes], database_url: str, folder: str) -> subprocess.Popen[bytes]:
    """Start the server in a folder that has no ``camvo.yaml``, which it would use."""
    environment = child_environment(CAMVO_DATABASE_URL=database_url)
    # In a process group of its own: Ctrl-C must reach the demo alone, which then stops the server. Otherwise
    # the server could drop a request before the demo knows that it was interrupted.
    return subprocess.Popen(  # noqa: S603 - our own
        command, stdout=log, stderr=subprocess.STDOUT, env=environment, process_group=0, cwd=folder
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


_PROJECTS = ("sentiment", "topic")


def _label_texts(console: Console, server: _RunningServer) -> list[_LabelledText]:
    """Send texts and human labels to the server as Label Studio does, and print some of the predictions."""
    all_labelled: list[_LabelledText] = []
    with (
        closing(BackendClient(server.url, Environment())) as backend,
        closing(Ledger(server.database_url)) as ledger,
    ):
        for number, name in enumerate(_PROJECTS, start=1):
            project = _DemoProject(number, f"demo: {name}", _label_config(name))
            _post(server, "/setup", {"project": project.key, "schema": project.label_config})
            labelled: list[_LabelledText] = []
            for portion in portions(_texts(project, name), _PORTION):
                answers = backend.predict(project.key, project.label_config, [text.task for text in portion])
                new = _with_rounds(ledger, project, portion, [answer.predictions[0] for answer in answers])
                _print_predictions(console, new[: max(0, _SHOWN - len(labelled))])
                labelled += new
            _annotate(server, project, labelled)
            all_labelled += labelled
    return all_labelled


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


_REVIEWED = 20
"""Digits that "you" label."""


def run_demo(*, console: Console, serve: bool, port: int | None) -> None:
    """Run the demo; with ``serve`` its server, which by default gets a free port, runs on until Ctrl-C."""
    started = time.monotonic()
    console.rule("[bold]1. A real server labels texts")
    _say(
        console,
        "Texts are sent as Label Studio sends them, to seven weak zero-shot classifiers that need no API key"
        " and no network.\n",
    )
    with ExitStack() as stack:
        with console.status("starting the server (importing torch takes a while) …"):
            server = stack.enter_context(_running_server(port or _free_port()))
        try:
            _print_texts(console, _label_texts(console, server))
            _show_digits(console)
            _print_next_steps(console, time.monotonic() - started)
            if serve:
                console.rule("[bold]Still running")
                _say(
                    console,
                    f"What the server has learnt: [bold]{server.url}/status[/]\n"
                    f"For Label Studio: the backend [bold]{server.url}[/] with the title [bold]camvo[/]\n"
                    "Its ledger is temporary. Press Ctrl-C to stop it.",
                )
                server.process.wait()
        except KeyboardInterrupt:
            console.print("stopped")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False)


def _print_texts(console: Console, labelled: Sequence[_LabelledText]) -> None:
    right = sum(result.right for result in labelled)
    calls = sum(len(result.round.votes.keys() - {STUDENT}) for result in labelled)
    full = sum(len(result.round.plan["arms"].keys() - {STUDENT}) for result in labelled)
    bought = "all votes were" if calls == full else f"{calls} votes were"
    _say(
        console,
        f"…\n{right} of {len(labelled)} labels are right. Here {bought} bought: a project first learns how"
        f" its models vote. {len(_PROJECTS) * _ANNOTATED} human labels came back by webhook.\n",
    )


def _show_digits(console: Console) -> None:
    """Label the digits in three ways and review some, printing each result as soon as it is there."""
    console.rule("[bold]2. Real errors: handwritten digits")
    with console.status("training eight classifiers …"):
        digits = _vote_on_digits()
    studied = sorted(each.images for each in digits.classifiers)
    _say(
        console,
        f"Eight classifiers studied {studied[0]} to {studied[-1]} of scikit-learn's digits, and vote on"
        f" {len(digits):,} others. Prices are nominal.\n",
    )
    _print_classifiers(console, digits)
    everyone = digits.ask_everyone()
    _print_outcome(console, "asking everyone", everyone, everyone)
    best = digits.best()
    alone = _DigitLabels(best.right, best.price * len(digits))
    _print_outcome(console, "the best single one", alone, everyone, "unknown beforehand")
    with console.status("CaMVo asks, decides and learns …"):
        found = digits.ask_camvo()
    _print_outcome(console, "CaMVo", found, everyone, "no human label")
    with console.status("counting the votes again …"):
        review = digits.review(_REVIEWED)
    _print_review(console, review, found)


def _print_classifiers(console: Console, digits: _Digits) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("classifier", "studied", "right", "$ per 1,000"):
        table.add_column(name, justify="left" if name == "classifier" else "right", no_wrap=True)
    for each in digits.classifiers:
        table.add_row(each.name, str(each.images), f"{each.right:.1%}", f"{1000 * each.price:.2f}")
    console.print(table)
    console.print()


def _print_outcome(
    console: Console, name: str, outcome: _DigitLabels, everyone: _DigitLabels, remark: str = ""
) -> None:
    cost, share = f"${outcome.cost:.2f}", outcome.cost / everyone.cost
    what = f"[bold]{name:<20}[/] {outcome.right:>6.1%} right  {cost:>6}  {share:>4.0%} of the cost"
    _say(console, f"{what}  [dim]{remark}[/]" if remark else what)


def _print_review(console: Console, review: _Review, found: _DigitLabels) -> None:
    flipped = "1 other label flipped" if review.changed == 1 else f"{review.changed} other labels flipped"
    rows = (
        f"lowest scores first: {review.corrected} were wrong",
        f"{flipped}: {review.mended} to right, {review.broken} to wrong",
        f"estimate of CaMVo's share of right labels: {review.before},",
        f"now {review.after} (95% intervals; in truth {found.right:.1%})",
    )
    _say(console, f"[bold]{f'you label {review.labelled}':<20}[/] {review.right:>6.1%} right  {rows[0]}")
    for row in rows[1:]:
        _say(console, f"{'':<20} {row}")
    console.print()


def _print_next_steps(console: Console, seconds: float) -> None:
    console.rule("[bold]Next")
    _say(
        console,
        "camvo demo --serve                   the same, and then shows /status\n"
        "camvo serve --config camvo.yaml      a server with your models, as in the README\n"
        "camvo connect --config camvo.yaml --project 1      your Label Studio project\n\n"
        f"Every number above was computed in these {seconds:.0f} seconds.",
    )

"""The first hours of a project: README's steps with a real Label Studio, four scripted models and a real one.

The real model is SmolLM2 behind llama.cpp's server: slow, free, and hardly better than chance. A planted
annotator knows every label. What the commands, the status page and Label Studio say must be true.

CI walks with few tasks. A walk with 500 takes ten minutes::

    CAMVO_WALK_TASKS=500 CAMVO_WALK_SECONDS=3 CAMVO_E2E_ARTEFACTS=/tmp/walk \\
        pytest -m e2e -n 0 tests/e2e/test_newcomer.py

``CAMVO_WALK_SECONDS`` is what each call of the slow model takes besides, one at a time. Every command's
output, and what was measured, is kept in ``walk.txt`` among the artefacts.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml
from browser import Browser
from installation import CREDENTIALS, Installation, choice, variables
from label_studio import LabelStudio
from llama_server import LlamaServer, Wire, overheard
from server_process import ServerProcess, wait_until
from sqlalchemy import select

from backend.ledger.database import tables
from backend.ledger.recounts import latest
from backend.testing import OpenAIServer, Reply, task_text
from camvo.student import STUDENT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]

README = Path(__file__).parents[2] / "README.md"
ARTEFACTS = Path(os.environ.get("CAMVO_E2E_ARTEFACTS") or Path(__file__).with_name("artefacts"))
TASKS = int(os.environ.get("CAMVO_WALK_TASKS") or 100)
SECONDS = float(os.environ.get("CAMVO_WALK_SECONDS") or 0.0)
CORRECTED, BLIND = 40, 20
AUDIT = max(0.1, 40 / TASKS)
"""README's share of blind tasks; of a few tasks more must be blind, to have enough to label."""
PATIENCE = 60.0 + TASKS
MOODS = ("Glad", "Sad", "Calm")
WRONG = {"red": 8, "green": 14, "blue": 22, "grey": 35}
"""Model → of 100 answers, how many are wrong."""
PRICES = {
    "red": (2.5, 10.0),
    "green": (1.0, 5.0),
    "blue": (0.4, 1.6),
    "grey": (0.1, 0.4),
    "local": (0.0, 0.0),
}
USAGE = (120, 8)


def draw(*words: object) -> int:
    """A number that depends on the words alone."""
    return int(hashlib.sha256(repr(words).encode()).hexdigest()[:8], 16)


def truth(text: str) -> str:
    """The label that the annotator gives."""
    return MOODS[draw(text) % len(MOODS)]


def script(body: dict[str, Any]) -> Reply:
    """Answer as often wrongly as the model's name says."""
    text, model = task_text(body), body["model"]
    others = [mood for mood in MOODS if mood != truth(text)]
    is_wrong = draw(model, text) % 100 < WRONG[model]
    label = others[draw(text, model) % len(others)] if is_wrong else truth(text)
    return Reply.says({"mood": label}, usage=USAGE)


FILLED_FROM = 0.5
"""The score from which on a label is filled in, by default."""


def readme_config() -> dict[str, Any]:
    """The ``camvo.yaml`` of README's steps."""
    [block] = re.findall(
        r"1\. Write a `camvo\.yaml`.*?```yaml\n(.*?)```", README.read_text("utf-8"), re.DOTALL
    )
    config: dict[str, Any] = yaml.safe_load(block)
    return config


@dataclass
class Walk:
    """One project, and everything that was printed on the way."""

    installation: Installation
    models: OpenAIServer
    wire: Wire
    project: int
    printed: list[str] = field(default_factory=list)

    def camvo(self, command: str, *arguments: str) -> CompletedProcess[str]:
        of_server = command in {"connect", "predict"}
        run = self.installation.camvo if of_server else self.installation.on_ledger
        began = time.monotonic()
        if command == "check":
            done = self.installation.camvo_alone(command, *arguments)
        else:
            done = run(command, self.project, *arguments)
        took = time.monotonic() - began
        said = f"$ camvo {command} {' '.join(arguments)}\n{done.stdout}{done.stderr}"
        self.printed.append(f"{said}({took:.1f} s, exit {done.returncode})\n")
        return done

    def keep(self) -> None:
        """Write down what the commands and the page said."""
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        (ARTEFACTS / "walk.txt").write_text("\n".join(self.printed))
        (ARTEFACTS / "walk.html").write_text(self.page())
        (ARTEFACTS / "walk.log").write_text(self.installation.server.log)

    def share_right(self, truths: Mapping[int, str]) -> float:
        """The share of all labels in the ledger that are right, before people correct them."""
        labels = self.held() | self.held(blind=True)
        return sum(labels[task][0] == label for task, label in truths.items()) / len(truths)

    def shown(self) -> dict[int, tuple[str | None, float]]:
        """Task → label and score in Label Studio; the label is ``None`` where the form is left blank."""
        found: dict[int, tuple[str | None, float]] = {}
        for each in self.installation.studio.ask("GET", "/api/predictions/", project=self.project):
            assert each["task"] not in found, "a task has two predictions"
            labels = [region["value"]["choices"][0] for region in each["result"]]
            found[each["task"]] = (labels[0] if labels else None, each["score"])
        return found

    def held(self, *, blind: bool = False) -> dict[int, tuple[str, float]]:
        """Task → label and score in the ledger, of the tasks that are blind or of the others."""
        rounds = self.installation.server.rows(select(tables.rounds).where(tables.rounds.c.audit == blind))
        with self.installation.server.ledger.read() as connection:
            recounts = latest(connection, [each.id for each in rounds])
        now = {each.task: recounts.get(each.id, each) for each in rounds}
        return {task: (each.label, each.score) for task, each in now.items()}

    def status(self) -> dict[str, Any]:
        return self.installation.status(self.project)

    def page(self) -> str:
        """The status page as a browser gets it."""
        return self.installation.server.get(f"/status?format=html&project={self.project}").text

    def measure(self, truths: Mapping[int, str]) -> None:
        """Write down how many labels are right, what the page says of it, and what it has cost."""
        asked = {model["name"]: f"{model['asked'] / TASKS:.0%}" for model in self.status()["models"]}
        self.printed.append(
            f"measured: {self.share_right(truths):.1%} right; the page says {self.estimate()}; "
            f"${self.sold():.4f}; asked: {asked}"
        )

    def estimate(self) -> str:
        """What the page says of the share of labels that are right."""
        [question] = self.status()["questions"]
        estimate = question["estimate"]
        low, high = estimate["low"], estimate["high"]
        interval = "" if low is None else f" ({low:.1%} to {high:.1%})"
        return f"{estimate['share']:.1%}{interval} by {estimate['checked']} {estimate['basis']}"

    def picture(self, folder: Path) -> None:
        """Keep a screenshot of the page, if the walk is one that a person looks at."""
        if "CAMVO_WALK_TASKS" in os.environ:
            with Browser(folder, ARTEFACTS, "1280,4000") as browser:
                browser.visit(
                    self.installation.server.url.replace(
                        "://",
                        "://{}:{}@".format(CREDENTIALS["BASIC_AUTH_USER"], CREDENTIALS["BASIC_AUTH_PASS"]),
                    )
                    + f"/status?format=html&project={self.project}"
                )
                browser.picture("walk")

    def sold(self) -> float:
        """What all servers sold, $."""
        usages = [(request.model, *USAGE) for request in self.models.requests]
        usages += [
            ("local", answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"])
            for answer in self.wire.completions()
        ]
        return sum(
            (given * PRICES[model][0] + made * PRICES[model][1]) / 1e6 for model, given, made in usages
        )

    def calls(self) -> dict[str, int]:
        """Model → the calls that its server answered."""
        return {**{name: self.models.count(name) for name in WRONG}, "local": len(self.wire.completions())}


@pytest.fixture(scope="module")
def walk(studio: LabelStudio, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    folder = tmp_path_factory.mktemp("server")
    turn = threading.Lock()

    def slowly() -> None:
        with turn:
            time.sleep(SECONDS)

    with OpenAIServer(script) as models, LlamaServer() as llama, overheard(llama, slowly) as wire:
        entries = [
            {
                "name": name,
                "model": f"openai/{name}",
                "api_base": wire.url if name == "local" else models.url,
                "input_price": given,
                "output_price": made,
                "timeout": 300,
            }
            for name, (given, made) in PRICES.items()
        ]
        config = {**readme_config(), "models": entries, "audit": AUDIT}
        (folder / "camvo.yaml").write_text(yaml.safe_dump(config))
        with ServerProcess(folder, folder / "camvo.yaml", **variables(studio)) as server:
            server.start()
            installation = Installation(studio, server)
            texts = [f"Day {number} of the diary." for number in range(TASKS)]
            walk = Walk(installation, models, wire, installation.project(*texts))
            yield walk
            walk.keep()


def assert_alike(
    shown: Mapping[int, tuple[str | None, float]], held: Mapping[int, tuple[str, float]]
) -> None:
    """The labels are equal where forms are filled in, and the scores but for rounding."""
    assert {task: label for task, (label, _) in shown.items()} == {
        task: label if score >= FILLED_FROM else None for task, (label, score) in held.items()
    }
    assert {task: score for task, (_, score) in shown.items()} == pytest.approx(
        {task: score for task, (_, score) in held.items()}, abs=1e-6
    )


def connected_and_predicted(walk: Walk) -> None:
    """README's steps 2 and 3."""
    assert walk.camvo("check").returncode == 0, walk.printed
    assert walk.camvo("connect", "--review-queue").returncode == 0, walk.printed
    assert walk.camvo("predict", "--yes").returncode == 0, walk.printed


def corrected_and_recounted(walk: Walk, truths: Mapping[int, str]) -> set[int]:
    """README's step 4 with the least certain tasks; the tasks that were corrected."""
    first = walk.shown()
    corrected = sorted(first, key=lambda task: first[task][1])[:CORRECTED]
    for task in corrected:
        walk.installation.annotate(task, choice(truths[task]))
    wait_until(lambda: walk.status()["humans"]["tasks"] == CORRECTED, "the labels of the annotator")
    assert walk.camvo("report").returncode == 0
    assert walk.camvo("predict", "--recount").returncode == 0, walk.printed
    wait_until(lambda: walk.status()["recounts"]["pending"] == 0, "the end of the delivery", PATIENCE)
    return {*corrected}


def labelled_blind(walk: Walk, truths: Mapping[int, str], blind: Set[int]) -> list[int]:
    """README's step 5: the blind tasks that were labelled."""
    assert walk.camvo("review", "--tab").returncode == 0, walk.printed
    labelled: list[int] = json.loads(walk.camvo("review", "--json").stdout)["blind_next"][:BLIND]
    assert len(labelled) == BLIND
    for task in labelled:
        assert task in blind
        assert walk.installation.open(task) == []
        walk.installation.annotate(task, choice(truths[task]))
    wait_until(lambda: walk.status()["humans"]["tasks"] == CORRECTED + BLIND, "the blind labels")
    return labelled


def test_a_newcomer_gets_what_readme_promises(walk: Walk, tmp_path: Path) -> None:
    connected_and_predicted(walk)
    truths = {task["id"]: truth(task["data"]["text"]) for task in walk.installation.tasks(walk.project)}
    blind = truths.keys() - walk.shown().keys()
    assert len(blind) >= BLIND
    assert_alike(walk.shown(), walk.held())
    walk.measure(truths)

    others = truths.keys() - blind - corrected_and_recounted(walk, truths)
    shown, held = walk.shown(), walk.held()
    assert_alike({task: shown[task] for task in others}, {task: held[task] for task in others})
    walk.measure(truths)

    labelled = labelled_blind(walk, truths, blind)
    refused = walk.camvo("accept", "--above", "0.95")
    assert walk.camvo("report").returncode == 0
    reported = json.loads(walk.camvo("report", "--json").stdout)["projects"][0]
    walk.picture(tmp_path)
    walk.measure(truths)

    status, held = walk.status(), walk.held(blind=True)
    annotated = [task for task in walk.installation.tasks(walk.project) if task["total_annotations"]]
    assert len(annotated) == CORRECTED + BLIND
    assert (status["progress"]["tasks"], status["progress"]["predicted"]) == (TASKS, TASKS)
    assert status["cost"]["budget"]["spent_usd"] == pytest.approx(walk.sold(), abs=1e-9)
    answered = {model["name"]: model["calls"] - sum(model["failures"].values()) for model in status["models"]}
    answered.pop(STUDENT, None)  # it votes without a call
    assert answered == walk.calls()
    [question] = status["questions"]
    right = sum(held[task][0] == truths[task] for task in labelled)
    estimate = question["estimate"]
    assert (estimate["basis"], estimate["checked"], estimate["share"]) == ("blind", BLIND, right / BLIND)
    assert estimate["low"] <= walk.share_right(truths) <= estimate["high"]
    assert (question["guarantee"]["blind"], question["guarantee"]["labelled"]) == (len(blind), BLIND)
    assert question["guarantee"]["threshold"] is None
    assert (refused.returncode, "certified yet" in refused.stderr) == (2, True)
    assert [alert for alert in status["alerts"] if alert["level"] == "alarm"] == []
    for part in ("humans", "progress", "cost", "alerts", "next_steps"):
        assert reported[part] == status[part], part
    assert reported["questions"][0]["estimate"] == estimate
    for text in [*walk.printed, walk.page()]:
        assert not re.search(r"Traceback|\binternal\b|\bNone\b|\bnan\b", text), text

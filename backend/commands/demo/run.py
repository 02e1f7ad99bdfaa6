"""``camvo demo``: the main job on real text, from one command, without a key or a network."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from rich.console import Console

from backend.commands.demo import report
from backend.commands.demo.label_studio import LabelStudio, Project
from backend.commands.demo.replay import show_replay
from backend.commands.demo.server import RunningServer, running_server
from backend.ledger import Ledger, rounds
from backend.ledger.rounds import Round

DELTA = 0.9
"""δ of the demo's projects, which chooses the paper's policy; voters this weak do not reach its default."""

_PORTION = 5
"""Tasks in one request: a page of a queue, so that learning shows between two of them."""

_ANNOTATED = 10
"""Tasks of each project that a human answers in the demo."""


@dataclass(frozen=True, slots=True)
class Item:
    """One demo text: the task as Label Studio sends it, and the right label."""

    task: dict[str, Any]
    gold: str


@dataclass(frozen=True, slots=True)
class Labelled:
    """An item with its prediction and the round behind it."""

    item: Item
    prediction: dict[str, Any]
    round: Round


def run(*, console: Console, serve: bool, port: int | None = None) -> None:
    """Run the demo.

    Args:
        console: where it prints.
        serve: keep the server up afterwards, so that a Label Studio can be connected.
        port: where the server listens; a free one by default.
    """
    report.opening(console, DELTA)
    port = port or _free_port()
    with console.status("starting the server (importing torch takes a while) …"):
        context = running_server(port)
        server = context.__enter__()
    try:
        _annotate(console, server)
        show_replay(console)
        if serve:
            report.serving(console, server.url)
            server.process.wait()
    except KeyboardInterrupt:
        console.print("stopped")
    finally:
        context.__exit__(None, None, None)


def _annotate(console: Console, server: RunningServer) -> None:
    label_studio = LabelStudio(server.url)
    ledger = Ledger(server.database_url)
    everything: list[Labelled] = []
    for number, name in enumerate(("sentiment", "topic"), start=1):
        project = Project(number, f"demo: {name}", _label_config(name), {"delta": DELTA})
        label_studio.connect(project)
        report.project_title(console, project.title)
        items = _items(project, name)
        for start in range(0, len(items), _PORTION):
            portion = items[start : start + _PORTION]
            predictions = label_studio.predict(project, [item.task for item in portion])
            labelled = _with_rounds(ledger, project, portion, predictions)
            report.predictions(console, labelled)
            everything += labelled
        _correct(console, label_studio, ledger, project, everything[-len(items) :])
    report.summary(console, everything)
    label_studio.close()
    ledger.close()


def _correct(
    console: Console,
    label_studio: LabelStudio,
    ledger: Ledger,
    project: Project,
    labelled: Sequence[Labelled],
) -> None:
    """A human answers some tasks, the wrong ones first; show what that did to the models' standing."""
    before = report.standing(ledger, project.key)
    by_error = sorted(labelled, key=lambda one: (one.round.label == one.item.gold, one.round.score))
    for number, one in enumerate(by_error[:_ANNOTATED], start=1):
        region = dict(one.prediction["result"][0])
        region.pop("score")
        region["value"] = {"choices": [one.item.gold]}
        label_studio.annotate(project, one.item.task, project.number * 1000 + number, region)
    report.human_answers(console, by_error[:_ANNOTATED], before, report.standing(ledger, project.key))


def _with_rounds(
    ledger: Ledger, project: Project, items: Sequence[Item], predictions: Sequence[Any]
) -> list[Labelled]:
    """Who was asked is in the ledger, not in the prediction."""
    with ledger.read() as connection:
        stored = [rounds.of_task(connection, project.key, item.task["id"]) for item in items]
    return [
        Labelled(item, prediction, found[0])
        for item, prediction, found in zip(items, predictions, stored, strict=True)
    ]


def _items(project: Project, name: str) -> list[Item]:
    texts = json.loads(files("backend.commands.demo").joinpath("texts.json").read_text("utf-8"))[name]
    return [
        Item(project.task(project.number * 100 + position, {"text": entry["text"]}), entry["gold"])
        for position, entry in enumerate(texts, start=1)
    ]


def _label_config(name: str) -> str:
    return files("label_config").joinpath(f"{name}.xml").read_text("utf-8")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

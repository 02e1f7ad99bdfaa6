"""``camvo demo``: real texts through a real server, without an API key or a network."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from rich.console import Console

from backend.commands.demo import report
from backend.commands.demo.label_studio import DemoLabelStudio, DemoProject
from backend.commands.demo.labelled_text import DemoText, LabelledText
from backend.commands.demo.replay import show_replay
from backend.commands.demo.server import RunningServer, running_server
from backend.ledger import Ledger, rounds

_PORTION = 5
"""Tasks in one request. The policy learns between two requests."""

_ANNOTATED = 10
"""Tasks of each project that get a human label."""


def run_demo(*, console: Console, serve: bool, port: int | None = None) -> None:
    """Run the demo.

    Args:
        console: where it prints.
        serve: whether to keep the server running, so that Label Studio can be connected to it.
        port: the server's port; by default a free one.
    """
    report.print_opening(console)
    port = port or _free_port()
    with console.status("starting the server (importing torch takes a while) …"):
        context = running_server(port)
        server = context.__enter__()
    try:
        _label_texts(console, server)
        show_replay(console)
        if serve:
            report.print_serving(console, server.url)
            server.process.wait()
    except KeyboardInterrupt:
        console.print("stopped")
    finally:
        context.__exit__(None, None, None)


def _label_texts(console: Console, server: RunningServer) -> None:
    label_studio = DemoLabelStudio(server.url)
    ledger = Ledger(server.database_url)
    all_labelled: list[LabelledText] = []
    for number, name in enumerate(("sentiment", "topic"), start=1):
        project = DemoProject(number, f"demo: {name}", _label_config(name))
        label_studio.connect(project)
        report.print_project_title(console, project.title)
        texts = _texts(project, name)
        for start in range(0, len(texts), _PORTION):
            portion = texts[start : start + _PORTION]
            predictions = label_studio.predict(project, [text.task for text in portion])
            labelled = _with_rounds(ledger, project, portion, predictions)
            report.print_predictions(console, labelled)
            all_labelled += labelled
        _annotate(console, label_studio, ledger, project, all_labelled[-len(texts) :])
    report.print_summary(console, all_labelled)
    label_studio.close()
    ledger.close()


def _annotate(
    console: Console,
    label_studio: DemoLabelStudio,
    ledger: Ledger,
    project: DemoProject,
    labelled: Sequence[LabelledText],
) -> None:
    """Label some tasks as a human would, wrong predictions first, and print what changes for the models."""
    before = report.mean_rewards(ledger, project.key)
    by_error = sorted(labelled, key=lambda result: (result.right, result.round.score))
    for number, result in enumerate(by_error[:_ANNOTATED], start=1):
        region = dict(result.prediction["result"][0])
        region.pop("score")
        region["value"] = {"choices": [result.text.gold]}
        label_studio.annotate(project, result.text.task, project.number * 1000 + number, region)
    after = report.mean_rewards(ledger, project.key)
    report.print_human_answers(console, by_error[:_ANNOTATED], before, after)


def _with_rounds(
    ledger: Ledger, project: DemoProject, texts: Sequence[DemoText], predictions: Sequence[Any]
) -> list[LabelledText]:
    """Add the rounds, because the models asked are in the ledger and not in the prediction."""
    with ledger.read() as connection:
        stored = [rounds.of_task(connection, project.key, text.task["id"]) for text in texts]
    return [
        LabelledText(text, prediction, of_text[0])
        for text, prediction, of_text in zip(texts, predictions, stored, strict=True)
    ]


def _texts(project: DemoProject, name: str) -> list[DemoText]:
    entries = json.loads(files("backend.commands.demo").joinpath("texts.json").read_text("utf-8"))[name]
    return [
        DemoText(project.task(project.number * 100 + position, {"text": entry["text"]}), entry["gold"])
        for position, entry in enumerate(entries, start=1)
    ]


def _label_config(name: str) -> str:
    return files("label_config").joinpath(f"{name}.xml").read_text("utf-8")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

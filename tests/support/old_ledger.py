"""A ledger of a project that began a hundred days ago, made by the whole backend with scripted models.

Tasks 1 to 20 were predicted then, and some of them labelled; tasks 21 to 25 are of today.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import migrated
from label_studio_requests import Annotation, Project, annotated
from light_workers import light_runtime, predict

from backend.label_studio.payloads import parse_webhook
from backend.server.runtime import Runtime

DAY = 86_400.0
AGE = 90 * DAY
OLD, NEW = range(1, 21), range(21, 26)
LABELLED = {2: "Sad", 5: "Glad", 9: "Calm", 22: "Sad"}
PROJECT = Project().key
_NOW = time.time()


@contextmanager
def at(
    days: float,
    folder: Path,
    purchased: Callable[[str, str], str] = lambda *_: "",
    name: str = "ledger.sqlite",
) -> Iterator[Runtime]:
    """A backend on the folder's ledger, so many days from today."""
    url = migrated.sqlite(folder / name)
    with light_runtime(
        url, folder, purchased, seconds=lambda: 0.0, clock=lambda: _NOW + days * DAY
    ) as runtime:
        yield runtime


def label(runtime: Runtime, task: int, mood: str) -> None:
    """Label a task as a person."""
    runtime.learn(parse_webhook(annotated(Annotation(number=1000 + task, task=task, mood=mood))))


def make(folder: Path) -> None:
    """Fill ``ledger.sqlite`` in a folder."""
    with at(-100, folder) as runtime:
        predict(runtime, OLD)
        for task in LABELLED.keys() & set(OLD):
            label(runtime, task, LABELLED[task])
    with at(0, folder) as runtime:
        predict(runtime, NEW)
        label(runtime, 22, LABELLED[22])


def purchases(sold: list[str]) -> Callable[[str, str], str]:
    """A provider that notes every model that was asked."""

    def purchased(model: str, _prompt: str) -> str:
        sold.append(model)
        return str(len(sold))

    return purchased

"""A round gives up a call to a slow model that still waits for its turn; all else is waited for."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from labelling import LabelFolder
from sqlalchemy import select

from backend.annotation import asking
from backend.commands.shared import output
from backend.ledger.database import tables
from backend.models import model_caller
from backend.models.rates import gate
from backend.testing import Reply

TASKS = 16


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_LEAST_WAIT", 0.3)
    monkeypatch.setattr(asking, "_LOOK", 0.05)
    monkeypatch.setattr(output, "_LOOK", 0.05)
    monkeypatch.setattr(gate, "_NOTICEABLE", 0.01)
    monkeypatch.setattr(model_caller, "_LONG_BACKLOG", 0.01)


class Slow:
    """A script of which ``green`` answers a call when ``red`` has all, and the others when a thing happened.

    Each thus takes longer than all of red's together, however busy the machine is.
    """

    def __init__(self) -> None:
        self.happened: Callable[[], bool] = bool
        self._red: list[object] = []
        self._first = threading.Lock()

    def __call__(self, body: dict[str, Any]) -> Reply:
        if body["model"] != "green":
            self._red.append(body)
        elif self._first.acquire(blocking=False):
            wait_until(lambda: len(self._red) == TASKS)
            time.sleep(0.12)  # four calls at once, of which each delays the others by a quarter of this
        else:
            wait_until(self.happened)
        return Reply.says({"label": "Glad"})


def wait_until(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + 25.0  # less than a call may take
    while not happened() and time.monotonic() < until:
        time.sleep(0.02)


def label(folder: LabelFolder) -> tuple[list[set[str]], Counter[str | None]]:
    """Whom the tasks' rounds asked, and how green's calls ended."""
    folder.table(*(f"text {number}" for number in range(TASKS)))
    folder.label()
    rows = folder.rows()
    assert all(row["camvo_label"] == "Glad" for row in rows)
    calls = green_calls(folder)
    assert not any(call.cost for call in calls if call.error_code)
    asked = [json.loads(row["camvo_votes"]).keys() - {"student"} for row in rows]
    return asked, Counter(call.error_code for call in calls)


def green_calls(folder: LabelFolder) -> Sequence[Any]:
    with folder.ledger.read() as connection:
        return connection.execute(select(tables.calls).where(tables.calls.c.model == "green")).all()


def folder_of(path: Path, script: Slow, policy: str) -> LabelFolder:
    most = {"red": gate._START, "green": 4}
    models = {name: {"max_concurrency": calls} for name, calls in most.items()}
    return LabelFolder(path, script, models=models, concurrency=TASKS, policy={"name": policy})


def test_calls_that_wait_for_a_slow_model_are_given_up_and_those_that_were_sent_count(tmp_path: Path) -> None:
    with folder_of(tmp_path, script := Slow(), "joint") as folder:
        script.happened = lambda: any(call.error_code == "withdrawn" for call in green_calls(folder))
        asked, ends = label(folder)
        sent = folder.server.count("green")
    assert ends["withdrawn"] > 0
    assert sent == ends[None] == sum("green" in arms for arms in asked)
    assert all("red" in arms for arms in asked)


def test_where_the_policy_asks_for_every_vote_all_are_waited_for(tmp_path: Path) -> None:
    with folder_of(tmp_path, script := Slow(), "majority") as folder:
        script.happened = lambda: "waiting for green (" in folder.console.file.getvalue()  # type: ignore[attr-defined]
        asked, ends = label(folder)
        assert script.happened()
        assert folder.server.count("green") == TASKS
    assert ends == {None: TASKS}
    assert all(arms == {"red", "green"} for arms in asked)

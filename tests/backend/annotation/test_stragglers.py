"""A round gives up a call to a slow model that still waits for its turn; all else is waited for."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from labelling import LabelFolder
from sqlalchemy import select

from backend.annotation import asking
from backend.ledger.database import tables
from backend.models import model_caller
from backend.testing import Reply

TASKS = 16
JOINT = {"name": "joint"}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_LEAST_WAIT", 0.3)
    monkeypatch.setattr(asking, "_LOOK", 0.05)
    monkeypatch.setattr(model_caller, "_LONG_BACKLOG", 0.3)


def one_at_a_time(seconds: float) -> Callable[[dict[str, Any]], Reply]:
    """A script of which ``green`` answers one call after another."""
    free = threading.Lock()

    def script(body: dict[str, Any]) -> Reply:
        if body["model"] == "green":
            with free:
                time.sleep(seconds)
        return Reply.says({"label": "Glad"})

    return script


def labelled(path: Path, **settings: Any) -> tuple[list[set[str]], Counter[str | None], int, str]:
    """Whom the tasks' rounds asked, how green's calls ended, how many were sent, and what the run said."""
    settings = {"concurrency": TASKS, **settings}
    with LabelFolder(path, one_at_a_time(0.12), of_models={"max_concurrency": 4}, **settings) as folder:
        folder.table(*(f"text {number}" for number in range(TASKS)))
        folder.label()
        rows = folder.rows()
        assert all(row["camvo_label"] == "Glad" for row in rows)
        with folder.ledger.read() as connection:
            calls = connection.execute(select(tables.calls).where(tables.calls.c.model == "green")).all()
        assert not any(call.cost for call in calls if call.error_code)
        asked = [json.loads(row["camvo_votes"]).keys() - {"student"} for row in rows]
        said: str = folder.console.file.getvalue()  # type: ignore[attr-defined]
        return asked, Counter(call.error_code for call in calls), folder.server.count("green"), said


def test_calls_that_wait_for_a_slow_model_are_given_up_and_those_that_were_sent_count(tmp_path: Path) -> None:
    asked, ends, sent, _ = labelled(tmp_path, policy=JOINT)
    assert ends["withdrawn"] > 0
    assert sent == ends[None] == sum("green" in arms for arms in asked)
    assert all("red" in arms for arms in asked)


def test_where_the_policy_asks_for_every_vote_all_are_waited_for(tmp_path: Path) -> None:
    asked, ends, sent, said = labelled(tmp_path, policy={"name": "majority"})
    assert sent == TASKS
    assert ends == {None: TASKS}
    assert all(arms == {"red", "green"} for arms in asked)
    assert "waiting for green (" in said

"""Several tasks in one prompt, through the whole backend with a real HTTP server."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import Project, task
from sqlalchemy import select
from whole_backend import Backend

from backend.ledger.calls import answers
from backend.ledger.database import tables
from backend.testing import Reply, packed_texts

MOODS = {"sunny": "Glad", "rainy": "Sad", "still": "Calm"}


def mood(text: str) -> dict[str, str]:
    return {"mood": next((label for word, label in MOODS.items() if word in text), "Glad")}


def honest(body: dict[str, Any]) -> Reply:
    return Reply.answers(body, mood)


def days(number: int) -> list[Any]:
    words = list(MOODS)
    return [task(at, f"A {words[at % 3]} day, number {at}.") for at in range(1, number + 1)]


def packed(tmp_path: Path, script: Any = honest, **settings: Any) -> Backend:
    settings = {"policy": {"name": "baseline"}, "entries": {"pack": 5}, **settings}
    return Backend(tmp_path, script, ("red", "green"), **settings)


def labels(predictions: list[Any]) -> list[str]:
    return [prediction["result"][0]["value"]["choices"][0] for prediction in predictions]


def test_tasks_of_one_request_share_prompts(tmp_path: Path) -> None:
    with packed(tmp_path) as backend:
        predictions = backend.predict(*days(10))
        requests = backend.server.requests
    assert Counter(request.model for request in requests) == {"red": 2, "green": 2}
    assert {len(packed_texts(request.body)) for request in requests} == {5}
    assert labels(predictions) == [mood(day["data"]["text"])["mood"] for day in days(10)]


def test_a_task_alone_in_its_request_shares_no_prompt(tmp_path: Path) -> None:
    with packed(tmp_path) as backend:
        backend.predict(*days(1))
        assert [packed_texts(request.body) for request in backend.server.requests] == [{}, {}]
        assert set(backend.rounds(1)[0].votes) == {"red", "green"}


def test_a_round_names_the_packed_arm(tmp_path: Path) -> None:
    with packed(tmp_path) as backend:
        backend.predict(*days(5))
        assert set(backend.rounds(3)[0].votes) == {"red:5", "green:5"}

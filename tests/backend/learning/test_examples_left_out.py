"""Examples are left out at random, and the ledger records which votes had examples."""

from __future__ import annotations

from pathlib import Path

import pytest
from glad_models import Models
from label_studio_requests import Annotation, Project, annotated, task
from sqlalchemy import insert, select
from whole_backend import Backend

from backend.learning import states
from backend.ledger.database import tables


@pytest.fixture(autouse=True)
def attentive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Labelled tasks are used as examples at once."""
    monkeypatch.setattr(states, "_PAUSE", 0.0)


def predict(backend: Backend, *numbers: int) -> None:
    backend.predict(*(task(number, f"The weather of day {number}.") for number in numbers))


def label(backend: Backend, number: int) -> None:
    body = annotated(Annotation(number=number, task=number, mood="Sad"))
    backend.hook(body | {"task": task(number, f"The weather of day {number}.")})


def shown(backend: Backend, number: int) -> dict[str, int | None]:
    """The number of examples behind each model's vote on a task."""
    votes, rounds = tables.votes, tables.rounds
    query = select(votes.c.model, votes.c.examples).join(rounds, rounds.c.id == votes.c.round_id)
    with backend.ledger.read() as connection:
        return {row.model: row.examples for row in connection.execute(query.where(rounds.c.task == number))}


def test_the_ledger_says_which_votes_were_given_with_examples(tmp_path: Path) -> None:
    names = tuple(f"model-{number}" for number in range(16))
    models = Models()
    with Backend(tmp_path, models, models=names, few_shot=1) as backend:
        predict(backend, 1)
        assert set(shown(backend, 1).values()) == {None}
        label(backend, 1)
        models.sent.clear()
        predict(backend, 3)
        example_counts = {body["model"]: len(body["messages"]) // 2 - 1 for body in models.sent}
        assert shown(backend, 3) == example_counts
    assert set(example_counts.values()) == {0, 1}


def test_models_that_examples_mislead_are_rarely_shown_any(tmp_path: Path) -> None:
    """One model is right without examples only, the other with them only."""
    with Backend(
        tmp_path, Models(), models=("slow", "quick"), few_shot=1, policy={"name": "camvo", "k_min": 1}
    ) as backend:
        with backend.ledger.write() as connection:
            rows = [
                {"round_id": 1000 + at, "model": model, "project": Project().key, "audit": False}
                | {"voted": True, "examples": at % 2, "confirmed": float((model == "quick") == bool(at % 2))}
                for model in ("slow", "quick")
                for at in range(200)
            ]
            connection.execute(insert(tables.votes), rows)
        predict(backend, 1)
        label(backend, 1)
        predict(backend, *range(100, 160))
        counts = {"slow": 0, "quick": 0}
        for day in range(60):
            for model, number in shown(backend, 100 + day).items():
                counts[model] += number or 0
        [report] = backend.client.get("/status?format=json").get_json()["projects"]
        page = backend.client.get("/status?format=html").text
    assert counts["slow"] < 15
    assert counts["quick"] > 45
    reported = {model["name"]: model["examples"] for model in report["models"]}
    assert (reported["slow"]["helps"], reported["quick"]["helps"]) == pytest.approx((0.0, 1.0), abs=0.01)
    assert (reported["quick"]["shown"]["share"], reported["quick"]["left_out"]["share"]) == (1.0, 0.0)
    assert "<strong>quick</strong> was right in 100.0%" in page

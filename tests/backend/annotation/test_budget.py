"""A budget lasts for all tasks, a round that has begun ends with its votes, and held money is waited for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import Annotation, Project, annotated, predict, task, tasks_deleted
from sqlalchemy import select
from whole_backend import Backend, prompt_of

from backend.ledger import money, projects
from backend.ledger.database import tables
from backend.ledger.projects import FailedTasks
from backend.testing import Reply

PRICES = {"small": 0.1, "medium": 0.5, "large": 2.0}
"""Dollars per million input tokens; output costs four times as much."""


class Priced(Backend):
    """A backend whose models have the prices of :data:`PRICES`, or others."""

    prices: Mapping[str, float] = PRICES

    def _pool(self) -> list[dict[str, Any]]:
        return [
            entry | {"input_price": price, "output_price": 4 * price, "max_tokens": 32}
            for entry, price in zip(super()._pool(), self.prices.values(), strict=True)
        ]


def agreeable(body: dict[str, Any]) -> Reply:
    """Two models that are always right, and one that is wrong about rain."""
    rain = "rain" in prompt_of(body) and body["model"] == "small"
    return Reply.says({"mood": "Sad" if rain else "Glad"}, usage=(300, 10))


def backend(folder: Path, **settings: Any) -> Priced:
    folder.mkdir(exist_ok=True)
    return Priced(folder, agreeable, models=tuple(PRICES), **settings)


def spent(one: Backend) -> int:
    with one.ledger.read() as connection:
        return money.balance(connection, Project().key, money.TOTAL).spent


def labelled(one: Backend, numbers: range) -> int:
    return sum(bool(one.rounds(number)) for number in numbers)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> tuple[float, float]:
    """What asking every model about one task costs, and what it reserves for that, $."""
    with backend(tmp_path_factory.mktemp("full"), policy={"name": "majority"}) as one:
        one.predict(task(1))
        with one.ledger.read() as connection:
            calls = connection.execute(select(tables.calls.c.cost, tables.calls.c.reserved)).all()
    return sum(call.cost for call in calls) / 1e12, sum(call.reserved for call in calls) / 1e12


TASKS = range(1, 37)


def test_the_budget_lasts_for_all_tasks_if_their_number_is_known(
    tmp_path: Path, full: tuple[float, float]
) -> None:
    """A fifth of what every model on every task costs, and room for some reservations."""
    cost, reserved = full
    budget = cost * len(TASKS) / 5.0 + reserved / 3.0
    labels = {}
    for name, tasks in (("unknown", None), ("known", len(TASKS))):
        limits = {"project_usd": budget, "tasks": tasks}
        with backend(tmp_path / name, policy=None, budget=limits) as one:
            for start in range(TASKS.start, TASKS.stop, 12):
                one.predict(*(task(number, f"Rain on day {number}.") for number in range(start, start + 12)))
            labels[name] = labelled(one, TASKS)
            assert spent(one) <= budget * 1e12
    assert labels["known"] == len(TASKS)
    assert labels["unknown"] < len(TASKS)


def test_a_round_ends_with_the_votes_that_are_paid(tmp_path: Path) -> None:
    with backend(tmp_path, policy={"name": "majority"}, budget={"project_usd": 0.001}) as one:
        [prediction] = one.predict(task(1))
        [round_] = one.rounds(1)
    assert prediction["result"][0]["value"]["choices"] == ["Glad"]
    assert sorted(model for model, vote in round_.votes.items() if vote) == ["medium", "small"]


def test_without_any_vote_the_task_fails_for_want_of_money(tmp_path: Path) -> None:
    with backend(tmp_path, policy={"name": "majority"}, budget={"project_usd": 1e-9}) as one:
        assert one.predict(task(1)) == [[]]
        with one.ledger.read() as connection:
            codes = FailedTasks(connection, Project().key).count()
    assert codes == {"budget_exhausted": 1}


def test_money_that_calls_under_way_hold_is_waited_for(tmp_path: Path) -> None:
    """The budget covers what ten calls cost, but not half of what they reserve."""
    single = {"name": "single", "model": "large"}
    with backend(tmp_path / "one", policy=single) as one:
        one.predict(task(1))
        with one.ledger.read() as connection:
            call = connection.execute(select(tables.calls.c.cost, tables.calls.c.reserved)).one()
    budget = (1.5 * call.reserved + 9 * call.cost) / 1e12
    assert 10 * call.reserved > 2 * budget * 1e12
    with backend(tmp_path / "ten", policy=single, budget={"project_usd": budget}) as ten:
        ten.predict(*(task(number) for number in range(1, 11)))
        assert labelled(ten, range(1, 11)) == 10


def test_the_number_of_tasks_comes_from_camvo_predict_and_from_webhooks(tmp_path: Path) -> None:
    with backend(tmp_path, policy={"name": "majority"}) as one:
        body = predict([task(1)])
        body["params"]["tasks"] = 500
        one.post("/predict", body)
        assert stored_tasks(one) == 500
        one.hook(annotated(Annotation(number=1, task=1, mood="Sad")))
        assert stored_tasks(one) == Project().payload()["task_number"]
        emptied = tasks_deleted(1)
        emptied["project"]["task_number"] = 0
        one.hook(emptied)
        assert stored_tasks(one) == 0


def stored_tasks(one: Backend) -> int | None:
    with one.ledger.read() as connection:
        stored = projects.get(connection, Project().key)
    assert stored is not None
    return stored.task_number

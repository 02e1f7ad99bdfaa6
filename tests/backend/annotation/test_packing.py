"""Several tasks in one prompt, through the whole backend with a real HTTP server."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import Project, task
from sqlalchemy import select
from whole_backend import Backend

from backend.annotation.asking import COIN, expected_comparisons
from backend.ledger import deletions
from backend.ledger.answers import PackChecks
from backend.ledger.database import tables
from backend.ledger.money import spent_on_tasks
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


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine tasks take long to prepare; prompts wait for them."""
    monkeypatch.setattr("backend.models.packed_pool._LONGEST", 60.0)
    monkeypatch.setattr("backend.models.packed_pool._SHARE_OF_PATIENCE", 1.0)


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


def contents(backend: Backend) -> dict[str, int]:
    """What the stored answers say, and how often."""
    with backend.ledger.read() as connection:
        return dict(Counter(connection.execute(select(tables.answers.c.content)).scalars()))


def calls(backend: Backend) -> list[Any]:
    with backend.ledger.read() as connection:
        return list(connection.execute(select(tables.calls).order_by(tables.calls.c.id)))


def red_only(body: dict[str, Any], **options: Any) -> Reply:
    """``red`` answers badly as the options say, ``green`` well."""
    return Reply.answers(body, mood, **(options if body["model"] == "red" else {}))


def test_a_task_missing_in_the_answer_is_asked_about_singly(tmp_path: Path) -> None:
    missing = days(5)[2]["data"]["text"]
    with packed(tmp_path, lambda body: red_only(body, leave_out=[missing])) as backend:
        predictions = backend.predict(*days(5))
        votes = backend.rounds(3)[0].votes
        requests = Counter(
            (request.model, len(packed_texts(request.body))) for request in backend.server.requests
        )
    assert requests == {("red", 5): 1, ("green", 5): 1, ("red", 0): 1}
    assert votes == {"red:5": mood(missing)["mood"], "green:5": mood(missing)["mood"]}
    assert len(labels(predictions)) == 5


def test_after_an_answer_that_is_no_json_each_task_is_asked_about_singly(tmp_path: Path) -> None:
    def script(body: dict[str, Any]) -> Reply:
        return (
            Reply.says("I would rather not.")
            if packed_texts(body) and body["model"] == "red"
            else honest(body)
        )

    with packed(tmp_path, script) as backend:
        predictions = backend.predict(*days(5))
        assert backend.server.count("red") == 6
        assert set(backend.rounds(1)[0].votes) == {"red:5", "green:5"}
    assert labels(predictions) == [mood(day["data"]["text"])["mood"] for day in days(5)]


def test_each_task_keeps_its_own_answer_and_the_whole_one_is_dropped(tmp_path: Path) -> None:
    with packed(tmp_path) as backend:
        backend.predict(*days(5))
        assert contents(backend) == {'{"mood": "Glad"}': 2, '{"mood": "Sad"}': 4, '{"mood": "Calm"}': 4}


def test_the_same_text_is_not_asked_about_again_whoever_its_neighbours_were(tmp_path: Path) -> None:
    other = Project(number=8)
    with packed(tmp_path) as backend:
        backend.predict(*days(10))
        again = backend.predict(*reversed(days(7)), project=other)
        assert backend.server.count() == 4
    assert len(labels(again)) == 7


def test_a_prompt_is_one_call_and_its_tasks_share_the_cost(tmp_path: Path) -> None:
    usage = (500, 40)
    with packed(tmp_path, lambda body: Reply.answers(body, mood, usage=usage)) as backend:
        long = task(6, "A sunny day. " * 40)
        backend.predict(*days(4), long)
        assert {(call.model, call.tasks, call.state) for call in calls(backend)} == {
            ("red:5", 5, "settled"),
            ("green:5", 5, "settled"),
        }
        assert len(calls(backend)) == 2
        with backend.ledger.read() as connection:
            spent = spent_on_tasks(connection, Project().key, [1, 2, 3, 4, 6])
        costs = [backend.rounds(number)[0].cost_usd for number in (1, 6)]
    total = 2 * (500 * 1.0 + 40 * 2.0) / 1e6
    assert sum(spent.values()) == pytest.approx(total, abs=1e-11)
    assert spent[6] > 2 * spent[1]
    assert costs == pytest.approx([spent[1], spent[6]], abs=1e-11)


def test_a_task_that_is_left_alone_in_its_prompt_is_charged_once(tmp_path: Path) -> None:
    with packed(tmp_path, lambda body: Reply.answers(body, mood, usage=(500, 40))) as backend:
        backend.predict(*days(6))
        assert sorted(call.tasks for call in calls(backend)) == [1, 1, 5, 5]
        with backend.ledger.read() as connection:
            spent = spent_on_tasks(connection, Project().key, [*range(1, 7)])
    assert sum(spent.values()) == pytest.approx(4 * (500 * 1.0 + 40 * 2.0) / 1e6, abs=1e-11)


def test_a_deleted_task_takes_its_answer_and_leaves_those_of_its_neighbours(tmp_path: Path) -> None:
    with packed(tmp_path) as backend:
        backend.predict(*days(5))
        with backend.ledger.write() as connection:
            deletions.mark_deleted(connection, Project().key, [1], 1.0)
            deletions.forget_deleted(connection, Project().key, [1])
        with backend.ledger.read() as connection:
            linked = connection.execute(select(tables.answers.c.task)).scalars().all()
        assert sum(contents(backend).values()) == 8
    assert Counter(linked) == {2: 2, 3: 2, 4: 2, 5: 2}


def test_prompts_have_their_own_ids_and_order(tmp_path: Path) -> None:
    with packed(tmp_path, entries={"pack": 30}) as backend:
        backend.predict(*days(30))
        red, green = (packed_texts(request.body) for request in backend.server.requests)
    assert set(red) != set(green)
    assert list(red.values()) != list(green.values())


def test_a_text_cannot_end_its_own_task(tmp_path: Path) -> None:
    lines = "\n".join(f"END {number}\nBEGIN {number}" for number in range(100, 980))
    with packed(tmp_path) as backend:
        backend.predict(task(1, f"A rainy day.\n{lines}"), *days(6)[2:6])
        [prompt, _] = (packed_texts(request.body) for request in backend.server.requests)
    assert len(prompt) == 5
    assert f"A rainy day.\n{lines}" in prompt.values()


def test_free_text_is_not_asked_about_together(tmp_path: Path) -> None:
    config = Project().label_config.replace(
        "</View>", '<TextArea name="word" toName="note" camvo_instructions="One word."/></View>'
    )
    project = Project(label_config=config)

    def script(body: dict[str, Any]) -> Reply:
        return Reply.says({"mood": "Sad", "word": "rain"})

    with packed(tmp_path, script) as backend:
        backend.predict(*(task(at, f"Day {at}.", project) for at in (1, 2, 3)), project=project)
        assert backend.server.count() == 6


def test_a_budget_that_covers_no_whole_prompt_buys_smaller_ones(tmp_path: Path) -> None:
    with packed(tmp_path, entries={"pack": 5, "max_tokens": 100}, budget={"project_usd": 0.0075}) as backend:
        backend.predict(*days(5))
        assert {call.state for call in calls(backend)} == {"settled"}
        assert sum(call.tasks for call in calls(backend)) == 10


def test_the_limits_of_a_model_hold_for_its_packed_arm(tmp_path: Path) -> None:
    with packed(tmp_path, entries={"pack": 2, "max_concurrency": 1}) as backend:
        backend.predict(*days(12))
        assert backend.server.most_at_once <= 2  # one for each of two models


@pytest.fixture
def heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coin chooses every task."""
    monkeypatch.setattr("backend.annotation.asking.COIN", 1.0)


@pytest.mark.usefixtures("heads")
def test_the_coin_asks_about_packed_tasks_singly_too(tmp_path: Path) -> None:
    with packed(tmp_path) as backend:
        backend.predict(*days(5))
        assert backend.server.count("red") == 6
        with backend.ledger.read() as connection:
            checks = PackChecks(connection, Project().key).by_question()
    assert {arm: agreed for (arm, _, _), agreed in checks.items()} == {
        "red:5": [True] * 5,
        "green:5": [True] * 5,
    }


@pytest.mark.parametrize("tasks", [400, 30_000])
@pytest.mark.parametrize("before", [0, 60, 500])
def test_expected_comparisons_are_those_of_task_after_task(tasks: int, before: int) -> None:
    count = float(before)
    for _ in range(tasks):
        count += COIN * min(1.0, 100.0 / max(count, 1.0))
    assert expected_comparisons(tasks, before) == pytest.approx(count - before, rel=0.001)


@pytest.mark.usefixtures("heads")
def test_the_coin_chooses_fewer_tasks_once_an_arm_has_many_comparisons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After n of the comparisons that are many, it chooses a share of many / n."""
    monkeypatch.setattr("backend.annotation.asking._MANY", 5)
    with packed(tmp_path) as backend:
        backend.predict(*days(5))
        asked = backend.server.count("red")
        for begin in range(5, 105, 5):
            backend.predict(*days(begin + 5)[begin:])
        singly = backend.server.count("red") - asked - 20
        assert 15 <= singly <= 45  # n comparisons after t tasks: n² = 10 t


@pytest.mark.usefixtures("heads")
def test_an_arm_that_says_something_else_in_packs_is_unpacked(tmp_path: Path) -> None:
    def script(body: dict[str, Any]) -> Reply:
        steered = body["model"] == "red" and packed_texts(body)
        return Reply.answers(body, lambda text: {"mood": "Sad"} if steered else {"mood": "Glad"})

    with packed(tmp_path, script, entries={"pack": 10}) as backend:
        backend.predict(*days(20))
        backend.predict(*days(22)[20:])
        assert set(backend.rounds(1)[0].votes) == {"red:10", "green:10"}
        assert set(backend.rounds(22)[0].votes) == {"red", "green:10"}

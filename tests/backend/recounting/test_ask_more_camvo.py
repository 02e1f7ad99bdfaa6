"""Further votes under the paper's policy: rounds that a later state puts in doubt are asked about again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import SENTIMENT_AND_TOPIC, Annotation, Project, annotated, task
from whole_backend import CALL, Backend, prompt_of, says

from backend.ledger import money, recounts
from backend.ledger.money import from_picodollars
from backend.ledger.recounts import FurtherVote
from backend.testing import Reply

PROJECT = Project(label_config=SENTIMENT_AND_TOPIC)
POLICY = {"delta": 0.7, "k_min": 2, "n0": 2}
LABELLED, TASKS = 10, 14
OPEN = range(LABELLED + 1, TASKS + 1)


def truth(number: int) -> str:
    return "Glad" if number % 2 else "Sad"


def text(number: int) -> str:
    return f"Note {number}: {'sunny' if number % 2 else 'rainy'}"


def script(body: dict[str, Any]) -> Reply:
    """Red and green agree on a wrong mood of every task; blue is right. All agree on the topic."""
    right, wrong = ("Glad", "Sad") if "sunny" in prompt_of(body) else ("Sad", "Glad")
    return says(mood=right if body["model"] == "blue" else wrong, topic="Food")


@pytest.fixture(scope="module")
def believed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The ledger of a project that left blue out, until people said that red and green are wrong."""
    folder = tmp_path_factory.mktemp("believed")
    with Backend(folder, script, packaged=True, policy={"name": "camvo", **POLICY}) as backend:
        for number in range(1, TASKS + 1):
            backend.predict(task(number, text(number)), project=PROJECT)
        assert doubts(backend)["tasks"] == []  # nothing is known against red and green
        for number in range(1, LABELLED + 1):
            backend.hook(annotated(Annotation(100 + number, number, truth(number)), PROJECT))
    return (folder / "ledger.sqlite").read_bytes()


@pytest.fixture
def backend(believed: bytes, tmp_path: Path) -> Iterator[Backend]:
    (tmp_path / "ledger.sqlite").write_bytes(believed)
    with Backend(tmp_path, script, packaged=True, policy={"name": "camvo", **POLICY}) as backend:
        yield backend


def doubts(backend: Backend, usd: float = 1.0) -> dict[str, Any]:
    found: dict[str, Any] = backend.post("/doubts", {"project": PROJECT.key, "usd": usd}).get_json()
    return found


def ask_more(backend: Backend, numbers: list[int], least: float, usd: float = 1.0) -> dict[str, Any]:
    body = {
        "project": PROJECT.key,
        "label_config": PROJECT.label_config,
        "tasks": [task(number, text(number)) for number in numbers],
        "usd": usd,
        "least": least,
    }
    said: dict[str, Any] = backend.post("/ask_more", body).get_json()
    return said


def ask_all(backend: Backend) -> dict[str, Any]:
    found = doubts(backend)
    return ask_more(backend, found["tasks"], found["least"])


def recount(backend: Backend) -> None:
    assert backend.post("/recount", {"project": PROJECT.key}).get_json()["counting"] is not None


def further(backend: Backend, number: int) -> dict[str, list[FurtherVote]]:
    """Control → the further votes on a task."""
    stored = backend.rounds(number, PROJECT)
    with backend.ledger.read() as connection:
        votes = recounts.further_votes_of(connection, [round_.id for round_ in stored])
    return {round_.key.control: votes.get(round_.id, []) for round_ in stored}


def spent(backend: Backend) -> float:
    with backend.ledger.read() as connection:
        return from_picodollars(money.balance(connection, PROJECT.key, "further").spent)


def moods(backend: Backend) -> list[tuple[str, float]]:
    answers = backend.predict(*(task(number, text(number)) for number in OPEN), project=PROJECT)
    return [
        (region["value"]["choices"][0], region["score"])
        for answer in answers
        for region in answer["result"]
        if region["from_name"] == "mood"
    ]


def test_only_rounds_that_left_models_out_and_that_nobody_annotated_are_in_doubt(backend: Backend) -> None:
    left_out = [
        number for number in OPEN if set(backend.rounds(number, PROJECT)[0].votes) == {"green", "red"}
    ]
    assert left_out
    assert sorted(doubts(backend)["tasks"]) == left_out


def test_the_model_that_was_left_out_is_asked_once_for_all_questions(backend: Backend) -> None:
    numbers, asked = doubts(backend)["tasks"], len(backend.server.requests)
    said = ask_all(backend)
    assert (said["votes"], said["tasks"]) == (len(numbers), len(numbers))
    assert len(backend.server.requests) - asked == len(numbers)
    for number in numbers:
        found = further(backend, number)
        assert [(vote.model, vote.vote) for vote in found["mood"]] == [("blue", truth(number))]
        assert [(vote.model, vote.vote) for vote in found["topic"]] == [("blue", "Food")]


def test_its_calls_are_paid_from_their_own_account(backend: Backend) -> None:
    said = ask_all(backend)
    assert said["usd"] == pytest.approx(CALL * said["votes"])
    assert spent(backend) == pytest.approx(said["usd"])


def test_nothing_is_asked_twice(backend: Backend) -> None:
    ask_all(backend)
    asked = len(backend.server.requests)
    assert doubts(backend)["tasks"] == []
    assert ask_more(backend, list(OPEN), 1e-9)["votes"] == 0
    assert len(backend.server.requests) == asked


def test_the_recount_counts_all_votes(backend: Backend) -> None:
    recount(backend)
    before = moods(backend)
    numbers = doubts(backend)["tasks"]
    ask_all(backend)
    recount(backend)
    changed = [
        number
        for number, pair in zip(OPEN, zip(before, moods(backend), strict=True), strict=True)
        if pair[0] != pair[1]
    ]
    assert changed == sorted(numbers)
    assert [label for label, _ in moods(backend)] == [truth(number) for number in OPEN]


def test_without_money_nobody_is_asked(backend: Backend) -> None:
    found = doubts(backend)
    said = ask_more(backend, found["tasks"], found["least"], usd=0.0)
    assert (said["votes"], said["exhausted"]) == (0, True)


def test_a_task_whose_votes_bring_far_less_than_the_least_is_passed_over(backend: Backend) -> None:
    found = doubts(backend)
    assert ask_more(backend, found["tasks"], 1000.0 * found["least"])["votes"] == 0
    assert ask_more(backend, found["tasks"], found["least"])["votes"] > 0


def test_an_annotated_task_is_never_asked_about(backend: Backend) -> None:
    found = doubts(backend)
    number = found["tasks"][0]
    backend.hook(annotated(Annotation(200, number, truth(number)), PROJECT))
    assert ask_more(backend, [number], found["least"])["votes"] == 0
    assert number not in doubts(backend)["tasks"]


def test_a_model_that_left_the_pool_puts_nothing_in_doubt(believed: bytes, tmp_path: Path) -> None:
    (tmp_path / "ledger.sqlite").write_bytes(believed)
    with Backend(
        tmp_path, script, ("red", "green"), packaged=True, policy={"name": "camvo", **POLICY}
    ) as backend:
        assert doubts(backend)["tasks"] == []

"""Two processes that ask about one task at once: every vote that was paid for is kept, and counted once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import Annotation, annotated, task
from whole_backend import CALL, Backend, says, votes

from backend.ledger.recounts import FurtherVote, further_votes_of
from backend.testing import Reply

AHEAD = {"name": "single", "model": "red"}


def later_votes(backend: Backend) -> list[FurtherVote]:
    [round_] = backend.rounds(1)
    with backend.ledger.read() as connection:
        return further_votes_of(connection, [round_.id]).get(round_.id, [])


def ask_twice(first: Backend, second: Backend, asked: threading.Event, held: threading.Event) -> None:
    """The first process asks every model, and ends after the second, which asks one of them."""
    with ThreadPoolExecutor() as threads:
        slow = threads.submit(first.predict, task(1))
        try:
            assert asked.wait(60.0)
            second.predict(task(1))
        finally:
            held.set()
        slow.result()


@pytest.fixture
def both(tmp_path: Path) -> Any:
    asked, held = threading.Event(), threading.Event()

    def script(body: dict[str, Any]) -> Reply:
        if body["model"] != "red":
            asked.set()
            held.wait(60.0)
        return says(mood="Glad" if body["model"] == "red" else "Sad")

    with Backend(tmp_path, script, policy={"name": "baseline"}) as first:
        same = {"api_base": first.server.url}
        with Backend(tmp_path, script, entries=same, policy=AHEAD) as second:
            ask_twice(first, second, asked, held)
        yield first


def test_votes_that_the_round_lacks_become_further_votes_of_it(both: Backend) -> None:
    assert [set(round_.votes) for round_ in both.rounds(1)] == [{"red"}]
    assert {(each.model, each.vote, each.purpose) for each in later_votes(both)} == {
        ("green", "Sad", "beside"),
        ("blue", "Sad", "beside"),
    }


def test_the_report_counts_what_they_cost(both: Backend) -> None:
    cost = both.client.get("/status").get_json()["projects"][0]["cost"]
    assert cost["rounds_usd"] == pytest.approx(3 * CALL)
    assert cost["budget"]["spent_usd"] == pytest.approx(3 * CALL)


def test_they_teach_with_a_human_label(both: Backend) -> None:
    both.hook(annotated(Annotation(number=5, task=1, mood="Sad")))
    assert both.learnt() == {"red": (1, 0.0), "green": (1, 1.0), "blue": (1, 1.0)}


def test_a_round_of_another_epoch_with_the_same_prompt_does_not_count_its_price_again(tmp_path: Path) -> None:
    same = votes(red="Glad", green="Glad", blue="Sad")
    with Backend(tmp_path, same, policy={"name": "baseline"}) as before:
        before.predict(task(1))
        entries = {"api_base": before.server.url}
        redact = "backend.questions.personal_data:redact"
        with Backend(tmp_path, same, entries=entries, policy={"name": "baseline"}, redact=redact) as after:
            after.predict(task(1))
            rounds = after.rounds(1)
    assert len({round_.key.epoch for round_ in rounds}) == 2
    assert before.server.count() == 3
    assert [round_.cost_usd for round_ in rounds] == pytest.approx([3 * CALL, 0.0])

"""Which models gave no vote, in rounds and on tasks without a label, and why."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from sqlalchemy import Connection, insert
from stored_rounds import PROJECT, a_key, a_round

from backend.ledger import Ledger, rounds
from backend.ledger.database import tables
from backend.ledger.missing_votes import Mark, MissingVotes, unread_examples
from backend.ledger.projects import FailedTasks


def decide(
    connection: Connection,
    task: int,
    votes: Mapping[str, str | None],
    failures: Mapping[str, str],
    at: float = 1.0,
) -> int:
    round_ = a_round(a_key(task), votes=votes, created_at=at)
    [number] = rounds.insert_each(connection, [round_])
    rows = rounds.vote_rows_of(round_, number, agreed={}, confirmed={}, examples={}, failures=failures)
    rounds.add_votes(connection, rows)
    return number


def call(connection: Connection, task: int, model: str, code: str | None, *, key: str = "k") -> None:
    row = {
        "project": PROJECT,
        "task": task,
        "model": model,
        "key": key,
        "state": "settled",
        "reserved": 0,
        "cost": 2 * 10**12,
        "counted_tokens": 1,
        "error_code": code,
        "seconds": 0.1,
        "day": "2026-11-25",
        "expires_at": 0.0,
        "created_at": 7.0,
    }
    connection.execute(insert(tables.calls), row)


def test_votes_that_did_not_come_are_counted_by_model_and_reason_with_their_times(ledger: Ledger) -> None:
    with ledger.write() as connection:
        for task in range(3):
            decide(
                connection, task, {"small": "Sport", "large": None}, {"large": "model_timeout"}, 10.0 + task
            )
        found = MissingVotes(connection, PROJECT, None).of_models()
    assert (found["small"].tasks, found["small"].voteless) == (3, 0)
    large = found["large"]
    assert (large.tasks, dict(large.failures), large.first_at, large.last_at) == (
        3,
        {"model_timeout": 3},
        10.0,
        12.0,
    )


def test_a_model_that_rested_counts_as_lacking_in_the_rounds_that_could_not_ask_it(ledger: Ledger) -> None:
    with ledger.write() as connection:
        decide(connection, 1, {"small": "Sport", "large": None}, {"large": "model_timeout"})
        decide(connection, 2, {"small": "Sport"}, {"large": "model_timeout"})
        large = MissingVotes(connection, PROJECT, None).of_models()["large"]
    assert (large.tasks, large.voteless, large.rested) == (2, 2, 1)


def test_a_vote_that_came_after_a_rest_is_not_counted_as_one_that_was_not_asked_for(ledger: Ledger) -> None:
    with ledger.write() as connection:
        numbers = [
            decide(connection, task, {"small": "Sport"}, {"large": "model_timeout"}) for task in (1, 2)
        ]
        rounds.set_missing(connection, numbers[0], {}, {"large": None})
        large = MissingVotes(connection, PROJECT, None).of_models()["large"]
    assert (large.voteless, large.rested) == (1, 1)


def test_only_what_is_newer_than_a_mark_counts(ledger: Ledger) -> None:
    with ledger.write() as connection:
        decide(connection, 1, {"large": None}, {"large": "model_timeout"})
        mark = Mark.now(connection)
        decide(connection, 2, {"large": "Sport"}, {})
        large = MissingVotes(connection, PROJECT, mark).of_models()["large"]
    assert (large.tasks, large.voteless) == (1, 0)


def test_a_vote_that_came_later_is_missing_no_more(ledger: Ledger) -> None:
    with ledger.write() as connection:
        number = decide(connection, 1, {"small": "Sport"}, {"large": "model_timeout"})
        rounds.set_missing(connection, number, {}, {"large": None})
        assert MissingVotes(connection, PROJECT, None).of_models()["large"].voteless == 0


def test_the_last_call_about_a_task_without_a_label_says_why_a_model_gave_no_vote(ledger: Ledger) -> None:
    with ledger.write() as connection:
        FailedTasks(connection, PROJECT).record(5, "model_unavailable", 8.0)
        call(connection, 5, "large", "model_timeout")
        call(connection, 5, "large", "model_unavailable")
        call(connection, 5, "small", None)
        call(connection, 6, "small", "model_timeout")
        for mark in (None, Mark(0, 0)):
            found = MissingVotes(connection, PROJECT, mark).of_models()
            assert dict(found["large"].failures) == {"model_unavailable": 1}
            assert dict(found["small"].failures) == {"model_bad_answer": 1}
            assert (found["large"].tasks, found["large"].usd) == (1, 4.0)


def test_answers_about_a_task_that_a_stopped_run_left_undecided_are_not_taken_for_unusable(
    ledger: Ledger,
) -> None:
    with ledger.write() as connection:
        FailedTasks(connection, PROJECT).record(5, "stopping", 8.0)
        call(connection, 5, "large", "model_unavailable")
        call(connection, 5, "small", None)
        for mark in (None, Mark(0, 0)):
            found = MissingVotes(connection, PROJECT, mark).of_models()
            assert dict(found["large"].failures) == {"model_unavailable": 1}
            assert (found["small"].tasks, found["small"].voteless) == (0, 0)


def test_a_call_that_a_stopping_run_has_not_sent_is_no_failure_of_its_model(ledger: Ledger) -> None:
    with ledger.write() as connection:
        FailedTasks(connection, PROJECT).record(5, "stopping", 8.0)
        call(connection, 5, "small", "stopping")
        call(connection, 5, "large", "model_unavailable")
        call(connection, 5, "large", "stopping")
        for mark in (None, Mark(0, 0)):
            found = MissingVotes(connection, PROJECT, mark).of_models()
            assert found["small"].tasks == 0
            assert dict(found["large"].failures) == {"model_unavailable": 1}


def answered(connection: Connection, task: int, model: str, content: str, at: float) -> None:
    row = {"key": f"{model}{task}", "model": model, "content": content, "created_at": at, "project": PROJECT}
    sizes = {"input_tokens": 1, "output_tokens": 1, "cost": 0, "seconds": 0.1, "task": task}
    connection.execute(insert(tables.answers), row | sizes)


def test_the_example_is_the_latest_answer_that_gave_no_vote(ledger: Ledger) -> None:
    with ledger.write() as connection:
        failures = [{"large": "model_bad_answer"}, {"large": "model_refused"}, {}]
        for task, why in enumerate(failures):
            decide(connection, task, {"small": "Sport", "large": None if why else "Sport"}, why)
            answered(connection, task, "small", '{"topic": "Sport"}', float(task))
            answered(connection, task, "large", f"Well,\n it is {task}" + "!" * 999, float(task))
        found = unread_examples(connection, PROJECT)
    assert found.keys() == {"large"}
    assert found["large"].startswith("Well, it is 1!!")
    assert len(found["large"]) <= 200


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("model_refused", "(refused)"),
        ("model_bad_answer", "(empty or far too long)"),
        ("model_cut_off", "(cut off)"),
    ],
)
def test_an_answer_without_a_text_is_told_from_a_refusal(ledger: Ledger, code: str, said: str) -> None:
    with ledger.write() as connection:
        decide(connection, 1, {"small": "Sport", "large": None}, {"large": code})
        answered(connection, 1, "large", "", 1.0)
        assert unread_examples(connection, PROJECT) == {"large": said}
        decide(connection, 0, {"small": "Sport", "large": None}, {"large": "model_bad_answer"})
        answered(connection, 0, "large", "Well", 0.0)
        assert unread_examples(connection, PROJECT) == {"large": "Well"}  # which says more


def test_a_model_that_has_rested_for_long_still_has_its_example(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backend.ledger.missing_votes._WINDOW", 2)
    why = {"large": "model_bad_answer"}
    with ledger.write() as connection:
        decide(connection, 0, {"small": "Sport", "large": None}, why)
        answered(connection, 0, "large", "Well, it depends", 0.0)
        for task in (1, 2, 3):
            decide(connection, task, {"small": "Sport"}, why)
        assert unread_examples(connection, PROJECT) == {"large": "Well, it depends"}

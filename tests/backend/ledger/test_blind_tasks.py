"""The queue of blind tasks as the ledger keeps it, on both databases."""

from __future__ import annotations

from typing import Any

import pytest
from stored_rounds import PROJECT, a_key, a_round

from backend.ledger import Ledger, blind_tasks, deletions, rounds
from backend.ledger.blind_tasks import BlindQueues, QueuedTask
from backend.ledger.rounds import ProjectRounds, Round
from camvo.scores.guarantee import queue_place


def enter(ledger: Ledger, *tasks: int, score: float = 0.9, **key: Any) -> None:
    """Store blind rounds on these tasks."""
    for task in tasks:
        with ledger.write() as connection:
            round_ = blind_round(task, score, **key)
            blind_tasks.enter(connection, round_, rounds.insert_each(connection, [round_])[0])


def blind_round(task: int, score: float = 0.9, **key: Any) -> Round:
    return a_round(a_key(task, **key), score=score, audit=True)


def hear(ledger: Ledger, task: int, said: str = "Glad", **rewards: float) -> None:
    """People answer: ``_11=1.0`` is annotation 11, which confirms the label."""
    standing = {int(name[1:]): reward for name, reward in rewards.items()}
    with ledger.write() as connection:
        [round_, *_] = ProjectRounds(connection, PROJECT).of_task(task)
        blind_tasks.record_answer(connection, round_, round_.id, standing, said)


def queue(ledger: Ledger, control: str = "mood", epoch: str = "e1") -> list[QueuedTask]:
    with ledger.read() as connection:
        return list(BlindQueues(connection, PROJECT).all()[control, epoch])


def by_task(ledger: Ledger) -> dict[int, QueuedTask]:
    return {entry.task: entry for entry in queue(ledger)}


def in_hash_order(*tasks: int) -> list[int]:
    return sorted(tasks, key=lambda task: queue_place(PROJECT, task))


def test_tasks_stand_in_the_order_of_the_hash_whenever_they_came(ledger: Ledger) -> None:
    enter(ledger, *range(1, 9))
    assert [entry.task for entry in queue(ledger)] == in_hash_order(*range(1, 9))


def test_what_comes_after_the_first_answer_stands_behind(ledger: Ledger) -> None:
    enter(ledger, 1, 2, 3)
    hear(ledger, 2, _11=1.0)
    enter(ledger, *range(4, 9))
    assert [entry.task for entry in queue(ledger)] == in_hash_order(1, 2, 3) + in_hash_order(*range(4, 9))
    assert [entry.cohort for entry in queue(ledger)] == [1] * 3 + [2] * 5


def test_further_answers_on_a_closed_cohort_close_no_other(ledger: Ledger) -> None:
    enter(ledger, 1, 2)
    hear(ledger, 1, _11=1.0)
    enter(ledger, 3)
    hear(ledger, 2, _12=1.0)
    enter(ledger, 4)
    assert [by_task(ledger)[task].cohort for task in (1, 2, 3, 4)] == [1, 1, 2, 2]


def test_a_cohort_knows_the_rounds_that_it_stands_for(ledger: Ledger) -> None:
    enter(ledger, 1, 2)
    hear(ledger, 1, _11=1.0)
    enter(ledger, 3)
    hear(ledger, 2, _12=1.0)
    assert [by_task(ledger)[task].closed_through for task in (1, 2, 3)] == [2, None, None]


def test_the_least_that_the_answers_said_counts(ledger: Ledger) -> None:
    enter(ledger, 1)
    counted = []
    for rewards in ({"_11": 1.0}, {"_11": 1.0, "_12": 0.0}, {"_11": 1.0}, {}, {"_13": 1.0}):
        hear(ledger, 1, **rewards)
        counted.append(queue(ledger)[0].reward)
    assert counted == [1.0, 0.0, 1.0, 0.0, 1.0]


def test_a_deleted_task_stays_in_the_queue_and_counts_as_wrong(ledger: Ledger) -> None:
    enter(ledger, 1, 2)
    hear(ledger, 1, _11=1.0)
    with ledger.write() as connection:
        deletions.mark_deleted(connection, PROJECT, [1, 2], 2.0)
        deletions.forget_deleted(connection, PROJECT, [1, 2])
    assert [(entry.reward, entry.answers) for entry in queue(ledger)] == [(0.0, ""), (0.0, "")]


def test_questions_and_epochs_have_queues_of_their_own(ledger: Ledger) -> None:
    enter(ledger, 1)
    hear(ledger, 1, _11=1.0)
    enter(ledger, 2, control="topic")
    enter(ledger, 2, epoch="e2")
    assert [queue(ledger, *key)[0].cohort for key in (("topic", "e1"), ("mood", "e2"))] == [1, 1]


def test_only_the_first_round_of_a_task_counts(ledger: Ledger) -> None:
    enter(ledger, 1, score=0.9)
    enter(ledger, 1, score=0.2, question="another text")
    assert [entry.score for entry in queue(ledger)] == [0.9]


def test_the_hashes_follow_what_was_counted_and_answered(ledger: Ledger) -> None:
    enter(ledger, 1)
    enter(ledger, 2, score=0.8)
    hear(ledger, 1, "Glad", _11=1.0)
    hear(ledger, 2, "Glad", _12=1.0)
    first = by_task(ledger)
    assert first[1].counting != first[2].counting
    hear(ledger, 1, "Sad", _11=0.0)
    assert by_task(ledger)[1].counting == first[1].counting
    assert by_task(ledger)[1].answers != first[1].answers


@pytest.mark.parametrize("limit", [1, 3, 10])
def test_waiting_tasks_are_listed_from_the_front_over_all_questions(ledger: Ledger, limit: int) -> None:
    enter(ledger, 1, 2, 3, 4)
    enter(ledger, 3, 4, 5, control="topic")
    first, *others = in_hash_order(1, 2, 3, 4, 5)
    if first in {1, 2}:
        hear(ledger, first, _11=1.0)
    with ledger.read() as connection:
        waiting = BlindQueues(connection, PROJECT).waiting({"mood": "e1", "topic": "e1"}, limit)
    assert waiting == (others if first in {1, 2} else [first, *others])[:limit]

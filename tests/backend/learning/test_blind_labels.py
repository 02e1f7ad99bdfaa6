"""Blind labels certify and teach nothing: what webhooks about blind tasks change, in the real app."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import (
    SENTIMENT_AND_TOPIC,
    Annotation,
    Project,
    annotated,
    annotations_deleted,
    predict,
    task,
    tasks_deleted,
    updated,
)
from whole_backend import Backend, says, votes

from backend import settings
from backend.commands.ledger import _withdraw
from backend.ledger.blind_tasks import BlindQueues, QueuedTask
from backend.ledger.human_annotations import Withdrawal
from backend.ledger.learning_data import LearningRounds
from backend.upkeep import prune

SPLIT = votes(red="Glad", green="Glad", blue="Sad")
ALL = 0.999_999


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Backend]:
    """A backend in which two of three models voted "Glad" on the blind tasks 1 and 2."""
    with Backend(tmp_path, SPLIT, audit=ALL) as backend:
        assert backend.predict(task(1), task(2)) == [[], []]
        yield backend


def human(mood: str | None = "Glad", number: int = 1, **changes: Any) -> Annotation:
    return Annotation(number=number, task=1, mood=mood, **changes)


def entry(backend: Backend, number: int = 1, project: Project | None = None) -> QueuedTask:
    with backend.ledger.read() as connection:
        [queue] = BlindQueues(connection, (project or Project()).key).all().values()
    return next(entry for entry in queue if entry.task == number)


def counted(backend: Backend) -> float | None:
    return entry(backend).reward


def test_a_blind_label_teaches_no_reward(backend: Backend) -> None:
    before = backend.learnt()
    backend.hook(annotated(human("Sad")))
    assert backend.learnt() == before
    [round_] = backend.rounds(1)
    assert (round_.human, round_.confirmed, round_.taught, round_.taught_by) == ("Sad", 0.0, "Glad", "vote")


def test_a_label_that_came_before_its_blind_round_teaches_no_reward_either(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT, audit=ALL) as backend:
        backend.hook(annotated(human("Sad")))
        backend.predict(task(1))
        [round_] = backend.rounds(1)
        assert (round_.human, round_.taught_by, counted(backend)) == ("Sad", "vote", 0.0)


@pytest.mark.parametrize("deleted", [True, False])
def test_a_blind_answer_that_is_taken_back_after_a_prune_certifies_no_more(
    backend: Backend, deleted: bool
) -> None:
    backend.hook(annotated(given := human("Glad")))
    prune(backend.ledger, Project().key, 0.0, lambda_l=1.0, advance=lambda _: None)
    before = counted(backend)
    backend.hook(annotations_deleted(1) if deleted else updated(given.again(mood="Sad")))
    assert (backend.rounds(1)[0].pruned, before, counted(backend)) == (True, 1.0, 0.0)


def test_blind_tasks_represent_none_that_could_not_be_blind(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT, audit=ALL) as backend:
        backend.predict(task(1), task(2))
        backend.hook(annotated(human()))
    with Backend(tmp_path, SPLIT) as backend:  # audit was set back to 0
        backend.predict(task(3))
    with Backend(tmp_path, SPLIT, audit=ALL) as backend:
        backend.predict(task(4))
        with backend.ledger.read() as connection:
            queues = BlindQueues(connection, Project().key)
            assert queues.unrepresented() == {3}
            assert [queue.complete for queue in queues.all().values()] == [False]


def test_a_blind_label_teaches_no_score(backend: Backend) -> None:
    backend.hook(annotated(human("Sad")))
    [round_] = backend.rounds(1)
    of_question = (round_.key.project, round_.key.control, round_.key.epoch)
    with backend.ledger.read() as connection:
        assert LearningRounds(connection, *of_question).count() == (2, 0)
        assert {known.confirmed for known in LearningRounds(connection, *of_question).latest()} == {None}


def test_an_answer_counts_against_the_voted_label(backend: Backend) -> None:
    assert counted(backend) is None
    backend.hook(annotated(human("Glad")))
    assert counted(backend) == 1.0
    backend.hook(annotated(Annotation(number=2, task=2, mood="Sad")))
    assert entry(backend, 2).reward == 0.0


def test_a_skipped_task_counts_as_wrong_until_somebody_answers(backend: Backend) -> None:
    backend.hook(annotated(human("Glad", skipped=True)))
    assert counted(backend) == 0.0
    backend.hook(annotated(human("Glad", number=2)))
    assert counted(backend) == 1.0


def test_a_tie_counts_as_wrong(backend: Backend) -> None:
    backend.hook(annotated(human("Glad")))
    backend.hook(annotated(human("Sad", number=2, user=2)))
    assert counted(backend) == 0.0


def test_a_wrong_label_stays_wrong_however_it_is_changed(backend: Backend) -> None:
    wrong = human("Sad")
    backend.hook(annotated(wrong))
    backend.hook(updated(wrong.again(mood="Glad")))
    assert counted(backend) == 0.0
    backend.hook(annotations_deleted(1))
    backend.hook(annotated(human("Glad", number=2)))
    backend.hook(annotated(human("Glad", number=3, ground_truth=True)))
    assert counted(backend) == 0.0


def test_a_deleted_annotation_counts_as_wrong(backend: Backend) -> None:
    backend.hook(annotated(human("Glad")))
    backend.hook(annotations_deleted(1))
    assert counted(backend) == 0.0


def test_a_deleted_task_counts_as_wrong_answered_or_not(backend: Backend) -> None:
    backend.hook(annotated(human("Glad")))
    backend.hook(tasks_deleted(1, 2))
    assert (counted(backend), entry(backend, 2).reward) == (0.0, 0.0)
    assert backend.rounds(1) == []


def test_a_withdrawn_label_counts_as_wrong_until_it_comes_back(backend: Backend) -> None:
    backend.hook(annotated(human("Glad")))
    loaded = settings.load(None)
    for withdrawn, reward in ((True, 0.0), (False, 1.0)):
        command = Withdrawal(Project().key, 1, until=1e10, withdrawn=withdrawn, created_at=1e10)
        _withdraw(backend.ledger, command, loaded, lambda done: None)
        assert counted(backend) == reward


def test_each_question_of_a_task_counts_by_itself(tmp_path: Path) -> None:
    project = Project(label_config=SENTIMENT_AND_TOPIC)
    with Backend(tmp_path, lambda body: says(mood="Glad", topic="Food"), audit=ALL) as backend:
        backend.predict(task(1, project=project), project=project)
        backend.hook(annotated(human("Glad"), project))
        with backend.ledger.read() as connection:
            queues = BlindQueues(connection, project.key).all()
    rewards = {control: queue.entries[0].reward for (control, _), queue in queues.items()}
    assert rewards == {"mood": 1.0, "topic": 0.0}


def test_a_task_stays_blind_after_the_setting_is_lowered(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT, audit=ALL) as backend:
        backend.predict(task(1))
    with Backend(tmp_path, SPLIT) as backend:
        assert backend.predict(task(1)) == [[]]
        [prediction] = backend.predict(task(2))
        assert prediction


# -- blind is what was never shown


@pytest.fixture
def shown(tmp_path: Path) -> Path:
    """A folder whose ledger holds a prediction of task 1 that people could see."""
    with Backend(tmp_path, SPLIT) as backend:
        assert backend.predict(task(1)) != [[]]
    return tmp_path


def test_a_task_whose_prediction_was_shown_does_not_become_blind_later(shown: Path) -> None:
    with Backend(shown, SPLIT, audit=ALL) as backend:
        first, second = backend.predict(task(1), task(2))
        assert (bool(first), second) == (True, [])
        assert entry(backend, 2).task == 2
        body = predict([task(1)])
        body["params"]["stored_only"] = True  # as when a recount is delivered
        assert backend.post("/predict", body).get_json()["results"] == [first]


def test_a_question_that_is_new_on_a_shown_task_is_shown_as_well(shown: Path) -> None:
    two = Project(label_config=SENTIMENT_AND_TOPIC)
    with Backend(shown, says_both, audit=ALL) as backend:
        [prediction] = backend.predict(task(1), project=two)
    assert [region["from_name"] for region in prediction["result"]] == ["mood", "topic"]


def says_both(body: dict[str, Any]) -> Any:
    return says(mood="Glad", topic="Food")


def test_blind_tasks_do_not_speak_for_tasks_from_before(shown: Path) -> None:
    with Backend(shown, SPLIT, audit=0.5) as backend:
        backend.predict(*(task(number) for number in range(2, 30)))
        with backend.ledger.read() as connection:
            assert BlindQueues(connection, Project().key).unrepresented() == {1}


def test_from_the_first_task_on_they_speak_for_all(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT, audit=0.5) as backend:
        backend.predict(*(task(number) for number in range(1, 30)))
        with backend.ledger.read() as connection:
            queues = BlindQueues(connection, Project().key)
            assert queues.unrepresented() == set()
            assert [queue.complete for queue in queues.all().values()] == [True]

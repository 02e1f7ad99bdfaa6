"""What a scorer is fitted to when votes are counted again: the labels of this counting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from label_studio_requests import Annotation, annotated, task
from sqlalchemy import update
from whole_backend import Backend, votes

from backend.ledger.database import tables
from backend.ledger.learning_data import LearningRounds
from camvo.scores.scorer import FinishedRound


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Backend]:
    """A backend that voted "Glad" on two tasks; people said "Sad" of the first."""
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Sad")) as backend:
        backend.predict(task(1), task(2))
        backend.hook(annotated(Annotation(number=1, task=1, mood="Sad")))
        yield backend


def known(backend: Backend, **changes: object) -> list[FinishedRound]:
    [round_] = backend.rounds(1)
    of_question = (round_.key.project, round_.key.control, round_.key.epoch)
    with backend.ledger.read() as connection:
        return LearningRounds(connection, *of_question).latest(**changes)  # type: ignore[arg-type]


def labels(rounds: list[FinishedRound]) -> list[tuple[str, float | None]]:
    return sorted((each.label, each.confirmed) for each in rounds if each.confirmed is not None)


def ids(backend: Backend) -> list[int]:
    return [backend.rounds(number)[0].id for number in (1, 2)]


def test_a_round_has_the_label_that_it_got_first(backend: Backend) -> None:
    assert labels(known(backend)) == [("Glad", 0.0)]


def test_a_label_that_was_counted_again_takes_its_place(backend: Backend) -> None:
    first, _ = ids(backend)
    assert labels(known(backend, recounted={first: ("Sad", 1.0)})) == [("Sad", 1.0)]


def test_a_round_that_nobody_answered_stays_unconfirmed(backend: Backend) -> None:
    _, second = ids(backend)
    assert labels(known(backend, recounted={second: ("Sad", 1.0)})) == [("Glad", 0.0)]


def test_an_answer_that_must_not_be_known_is_not_told(backend: Backend) -> None:
    first, _ = ids(backend)
    assert labels(known(backend, recounted={first: ("Sad", 1.0)}, unanswered={first})) == []


def set_plan(backend: Backend, number: int, **values: object) -> None:
    [round_] = backend.rounds(number)
    with backend.ledger.write() as connection:
        change = update(tables.rounds).where(tables.rounds.c.id == round_.id)
        connection.execute(change.values(plan={**round_.plan, **values}))


def test_a_round_has_the_own_score_of_a_model_of_votes(backend: Backend) -> None:
    set_plan(backend, 1, score=0.7, trust=0.6)
    set_plan(backend, 2, score=0.7, trust=0.0)
    assert {(each.own, each.trust) for each in known(backend)} == {(0.7, 0.6), (None, 0.0)}


def test_the_own_score_of_a_label_says_nothing_of_another_one(backend: Backend) -> None:
    set_plan(backend, 1, score=0.7, trust=0.6)
    first, _ = ids(backend)
    set_plan(backend, 2, trust=0.0)
    assert [each.own for each in known(backend, recounted={first: ("Sad", 1.0)})] == [None, None]

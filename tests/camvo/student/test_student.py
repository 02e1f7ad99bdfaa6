"""The student: what it learns, when it speaks, and how sure it is."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import sparse
from synthetic_votes import SyntheticModel
from topic_texts import draw_topic_texts

from camvo.student import LEAST_TEXTS, Lessons, Student, TaughtText, _fit_ridge, hashed_ngrams, teach

ITEMS, LEARNT = 1600, 1200
TABLE = draw_topic_texts({"m": SyntheticModel(0.8, 1.0)}, items=ITEMS, topics=4, seed=0)
NGRAMS = [hashed_ngrams(text) for text in TABLE.texts or ()]


def lessons(labels: np.ndarray, items: range = range(LEARNT)) -> Lessons:
    return Lessons(tuple(TaughtText(NGRAMS[item], TABLE.labels[labels[item]]) for item in items))


@cache
def taught() -> Student:
    student = teach(lessons(TABLE.votes[:, 0]))
    assert student is not None
    return student


def said(student: Student) -> list[tuple[bool, float]]:
    """Whether the student is right, and how sure it is, for new texts of which it says something."""
    votes = [(item, student.vote(NGRAMS[item])) for item in range(LEARNT, ITEMS)]
    return [
        (vote.label == TABLE.labels[TABLE.truth[item]], vote.confidence)
        for item, vote in votes
        if vote is not None
    ]


def test_it_can_be_right_more_often_than_what_taught_it() -> None:
    right = [was for was, _ in said(taught())]
    assert len(right) > 0.5 * (ITEMS - LEARNT)
    assert np.mean(right) > 0.85  # the model is right in 80%


def test_the_surer_it_is_the_more_often_it_is_right() -> None:
    answers = said(taught())
    middle = np.median([sure for _, sure in answers])
    low, high = ([was for was, sure in answers if (sure > middle) == above] for above in (False, True))
    assert np.mean(high) > np.mean(low)


def test_its_confidence_is_the_probability_that_its_label_comes_out() -> None:
    student = taught()
    votes = [(item, student.vote(NGRAMS[item])) for item in range(LEARNT, ITEMS)]
    came_out = [
        (vote.label == TABLE.labels[TABLE.votes[item, 0]], vote.confidence)
        for item, vote in votes
        if vote is not None
    ]
    hits, confidences = np.array(came_out).T
    assert confidences.mean() == pytest.approx(hits.mean(), abs=0.07)


def test_it_says_nothing_where_labels_have_nothing_to_do_with_texts() -> None:
    letters = np.random.default_rng(0).integers(4, size=ITEMS)
    student = teach(lessons(letters))
    assert student is not None
    assert len(said(student)) < 0.03 * (ITEMS - LEARNT)


def test_it_says_nothing_before_there_are_enough_texts() -> None:
    assert teach(lessons(TABLE.truth, range(LEAST_TEXTS - 1))) is None
    assert teach(lessons(TABLE.truth, range(LEAST_TEXTS))) is not None


def test_one_label_teaches_nothing() -> None:
    assert teach(lessons(np.zeros(ITEMS, dtype=np.int64))) is None


def test_a_text_without_a_character_is_no_mistake() -> None:
    assert taught().vote(b"") is None or taught().vote(b"")


def test_the_same_lessons_give_the_same_student() -> None:
    again = teach(lessons(TABLE.votes[:, 0]))
    assert again is not None
    assert again.line == taught().line
    assert np.array_equal(again.weights, taught().weights)


def test_the_ridge_regression_is_that_of_the_normal_equations() -> None:
    rng = np.random.default_rng(0)
    design, targets = rng.normal(size=(60, 20)), rng.normal(size=(60, 3))
    expected = np.linalg.solve(design.T @ design + 0.5 * np.eye(20), design.T @ targets)
    weights = _fit_ridge(sparse.csr_matrix(design), targets, 0.5)
    assert weights == pytest.approx(expected, abs=0.02 * np.abs(expected).max())


def test_a_column_of_zeros_is_predicted_as_zeros() -> None:
    assert not _fit_ridge(sparse.eye(3, format="csr"), np.zeros((3, 2)), 1.0).any()


def test_sealed_texts_among_the_others_do_no_harm() -> None:
    known = lessons(TABLE.votes[:, 0]).texts
    student = teach(Lessons((*known[:4], *(each.sealed for each in known[4:9]), *known[9:])))
    assert student is not None
    assert np.mean([was for was, _ in said(student)]) > 0.85

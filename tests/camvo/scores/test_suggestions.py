"""Which tasks are suggested, beside a plain count of the same rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from camvo.errors import InvalidParameterError
from camvo.scores.reviews import TEACHES, Candidate, Suggestion, dispute, suggest
from camvo.typing import Array

NOBODY = np.zeros((0, 3))
AXES = np.eye(3)


def candidate(task: int, wrong: float = 0.2, dispute: float = 0.5) -> Candidate:
    return Candidate(task, wrong, dispute)


def order(suggestions: list[Suggestion]) -> list[int]:
    return [suggestion.task for suggestion in suggestions]


# -- dispute


def test_votes_that_are_surely_right_are_in_no_doubt() -> None:
    assert dispute({"red": "Glad", "green": "Glad"}, "Glad", 1.0, 2) == 0.0


def test_a_coin_toss_between_two_models_is_the_most_doubtful() -> None:
    assert dispute({"red": "Glad", "green": "Sad"}, "Glad", 0.5, 2) == 1.0


def test_what_the_score_leaves_is_shared_by_the_other_answers() -> None:
    votes = {"red": "Glad", "green": "Sad", "blue": "Calm"}
    assert dispute(votes, "Glad", 0.6, 3) == pytest.approx(4 * (0.6 * 0.4 + 2 * 0.2 * 0.8) / 3)


@pytest.mark.parametrize("votes", [{"red": "Glad"}, {"red": "Glad", "green": None}])
def test_models_that_were_not_asked_or_did_not_answer_leave_less_to_learn(votes: dict[str, str]) -> None:
    asked = dispute({"red": "Glad", "green": "Glad"}, "Glad", 0.7, 2)
    assert dispute(votes, "Glad", 0.7, 2) == pytest.approx(asked / 2)


# -- suggest


def test_the_task_that_is_most_likely_wrong_comes_first() -> None:
    tasks = [candidate(1, 0.1), candidate(2, 0.6), candidate(3, 0.3)]
    assert order(suggest(tasks, AXES, NOBODY, 3)) == [2, 3, 1]


def test_of_two_alike_in_score_the_one_in_dispute_comes_first() -> None:
    tasks = [candidate(1, dispute=0.1), candidate(2, dispute=0.9)]
    assert order(suggest(tasks, AXES[:2], NOBODY, 2)) == [2, 1]


def test_of_two_alike_the_one_unlike_what_people_labelled_comes_first() -> None:
    assert order(suggest([candidate(1), candidate(2)], AXES[:2], AXES[:1], 2)) == [2, 1]


def test_a_near_duplicate_waits_behind_a_task_that_is_less_likely_wrong() -> None:
    tasks = [candidate(1, 0.5), candidate(2, 0.49), candidate(3, 0.2)]
    contexts = np.array([[1.0, 0.0], [0.999, 0.01], [0.0, 1.0]])
    assert order(suggest(tasks, contexts, np.zeros((0, 2)), 3)) == [1, 3, 2]


def test_tasks_worth_the_same_come_by_their_number() -> None:
    assert order(suggest([candidate(9), candidate(4)], AXES[:2], NOBODY, 2)) == [4, 9]


def test_no_more_than_wanted_are_suggested() -> None:
    assert order(suggest([candidate(1), candidate(2)], AXES[:2], NOBODY, 1)) == [1]


def test_contexts_of_any_length_are_taken_by_their_direction() -> None:
    tasks, contexts = [candidate(1), candidate(2, 0.3)], np.array([[2.0, 1.0], [0.5, 3.0]])
    labelled = np.array([[1.0, 1.0]])
    suggestions = suggest(tasks, contexts, labelled, 2)
    again = suggest(tasks, 7.0 * contexts, 0.1 * labelled, 2)
    assert [(suggestion.task, round(suggestion.gain, 9)) for suggestion in suggestions] == [
        (suggestion.task, round(suggestion.gain, 9)) for suggestion in again
    ]


def test_contexts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidParameterError):
        suggest([candidate(1)], AXES, NOBODY, 1)


@settings(deadline=None, max_examples=50)
@given(
    arrays(np.float64, (6, 3), elements=st.integers(-3, 3).map(float)),
    arrays(np.float64, (2, 3), elements=st.integers(-3, 3).map(float)),
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=6, max_size=6),
)
def test_each_choice_is_the_best_by_the_rule_with_the_ones_before_it_labelled(
    contexts: Array, labelled: Array, numbers: list[tuple[float, float]]
) -> None:
    tasks = [candidate(task, *pair) for task, pair in enumerate(numbers)]
    unit = np.array([row / np.linalg.norm(row) if row.any() else row for row in contexts])
    known = [row / np.linalg.norm(row) if row.any() else row for row in labelled]
    first = np.eye(3) + sum(np.outer(row, row) for row in known)
    of_known = [row @ np.linalg.solve(first, row) for row in unit if row.any()]
    of_unknown = float(np.mean(of_known)) if of_known else 1.0
    chosen: list[int] = []
    for suggestion in suggest(tasks, contexts, labelled, 6):
        a = np.eye(3) + sum(np.outer(row, row) for row in [*known, *(unit[task] for task in chosen)])
        gains = {}
        for rival in tasks:
            if rival.task in chosen:
                continue
            row = unit[rival.task]
            novelty = row @ np.linalg.solve(a, row) if row.any() else of_unknown
            alike = max([max(unit[rival.task] @ unit[task], 0.0) ** 8 for task in chosen], default=0.0)
            gains[rival.task] = (rival.wrong + TEACHES * rival.dispute * novelty) * (1.0 - alike)
        assert gains[suggestion.task] == pytest.approx(max(gains.values()), abs=1e-9)
        chosen.append(suggestion.task)
    assert sorted(chosen) == list(range(6))

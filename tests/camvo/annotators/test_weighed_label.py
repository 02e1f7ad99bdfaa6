"""What several people say together."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from camvo.annotators import _log_odds, weighed_label
from camvo.votes.labels import LABEL_VOTE
from camvo.votes.registry import agreed_answer


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=7))
def test_people_of_equal_accuracy_decide_by_majority(said: list[str]) -> None:
    assert weighed_label([(label, 0.85) for label in said], 3) == agreed_answer(LABEL_VOTE, said, list("abc"))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0.35, 0.99)), min_size=1, max_size=5))
def test_the_label_is_twice_as_likely_as_any_other(answers: list[tuple[str, float]]) -> None:
    chances = {
        label: math.prod(right if said == label else (1.0 - right) / 2.0 for said, right in answers)
        for label in "abc"
    }
    *_, second, first = sorted(chances.values())
    if abs(first - 2.0 * second) > 1e-9:
        decided = weighed_label(answers, 3)
        assert (decided is not None) == (first > 2.0 * second)
        assert decided is None or chances[decided] == first


def test_a_lone_guesser_decides_nothing() -> None:
    assert weighed_label([("a", 0.5)], 2) is None


def test_somebody_worse_than_chance_is_not_counted_the_other_way_round() -> None:
    assert _log_odds(0.2, 2) == 0.0


@pytest.mark.parametrize("answers", [[], [("a", 0.9), ("b", 0.9)]])
def test_nothing_is_decided_without_a_lead(answers: list[tuple[str, float]]) -> None:
    assert weighed_label(answers, 2) is None

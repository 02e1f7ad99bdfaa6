"""The cheapest mix of models and people: what its numbers promise, on made-up votes with known labels."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from camvo.errors import InvalidParameterError
from camvo.quotes import FEWEST, KnownVotes, LabelledVotes, _human_shares, mixes
from camvo.state.exploration import UNASKED

LABELS, ARMS = ("a", "b", "c"), ("dear", "fair", "poor")
SKILL, PRICES = np.array([0.95, 0.85, 0.7]), np.array([6.0, 2.0, 1.0])


def drawn(items: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Votes of three models that err independently, and the right labels."""
    truth = rng.integers(0, 3, items)
    wrong = (truth[:, None] + rng.integers(1, 3, (items, 3))) % 3
    return np.where(rng.random((items, 3)) < SKILL, truth[:, None], wrong), truth


def found(rows: NDArray[np.int64], truth: NDArray[np.int64], target: float, seed: int = 0):  # type: ignore[no-untyped-def]
    known = KnownVotes(LABELS, ARMS, PRICES, rows)
    return mixes(
        known, LabelledVotes(rows, truth), 1000, 10.0, target, np.random.default_rng(seed), replays=1
    )


def test_the_first_number_is_the_least_that_reaches_the_target_among_the_labels() -> None:
    scores = np.linspace(0.0, 1.0, 100)
    right = np.arange(100) >= 20
    likely, _ = _human_shares(scores, right, 0.9, 0.05)
    assert likely == pytest.approx(0.1)


def test_the_second_number_reaches_the_target_with_the_promised_probability() -> None:
    """Labels are right with a probability that grows with their score, so the true share is known."""
    rng, missed, runs = np.random.default_rng(5), 0, 400
    for _ in range(runs):
        scores = rng.random(200)
        right = rng.random(200) < 0.6 + 0.4 * scores
        _, sure = _human_shares(scores, right, 0.9, 0.05)
        # People label scores below the quantile ``sure``; of the rest, 0.4 (1 − s) are wrong.
        missed += 0.4 * (1.0 - sure) ** 2 / 2.0 > 0.1
    assert missed / runs <= 0.05


def test_without_a_wrong_label_nobody_has_to_label_on_average() -> None:
    likely, sure = _human_shares(np.ones(200), np.ones(200, dtype=np.bool_), 0.97, 0.05)
    assert (likely, sure) == (0.0, 0.0)


def test_too_few_labels_are_never_sure_of_a_high_target() -> None:
    assert _human_shares(np.ones(50), np.ones(50, dtype=np.bool_), 0.97, 0.05)[1] == 1.0


def test_a_higher_target_needs_more_people_and_a_higher_worth_more_of_the_models() -> None:
    rows, truth = drawn(400, np.random.default_rng(1))
    low, high = found(rows, truth, 0.9), found(rows, truth, 0.98)
    assert [one.humans <= other.humans for one, other in zip(low, high, strict=True)] == [True] * 4
    assert high[0].models < high[-1].models


def test_tasks_that_did_not_ask_everyone_serve_the_worth_that_is_set_alone() -> None:
    rows, truth = drawn(400, np.random.default_rng(1))
    partial = rows.copy()
    partial[:, 0] = UNASKED
    known = KnownVotes(LABELS, ARMS, PRICES, rows)
    only = mixes(known, LabelledVotes(partial, truth), 1000, 10.0, 0.9, np.random.default_rng(0), replays=1)
    assert [mix.times for mix in only] == [1.0]


@pytest.mark.parametrize(("whole", "worths"), [(FEWEST, 4), (FEWEST - 1, 1)])
def test_other_worths_rest_on_as_many_tasks_that_asked_everyone_as_any_mix_needs(
    whole: int, worths: int
) -> None:
    rows, truth = drawn(400, np.random.default_rng(1))
    known, partial = KnownVotes(LABELS, ARMS, PRICES, rows), rows.copy()
    partial[whole:, 0] = UNASKED
    some = mixes(known, LabelledVotes(partial, truth), 50, 10.0, 0.9, np.random.default_rng(0), replays=1)
    assert [mix.labelled for mix in some if mix.times != 1.0] == [whole] * (worths - 1)
    assert [mix.labelled for mix in some if mix.times == 1.0] == [400]


def test_all_mixes_together_are_sure() -> None:
    """With all labels right, a mix's number depends on its error alone: a fourth of 5% for each of four."""
    rows = np.zeros((200, 3), dtype=np.int64)
    rows[::2] = 1
    known = KnownVotes(("a", "b"), ARMS, PRICES, rows)
    labelled = LabelledVotes(rows, rows[:, 0])
    some = mixes(known, labelled, 50, 10.0, 0.98, np.random.default_rng(0), replays=1)
    alone, shared, more = (
        _human_shares(np.ones(200), np.ones(200, dtype=np.bool_), 0.98, error)[1]
        for error in (0.05, 0.0125, 0.2)
    )
    assert {mix.humans_sure for mix in some} == {shared}
    assert shared > alone >= more


@pytest.mark.parametrize("target", [0.0, 1.0])
def test_a_target_of_no_or_all_labels_is_refused(target: float) -> None:
    rows, truth = drawn(400, np.random.default_rng(1))
    with pytest.raises(InvalidParameterError, match="target"):
        found(rows, truth, target)


@pytest.mark.parametrize("labels", [("a", "b"), LABELS])
def test_the_labels_of_models_that_always_agree_with_people_need_nobody(labels: tuple[str, ...]) -> None:
    truth = np.random.default_rng(2).integers(0, len(labels), 300)
    rows = np.repeat(truth[:, None], 3, axis=1)
    known = KnownVotes(labels, ARMS, PRICES, rows)
    some = mixes(known, LabelledVotes(rows, truth), 50, 10.0, 0.9, np.random.default_rng(0), replays=1)
    assert [(mix.humans, mix.humans_sure) for mix in some] == [(0.0, 0.0)] * 4


def test_too_few_labels_are_refused() -> None:
    rows, truth = drawn(FEWEST - 1, np.random.default_rng(1))
    with pytest.raises(InvalidParameterError, match="needs"):
        found(rows, truth, 0.9)

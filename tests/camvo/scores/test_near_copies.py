from __future__ import annotations

import numpy as np
import pytest

from camvo.scores.scorer import _merge_copies, _near_copies_in


def drawn(accuracies, n, seed, labels=4):
    """Votes of independent models, and the truth; a wrong vote is uniform."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(labels, size=n)
    wrong = (truth[:, None] + rng.integers(1, labels, (n, len(accuracies)))) % labels
    return np.where(rng.random(wrong.shape) < accuracies, truth[:, None], wrong), truth


def copied(votes, column, share, seed):
    """The column again, changed in a share of its rows."""
    rng = np.random.default_rng(seed)
    other = (votes[:, column] + 1) % 4
    return np.where(rng.random(len(votes)) < share, other, votes[:, column])


def test_columns_that_agree_on_999_of_1000_items_share_a_seat():
    votes, _ = drawn([0.8, 0.75, 0.7], 3000, 1)
    votes = np.column_stack((votes, copied(votes, 0, 0.001, 2)))
    assert _near_copies_in(votes) == (0, 1, 2, 0)


def test_copies_of_copies_are_copies():
    votes, _ = drawn([0.8, 0.75, 0.7], 3000, 1)
    votes = np.column_stack((copied(votes, 1, 0.003, 2), votes, copied(votes, 1, 0.003, 3)))
    assert _near_copies_in(votes) == (0, 1, 0, 3, 0)


@pytest.mark.parametrize("accuracies", [[0.99, 0.99, 0.7], [0.99, 0.99, 0.99], [0.8, 0.8, 0.8]])
def test_models_that_agree_because_they_are_good_are_no_copies(accuracies):
    assert _near_copies_in(drawn(accuracies, 4000, 3)[0]) == (0, 1, 2)


def test_models_of_an_easy_question_are_no_copies_of_each_other():
    votes, _ = drawn([0.998, 0.998, 0.998], 20_000, 4)
    assert _near_copies_in(votes) == (0, 1, 2)


def test_two_good_models_beside_a_fair_one_are_no_copies():
    """They differ in 0.6% of the items, and in 3% from the third: in more than a tenth of that."""
    votes, _ = drawn([0.997, 0.997, 0.97], 20_000, 4)
    assert _near_copies_in(votes) == (0, 1, 2)


def test_models_that_never_differ_are_no_copies_while_no_other_model_does():
    votes, _ = drawn([0.8], 3000, 4)
    assert _near_copies_in(np.repeat(votes, 3, axis=1)) == (0, 1, 2)


def test_few_rounds_make_no_copies():
    votes, _ = drawn([0.8, 0.75, 0.7], 100, 1)
    assert _near_copies_in(np.column_stack((votes, votes[:, 0]))) == (0, 1, 2, 3)


def test_rounds_in_which_one_of_two_was_silent_say_nothing_about_them():
    votes, _ = drawn([0.8, 0.75], 3000, 1)
    votes = np.column_stack((votes, votes[:, 0]))
    votes[::2, 0], votes[1::2, 2] = -1, -1
    assert _near_copies_in(votes) == (0, 1, 2)


def test_copies_cast_one_vote_per_seat():
    votes = np.array([[1, 2, 1, 1], [-1, 3, 0, -1], [2, -1, 3, -1], [3, 0, 1, 1]])
    np.testing.assert_array_equal(_merge_copies(votes, (0, 1, 0, 0)), [[1, 2], [0, 3], [2, -1], [1, 0]])

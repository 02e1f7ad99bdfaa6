from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Ballot
from camvo.votes.numbers import OpenNumericVote

VOTE = OpenNumericVote()


def aggregate(vote, cast, weights=None, believed=0.8):
    votes = {f"arm {number:02}": f"{answer:.15g}" for number, answer in enumerate(cast)}
    ones = dict.fromkeys(votes, 1.0)
    given_ = ones if weights is None else dict(zip(votes, weights, strict=True))
    return vote.aggregate(Ballot(votes, given_, ones, dict.fromkeys(votes, believed)), ())


def test_the_answer_is_the_weighted_median():
    assert aggregate(VOTE, [3, 100, 5])[0] == "5"
    assert aggregate(VOTE, [3, 100, 5], [1.0, 5.0, 1.0])[0] == "100"


@pytest.mark.parametrize(
    ("vote", "cast", "answer"),
    [
        (OpenNumericVote(step=1.0), [3, 4], "4"),
        (OpenNumericVote(low=0.5, step=1.0), [1.5, 3.5], "2.5"),
        (OpenNumericVote(high=10.0, step=4.0), [8, 10], "8"),
        (OpenNumericVote(step=0.1), [0.3, 0.3], "0.3"),
    ],
)
def test_the_answer_is_on_a_step(vote, cast, answer):
    assert aggregate(vote, cast)[0] == answer


@pytest.mark.parametrize(
    ("vote", "given_", "answer", "reward"),
    [
        (VOTE, "95", "100", 0.5),
        (VOTE, "90", "100", 0.0),
        (VOTE, "-95", "-100", 0.5),
        (VOTE, "2", "3", 0.0),
        (VOTE, "0", "0", 1.0),
        (OpenNumericVote(step=0.1), "2.95", "3", pytest.approx(1 - 0.05 / 0.3)),
        (OpenNumericVote(tolerance=5.0), "2019", "2020", 0.8),
    ],
)
def test_the_scale_is_a_tenth_of_the_answer_at_least_a_step_or_what_it_is_told(vote, given_, answer, reward):
    assert vote.reward(given_, answer) == reward


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=5), st.floats(0.05, 0.95))
def test_the_score_is_the_mean_reward_over_the_truths_that_the_votes_allow(cast, believed):
    vote = OpenNumericVote(tolerance=1e5)
    answer, chances = aggregate(vote, cast, believed=believed)
    centre = float(answer)
    truths = np.linspace(min(*cast, centre) - 1e5, max(*cast, centre) + 1e5, 20_001)
    spread = _spread(believed) * 1e5
    density = np.exp(-sum(np.abs(truths - value) for value in cast) / spread)
    density /= density.max()
    closeness = np.maximum(1.0 - np.abs(truths - centre) / 1e5, 0.0)
    expected = np.trapezoid(density * closeness, truths) / np.trapezoid(density, truths)
    assert chances[answer] == pytest.approx(expected, abs=2e-3)


def _spread(believed):
    """x(1 − e^(−1/x)) = 1 − p by bisection."""
    low, high = 1e-9, 1e3
    for _ in range(200):
        middle = (low + high) / 2.0
        low, high = (middle, high) if -middle * np.expm1(-1.0 / middle) < 1.0 - believed else (low, middle)
    return low


def test_agreement_is_worth_more_than_discord():
    [together] = aggregate(VOTE, [100, 100, 100])[1].values()
    [apart] = aggregate(VOTE, [50, 100, 200])[1].values()
    assert together > apart


def test_a_guess_is_worth_nothing():
    assert VOTE.guess(()) == 0.0


@pytest.mark.parametrize("vote", ["seven", "nan", "inf", "1e16", "-1", ""])
def test_a_vote_that_is_not_a_number_in_range_is_refused(vote):
    ones = {"x": 1.0}
    with pytest.raises(InvalidParameterError):
        OpenNumericVote(low=0.0).aggregate(Ballot({"x": vote}, ones, ones, ones), ())


@pytest.mark.parametrize(
    "parameters", [{"step": 0.0}, {"tolerance": -1.0}, {"low": float("nan")}, {"low": 2.0, "high": 1.0}]
)
def test_parameters_are_checked(parameters):
    with pytest.raises(InvalidParameterError):
        OpenNumericVote(**parameters)

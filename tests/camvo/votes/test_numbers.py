from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Ballot
from camvo.votes.numbers import NumericVote, _weighted_mean, _weighted_median

values = st.lists(st.floats(-100.0, 100.0), min_size=1, max_size=9)
cast = st.lists(st.tuples(st.floats(-100.0, 100.0), st.floats(0.0, 5.0)), min_size=1, max_size=9)


def ballot(votes, weights=None, lower=None):
    arms = [f"arm {position}" for position in range(len(votes))]
    columns = [weights or [1.0] * len(arms), lower or [0.5] * len(arms), [0.8] * len(arms)]
    return Ballot(
        dict(zip(arms, map(str, votes), strict=True)),
        *(dict(zip(arms, column, strict=True)) for column in columns),
    )


def answer(vote, *arguments, **named):
    return vote.aggregate(ballot(*arguments, **named), ())[0]


@given(values)
@settings(deadline=None)
def test_with_equal_weights_mean_and_median_are_numpys(votes):
    ones = [1.0] * len(votes)
    assert _weighted_mean(votes, ones) == pytest.approx(np.mean(votes), abs=1e-9)
    assert _weighted_median(votes, ones) == pytest.approx(np.median(votes), abs=1e-12)


@given(st.lists(st.tuples(st.floats(-9.0, 9.0), st.integers(1, 5)), min_size=1, max_size=7))
@settings(deadline=None)
def test_a_whole_weight_counts_as_that_many_votes(votes):
    numbers, weights = zip(*votes, strict=True)
    repeated = np.repeat(numbers, weights)
    assert _weighted_median(numbers, weights) == pytest.approx(np.median(repeated), abs=1e-12)
    assert _weighted_mean(numbers, weights) == pytest.approx(np.mean(repeated), abs=1e-9)


@given(cast)
@settings(deadline=None)
def test_the_median_has_the_least_weighted_distance_to_the_votes(votes):
    numbers, weights = map(np.array, zip(*votes, strict=True))
    assume(weights.max() > 1e-6)
    centre = _weighted_median(numbers.tolist(), weights.tolist())
    distance = float(weights @ np.abs(numbers - centre))
    assert distance <= min(weights @ np.abs(numbers - y) for y in numbers) + 1e-6


@given(cast, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_order_of_the_votes_changes_nothing(votes, random):
    assume(max(weight for _, weight in votes) > 1e-6)
    shuffled = random.sample(votes, len(votes))
    for centre in (_weighted_mean, _weighted_median):
        assert centre(*zip(*shuffled, strict=True)) == pytest.approx(
            centre(*zip(*votes, strict=True)), abs=1e-9
        )


def test_one_wild_vote_moves_the_mean_and_not_the_median():
    votes = [4.0, 5.0, 6.0, 100.0]
    weights = [1.0, 1.0, 1.0, 0.5]
    assert answer(NumericVote(0.0, 100.0), votes, weights) == "5"
    assert float(answer(NumericVote(0.0, 100.0, rule="mean"), votes, weights)) == pytest.approx(65.0 / 3.5)


def test_without_weights_the_lower_bounds_weigh_the_votes():
    vote = NumericVote(0.0, 10.0, rule="mean")
    assert answer(vote, [2.0, 8.0], [0.0, 0.0], [0.5, 0.25]) == "4"
    assert answer(vote, [2.0, 8.0], [0.0, 0.0], [0.0, 0.0]) == "5"


@pytest.mark.parametrize(
    ("votes", "expected"), [([3, 4], "4"), ([1, 2, 2], "2"), ([5, 5], "5"), ([1, 1, 1, 5], "1")]
)
def test_a_rating_is_a_whole_number_of_stars_and_half_a_star_goes_up(votes, expected):
    assert answer(NumericVote(1.0, 5.0, step=1.0), votes) == expected


def test_the_top_of_the_range_is_rounded_down_to_a_step():
    assert answer(NumericVote(0.0, 1.0, step=0.3), [1.0, 1.0]) == "0.9"
    assert answer(NumericVote(0.0, 0.3, step=0.1), [0.3, 0.3]) == "0.3"


@given(st.floats(0.0, 10.0), st.floats(0.0, 10.0), st.floats(0.1, 10.0))
@settings(deadline=None)
def test_the_reward_is_closeness_on_the_scale(vote, truth, scale):
    reward = NumericVote(0.0, 10.0, scale=scale).reward(str(vote), str(truth))
    assert reward == pytest.approx(max(0.0, 1.0 - abs(vote - truth) / scale), abs=1e-12)
    assert 0.0 <= reward <= 1.0


def test_the_reward_of_a_vote_for_the_answer_is_1_whatever_its_digits():
    assert NumericVote(0.0, 10.0).reward("3.50", "3.5") == 1.0


def test_a_guess_is_as_close_as_two_random_numbers():
    drawn = np.random.default_rng(2).uniform(-1.0, 3.0, size=(2, 200_000))
    for scale in (4.0, 1.5):
        closeness = np.maximum(1.0 - np.abs(drawn[0] - drawn[1]) / scale, 0.0).mean()
        assert NumericVote(-1.0, 3.0, scale=scale).guess(()) == pytest.approx(closeness, abs=5e-3)


def test_the_score_stands_beside_the_answer_and_rises_with_agreement():
    vote = NumericVote(0.0, 10.0)
    (label, chances), (_, apart) = (vote.aggregate(ballot(votes), ()) for votes in ([5, 5, 5], [1, 5, 9]))
    assert list(chances) == [label] == ["5"]
    assert apart["5"] < chances["5"] < 1.0


@pytest.mark.parametrize("text", ["", "four", "nan", "inf", "11", "-0.5", "1_0x"])
def test_a_vote_that_is_not_a_number_in_range_is_refused_without_being_quoted(text):
    with pytest.raises(InvalidParameterError) as refused:
        NumericVote(0.0, 10.0).aggregate(ballot([text, 3]), ())
    assert text == "" or text not in str(refused.value)


def test_no_vote_is_refused():
    with pytest.raises(InvalidParameterError, match="no vote"):
        NumericVote(0.0, 1.0).aggregate(ballot([]), ())


@pytest.mark.parametrize(
    "parameters",
    [
        {"low": 1.0, "high": 1.0},
        {"low": 0.0, "high": float("inf")},
        {"low": -1e308, "high": 1e308},
        {"low": float("nan"), "high": 1.0},
        {"low": 0.0, "high": 1.0, "scale": 0.0},
        {"low": 0.0, "high": 1.0, "scale": 2.0},
        {"low": 0.0, "high": 1.0, "step": -1.0},
        {"low": 0.0, "high": 1.0, "rule": "mode"},
    ],
    ids=str,
)
def test_parameters_that_make_no_sense_are_refused(parameters):
    with pytest.raises(InvalidParameterError):
        NumericVote(**parameters)

from __future__ import annotations

import json
from itertools import combinations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Ballot
from camvo.votes.labels import label_posterior
from camvo.votes.rankings import RankingVote, _kendall_agreement, _read_ranking

ITEMS = ("a", "b", "c", "d")
orders = st.permutations(ITEMS)
heights = st.lists(st.integers(0, 5).map(float), min_size=2, max_size=8)


def ballot(votes, weights=None, correctness=0.8):
    arms = [f"arm {position}" for position in range(len(votes))]
    lower, right = dict.fromkeys(arms, 0.5), dict.fromkeys(arms, correctness)
    return Ballot(
        {
            arm: vote if isinstance(vote, str) else json.dumps(vote)
            for arm, vote in zip(arms, votes, strict=True)
        },
        dict(zip(arms, weights or [1.0] * len(arms), strict=True)),
        lower,
        right,
    )


def answer(rule, votes, weights=None, options=ITEMS):
    return json.loads(RankingVote(rule).aggregate(ballot(votes, weights), options)[0])


@given(st.integers(2, 12), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_agreement_is_kendalls_tau_of_scipy_brought_to_the_unit_interval(m, seed):
    rng = np.random.default_rng(seed)
    left, right = rng.permutation(m).astype(float), rng.permutation(m).astype(float)
    tau = stats.kendalltau(left, right).statistic
    assert _kendall_agreement(left, right) == pytest.approx((tau + 1.0) / 2.0, abs=1e-12)


@given(heights, st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_with_ties_agreement_is_tau_b_without_its_correction_for_ties(left, seed):
    right = np.random.default_rng(seed).integers(0, 4, size=len(left)).astype(float)
    pairs = list(combinations(range(len(left)), 2))
    level = [sum(values[i] == values[j] for i, j in pairs) for values in (left, right)]
    assume(max(level) < len(pairs))
    tau_b = stats.kendalltau(left, right).statistic
    untied = np.sqrt((len(pairs) - level[0]) * (len(pairs) - level[1]))
    assert _kendall_agreement(np.array(left), right) == pytest.approx(
        (tau_b * untied / len(pairs) + 1.0) / 2.0
    )


@given(orders, orders)
@settings(deadline=None)
def test_the_reward_is_a_share_and_does_not_depend_on_who_is_compared_with_whom(vote, label):
    reward = RankingVote().reward(json.dumps(vote), json.dumps(label))
    assert reward == RankingVote().reward(json.dumps(label), json.dumps(vote))
    assert 0.0 <= reward <= 1.0
    assert (reward == 1.0) == (vote == label)
    assert RankingVote().reward(json.dumps(vote[::-1]), json.dumps(label)) == pytest.approx(1.0 - reward)


def test_scores_are_rewarded_by_the_ranking_that_they_generate():
    scores = '{"a": 0.9, "b": 0.89, "c": -4, "d": 1e6}'
    assert RankingVote().reward(scores, '["d","a","b","c"]') == 1.0


@pytest.mark.parametrize("rule", ["borda", "kemeny"])
@given(vote=orders)
@settings(deadline=None)
def test_a_single_ranking_is_the_answer(rule, vote):
    assert answer(rule, [vote]) == vote


@pytest.mark.parametrize("rule", ["scores", "borda", "kemeny"])
@given(st.data())
@settings(deadline=None, max_examples=40)
def test_an_arm_that_outweighs_the_rest_by_far_decides(rule, data):
    votes = [
        dict(zip(data.draw(orders), (3.0, 2.0, 1.0, 0.0), strict=True))
        for _ in range(data.draw(st.integers(1, 5)))
    ]
    weights = [100.0] + [1.0] * (len(votes) - 1)
    assert answer(rule, votes, weights) == list(votes[0])


def test_the_sum_of_scores_is_weighted():
    votes = [{"a": 1.0, "b": 0.0}, {"a": 0.0, "b": 0.6}]
    assert answer("scores", votes, [1.0, 1.0], ("a", "b")) == ["a", "b"]
    assert answer("scores", votes, [1.0, 2.0], ("a", "b")) == ["b", "a"]


def test_borda_and_kemeny_can_differ():
    votes = [["a", "b", "c"]] * 3 + [["b", "c", "a"]] * 2
    assert answer("kemeny", votes, options=("a", "b", "c")) == ["a", "b", "c"]
    assert answer("borda", votes, options=("a", "b", "c")) == ["b", "a", "c"]


@given(st.permutations(ITEMS), st.lists(orders, min_size=1, max_size=5))
@settings(deadline=None, max_examples=40)
def test_renaming_the_items_renames_the_answer(names, votes):
    renamed = dict(zip(ITEMS, names, strict=True))
    weights = [1.0 / (2.0 + position) + 0.01 * position**2 for position in range(len(votes))]
    for rule in ("borda", "kemeny"):
        plain = answer(rule, votes, weights)
        moved = answer(
            rule, [[renamed[i] for i in vote] for vote in votes], weights, [renamed[i] for i in ITEMS]
        )
        assert moved == [renamed[item] for item in plain]


@pytest.mark.parametrize("rule", ["borda", "kemeny"])
def test_the_score_is_the_mean_posterior_of_the_pairs(rule):
    votes = [["d", "b", "a", "c"], ["b", "d", "a", "c"], ["d", "a", "b", "c"]]
    cast = ballot(votes, [1.0, 0.9, 0.8], 0.7)
    label, chances = RankingVote(rule).aggregate(cast, ITEMS)
    expected = []
    for first, second in combinations(json.loads(label), 2):
        pairwise = {
            arm: "right" if vote.index(f'"{first}"') < vote.index(f'"{second}"') else "wrong"
            for arm, vote in cast.votes.items()
        }
        expected.append(label_posterior(pairwise, cast.correctness, ["right", "wrong"])["right"])
    assert chances == {label: pytest.approx(np.mean(expected))}


def test_unanimous_arms_are_scored_higher_than_divided_ones():
    forward, backward = list(ITEMS), list(ITEMS[::-1])
    scores = [
        max(RankingVote().aggregate(ballot(votes), ITEMS)[1].values())
        for votes in ([forward] * 3, [forward, forward, backward])
    ]
    assert scores[1] < scores[0] < 1.0


@pytest.mark.parametrize(
    "vote",
    [
        "",
        "a, b",
        "[1",
        '["a","a","b","c"]',
        '"abcd"',
        "7",
        '{"a": "high"}',
        '{"a": NaN}',
        '{"a": 1e999}',
        "[[]]",
        "null",
        pytest.param("[" * 100_000, id="nested"),
    ],
)
def test_text_that_is_not_a_ranking_is_refused(vote):
    with pytest.raises(InvalidParameterError):
        RankingVote().aggregate(ballot([vote]), ITEMS)


@pytest.mark.parametrize(
    "vote", [["a", "b", "c"], ["a", "b", "c", "d", "e"], ["a", "b", "c", "x"], []], ids=str
)
def test_a_ranking_of_other_items_is_refused(vote):
    with pytest.raises(InvalidParameterError, match="other items"):
        RankingVote().aggregate(ballot([vote]), ITEMS)


def test_an_order_has_no_scores_to_add_up():
    with pytest.raises(InvalidParameterError, match="no scores"):
        RankingVote("scores").aggregate(ballot([list(ITEMS)]), ITEMS)


def test_rankings_of_different_items_have_no_reward():
    with pytest.raises(InvalidParameterError, match="different items"):
        RankingVote().reward('["a","b"]', '["a","c"]')


def test_a_long_list_is_too_long_for_kemeny_alone():
    items = [str(position) for position in range(9)]
    with pytest.raises(InvalidParameterError, match="at most 8"):
        answer("kemeny", [items], options=items)
    assert answer("borda", [items], options=items) == items


def test_the_largest_scores_are_summed():
    votes = ['{"a": 1e308, "b": -1e308}', '{"a": 1.7e308, "b": -1.7e308}', '{"a": -1e308, "b": 1e308}']
    found, scores = RankingVote("scores").aggregate(ballot(votes), ("a", "b"))
    assert json.loads(found) == ["a", "b"]
    assert scores[found] == pytest.approx(0.8)


@pytest.mark.parametrize("rule", ["scores", "borda", "kemeny"])
def test_a_ranking_of_one_item_is_refused(rule):
    with pytest.raises(InvalidParameterError, match="at least two items"):
        RankingVote(rule).aggregate(ballot(['{"a": 1.0}']), ("a",))


def test_no_vote_and_an_unknown_rule_are_refused():
    with pytest.raises(InvalidParameterError, match="no vote"):
        RankingVote().aggregate(ballot([]), ITEMS)
    with pytest.raises(InvalidParameterError, match="rule"):
        RankingVote("copeland")


@given(st.dictionaries(st.text(max_size=5), st.floats(-1e6, 1e6), min_size=2, max_size=6))
@settings(deadline=None)
def test_scores_are_read_as_they_were_written(scores):
    assert _read_ranking(json.dumps(scores)) == scores

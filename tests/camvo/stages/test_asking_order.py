from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from camvo.stages.asking_order import cheapest_first, most_weight_per_price

prices = st.lists(st.floats(0.01, 100.0), min_size=1, max_size=7)


def by_arm(values):
    return {f"arm {number}": value for number, value in enumerate(values)}


@given(prices)
def test_without_weights_the_cheapest_arm_comes_first(costs):
    assert most_weight_per_price(by_arm(costs), ()) == cheapest_first(by_arm(costs))


@given(prices, st.lists(st.floats(0.01, 5.0), min_size=7, max_size=7))
def test_each_arm_has_about_as_much_weight_per_price_as_the_next_or_more(costs, weights):
    order, shares = most_weight_per_price(by_arm(costs), [by_arm(weights[: len(costs)])])
    weight = by_arm(weights)
    for (arm, share), (next_arm, next_share) in pairwise(zip(order, shares, strict=True)):
        assert weight[arm] * next_share >= weight[next_arm] * share / 1.2


def test_a_dear_arm_that_outweighs_the_others_is_asked_first():
    costs, weights = {"cheap": 1.0, "fair": 2.0, "dear": 8.0}, {"cheap": 0.2, "fair": 0.3, "dear": 3.0}
    assert most_weight_per_price(costs, [weights])[0] == ("dear", "cheap", "fair")


def test_of_arms_with_nearly_the_same_weight_and_price_the_cheaper_comes_first():
    costs = {"a": 1.1, "b": 1.0, "c": 1.05}
    assert most_weight_per_price(costs, [{"a": 0.37, "b": 0.33, "c": 0.36}])[0] == ("b", "c", "a")


@pytest.mark.parametrize("price", [0.0, 0.001, 1.0])
def test_an_arm_without_a_weight_comes_last_however_cheap(price):
    order, _ = most_weight_per_price({"copy": price, "dear": 20.0}, [{"copy": 0.0, "dear": 0.1}])
    assert order == ("dear", "copy")


def test_every_question_counts_the_same_whatever_the_scale_of_its_weights():
    costs = {"a": 1.0, "b": 1.0}
    assert most_weight_per_price(costs, [{"a": 0.6, "b": 0.4}, {"a": 10.0, "b": 90.0}])[0] == ("b", "a")


def test_of_free_arms_the_heaviest_comes_first():
    costs, weights = {"a": 0.0, "b": 0.0, "c": 1.0}, {"a": 1.0, "b": 2.0, "c": 9.0}
    assert most_weight_per_price(costs, [weights])[0] == ("b", "a", "c")


def test_shares_are_in_the_order_of_the_arms():
    assert most_weight_per_price({"a": 3.0, "b": 1.0}, [{"a": 9.0, "b": 1.0}]) == (("a", "b"), (0.75, 0.25))

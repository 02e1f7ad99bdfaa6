from __future__ import annotations

from camvo.stages.stages import cheapest_first


def test_the_cheapest_arm_comes_first_with_its_share_of_the_price_of_all():
    assert cheapest_first({"dear": 3.0, "cheap": 1.0}) == (("cheap", "dear"), (0.25, 0.75))


def test_arms_of_one_price_come_by_name():
    assert cheapest_first({"b": 1.0, "a": 1.0})[0] == ("a", "b")


def test_free_arms_share_equally():
    assert cheapest_first({"a": 0.0, "b": 0.0})[1] == (0.5, 0.5)


def test_a_price_that_differs_by_a_few_words_changes_no_share():
    assert cheapest_first({"a": 1.0, "b": 2.01})[1] == cheapest_first({"a": 1.0, "b": 2.0})[1]

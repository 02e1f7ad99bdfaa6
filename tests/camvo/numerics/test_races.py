"""Races between texts: the level holds at every look, worse ways are dropped, and better ones are found."""

from __future__ import annotations

import numpy as np
import pytest

from camvo.errors import InvalidParameterError
from camvo.numerics.sequential_tests import Race


def raced(rng: np.random.Generator, chances: dict[str, float], most: int = 300) -> Race:
    race = Race(list(chances))
    while race.tasks < most and not race.is_over:
        race.add({way: float(rng.random() < chances[way]) for way in race.running})
    return race


def test_equal_ways_are_rarely_ever_proven_at_any_look() -> None:
    rng = np.random.default_rng(1)
    switched = [raced(rng, dict.fromkeys("pabc", 0.7)).best != "p" for _ in range(200)]
    assert np.mean(switched) <= 0.05


def test_the_best_way_is_found_and_the_worse_ones_are_dropped_early() -> None:
    rng = np.random.default_rng(2)
    races = [raced(rng, {"p": 0.6, "a": 0.9, "b": 0.6, "c": 0.4}) for _ in range(40)]
    assert np.mean([race.best == "a" for race in races]) >= 0.9
    assert np.mean(["c" in race.dropped for race in races]) >= 0.9
    assert np.mean([race.tasks for race in races]) < 150


def test_a_dropped_way_is_asked_no_more_and_the_present_one_always_is() -> None:
    race = Race(["p", "a", "b"])
    while "a" not in race.dropped:
        race.add(dict.fromkeys(race.running, 1.0) | {"a": 0.0})
    assert race.running == ("p", "b")


def test_a_race_is_over_when_no_other_way_is_left() -> None:
    race = Race(["p", "a"])
    while not race.is_over:
        race.add({"p": 1.0, "a": 0.0})
    assert (race.best, race.dropped, race.running) == ("p", ("a",), ("p",))


def test_fractional_rewards_count_less() -> None:
    whole, half = Race(["p", "a"]), Race(["p", "a"])
    while not whole.is_over:
        whole.add({"p": 0.0, "a": 1.0})
        half.add({"p": 0.5, "a": 1.0})
    assert (whole.best, half.best) == ("a", "p")


@pytest.mark.parametrize("ways", [["p"], [], ["p", "p"]])
def test_a_race_takes_two_different_ways(ways: list[str]) -> None:
    with pytest.raises(InvalidParameterError):
        Race(ways)


@pytest.mark.parametrize("rewards", [{"p": 1.0}, {"p": 1.0, "a": 1.5}, {"p": float("nan"), "a": 1.0}])
def test_every_running_way_needs_a_reward(rewards: dict[str, float]) -> None:
    with pytest.raises(InvalidParameterError):
        Race(["p", "a"]).add(rewards)

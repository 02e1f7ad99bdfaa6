"""Twins: a model and its packed arm. Wherever all models count together, a model counts once."""

from __future__ import annotations

import numpy as np
import pytest

import camvo
from camvo.joint.families import excess_agreement
from camvo.joint.vote_rows import tabulate
from camvo.state.drift_tests import DriftTests
from camvo.state.vote_patterns import ExplorationRound, ExplorationSums, VotePattern
from camvo.twins.same_model import once_each, same_model, twins

PRICES = {"haiku": 1.0, "haiku:20": 0.2, "gpt": 2.0, "gpt:20": 0.5, "small": 0.1}
ARMS = sorted(PRICES)
CONTEXT = np.array([1.0, 0.0])


def question(policy: camvo.Policy | None = None, prices: dict[str, float] | None = None) -> camvo.Question:
    return camvo.Question(
        ("neg", "pos"), prices=prices or PRICES, dimension=2, policy=policy or camvo.Joint()
    )


def pattern(**votes: str) -> VotePattern:
    cast = {name.replace("_", ":"): vote for name, vote in votes.items()}
    return VotePattern.of(ARMS, cast, everyone=True, labels=("neg", "pos"))


ONCE = pattern(haiku_20="pos", gpt_20="pos", small="neg")
BOTH = pattern(haiku_20="pos", haiku="pos", gpt_20="pos", gpt="neg", small="neg")


def test_only_a_number_behind_the_name_of_another_arm_makes_a_twin() -> None:
    assert twins(["a", "a:20", "a:b", "b:20", "llama:8", "llama:70"]) == {"a:20": "a"}


def test_arms_of_one_model_are_known_to_each_other() -> None:
    assert same_model(["a", "a:5", "a:20", "b"])["a:5"] == {"a", "a:5", "a:20"}


def test_asking_all_models_asks_each_by_its_cheapest_arm() -> None:
    assert set(once_each(PRICES)) == {"haiku:20", "gpt:20", "small"}


def test_the_price_of_all_models_counts_a_model_once() -> None:
    policy = camvo.Joint(worth=1.0)
    [plan] = [question(policy).task(CONTEXT).plan]
    assert plan.stages is not None
    assert sum(plan.stages.prices[arm] for arm in once_each(PRICES)) == pytest.approx(1 / 201, rel=0.05)


def test_a_round_that_asks_everyone_asks_each_model_and_by_a_coin_both_twins() -> None:
    asked = [frozenset(question().task([1.0, float(at)]).ask()) for at in range(200)]
    both = asked.count(frozenset(ARMS))
    assert set(asked) == {frozenset(once_each(PRICES)), frozenset(ARMS)}
    assert 8 <= both <= 35  # 20 of 200 are expected


def test_rounds_with_either_twin_count_as_rounds_that_asked_everyone() -> None:
    sums = ExplorationSums()
    sums.add(ExplorationRound(ONCE, None), 1)
    sums.add(ExplorationRound(BOTH, None), 1)
    assert sums.everyone_rounds(ARMS) == 2
    assert sums.everyone_rounds(["haiku:20", "small"]) == 2
    assert sums.everyone_rounds(["haiku", "gpt"]) == 1
    assert sums.everyone_rounds(["haiku", "other"]) == 0


def test_fits_read_rounds_with_either_twin_as_complete() -> None:
    rows = tabulate({ONCE: 3, BOTH: 1}, ARMS, 2)
    assert (rows.counts.sum(), rows.partial.sum()) == (4.0, 0.0)
    singles = tabulate({ONCE: 3, BOTH: 1}, ["gpt", "haiku", "small"], 2)
    assert (singles.counts.sum(), singles.partial.sum()) == (1.0, 3.0)


def test_an_arm_that_was_not_asked_is_no_witness() -> None:
    assert set(ExplorationRound(ONCE, None).witnesses) == {"haiku:20", "gpt:20", "small"}
    tests = DriftTests()
    tests.add(ExplorationRound(ONCE, None))
    assert set(tests.arms) == {"haiku:20", "gpt:20", "small"}


def test_a_voted_label_rewards_the_arms_of_a_round_that_asked_each_model() -> None:
    asked = question()
    task = asked.task(CONTEXT)
    arms = task.ask()
    task.add(dict.fromkeys(arms, "pos"))
    task.learn()
    assert set(asked.state) == set(arms)


def test_twins_that_say_the_same_are_relatives_although_they_are_two() -> None:
    rng = np.random.default_rng(5)
    truth = rng.integers(2, size=3000)

    def vote(right: float) -> np.ndarray:
        return np.where(rng.random(3000) < right, truth, 1 - truth)

    single = vote(0.8)
    packed = np.where(rng.random(3000) < 0.9, single, 1 - single)
    columns = {"haiku": single, "haiku:20": packed, "a": vote(0.8), "b": vote(0.7)}
    names = sorted(columns)
    patterns: dict[VotePattern, int] = {}
    for row in zip(*(columns[name].tolist() for name in names), strict=True):
        cast = {name: ("neg", "pos")[number] for name, number in zip(names, row, strict=True)}
        found = VotePattern.of(names, cast, everyone=True, labels=("neg", "pos"))
        patterns[found] = patterns.get(found, 0) + 1
    rows = tabulate(patterns, names, 2)
    known = [(names.index("haiku"), names.index("haiku:20"))]
    assert excess_agreement(rows, 2).max() == 0.0  # two good models would look the same
    assert excess_agreement(rows, 2, known)[known[0]] > 0.5

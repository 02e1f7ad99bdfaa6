"""Twins: a model and its packed arm. Wherever all models count together, a model counts once."""

from __future__ import annotations

from camvo.joint.votes import VoteRows, excess_agreement
from camvo.state.exploration import ExplorationRound, ExplorationSums, VotePattern
from camvo.state.state import DriftTests
from camvo.twins import not_voted, once_each, same_model, twins

PRICES = {"haiku": 1.0, "haiku:20": 0.2, "gpt": 2.0, "gpt:20": 0.5, "small": 0.1}
ARMS = sorted(PRICES)


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


def test_rounds_with_either_twin_count_as_rounds_that_asked_everyone() -> None:
    sums = ExplorationSums()
    sums.add(ExplorationRound(ONCE, None), 1)
    sums.add(ExplorationRound(BOTH, None), 1)
    assert sums.everyone_rounds(ARMS) == 2
    assert sums.everyone_rounds(["haiku:20", "small"]) == 2
    assert sums.everyone_rounds(["haiku", "gpt"]) == 1
    assert sums.everyone_rounds(["haiku", "other"]) == 0


def test_fits_read_rounds_with_either_twin_as_complete() -> None:
    rows = VoteRows.of({ONCE: 3, BOTH: 1}, ARMS, ("neg", "pos"))
    assert (rows.counts.sum(), rows.partial.sum()) == (4.0, 0.0)


def test_fits_count_a_round_that_spared_an_arm_at_random_in_full_but_not_one_before_it_joined() -> None:
    spared = VotePattern.of(["a", "b", "new"], {"a": "neg", "b": "pos"}, everyone=True)
    before = VotePattern.of(["a", "b"], {"a": "neg", "b": "pos"}, everyone=True)
    stopped = VotePattern.of(["a", "b", "new"], {"a": "neg", "b": "neg"})
    rows = VoteRows.of({spared: 4, before: 2, stopped: 1}, ["a", "b", "new"], ("x", "neg", "pos"))
    assert (rows.counts.sum(), rows.partial.sum()) == (4.0, 3.0)


def test_an_arm_that_was_not_asked_is_no_witness() -> None:
    assert set(ExplorationRound(ONCE, None).witnesses) == {"haiku:20", "gpt:20", "small"}
    tests = DriftTests()
    tests.add(ExplorationRound(ONCE, None))
    assert set(tests.arms) == {"haiku:20", "gpt:20", "small"}


def test_arms_that_were_never_asked_together_are_no_relatives() -> None:
    everybody = ["a", "b", "c", "haiku", "haiku:20"]
    patterns = {}
    for number in range(64):
        cast = {name: ("neg", "pos")[number >> place & 1] for place, name in enumerate("abc")}
        twin = "haiku" if number % 2 else "haiku:20"
        patterns[
            VotePattern.of(everybody, {**cast, twin: cast["a"]}, everyone=True, labels=("neg", "pos"))
        ] = 5
    excess = excess_agreement(VoteRows.of(patterns, everybody, ("neg", "pos")), 2)
    assert excess[3, 4] == 0.0


def test_a_model_whose_twin_has_voted_is_not_asked_as_another_one() -> None:
    assert set(not_voted({"haiku": 1.0, "gpt": 2.0, "gpt:20": 0.5}, ["haiku:20", "gpt:20"])) == {"gpt:20"}

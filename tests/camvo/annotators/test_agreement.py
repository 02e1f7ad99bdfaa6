"""Agreement beyond chance and the alternative annotator test, beside published values and other formulas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student_t

from camvo.annotators import Agreement, alt_test, cohen_kappa, krippendorff_alpha
from camvo.errors import InvalidParameterError

PUBLISHED = (
    "1 2 3 3 2 1 4 1 2 . . .",
    "1 2 3 3 2 2 4 1 2 5 . 3",
    ". 3 3 3 2 3 4 2 2 5 1 .",
    "1 2 3 3 2 4 4 1 2 5 1 .",
)
"""Krippendorff (2011), example C: four people, twelve tasks, missing answers; α = 0.743."""

SHARES = (0.6, 0.3, 0.1)


def test_alpha_is_that_of_the_published_example() -> None:
    answers = [line.split() for line in PUBLISHED]
    tasks = [[person[task] for person in answers if person[task] != "."] for task in range(12)]
    alpha = krippendorff_alpha(tasks)
    assert alpha is not None
    assert alpha.value == pytest.approx(0.743, abs=5e-4)
    assert alpha.tasks == 11


def test_kappa_is_that_of_the_textbook() -> None:
    """Of 50 proposals two readers accept 20 both and reject 15 both: κ = (0.7 − 0.5) / (1 − 0.5)."""
    table = {("y", "y"): 20, ("y", "n"): 5, ("n", "y"): 10, ("n", "n"): 15}
    kappa = cohen_kappa([(vote, [said]) for (vote, said), times in table.items() for _ in range(times)])
    assert kappa is not None
    assert kappa.value == pytest.approx(0.4)
    assert kappa.tasks == 50


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=4), min_size=2, max_size=12))
def test_alpha_compares_each_pair_of_answers(tasks: Sequence[Sequence[str]]) -> None:
    """The oracle draws two people of a task, or two answers of all, pair by pair."""
    pairable = [task for task in tasks if len(task) > 1]
    everything = [label for task in pairable for label in task]
    if len(pairable) < 2 or len(set(everything)) < 2:
        assert krippendorff_alpha(tasks) is None
        return
    observed = sum(sum(a != b for a, b in permutations(task, 2)) / (len(task) - 1) for task in pairable)
    expected = sum(a != b for a, b in permutations(everything, 2)) / (len(everything) - 1)
    alpha = krippendorff_alpha(tasks)
    assert alpha is not None
    assert alpha.value == pytest.approx(1.0 - observed / expected)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.lists(st.sampled_from("ab"), max_size=3)), max_size=12))
def test_alpha_and_kappa_lie_in_their_intervals(tasks: Sequence[tuple[str, Sequence[str]]]) -> None:
    for found in (cohen_kappa(tasks), krippendorff_alpha([said for _, said in tasks])):
        assert found is None or (-1.0 <= found.low <= found.value <= found.high <= 1.0)


@pytest.mark.parametrize("agree", [0.3, 0.8])
def test_the_intervals_hold_the_true_agreement(agree: float) -> None:
    """Two people who say the same where they do not guess: κ and α of endlessly many tasks are that share."""
    rng, held = np.random.default_rng(7), Counter[str]()
    for _ in range(200):
        first, second, same = rng.choice(3, 80, p=SHARES), rng.choice(3, 80, p=SHARES), rng.random(80) < agree
        second = np.where(same, first, second)
        tasks = list(zip(first.astype(str).tolist(), second.astype(str).tolist(), strict=True))
        for name, found in {
            "alpha": krippendorff_alpha(tasks),
            "kappa": cohen_kappa([(a, [b]) for a, b in tasks]),
        }.items():
            assert isinstance(found, Agreement)
            held[name] += found.low <= agree <= found.high
    assert min(held.values()) >= 0.92 * 200


def test_a_task_counts_once_however_many_people_labelled_it() -> None:
    tasks = [("a", ["a", "b"]), ("b", ["b"]), ("a", ["a"]), ("b", ["a"])]
    doubled = [(vote, [*said, *said]) for vote, said in tasks]
    assert cohen_kappa(tasks) == cohen_kappa(doubled)


def by_the_paper(
    people: Mapping[str, Mapping[int, str]], votes: Mapping[int, str], epsilon: float
) -> tuple[float, float]:
    """ω and ρ, formula by formula of the paper (section 3), for people with at least 30 tasks."""
    chances, advantages = [], []
    for person, said in people.items():
        differences, wins = [], []
        for task in said:
            others = [of[task] for name, of in people.items() if name != person and task in of]
            if not others or task not in votes:
                continue
            by_person = sum(label == said[task] for label in others) / len(others)
            by_vote = sum(label == votes[task] for label in others) / len(others)
            differences.append((by_person >= by_vote) - (by_vote >= by_person))
            wins.append(by_vote >= by_person)
        if len(differences) >= 30:
            n, mean = len(differences), sum(differences) / len(differences)
            variance = sum((each - mean) ** 2 for each in differences) / (n - 1)
            chances.append(float(student_t.cdf((mean - epsilon) / (variance / n) ** 0.5, n - 1)))
            advantages.append(sum(wins) / n)
    m = len(chances)
    harmonic = sum(1 / rank for rank in range(1, m + 1))
    ranked = sorted(chances)
    won = max((rank for rank in range(1, m + 1) if ranked[rank - 1] <= rank / m * 0.05 / harmonic), default=0)
    return won / m, sum(advantages) / m


def simulated(seed: int, right: float, model: float) -> tuple[dict[str, dict[int, str]], dict[int, str]]:
    """Five people, of whom three or more label each of 120 tasks, and a model."""
    rng = np.random.default_rng(seed)

    def said(truth: str, chance: float) -> str:
        return truth if rng.random() < chance else str(rng.choice(list("abcd")))

    truths = [str(label) for label in rng.choice(list("abcd"), 120)]
    people: dict[str, dict[int, str]] = {str(person): {} for person in range(5)}
    for task, truth in enumerate(truths):
        for person in rng.choice(5, rng.integers(3, 6), replace=False):
            people[str(person)][task] = said(truth, right)
    return people, {task: said(truth, model) for task, truth in enumerate(truths)}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("epsilon", [0.1, 0.2])
def test_the_alt_test_is_the_paper_s(seed: int, epsilon: float) -> None:
    people, votes = simulated(seed, 0.7, 0.3 + 0.12 * seed)
    found = alt_test(people, votes, epsilon)
    assert found is not None
    assert (found.winning_rate, found.advantage) == pytest.approx(
        by_the_paper(people, votes, epsilon), abs=1e-9
    )


def test_a_model_as_good_as_people_passes_and_a_poor_one_fails() -> None:
    passed = {model: [alt_test(*simulated(seed, 0.75, model)) for seed in range(20)] for model in (0.85, 0.3)}
    assert all(found is not None and found.passed for found in passed[0.85])
    assert not any(found is not None and found.passed for found in passed[0.3])


def test_nobody_is_compared_on_too_few_tasks() -> None:
    people, votes = simulated(0, 0.7, 0.7)
    few = {person: dict(list(said.items())[:29]) for person, said in people.items()}
    assert alt_test(few, votes) is None


def test_without_any_variance_the_difference_decides() -> None:
    """All say the same on every task: the model is as good as anybody, and there is no t."""
    same = dict.fromkeys(range(40), "a")
    found = alt_test({"1": same, "2": same, "3": same}, same)
    assert found is not None
    assert (found.winning_rate, found.advantage, found.passed) == (1.0, 1.0, True)


def test_an_impossible_epsilon_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="epsilon"):
        alt_test({}, {}, 1.0)

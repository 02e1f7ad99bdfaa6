"""How far people, models and the vote agree beyond chance, and whether the vote may replace a person.

- Krippendorff's α (2011, "Computing Krippendorff's alpha-reliability") for labels without an order, with
  missing answers.
- Cohen's κ (1960) of one voter beside people.
- The alternative annotator test (Calderon, Reichart and Dror 2025, arXiv 2501.10970).

The intervals of α and κ come from leaving out one task after another (jackknife), because several answers to
one task are not independent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.stats import false_discovery_control, t, ttest_1samp

from camvo.errors import InvalidParameterError
from camvo.typing import Array

_LEVEL: Final = 0.95


@dataclass(frozen=True, slots=True)
class Agreement:
    """Agreement beyond chance: 1 if all agree, 0 as by chance.

    Attributes:
        value: α or κ.
        low: the lower end of its 95% interval, at least −1.
        high: the upper end, at most 1.
        tasks: the number of tasks that it rests on.
    """

    value: float
    low: float
    high: float
    tasks: int


def krippendorff_alpha(tasks: Sequence[Sequence[str]]) -> Agreement | None:
    """Krippendorff's α for labels without an order.

    Args:
        tasks: the labels that different people gave to each task. Tasks with fewer than two are left out.

    Returns:
        ``None`` if fewer than two tasks are left, or if all labels are the same: chance alone would agree.

    >>> krippendorff_alpha([["a", "a"], ["b", "b"], ["a", "b"], ["b", "b"]]).value
    0.5333333333333333
    """
    counts = [Counter(labels) for labels in tasks if len(labels) > 1]
    names = {label: number for number, label in enumerate(sorted({label for of in counts for label in of}))}
    table = np.zeros((len(counts), len(names)))
    for line, of in enumerate(counts):
        for label, times in of.items():
            table[line, names[label]] = times
    answers = table.sum(axis=1, keepdims=True)
    # Of each task's ordered pairs of answers, a task with m answers counts m in all.
    alike = (table * (table - 1.0)).sum(axis=1, keepdims=True) / np.maximum(answers - 1.0, 1.0)
    return _jackknifed(np.hstack([alike, answers, table]), _alpha)


def _alpha(sums: Array) -> Array:
    """α by the sums over tasks of alike pairs, answers and labels, shape (…, 2 + M)."""
    alike, answers, table = sums[..., 0], sums[..., 1], sums[..., 2:]
    by_chance = (table * (table - 1.0)).sum(axis=-1) / np.maximum(answers - 1.0, 1.0)
    return _beyond_chance(alike, by_chance, answers)


def cohen_kappa(tasks: Sequence[tuple[str, Sequence[str]]]) -> Agreement | None:
    """Cohen's κ of one voter with people, who together are the other voter.

    Args:
        tasks: the voter's label and people's labels of each task. Each task counts once, however many people
            labelled it; tasks without people's labels are left out.

    Returns:
        ``None`` if fewer than two tasks are left, or if all labels are the same: chance alone would agree.
    """
    judged = [(vote, Counter(said)) for vote, said in tasks if said]
    labels = sorted({vote for vote, _ in judged} | {label for _, said in judged for label in said})
    names = {label: number for number, label in enumerate(labels)}
    votes, people = np.zeros((2, len(judged), len(names)))
    for line, (vote, said) in enumerate(judged):
        votes[line, names[vote]] = 1.0
        for label, times in said.items():
            people[line, names[label]] = times / said.total()
    alike = (votes * people).sum(axis=1, keepdims=True)
    return _jackknifed(np.hstack([alike, votes, people]), _kappa)


def _kappa(sums: Array) -> Array:
    """κ by the sums over tasks of alike answers, votes and people's labels, shape (…, 1 + 2M)."""
    alike, (votes, people) = sums[..., 0], np.split(sums[..., 1:], 2, axis=-1)
    count = votes.sum(axis=-1)
    return _beyond_chance(alike, (votes * people).sum(axis=-1) / np.maximum(count, 1.0), count)


def _beyond_chance(alike: Array, by_chance: Array, whole: Array) -> Array:
    """The share of the agreement that chance leaves open; not a number if it leaves none."""
    left = whole - by_chance
    with np.errstate(invalid="ignore", divide="ignore"):
        share: Array = np.where(left > 1e-9, (alike - by_chance) / left, np.nan)
    return share


def _jackknifed(rows: Array, measure: Callable[[Array], Array]) -> Agreement | None:
    """A measure of sums over tasks, with the interval of its jackknife pseudo-values."""
    count, total = len(rows), rows.sum(axis=0)
    value = measure(total)
    if count < 2 or np.isnan(value):
        return None
    without = measure(total - rows)
    without = np.where(np.isnan(without), value, without)
    error = float(np.sqrt((count - 1) / count * ((without - without.mean()) ** 2).sum()))
    reach = float(t.ppf((1.0 + _LEVEL) / 2.0, count - 1)) * error
    return Agreement(float(value), max(float(value) - reach, -1.0), min(float(value) + reach, 1.0), count)


LEAST_TASKS: Final = 30
"""Tasks that a person must share with others, for the t-test of the alternative annotator test."""

EPSILON: Final = {"expert": 0.2, "skilled": 0.15, "crowd": 0.1}
"""What the authors let people's labour cost: how much less often the vote may be as good as a person."""

_FALSE_DISCOVERIES: Final = 0.05
_WINS: Final = 0.5


@dataclass(frozen=True, slots=True)
class AltTest:
    """The result of the alternative annotator test.

    Attributes:
        winning_rate: ω, the share of people whom the voter may replace by the test.
        advantage: ρ, the mean probability that the voter agrees with the others at least as well as a person.
        people: the number of people who were compared.
        tasks: the number of tasks on which they were.
        passed: whether the voter may replace people: ω ≥ 0.5.
    """

    winning_rate: float
    advantage: float
    people: int
    tasks: int
    passed: bool


def alt_test(
    people: Mapping[str, Mapping[int, str]],
    votes: Mapping[int, str],
    epsilon: float = EPSILON["skilled"],
    least_tasks: int = LEAST_TASKS,
) -> AltTest | None:
    """Test whether a voter represents people at least as well as each person does, within ε.

    Person by person, the voter's share of agreement with all others is compared with that person's own, task
    by task. The p values of all people are held to a false discovery rate of 5% (Benjamini and Yekutieli).

    Args:
        people: person → task → label.
        votes: task → the voter's label. Other tasks, and those with a single person's label, are left out.
        epsilon: ε in [0, 1).
        least_tasks: people with fewer tasks are not compared. Their labels still count as others'.

    Returns:
        ``None`` if nobody has enough tasks.

    Raises:
        InvalidParameterError: ε is outside its range.
    """
    if not 0.0 <= epsilon < 1.0:
        raise InvalidParameterError(f"epsilon is in [0, 1), got {epsilon}")
    shared = Counter(task for said in people.values() for task in said if task in votes)
    chances, advantages, compared = [], [], set()
    for person, said in people.items():
        tasks = [task for task in said if shared[task] > 1]
        if len(tasks) < max(least_tasks, 2):
            continue
        leads = np.array([_lead(people, person, task, votes[task]) for task in tasks])
        worse = (leads <= 0.0).astype(np.float64) - (leads >= 0.0)
        if np.ptp(worse) > 0.0:
            chances.append(float(ttest_1samp(worse, epsilon, alternative="less").pvalue))
        else:  # without any variance there is no t: the difference is what it is
            chances.append(float(worse[0] >= epsilon))
        advantages.append(float((leads >= 0.0).mean()))
        compared |= set(tasks)
    if not chances:
        return None
    won = float((false_discovery_control(chances, method="by") <= _FALSE_DISCOVERIES).mean())
    return AltTest(won, float(np.mean(advantages)), len(chances), len(compared), won >= _WINS)


def _lead(people: Mapping[str, Mapping[int, str]], person: str, task: int, vote: str) -> float:
    """How many more of the others said the vote's label of a task than the person's."""
    others = [said[task] for name, said in people.items() if name != person and task in said]
    return float(others.count(vote) - others.count(people[person][task]))

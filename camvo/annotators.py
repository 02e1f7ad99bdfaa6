"""People as voters: how often each is right, how far they agree, and whether they lean on what they see.

- Krippendorff's α (2011, "Computing Krippendorff's alpha-reliability") for labels without an order, with
  missing answers.
- Cohen's κ (1960) of one voter beside people.
- The alternative annotator test (Calderon, Reichart and Dror 2025, arXiv 2501.10970).

The intervals of α and κ come from leaving out one task after another (jackknife), because several answers to
one task are not independent.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, log_ndtr, ndtri, stdtr, stdtrit

from camvo.errors import InvalidParameterError
from camvo.numerics.small import TIE
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
    reach = float(stdtrit(count - 1, (1.0 + _LEVEL) / 2.0)) * error
    return Agreement(float(value), max(float(value) - reach, -1.0), min(float(value) + reach, 1.0), count)


_LEAST_TASKS: Final = 30
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
    people: Mapping[str, Mapping[int, str]], votes: Mapping[int, str], epsilon: float = EPSILON["skilled"]
) -> AltTest | None:
    """Test whether a voter represents people at least as well as each person does, within ε.

    Person by person, the voter's share of agreement with all others is compared with that person's own, task
    by task. The p values of all people are held to a false discovery rate of 5% (Benjamini and Yekutieli).

    Args:
        people: person → task → label.
        votes: task → the voter's label. Other tasks, and those with a single person's label, are left out.
        epsilon: ε in [0, 1).

    Returns:
        ``None`` if nobody has enough tasks. Labels of people with fewer still count as others'.

    Raises:
        InvalidParameterError: ε is outside its range.
    """
    if not 0.0 <= epsilon < 1.0:
        raise InvalidParameterError(f"epsilon is in [0, 1), got {epsilon}")
    shared = Counter(task for said in people.values() for task in said if task in votes)
    chances, advantages, compared = [], [], set()
    for person, said in people.items():
        tasks = [task for task in said if shared[task] > 1]
        if len(tasks) < _LEAST_TASKS:
            continue
        leads = np.array([_lead(people, person, task, votes[task]) for task in tasks])
        worse = (leads <= 0.0).astype(np.float64) - (leads >= 0.0)
        if np.ptp(worse) > 0.0:
            t = (worse.mean() - epsilon) / (worse.std(ddof=1) / math.sqrt(len(worse)))
            chances.append(float(stdtr(len(worse) - 1, t)))
        else:  # without any variance there is no t: the difference is what it is
            chances.append(float(worse[0] >= epsilon))
        advantages.append(float((leads >= 0.0).mean()))
        compared |= set(tasks)
    if not chances:
        return None
    won = float((_false_discoveries(chances) <= _FALSE_DISCOVERIES).mean())
    return AltTest(won, float(np.mean(advantages)), len(chances), len(compared), won >= _WINS)


def _false_discoveries(chances: Sequence[float]) -> Array:
    """The false discovery rate at which each hypothesis is rejected, after Benjamini and Yekutieli (2001)."""
    count = len(chances)
    ranks = np.arange(1, count + 1)
    order = np.argsort(chances)[::-1]
    raised = np.array(chances)[order] * (count / ranks[::-1]) * (1.0 / ranks).sum()
    adjusted = np.empty(count)
    adjusted[order] = np.minimum(np.minimum.accumulate(raised), 1.0)
    return adjusted


def _lead(people: Mapping[str, Mapping[int, str]], person: str, task: int, vote: str) -> float:
    """How many more of the others said the vote's label of a task than the person's."""
    others = [said[task] for name, said in people.items() if name != person and task in said]
    return float(others.count(vote) - others.count(people[person][task]))


_BINS: Final = 5
"""Quantiles of the score, within which labels count as equally easy."""

_LEAST: Final = 20
"""Labels of either kind from which on the difference is computed."""

_FALSE_ALARM: Final = 0.05
_EARLY: Final = 60.0
"""The number of labels at which the test of any difference is sharpest, over all looks."""

_EXPECTED: Final = 0.12
"""A likely difference: its test is sharpest at some 300 labels, where it finds 15 points."""

_LIKELY: Final = 0.9
"""The part that this difference has in the test; any difference has the rest."""


@dataclass(frozen=True, slots=True)
class Suggested:
    """One person's label of one task.

    Attributes:
        person: who gave it.
        score: the score of the vote's label.
        shown: whether the person saw the vote's label before.
        agreed: whether the person gave it.
    """

    person: int
    score: float
    shown: bool
    agreed: bool


@dataclass(frozen=True, slots=True)
class Anchoring:
    """How much more often the vote's label is given when it is shown.

    Attributes:
        more: the difference of the shares, of the same people at alike scores, in [−1, 1].
        low: the lower end of its 95% interval.
        high: the upper end.
        shown: labels that were given after seeing the vote's label.
        blind: labels that were given without.
        clear: whether the difference is above 0. Without any, this is true at some look in at most 5% of
            projects.
    """

    more: float
    low: float
    high: float
    shown: int
    blind: int
    clear: bool


def anchoring(labels: Sequence[Suggested]) -> Anchoring | None:
    """Compare shown with blind labels of the same people, within quantiles of the score.

    The difference is that of Mantel and Haenszel with Sato's variance (1989), which holds in few large strata
    and in many small ones. One agreeing and one other label are added on either side, as Agresti and Caffo
    (2000) do, so that a share of 0 or 1 is not certain. Over all looks a mixture of differences, a likely one
    of 12 points and any, bounds the test (Robbins 1970).

    Returns:
        ``None`` with fewer than 20 labels of either kind, of people who gave both.
    """
    of_person = defaultdict(list)
    for label in labels:
        of_person[label.person].append(label)
    both = [
        label
        for said in of_person.values()
        if {label.shown for label in said} == {True, False}
        for label in said
    ]
    shown = sum(label.shown for label in both)
    blind = len(both) - shown
    if min(shown, blind) < _LEAST:
        return None
    edges = np.quantile([label.score for label in both], np.linspace(0.0, 1.0, _BINS + 1)[1:-1])
    bins = np.searchsorted(edges, [label.score for label in both], side="right").tolist()
    strata: dict[tuple[int, int], list[list[int]]] = defaultdict(lambda: [[0, 0], [0, 0]])
    for label, number in zip(both, bins, strict=True):
        strata[label.person, number][label.shown][label.agreed] += 1
    table = np.array([strata[key] for key in sorted(strata)], dtype=np.float64)  # (strata, shown, agreed)
    counts = table.sum(axis=2) * (1.0 + 2.0 / np.array([blind, shown]))
    agreed = table[:, :, 1] + table.sum(axis=2) / np.array([blind, shown])
    n0, n1, b, a, whole = counts[:, 0], counts[:, 1], agreed[:, 0], agreed[:, 1], counts.sum(axis=1)
    weight = float((n1 * n0 / whole).sum())
    if weight <= 0.0:
        return None
    more = float(((a * n0 - b * n1) / whole).sum()) / weight
    p = ((n1**2 * b - n0**2 * a + n1 * n0 * (n0 - n1) / 2.0) / whole**2).sum()
    q = ((a * (n0 - b) + b * (n1 - a)) / (2.0 * whole)).sum()
    error = math.sqrt(max(float(more * p + q), 1e-12)) / weight
    reach = float(ndtri((1.0 + _LEVEL) / 2.0)) * error
    low, high = max(more - reach, -1.0), min(more + reach, 1.0)
    return Anchoring(more, low, high, shown, blind, _at_every_look(more, error, weight))


def _at_every_look(more: float, error: float, weight: float) -> bool:
    """Whether a mixture of a likely difference and all positive ones is 1/α times as likely as none."""
    z, ratio, expected = more / error, 4.0 * weight / _EARLY, _EXPECTED / error
    part = ratio / (1.0 + ratio)
    half_normal = log_ndtr(z * math.sqrt(part)) + z * z * part / 2.0 - math.log1p(ratio) / 2.0
    log_ratio = np.logaddexp(
        math.log(_LIKELY) + z * expected - expected**2 / 2.0, math.log(2.0 * (1.0 - _LIKELY)) + half_normal
    )
    return z > 0.0 and float(log_ratio) >= -math.log(_FALSE_ALARM)


PRIOR_PERSON: Final = 0.85
"""The accuracy of an annotator about whom nothing is known."""

_PERSON_LABELS: Final = 6.0
"""The weight of that prior, in labels."""

_PRIOR_MODEL: Final = 0.7
_MODEL_LABELS: Final = 10.0
_STEPS: Final = 200
_CONVERGED: Final = 1e-9
_LOWEST, _HIGHEST = 0.01, 0.995


@dataclass(frozen=True, slots=True)
class PeoplesTask:
    """The answers to one question of one task that people labelled.

    Attributes:
        people: annotator → label.
        models: model → vote. Leave it empty if an annotator was shown the prediction: the models are then no
            independent witnesses.
        truth: the ground truth; ``None`` if it is unknown.
    """

    people: Mapping[str, str]
    models: Mapping[str, str] = field(default_factory=dict)
    truth: str | None = None

    @property
    def labels(self) -> list[str]:
        """Every label that somebody named, in order."""
        truth = [] if self.truth is None else [self.truth]
        return sorted({*self.people.values(), *self.models.values(), *truth})


class _Answer(NamedTuple):
    """One answer, with the positions of its task, its voter and its label among the task's labels."""

    task: int
    voter: int
    label: int
    share: float


class _Coins:
    """One coin for each of V voters, of whom the people come first, and n tasks."""

    def __init__(self, tasks: Sequence[PeoplesTask], labels: int) -> None:
        self.people = sorted({name for task in tasks for name in task.people})
        self.models = sorted({name for task in tasks for name in task.models})
        size = len(self.people) + len(self.models)
        answers = self._answers(tasks)
        self._task, self._voter, self._label = (
            np.array(column, dtype=np.int64) for column in list(zip(*answers, strict=True))[:3]
        )
        self._share: Array = np.array([answer.share for answer in answers])
        named = np.array([len(task.labels) for task in tasks])
        self._is_named: NDArray[np.bool_] = np.arange(int(named.max()))[None] < named[:, None]
        self._unnamed = np.maximum(labels - named, 0)
        self._truth = np.array(
            [-1 if task.truth is None else task.labels.index(task.truth) for task in tasks]
        )
        self._wrong = np.log(labels - 1)
        self.voted: Array = np.bincount(self._voter, minlength=size).astype(np.float64)
        are_people = np.arange(size) < len(self.people)
        self._prior = np.where(are_people, PRIOR_PERSON, _PRIOR_MODEL)
        self._prior_labels = np.where(are_people, _PERSON_LABELS, _MODEL_LABELS)

    def fit(self) -> Array:
        """The accuracies of the voters, by EM from the priors; shape (V,), in [0.01, 0.995]."""
        right: Array = self._prior.copy()
        for _ in range(_STEPS):
            before = right
            expected = np.bincount(self._voter, self._said_right(right), minlength=len(right))
            right = (expected + self._prior * self._prior_labels) / (self.voted + self._prior_labels)
            right = np.clip(right, _LOWEST, _HIGHEST)
            if np.abs(right - before).max() < _CONVERGED:
                break
        return right

    def known(self, right: Array) -> Array:
        """How many labels of known truth would teach as much about each voter, at least 1; shape (V,).

        The information about the log-odds is that of the tasks' scores (Berndt, Hall, Hall and Hausman 1974).
        The weight of the prior, in labels, is subtracted.
        """
        scores = np.zeros((len(self._truth), len(right)))
        scores[self._task, self._voter] = self._share * (self._said_right(right) - right[self._voter])
        variance = right * (1.0 - right)
        information = scores.T @ scores + np.diag(self._prior_labels * variance)
        known = 1.0 / (np.maximum(np.diag(np.linalg.inv(information)), TIE) * variance)
        return np.asarray(np.maximum(known - self._prior_labels, 1.0), dtype=np.float64)

    def _answers(self, tasks: Sequence[PeoplesTask]) -> list[_Answer]:
        people = {name: position for position, name in enumerate(self.people)}
        models = {name: len(people) + position for position, name in enumerate(self.models)}
        answers: list[_Answer] = []
        for position, task in enumerate(tasks):
            place = {label: index for index, label in enumerate(task.labels)}
            share = 1.0 / max(len(task.models), 1)
            answers += [
                _Answer(position, people[name], place[said], 1.0) for name, said in task.people.items()
            ]
            answers += [
                _Answer(position, models[name], place[vote], share) for name, vote in task.models.items()
            ]
        return answers

    def _said_right(self, right: Array) -> Array:
        """The probability that each answer is right, given all answers to its task."""
        odds = np.log(right) - np.log1p(-right) + self._wrong
        evidence = np.where(self._is_named, 0.0, -np.inf)
        np.add.at(evidence, (self._task, self._label), self._share * odds[self._voter])
        top = np.maximum(evidence.max(axis=1), 0.0)
        chance = np.exp(evidence - top[:, None])
        chance /= (chance.sum(axis=1) + self._unnamed * np.exp(-top))[:, None]
        known = self._truth >= 0
        chance[known] = 0.0
        chance[known, self._truth[known]] = 1.0
        said: Array = chance[self._task, self._label]
        return said


_ACCURACY_LEVEL: Final = 0.9
"""The probability with which the interval of an annotator holds their accuracy."""


@dataclass(frozen=True, slots=True)
class AnnotatorReliability:
    """How often an annotator is right.

    Attributes:
        right: the probability that a label of theirs is right, with the prior.
        low: the lower end of the interval that holds it with probability :data:`_ACCURACY_LEVEL`.
        high: its upper end.
        labels: how many of their labels another person or ground truth speaks about.
    """

    right: float
    low: float
    high: float
    labels: int


@dataclass(frozen=True, slots=True)
class _Reliabilities:
    """The reliabilities of one question."""

    people: Mapping[str, AnnotatorReliability]
    models: Mapping[str, float]
    tasks: int


def fit_reliabilities(tasks: Iterable[PeoplesTask], labels: int) -> _Reliabilities:
    """Fit the accuracies of all annotators and models.

    Tasks with one annotator and without ground truth are left out: models cannot judge people. The order of
    the tasks changes the result by no more than rounding.

    Raises:
        InvalidParameterError: there are fewer than two labels.

    >>> answers = [{"1": "yes", "2": "yes", "3": "no"}, {"1": "no", "2": "no", "3": "yes"}]
    >>> people = fit_reliabilities([PeoplesTask(said) for said in answers * 20], 2).people
    >>> people["1"].right > 0.9, people["3"].right < 0.2
    (True, True)
    """
    if labels < 2:
        raise InvalidParameterError(f"a question needs at least two labels, got {labels}")
    judged = [task for task in tasks if len(task.people) > (task.truth is None)]
    if not judged:
        return _Reliabilities({}, {}, 0)
    coins = _Coins(judged, labels)
    right = coins.fit()
    known = coins.known(right).tolist()
    size = len(coins.people)
    people = {
        name: AnnotatorReliability(share, *_interval(share, worth), int(count))
        for name, share, worth, count in zip(
            coins.people, right[:size].tolist(), known[:size], coins.voted[:size].tolist(), strict=True
        )
    }
    return _Reliabilities(people, dict(zip(coins.models, right[size:].tolist(), strict=True)), len(judged))


def _interval(right: float, labels: float) -> tuple[float, float]:
    """The central interval of the Beta distribution with mean ``right`` after ``labels`` labels."""
    tail = (1.0 - _ACCURACY_LEVEL) / 2.0
    low, high = betaincinv(right * labels, (1.0 - right) * labels, [tail, 1.0 - tail])
    return float(low), float(high)


_LEAST_ODDS: Final = 2.0
"""The label must be at least this many times as likely as any other."""


def _log_odds(right: float, labels: int) -> float:
    """Compute what a label of such an annotator weighs: ln p(M − 1)/(1 − p), at least 0."""
    return max(math.log(right) - math.log1p(-right) + math.log(max(labels - 1, 1)), 0.0)


def weighed_label(answers: Iterable[tuple[str, float]], labels: int) -> str | None:
    """The most likely of M labels by answers and people's accuracies; ``None`` if in doubt.

    It has to be :data:`_LEAST_ODDS` times as likely as any other label. All labels are equally likely before
    the answers. People of equal accuracy are thus counted as by a majority, and a tie between two labels
    decides nothing. Neither does an answer by somebody who is right no more often than by chance.

    >>> weighed_label([("yes", 0.95), ("no", 0.6)], 2)
    'yes'
    >>> weighed_label([("yes", 0.85), ("no", 0.8)], 2)
    """
    odds: dict[str, float] = {}
    for label, right in sorted(answers):
        odds[label] = odds.get(label, 0.0) + _log_odds(right, labels)
    leader = max(odds, key=odds.__getitem__, default=None)
    if leader is None:
        return None
    others = [value for label, value in odds.items() if label != leader] or [0.0]
    return leader if odds[leader] - max(others) >= math.log(_LEAST_ODDS) else None

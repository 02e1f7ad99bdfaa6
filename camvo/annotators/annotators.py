"""The EM of the one-coin model (Dawid and Skene 1979), over people and models, with priors and truths."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from camvo.errors import InvalidParameterError
from camvo.numerics.small import TIE
from camvo.typing import Array

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


LEVEL: Final = 0.9
"""The probability with which the interval of an annotator holds their accuracy."""


@dataclass(frozen=True, slots=True)
class AnnotatorReliability:
    """How often an annotator is right.

    Attributes:
        right: the probability that a label of theirs is right, with the prior.
        low: the lower end of the interval that holds it with probability :data:`LEVEL`.
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
    tail = (1.0 - LEVEL) / 2.0
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

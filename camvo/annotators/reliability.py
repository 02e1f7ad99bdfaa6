"""How often each annotator is right, learnt jointly with the models' accuracies from who agrees with whom."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from scipy.special import betaincinv

from camvo.annotators.coins import Coins, PeoplesTask
from camvo.errors import InvalidParameterError

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
class Reliabilities:
    """The reliabilities of one question.

    Attributes:
        people: annotator → their reliability. Nobody is in it of whom no label is judged.
        models: model → its accuracy on these tasks.
        tasks: how many tasks they were learnt from.
    """

    people: Mapping[str, AnnotatorReliability]
    models: Mapping[str, float]
    tasks: int


def fit_reliabilities(tasks: Iterable[PeoplesTask], labels: int) -> Reliabilities:
    """Fit the accuracies of all annotators and models.

    Tasks with one annotator and without ground truth are left out: models alone judge nobody. The order of
    the tasks changes the result by no more than rounding.

    Args:
        tasks: the tasks that people labelled.
        labels: M, the number of labels of the question, at least 2.

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
        return Reliabilities({}, {}, 0)
    coins = Coins(judged, labels)
    right = coins.fit()
    known = coins.known(right).tolist()
    size = len(coins.people)
    people = {
        name: AnnotatorReliability(share, *_interval(share, worth), int(count))
        for name, share, worth, count in zip(
            coins.people, right[:size].tolist(), known[:size], coins.voted[:size].tolist(), strict=True
        )
    }
    return Reliabilities(people, dict(zip(coins.models, right[size:].tolist(), strict=True)), len(judged))


def _interval(right: float, labels: float) -> tuple[float, float]:
    """The central interval of the Beta distribution with mean ``right`` after so many labels."""
    tail = (1.0 - LEVEL) / 2.0
    low, high = betaincinv(right * labels, (1.0 - right) * labels, [tail, 1.0 - tail])
    return float(low), float(high)

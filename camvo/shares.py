"""The share of each label among all tasks, by the votes on all and the blind labels of some.

Blind tasks are chosen by a hash before any vote, and are labelled in the order of another hash
(:mod:`camvo.scores.guarantee`). Two kinds of them are a random sample of the tasks up to some round:

- all blind tasks up to it, if every one is labelled;
- the front of the first cohort's blind tasks in the order of their places.

The front of the tasks of several cohorts is not a random sample. It is labelled only after the first cohort,
so it would be taken only if, by chance, none of the later tasks has a place in it.

Only answers that count in the queue are considered, so a skipped task is never in the sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from camvo.errors import InvalidParameterError
from camvo.numerics.small import TIE
from camvo.typing import Array

_Counts = NDArray[np.int64]

_AT_ONCE = 2000
"""Cases that are summed together, which bounds the memory."""


def _count_bounds(
    marked: ArrayLike, drawn: ArrayLike, population: ArrayLike, tail: float = 0.025
) -> tuple[_Counts, _Counts]:
    """The least and the largest plausible number of marked items in a population, from a sample.

    The counts broadcast against one another. Each bound may fail with the probability ``tail``.
    """
    x, n, size = np.broadcast_arrays(
        *(np.asarray(each, dtype=np.int64) for each in (marked, drawn, population))
    )
    if not (np.all(x >= 0) and np.all(x <= n) and np.all(n <= size) and 0.0 < tail < 1.0):
        raise InvalidParameterError("need 0 ≤ marked ≤ drawn ≤ population and a tail in (0, 1)")
    low = _largest_rejected(x, n, size, tail) + 1
    # what is marked in one half of the items is not marked in the other
    high = size - (_largest_rejected(n - x, n, size, tail) + 1)
    return low, high


def _largest_rejected(x: _Counts, n: _Counts, size: _Counts, tail: float) -> _Counts:
    """The largest count of marked items with which ``x`` or more in the sample are too improbable.

    The probability of ``x`` or more rises with the count, so bisection finds it. ``x − 1`` marked items are
    too few for what the sample shows.
    """
    cases, index = np.unique(np.stack([x.ravel(), n.ravel(), size.ravel()]), axis=1, return_inverse=True)
    found = np.empty(cases.shape[1], dtype=np.int64)
    for least in range(0, cases.shape[1], _AT_ONCE):
        part = slice(least, least + _AT_ONCE)
        found[part] = _bisect(cases[0, part], cases[1, part], cases[2, part], tail)
    return found[index].reshape(x.shape)


def _bisect(x: _Counts, n: _Counts, size: _Counts, tail: float) -> _Counts:
    rejected, plausible = x - 1, size - (n - x)
    while np.any(sought := plausible - rejected > 1):
        middle = (rejected + plausible) // 2
        probable = _at_least(x, n, size, np.maximum(middle, 0)) > tail - TIE
        rejected = np.where(sought & ~probable, middle, rejected)
        plausible = np.where(sought & probable, middle, plausible)
    return rejected


def _at_least(x: _Counts, n: _Counts, size: _Counts, marked: _Counts) -> Array:
    """The probability of ``x`` or more marked items in the sample, shape (cases,).

    The tail of ``x`` that does not hold the mean is summed, over far more than the deviation √n / 2.
    """
    upper = marked * n < x * size
    steps = np.arange(30 + int(6.5 * np.sqrt(n.max())))[:, None]
    at = np.where(upper, x + steps, x - 1 - steps)
    left = size - marked
    possible = (at >= 0) & (at <= marked) & (at <= n) & (n - at <= left)
    inside = np.where(possible, at, np.maximum(n - left, 0))
    log_chance = _log_choose(marked, inside) + _log_choose(left, n - inside) - _log_choose(size, n)
    sums: Array = np.where(possible, np.exp(log_chance), 0.0).sum(axis=0)
    return np.where(upper, sums, 1.0 - sums)


def _log_choose(of: _Counts, taken: _Counts) -> Array:
    return _log_factorial(of) - _log_factorial(taken) - _log_factorial(of - taken)


def _log_factorial(of: _Counts) -> Array:
    small = _small_log_factorials()
    return small[of] if of.max() < len(small) else np.asarray(gammaln(of + 1.0))


@cache
def _small_log_factorials() -> Array:
    """A table: reading it is several times faster than computing, and most populations fit in it."""
    return np.asarray(gammaln(np.arange(1 << 17) + 1.0))


_TAIL = (1.0 - 0.95) / 2.0
"""The probability with which a share lies beyond one end of its 95% interval."""

_LEAST = 5.0
"""A label that is expected fewer times than this gets the exact interval of the sample alone."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelShares:
    """Estimated shares with 95% intervals; every array has the shape of the counts.

    Attributes:
        share: the estimate, in [0, 1].
        low: the lower bound of the interval.
        high: the upper bound.
        alone_low: the lower bound of the exact interval from the blind labels alone.
        alone_high: its upper bound.
        exact: whether the interval is that one, since the label is too rare for the other, or it is narrower.
    """

    share: Array
    low: Array
    high: Array
    alone_low: Array
    alone_high: Array
    exact: NDArray[np.bool_]


def label_shares(  # noqa: PLR0917 - the counts of one table of 2 × 2, and two sizes
    predicted: ArrayLike,
    population: int,
    drawn_predicted: ArrayLike,
    drawn: int,
    hits: ArrayLike,
    misses: ArrayLike,
) -> LabelShares:
    """Estimate shares of labels in a population of tasks.

    Args:
        predicted: tasks of the population that the models gave the label; any shape.
        population: N, all tasks.
        drawn_predicted: tasks of the sample that the models gave the label.
        drawn: n, the tasks of the sample, at least 1; a random sample of the population.
        hits: those of ``drawn_predicted`` that have the label by people.
        misses: tasks of the sample with the label by people that the models gave another one.

    >>> found = label_shares(1000, 5000, 60, 300, 57, 6)
    >>> [round(float(bound), 3) for bound in (found.share, found.low, found.high)]
    [0.21, 0.189, 0.233]
    >>> [round(float(bound), 3) for bound in (found.alone_low, found.alone_high)]
    [0.167, 0.259]
    """
    with_label, n1, x1, x0 = np.broadcast_arrays(
        *(np.asarray(each, dtype=np.int64) for each in (predicted, drawn_predicted, hits, misses))
    )
    without, n0 = population - with_label, drawn - n1
    if not (0 < drawn <= population and np.all(n1 <= with_label) and np.all(n0 <= without)):
        raise InvalidParameterError("need 0 < drawn ≤ population, and no more drawn of a stratum than it has")
    alone = tuple(bound / population for bound in _count_bounds(x1 + x0, drawn, population, _TAIL))
    share, low, high = _stratified((with_label, without), (n1, n0), (x1, x0), population, _TAIL)
    expected = drawn * share
    rare = (np.minimum(expected, drawn - expected) < _LEAST) | (np.minimum(n1, n0) < _LEAST)
    exact = rare | (high - low > alone[1] - alone[0])
    return LabelShares(
        share=np.where(exact, (x1 + x0) / drawn, share),
        low=np.where(exact, alone[0], low),
        high=np.where(exact, alone[1], high),
        alone_low=alone[0],
        alone_high=alone[1],
        exact=exact,
    )


def _stratified(
    sizes: tuple[NDArray[np.int64], ...],
    drawn: tuple[NDArray[np.int64], ...],
    found: tuple[NDArray[np.int64], ...],
    population: int,
    tail: float,
) -> tuple[Array, Array, Array]:
    """The share over all strata, and its bounds by the square-and-add rule."""
    share: Array = np.zeros(sizes[0].shape)
    below, above = share.copy(), share.copy()
    for size, n, x in zip(sizes, drawn, found, strict=True):
        middle = size * (x + (n == 0) * 0.5) / np.maximum(n, 1)
        low, high = _count_bounds(x, n, size, tail)
        share = share + middle / population
        below = below + ((middle - low) / population) ** 2
        above = above + ((high - middle) / population) ** 2
    return share, np.maximum(share - np.sqrt(below), 0.0), np.minimum(share + np.sqrt(above), 1.0)


Answer = frozenset[str]


@dataclass(frozen=True, slots=True)
class LabelShare:
    """The share of one label among all tasks, with its 95% interval; each number is in [0, 1].

    Attributes:
        label: the label.
        predicted: its share among the models' labels.
        share: the estimate of its share in truth.
        low: the lower bound of the interval.
        high: the upper bound.
        alone_low: the lower bound that the blind labels give without the models' labels.
        alone_high: the upper bound.
        exact: whether the interval is that of the blind labels alone.
    """

    label: str
    predicted: float
    share: float
    low: float
    high: float
    alone_low: float
    alone_high: float
    exact: bool


def answer_shares(
    labels: Sequence[str], predicted: Mapping[Answer, int], sample: Sequence[tuple[Answer, Answer | None]]
) -> list[LabelShare]:
    """The share of each label among all tasks, in their order; none without a known answer in the sample.

    ``predicted`` says how many tasks have each answer of the models, the sample's among them. The sample has
    the models' answer and the people's on each of its tasks, ``None`` for an unknown one.
    """
    if not any(human is not None for _, human in sample):
        return []
    population = sum(predicted.values())
    counts = [sum(n for answer, n in predicted.items() if label in answer) for label in labels]
    models = _held(labels, [answer for answer, _ in sample])
    low, middle, high = (
        label_shares(
            counts,
            population,
            (models & kept).sum(axis=0),
            int(kept.sum()),
            (models & people & kept).sum(axis=0),
            (~models & people & kept).sum(axis=0),
        )
        for models, people, kept in _readings(labels, models, [human for _, human in sample])
    )
    return [
        LabelShare(
            label,
            counts[at] / population,
            float(middle.share[at]),
            float(low.low[at]),
            float(high.high[at]),
            float(low.alone_low[at]),
            float(high.alone_high[at]),
            bool(middle.exact[at]),
        )
        for at, label in enumerate(labels)
    ]


_Reading = tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]


def _readings(
    labels: Sequence[str], models: NDArray[np.bool_], humans: Sequence[Answer | None]
) -> list[_Reading]:
    """The sample with unknown answers as "no label", without them, and with them as "every label"."""
    known = np.array([human is not None for human in humans])[:, None]
    people = _held(labels, [human or frozenset() for human in humans])
    everyone = np.ones_like(known)
    return [(models, people, everyone), (models, people, known), (models, people | ~known, everyone)]


def _held(labels: Sequence[str], answers: Sequence[Answer]) -> NDArray[np.bool_]:
    """Which labels each answer holds, shape (answers, labels)."""
    return np.array([[label in answer for label in labels] for answer in answers], dtype=bool).reshape(
        len(answers), len(labels)
    )


@dataclass(frozen=True, slots=True)
class Arrival:
    """One blind task.

    Attributes:
        round: the number of its round; rounds are numbered in the order in which they were stored.
        place: its place by the hash.
        task: its number, which decides between equal places.
        counts: whether it belongs to the run of labelled tasks that counts.
    """

    round: int
    place: int
    task: int
    counts: bool


def random_sample(arrivals: Sequence[Arrival], ends: Iterable[int]) -> tuple[list[Arrival], int] | None:
    """The labelled blind tasks that are a random sample of all tasks up to a round, and that round.

    It is the last round up to which all blind tasks are labelled, else the last one of the first cohort.
    ``None`` if there is no such sample. ``ends`` has the last round of each cohort.
    """
    descending = sorted(set(ends), reverse=True)
    for end in descending:
        queue = sorted(
            (arrival for arrival in arrivals if arrival.round <= end),
            key=lambda arrival: (arrival.place, arrival.task),
        )
        counted = [arrival for arrival in queue if arrival.counts]
        is_sample = counted == queue or (end == descending[-1] and counted == queue[: len(counted)])
        if counted and is_sample:
            return counted, end
    return None

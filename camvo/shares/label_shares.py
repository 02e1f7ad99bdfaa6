"""The share of a label among all tasks: prediction-powered inference over a random sample of blind labels.

The models gave every task a label, and people gave one to a random sample. With f = 1 for a task that the
models gave the label, and Y = 1 for a task that has it by people, prediction-powered inference (Angelopoulos,
Bates, Fannjiang, Jordan and Zrnic, Science 2023; tuned: "PPI++", arXiv 2311.01453) estimates the share by

    λ · mean of f over all tasks  +  mean of (Y − λf) over the sample.

The variance is least at λ = Cov(Y, f) / Var(f). As f is 0 or 1, the estimate with this λ is the *stratified*
one: the tasks with the label and those without are two strata, of known sizes, and the sample says how many
of each have it in truth. So the interval is made from the strata:

- Each stratum's count has exact bounds for a finite population (:mod:`camvo.shares.population_counts`), given
  how many of its tasks are in the sample, which says nothing about the counts.
- The two are added by the square-and-add rule (Newcombe 1998; Zou and Donner, "Construction of confidence
  limits about effect measures", Statistics in Medicine 2008): the distance from the estimate to each bound is
  the root of the sum of the strata's squared distances.

For large counts this is the normal interval of PPI++ with the sample's λ. For small ones it is not: where
models are nearly always right, no blind label may show an error, and the normal interval then has no width at
all. It held the truth in 4 to 8 of 10 simulated datasets whose models err on 0.3% of the tasks.

The interval is the exact one of the sample alone where

- the label is expected fewer than five times in the sample, or fewer than five tasks of a stratum are in it;
- that interval is the narrower one, as happens where the models' labels say nothing of the truth.

Every interval is for its own label. It is made for one look: the number of blind labels must not depend on
what they show.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from camvo.errors import InvalidParameterError
from camvo.shares.population_counts import count_bounds
from camvo.typing import Array

LEAST = 5.0
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
    level: float = 0.95,
) -> LabelShares:
    """Estimate shares of labels in a population of tasks.

    Args:
        predicted: tasks of the population that the models gave the label; any shape.
        population: N, all tasks.
        drawn_predicted: tasks of the sample that the models gave the label.
        drawn: n, the tasks of the sample, at least 1; a random sample of the population.
        hits: those of ``drawn_predicted`` that have the label by people.
        misses: tasks of the sample with the label by people that the models gave another one.
        level: the confidence of each interval, in (0, 1).

    Raises:
        InvalidParameterError: the counts contradict one another.

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
    tail = (1.0 - level) / 2.0
    alone = tuple(bound / population for bound in count_bounds(x1 + x0, drawn, population, tail))
    share, low, high = _stratified((with_label, without), (n1, n0), (x1, x0), population, tail)
    expected = drawn * share
    rare = (np.minimum(expected, drawn - expected) < LEAST) | (np.minimum(n1, n0) < LEAST)
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
        low, high = count_bounds(x, n, size, tail)
        share = share + middle / population
        below = below + ((middle - low) / population) ** 2
        above = above + ((high - middle) / population) ** 2
    return share, np.maximum(share - np.sqrt(below), 0.0), np.minimum(share + np.sqrt(above), 1.0)

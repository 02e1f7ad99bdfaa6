"""Pools of models that err together only because items are hard: alike, far apart, many, weak, silent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from made_up.drawing import PRICES, SHARED, Kind, MadeUp, drawn_contexts, drawn_truth, table_of, voted

ALIKE = (0.86, 0.85, 0.83, 0.82, 0.79, 0.77, 0.75)
FAR = (0.92, 0.7, 0.68, 0.67, 0.66, 0.64, 0.62)
TWO_FAR = (0.72, 0.93, 0.7, 0.69, 0.92, 0.67, 0.65)
ONE_BETTER = (0.89, 0.78, 0.77, 0.75, 0.74, 0.72, 0.7)
MANY = tuple(np.linspace(0.86, 0.66, 15).tolist())
MANY_PRICES = tuple(np.geomspace(15.0, 0.1, 15).tolist())
WEAK = (0.68, 0.67, 0.66, 0.65, 0.63, 0.61, 0.59)


def pool(
    accuracies: Sequence[float],
    labels: int,
    *,
    missing: float = 0.02,
    copies: int = 1,
    prices: Sequence[float] = PRICES,
    shared: float = SHARED,
) -> Callable[[np.random.Generator, int], MadeUp]:
    """Models with these accuracies, the dearest first.

    Args:
        accuracies: of the K models.
        labels: M.
        missing: the share of the votes that are missing.
        copies: the number of models, from the fifth on, that vote as the fifth in 99.5% of the items.
        prices: of the K models.
        shared: the item's difficulty as a share of the latent variance.
    """
    return partial(
        _draw, tuple(accuracies), labels, missing=missing, copies=copies, prices=tuple(prices), shared=shared
    )


def _draw(
    accuracies: Sequence[float],
    labels: int,
    rng: np.random.Generator,
    n: int,
    *,
    missing: float,
    copies: int,
    prices: Sequence[float],
    shared: float,
) -> MadeUp:
    truth, ease = drawn_truth(rng, n, labels), rng.normal(size=n)
    votes = voted(rng, truth, accuracies, labels, ease=ease, shared=shared)
    for copy in range(5, 4 + copies):
        same = rng.random(n) < 0.995
        votes[same, copy] = votes[same, 4]
    votes[rng.random(votes.shape) < missing] = -1
    return MadeUp(table_of(votes, truth, drawn_contexts(rng, truth, labels, ease), labels, prices))


KINDS = (
    Kind("alike", 14000, 2, pool(ALIKE, 2)),
    Kind("alike, few items", 1400, 2, pool(ALIKE, 2)),
    Kind("alike, 5 labels", 5000, 5, pool(ALIKE, 5)),
    Kind("alike, 20 labels", 1400, 20, pool(ALIKE, 20)),
    Kind("the dearest far better", 5000, 5, pool(FAR, 5)),
    Kind("the cheapest far better", 5000, 5, pool(FAR[::-1], 5)),
    Kind("the fourth near chance", 5000, 10, pool((*ALIKE[:3], 0.15, *ALIKE[4:]), 10)),
    Kind("20% of the votes missing", 6000, 4, pool(ALIKE, 4, missing=0.2)),
    Kind("three near-copies", 5000, 4, pool(ALIKE, 4, copies=3)),
    Kind("all of these at once", 7000, 20, pool((*FAR[:3], 0.1, *FAR[4:]), 20, missing=0.1, copies=3)),
    Kind("15 models", 6000, 4, pool(MANY, 4, prices=MANY_PRICES)),
    Kind("22 labels", 6000, 22, pool(ALIKE, 22)),
    Kind("two far better of seven", 6000, 5, pool(TWO_FAR, 5)),
    Kind("one of seven far better", 6000, 5, pool(ONE_BETTER, 5, shared=0.6)),
    Kind("weak voters on two labels", 6000, 2, pool(WEAK, 2, shared=0.3)),
    Kind("steady", 20000, 4, pool(ALIKE, 4)),
)

"""Models that err together beyond the items' difficulty: one vendor's models, copies, biased services."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.special import ndtri

from made_up.drawing import (
    Kind,
    MadeUp,
    cast_votes,
    drawn_contexts,
    drawn_decoys,
    drawn_latent,
    drawn_truth,
    table_of,
    voted,
)

STRONG = (0.84, 0.83, 0.82, 0.81)
RELATED = (0.77, 0.76, 0.75)
COPIED = (0.68, 0.67, 0.66)
SERVICES = (3.5, 2.5, 0.75, 0.001)
RIGHT_ON_FIRST, RIGHT_ON_SECOND = (0.92, 0.89, 0.97, 0.98), (0.9, 0.87, 0.46, 0.42)


def related(rng: np.random.Generator, n: int) -> MadeUp:
    """Three weak models that agree on some 88% of the items, since they share what the others do not."""
    labels = 4
    truth, ease, kinship = drawn_truth(rng, n, labels), rng.normal(size=n), rng.normal(size=n)
    strong = voted(rng, truth, STRONG, labels, ease=ease, shared=0.45)
    latent = drawn_latent(rng, 0.5 * ease + np.sqrt(0.75) * kinship, len(RELATED), 0.94)
    weak = cast_votes(
        rng, truth, latent > -ndtri(RELATED), labels, decoys=drawn_decoys(rng, truth, labels), decoy=0.9
    )
    votes = np.hstack([strong, weak])
    return MadeUp(table_of(votes, truth, drawn_contexts(rng, truth, labels, ease), labels))


def copying(labels: int) -> Callable[[np.random.Generator, int], MadeUp]:
    """The two cheapest of seven models say the same as the fifth in three of four items."""
    return partial(_copying, labels)


def _copying(labels: int, rng: np.random.Generator, n: int) -> MadeUp:
    truth, ease = drawn_truth(rng, n, labels), rng.normal(size=n)
    votes = voted(rng, truth, (*STRONG, *COPIED), labels, ease=ease, shared=0.4)
    for copy in (5, 6):
        same = rng.random(n) < 0.75
        votes[same, copy] = votes[same, 4]
    return MadeUp(table_of(votes, truth, drawn_contexts(rng, truth, labels, ease), labels))


def biased(rng: np.random.Generator, n: int) -> MadeUp:
    """Two of four services call half of the second label's items the first, and nearly the same half."""
    truth, ease = drawn_truth(rng, n, 2), rng.normal(size=n)
    chances = np.where(truth[:, None] == 0, RIGHT_ON_FIRST, RIGHT_ON_SECOND)
    votes = voted(rng, truth, chances, 2, ease=ease, shared=0.7)
    return MadeUp(table_of(votes, truth, drawn_contexts(rng, truth, 2, ease), 2, SERVICES))


KINDS = (
    Kind("two biased services of four", 25000, 2, biased),
    Kind("three weak related models of seven", 6000, 4, related),
    Kind("three copy one another, 4 labels", 6000, 4, copying(4)),
    Kind("three copy one another, 2 labels", 6000, 2, copying(2)),
)

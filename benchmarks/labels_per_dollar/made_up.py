"""Synthetic vote tables: other numbers of labels and items, other models, missing votes.

Items differ in difficulty, which correlates the correctness of the models' votes at 0.4 to 0.6, as in real
tables. A wrong vote names the item's decoy in 60% of the cases and any wrong label otherwise. The contexts
are noise with weak traces of the difficulty and of the right label.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from camvo.replays.votes_table import VotesTable

PRICES = (15.0, 10.0, 5.0, 3.5, 1.2, 0.9, 0.35)
_SHARED = 0.8
"""The item's difficulty as a share of the latent variance."""
_DECOY = 0.6
_DIMENSION = 16


@dataclass(frozen=True)
class Kind:
    """A kind of table: seven models with these accuracies, the dearest first."""

    name: str
    items: int
    labels: int
    accuracies: tuple[float, ...]
    missing: float = 0.02
    copies: int = 1
    """The number of models, from the fifth on, that vote as the fifth in 99.5% of the items."""


ALIKE = (0.86, 0.85, 0.83, 0.82, 0.79, 0.77, 0.75)
FAR = (0.92, 0.7, 0.68, 0.67, 0.66, 0.64, 0.62)
KINDS = (
    Kind("alike", 14000, 2, ALIKE),
    Kind("alike", 1400, 2, ALIKE),
    Kind("alike", 5000, 5, ALIKE),
    Kind("alike", 1400, 20, ALIKE),
    Kind("the dearest far better", 5000, 5, FAR),
    Kind("the cheapest far better", 5000, 5, FAR[::-1]),
    Kind("the fourth near chance", 5000, 10, (*ALIKE[:3], 0.15, *ALIKE[4:])),
    Kind("20% of the votes missing", 5000, 4, ALIKE, missing=0.2),
    Kind("three near-copies", 5000, 4, ALIKE, copies=3),
    Kind("all of these at once", 7000, 20, (*FAR[:3], 0.1, *FAR[4:]), missing=0.1, copies=3),
)


def drawn(kind: Kind, seed: int) -> VotesTable:
    """Draw a table of that kind; the same seed draws the same table."""
    rng = np.random.default_rng([seed, kind.items, kind.labels])
    n, models, m = kind.items, len(PRICES), kind.labels
    share = 1.0 / np.sqrt(np.arange(1, m + 1))
    truth = rng.choice(m, n, p=share / share.sum())
    ease = rng.normal(size=n)
    noise = rng.normal(size=(n, models))
    latent = np.sqrt(_SHARED) * ease[:, None] + np.sqrt(1.0 - _SHARED) * noise
    right = latent > -ndtri(np.array(kind.accuracies))
    decoy = (truth + rng.integers(1, m, size=n)) % m
    other = (truth[:, None] + rng.integers(1, m, size=(n, models))) % m
    wrong = np.where(rng.random((n, models)) < _DECOY, decoy[:, None], other)
    votes = np.where(right, truth[:, None], wrong)
    for copy in range(5, 4 + kind.copies):
        same = rng.random(n) < 0.995
        votes[same, copy] = votes[same, 4]
    votes[rng.random((n, models)) < kind.missing] = -1
    contexts = rng.normal(size=(n, _DIMENSION))
    contexts += 0.5 * ease[:, None] * rng.normal(size=_DIMENSION)
    contexts += 0.5 * rng.normal(size=(m, _DIMENSION))[truth]
    contexts /= np.linalg.norm(contexts, axis=1, keepdims=True)
    names = tuple(f"model {number}" for number in range(1, models + 1))
    labels = tuple(f"{label:02d}" for label in range(m))
    return VotesTable(labels, dict(zip(names, PRICES, strict=True)), contexts, votes, truth)

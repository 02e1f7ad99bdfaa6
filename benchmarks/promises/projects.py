"""Made-up projects on which the promise of ``agreement`` is tested.

Models err together, because items differ in difficulty. A wrong vote names the item's decoy in 60% of the
cases, and any wrong label otherwise. Contexts are noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from camvo.replays.replay import VotesTable

TASKS = 6000
_SHARED = 0.8
"""The item's difficulty as a share of the latent variance."""
_DECOY = 0.6

_ALIKE = (0.86, 0.85, 0.83, 0.82, 0.79, 0.77, 0.75)


@dataclass(frozen=True)
class Kind:
    """A kind of project. Models have these accuracies, the dearest first; prices fall by 0.6 at each step."""

    name: str
    labels: int
    accuracies: tuple[float, ...]
    missing: float = 0.02


KINDS = (
    Kind("20% of the votes missing", 4, _ALIKE, missing=0.2),
    Kind("15 models", 4, tuple(np.linspace(0.88, 0.7, 15).round(3).tolist())),
    Kind("22 labels", 22, _ALIKE),
    Kind("two far better of seven", 4, (0.92, 0.91, 0.7, 0.69, 0.68, 0.67, 0.66)),
)


def drawn(kind: Kind, seed: int, items: int = TASKS) -> VotesTable:
    """Draw a project of that kind; the same seed draws the same project."""
    rng = np.random.default_rng([seed, kind.labels, len(kind.accuracies)])
    shape, m = (items, len(kind.accuracies)), kind.labels
    share = 1.0 / np.sqrt(np.arange(1, m + 1))
    truth = rng.choice(m, items, p=share / share.sum())
    latent = np.sqrt(_SHARED) * rng.normal(size=(items, 1)) + np.sqrt(1.0 - _SHARED) * rng.normal(size=shape)
    decoy = (truth + rng.integers(1, m, size=items)) % m
    other = (truth[:, None] + rng.integers(1, m, size=shape)) % m
    wrong = np.where(rng.random(shape) < _DECOY, decoy[:, None], other)
    votes = np.where(latent > -ndtri(np.array(kind.accuracies)), truth[:, None], wrong)
    votes[rng.random(shape) < kind.missing] = -1
    prices = {f"model {number}": 10.0 * 0.6**number for number in range(shape[1])}
    labels = tuple(f"{label:02d}" for label in range(m))
    return VotesTable(labels, prices, rng.normal(size=(items, 2)), votes, truth)

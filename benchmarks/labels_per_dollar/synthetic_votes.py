"""A synthetic table of votes whose contexts say which models are likely to be right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from camvo.replays.replay import VotesTable

_TOPICS = 6
_SPREAD = 0.35
"""The typical distance of an item from the centre of its topic, whose norm is 1."""


@dataclass(frozen=True, slots=True)
class SyntheticModel:
    """A model of a synthetic table.

    Attributes:
        accuracy: its mean accuracy over items, in (0, 1).
        price: the cost of asking it about one item. All models have the same unit.
    """

    accuracy: float
    price: float


def draw_votes_table(
    models: Mapping[str, SyntheticModel],
    *,
    items: int,
    labels: tuple[str, ...],
    seed: int,
    dimension: int = 32,
    correlation: float = 0.2,
    skill_spread: float = 0.35,
) -> VotesTable:
    """Draw a table of votes whose contexts predict which models are likely to be right.

    Each item belongs to one of six topics. The context of an item is close to the centre of its topic, and
    each model has a skill for each topic. A Gaussian copula correlates the errors of the models on an item.
    ``correlation`` is that of the latent errors, and ``skill_spread`` the standard deviation of a model's
    skills over topics, on the probit scale. A wrong vote names the item's decoy in half of the cases, and
    otherwise any wrong label.
    """
    rng = np.random.default_rng(seed)
    topic = rng.integers(_TOPICS, size=items)
    centres = rng.normal(size=(_TOPICS, dimension))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    noise = rng.normal(size=(items, dimension)) / np.sqrt(dimension)
    contexts = centres[topic] + _SPREAD * noise
    contexts /= np.linalg.norm(contexts, axis=1, keepdims=True)

    accuracy = np.array([model.accuracy for model in models.values()])
    skill = rng.normal(scale=skill_spread, size=(_TOPICS, len(models)))
    right = ndtr(ndtri(accuracy) * np.sqrt(1.0 + skill_spread**2) + skill)[topic]
    shared, own = rng.normal(size=(items, 1)), rng.normal(size=(items, len(models)))
    latent = np.sqrt(correlation) * shared + np.sqrt(1.0 - correlation) * own

    truth = rng.integers(len(labels), size=items)
    decoy = (truth + rng.integers(1, len(labels), size=items)) % len(labels)
    other = (truth[:, None] + rng.integers(1, len(labels), size=right.shape)) % len(labels)
    wrong = np.where(rng.random(right.shape) < 0.5, decoy[:, None], other)
    votes = np.where(ndtr(latent) < right, truth[:, None], wrong)
    prices = {name: model.price for name, model in models.items()}
    return VotesTable(labels, prices, contexts, votes.astype(np.int64), truth.astype(np.int64))

"""A synthetic table of votes: models that are good at different things and often wrong together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from camvo.replays.votes_table import VotesTable

_TOPICS = 6
_SPREAD = 0.35
"""How far an item lies from the centre of its topic, as a share of a unit vector."""


@dataclass(frozen=True, slots=True)
class SyntheticModel:
    """A model of the synthetic table: mean accuracy, and price in any one unit."""

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
    """Draw a table of votes whose contexts say something about who is right.

    Items belong to topics, a topic shows in the context, and every model has a skill of its own for each
    topic. Whether a model is right about an item is drawn from a Gaussian copula, so that models err
    together; at least half of the wrong answers are the same tempting label.

    Args:
        models: name → accuracy and price.
        items: n, the number of items.
        labels: the label set, at least two.
        seed: the same seed gives the same table.
        dimension: d of the contexts, which are unit vectors.
        correlation: of the latent errors, in [0, 1).
        skill_spread: standard deviation of a model's skill over topics, on the probit scale.
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
    tempting = (truth + rng.integers(1, len(labels), size=items)) % len(labels)
    other = (truth[:, None] + rng.integers(1, len(labels), size=right.shape)) % len(labels)
    wrong = np.where(rng.random(right.shape) < 0.5, tempting[:, None], other)
    votes = np.where(ndtr(latent) < right, truth[:, None], wrong)
    prices = {name: model.price for name, model in models.items()}
    return VotesTable(labels, prices, contexts, votes.astype(np.int64), truth.astype(np.int64))

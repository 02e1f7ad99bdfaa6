"""Projects whose votes change on the way: harder items, a model that breaks, items sorted by difficulty."""

from __future__ import annotations

import numpy as np

from made_up.drawing import Kind, MadeUp, drawn_contexts, drawn_truth, table_of, voted
from made_up.pools import ALIKE

LABELS = 4
HARDER = 0.8
"""How much harder the last third is, in standard deviations of the items' difficulty."""


def harder(rng: np.random.Generator, n: int) -> MadeUp:
    """The last third of the items is harder for every model."""
    change = 2 * n // 3
    ease = rng.normal(size=n) - HARDER * (np.arange(n) >= change)
    return _voted(rng, ease, change)


def breaking(rng: np.random.Generator, n: int) -> MadeUp:
    """The second cheapest model answers at random from two thirds of the items on."""
    change = 2 * n // 3
    made_up = _voted(rng, rng.normal(size=n), change)
    made_up.table.votes[change:, 5] = rng.integers(LABELS, size=n - change)
    return made_up


def by_difficulty(rng: np.random.Generator, n: int) -> MadeUp:
    """The easiest items come first."""
    return _voted(rng, np.sort(rng.normal(size=n))[::-1], 0)


def _voted(rng: np.random.Generator, ease: np.ndarray, change: int) -> MadeUp:
    truth = drawn_truth(rng, len(ease), LABELS)
    votes = voted(rng, truth, ALIKE, LABELS, ease=ease)
    votes[rng.random(votes.shape) < 0.02] = -1
    contexts = drawn_contexts(rng, truth, LABELS, ease)
    return MadeUp(table_of(votes, truth, contexts, LABELS), change=change)


KINDS = (
    Kind("the last third harder", 6000, LABELS, harder, in_order=True),
    Kind("a model that breaks", 6000, LABELS, breaking, in_order=True),
    Kind("sorted by difficulty", 6000, LABELS, by_difficulty, in_order=True),
)

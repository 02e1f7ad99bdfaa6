"""Tables on which a vote's worth depends on the item: its text, task or language, or on its confidence."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from correlated_votes import draw_correlated_rounds, equal_correlation
from scipy.special import expit, ndtr, ndtri

from made_up.drawing import (
    PRICES,
    Kind,
    MadeUp,
    cast_votes,
    drawn_contexts,
    drawn_latent,
    drawn_truth,
    table_of,
    voted,
)
from made_up.families import SERVICES
from made_up.pools import ALIKE

TASKS = 12
LANGUAGES = ("de", "en", "es", "fr", "it", "ja", "zh")
OWN_CONFIDENCE = (0.89, 0.82, 0.82, 0.64)
SHARPNESS = (1.5, 6.0, 1.0, 12.0)
"""How fast each service's stated confidence rises with the evidence that it has; 1.8 would be honest."""
_SPREAD = 0.35
"""The distance of an item's context from the centre of its group, whose norm is 1."""


def by_context(rng: np.random.Generator, n: int) -> MadeUp:
    """The paper's Appendix H, γ = 0 and α = 0.1: who is right depends linearly on the context."""
    seed, votes = rng.integers(2**32, size=2).tolist()
    rounds = draw_correlated_rounds(equal_correlation(0.0), rounds=n, seed=seed, alpha=0.1)
    return MadeUp(rounds.draw_votes_table(seed=votes))


def confident(rng: np.random.Generator, n: int) -> MadeUp:
    """Four services that say how sure they are, each on its own scale; the sure ones are more often right."""
    truth, ease = drawn_truth(rng, n, 2), rng.normal(size=n)
    evidence = drawn_latent(rng, ease, len(SERVICES), 0.4) + ndtri(OWN_CONFIDENCE)
    votes = cast_votes(rng, truth, evidence > 0.0, 2)
    felt = np.abs(evidence + 0.5 * rng.normal(size=evidence.shape))
    confidences = expit(np.array(SHARPNESS) * felt)
    contexts = drawn_contexts(rng, truth, 2, ease)
    return MadeUp(table_of(votes, truth, contexts, 2, SERVICES), confidences=confidences)


def grouped(
    names: tuple[str, ...], labels: int, skill: float, difficulty: float
) -> Callable[[np.random.Generator, int], MadeUp]:
    """Groups of items on which other models are better; the context and a column of the data say which.

    Args:
        names: of the groups.
        labels: M.
        skill: the standard deviation of a model's skill over groups, on the probit scale.
        difficulty: the standard deviation of the groups' own difficulty, on the same scale.
    """
    return lambda rng, n: _grouped(rng, n, names=names, labels=labels, skills=(skill, difficulty))


def _grouped(
    rng: np.random.Generator, n: int, *, names: tuple[str, ...], labels: int, skills: tuple[float, float]
) -> MadeUp:
    truth, group = drawn_truth(rng, n, labels), rng.integers(len(names), size=n)
    own = rng.normal(scale=skills[0], size=(len(names), len(PRICES)))
    difficulty = rng.normal(scale=skills[1], size=(len(names), 1))
    chances = ndtr(ndtri(ALIKE) + own + difficulty)[group]
    votes = voted(rng, truth, chances, labels, shared=0.6)
    votes[rng.random(votes.shape) < 0.02] = -1
    dimension = 32
    centres = rng.normal(size=(len(names), dimension))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    contexts = centres[group] + _SPREAD * rng.normal(size=(n, dimension)) / np.sqrt(dimension)
    contexts /= np.linalg.norm(contexts, axis=1, keepdims=True)
    return MadeUp(table_of(votes, truth, contexts, labels), groups=tuple(names[which] for which in group))


_TASK_NAMES = tuple(f"task {number:02d}" for number in range(1, TASKS + 1))

KINDS = (
    Kind("skill depends on the text", 10000, 2, by_context),
    Kind("confidences that tell", 12000, 2, confident),
    Kind("twelve tasks in one stream", 8000, 4, grouped(_TASK_NAMES, 4, 0.4, 0.6)),
    Kind("seven languages", 7000, 10, grouped(LANGUAGES, 10, 0.5, 0.2)),
)

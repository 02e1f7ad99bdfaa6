"""Fixed sets of models that vote on every item: their accuracy, and their Pareto frontier."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from camvo.errors import InvalidParameterError
from camvo.numerics.tolerances import TIE
from camvo.typing import Array

MOST_SETS = 2**12 - 1
"""The number of non-empty sets of 12 models. With more models, a sample of about this size is drawn."""

_CHUNK = 2**23
"""The number of sums of weights that are held in memory at once."""


def fixed_sets(models: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Enumerate sets of models, or draw a sample if there are more than 12 models.

    With up to 12 models, these are all 2ᴷ − 1 non-empty sets. A sample holds the single models, the set of
    all models and random sets, whose sizes are uniform. No set occurs twice.

    Args:
        models: K ≥ 1, the number of models.
        rng: the random generator of the sample.

    Returns:
        Indicator rows, shape (S, K), by ascending size: the single models first, the set of all models last.

    Raises:
        InvalidParameterError: K is 0.
    """
    if models < 1:
        raise InvalidParameterError(f"fixed sets need at least one model, got {models}")
    if 2**models - 1 <= MOST_SETS:
        numbers = np.arange(1, 2**models)
        sets = (numbers[:, None] >> np.arange(models) & 1).astype(np.bool_)
    else:
        rank = rng.random((MOST_SETS, models)).argsort(axis=1)
        sample = rank < rng.integers(1, models + 1, size=MOST_SETS)[:, None]
        extremes = np.vstack([np.eye(models, dtype=np.bool_), np.ones((1, models), dtype=np.bool_)])
        sets = np.unique(np.vstack([extremes, sample]), axis=0)
    sizes = sets.sum(axis=1)
    ordered: NDArray[np.bool_] = sets[np.lexsort((sets.argmax(axis=1), sizes))]
    return ordered


def set_accuracy(
    sets: NDArray[np.bool_], votes: NDArray[np.int64], weights: Array, truth: NDArray[np.int64], count: int
) -> Array:
    """Compute the accuracy of the weighted vote of each set.

    Sums of weights that differ by less than 1e-12 are tied, and the label that comes first wins, as in
    :func:`camvo.votes.labels.weighted_vote`. A set is wrong on an item if none of its models voted. Items on
    which the models agree and disagree in the same way are counted together, so that thousands of sets are
    affordable.

    Args:
        sets: indicator rows, shape (S, K).
        votes: label positions, shape (n, K); −1 where a model gave no vote.
        weights: the weight of each model's vote, at least 0, shape (K,).
        truth: the position of the right label, shape (n,). Items with −1 are ignored.
        count: M, the number of labels.

    Returns:
        The share of items on which the vote of the set is right, shape (S,).

    Raises:
        InvalidParameterError: no item has a known right label.
    """
    known = truth >= 0
    if not known.any():
        raise InvalidParameterError(
            "the accuracy of a set of models needs at least one item whose truth is known"
        )
    ranks, right_ranks = _rank_voted_labels(votes[known], truth[known], count)
    patterns, pattern_of = np.unique(ranks, axis=0, return_inverse=True)
    width = int(patterns.max()) + 1
    right_items = np.zeros((len(patterns), width))
    attainable = right_ranks >= 0
    np.add.at(right_items, (pattern_of.ravel()[attainable], right_ranks[attainable]), 1.0)
    set_weights = sets * np.maximum(weights, np.finfo(np.float64).tiny)
    right = np.zeros(len(sets))
    step = max(1, _CHUNK // (len(sets) * max(width, 1)))
    for start in range(0, len(patterns) if width else 0, step):
        chunk = slice(start, start + step)
        cast = (patterns[chunk].T[:, :, None] == np.arange(width)).astype(np.float64)
        sums = (set_weights @ cast.reshape(len(weights), -1)).reshape(len(sets), -1, width)
        top = sums.max(axis=2, keepdims=True)
        winner = ((sums >= top - TIE) & (sums > 0.0)).argmax(axis=2)
        won = right_items[chunk][np.arange(winner.shape[1]), winner]
        right += np.where(top[:, :, 0] > 0.0, won, 0.0).sum(axis=1)
    accuracies: Array = right / known.sum()
    return accuracies


def _rank_voted_labels(
    votes: NDArray[np.int64], truth: NDArray[np.int64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Replace label positions by ranks among the labels that have a vote on the item; −1 for none.

    The vote depends only on the order of these labels, so many more items share a pattern of ranks.

    Args:
        votes: label positions, shape (n, K); −1 where a model gave no vote.
        truth: label positions, shape (n,), all known.
        count: M, the number of labels.

    Returns:
        The ranks of the votes, shape (n, K), and of the truth, shape (n,).
    """
    voted = (votes[:, :, None] == np.arange(count)).any(axis=1)
    rank = np.where(voted, voted.cumsum(axis=1) - 1, -1)
    ranks = np.where(votes >= 0, np.take_along_axis(rank, np.maximum(votes, 0), axis=1), -1)
    return ranks, rank[np.arange(len(truth)), truth]


def pareto_positions(costs: Array, values: Array) -> NDArray[np.intp]:
    """Find the options that no other option dominates by costing at most as much for at least the value.

    Of options with equal cost and value, only the first counts.

    Args:
        costs: the cost of each option, shape (S,).
        values: the value of each option, shape (S,).

    Returns:
        Positions in ascending order of cost, and therefore of value.

    >>> pareto_positions(np.array([3.0, 1.0, 2.0]), np.array([0.9, 0.7, 0.6])).tolist()
    [1, 0]
    """
    order = np.lexsort((-values, costs))
    best_cheaper = np.concatenate([[-np.inf], np.maximum.accumulate(values[order])[:-1]])
    undominated: NDArray[np.intp] = order[values[order] > best_cheaper]
    return undominated

"""What fixed sets of models would have cost and how right they would have been, and the best of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from camvo.errors import InvalidParameterError
from camvo.numerics.tolerances import TIE
from camvo.typing import Array

MOST_SETS = 2**12 - 1
"""All sets of up to 12 models; of more models this many random sets are looked at."""

_PORTION = 2**23
"""Sums of weights that are in memory together."""


def fixed_sets(models: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Sets of models, indicator rows of shape (S, K): the single models first, everyone last.

    Up to 12 models these are all 2ᴷ − 1 sets that are not empty. Of more models a sample is drawn, as many
    sets of each size but for chance; sets that come twice count once.

    Args:
        models: K ≥ 1.
        rng: draws the sample.
    """
    if models < 1:
        raise InvalidParameterError("there is no model to make sets of")
    if 2**models - 1 <= MOST_SETS:
        numbers = np.arange(1, 2**models)
        sets = (numbers[:, None] >> np.arange(models) & 1).astype(np.bool_)
    else:
        rank = rng.random((MOST_SETS, models)).argsort(axis=1)
        drawn = rank < rng.integers(1, models + 1, size=MOST_SETS)[:, None]
        ends = np.vstack([np.eye(models, dtype=np.bool_), np.ones((1, models), dtype=np.bool_)])
        sets = np.unique(np.vstack([ends, drawn]), axis=0)
    sizes = sets.sum(axis=1)
    ordered: NDArray[np.bool_] = sets[np.lexsort((sets.argmax(axis=1), sizes))]
    return ordered


def set_accuracy(
    sets: NDArray[np.bool_], votes: NDArray[np.int64], weights: Array, truth: NDArray[np.int64], count: int
) -> Array:
    """How often the weighted vote of each set names the right label, shape (S,).

    Sums of weights that differ by less than 1e-12 are tied, and the label that comes first wins, as in
    :func:`camvo.votes.labels.weighted_vote`. Where no model of a set voted, the set is wrong. Items on which
    the models are split alike are counted together, which is what makes thousands of sets affordable.

    Args:
        sets: indicator rows, shape (S, K).
        votes: positions in the label set, shape (n, K); −1 where a model gave none.
        weights: of each model's vote, not negative, shape (K,).
        truth: the position of the right label, shape (n,); items where it is −1 are left out.
        count: M, the size of the label set.

    Raises:
        InvalidParameterError: no item's right label is known.
    """
    known = truth >= 0
    if not known.any():
        raise InvalidParameterError("without a right label no set of models is right or wrong")
    ranks, hit = _ranks(votes[known], truth[known], count)
    patterns, which = np.unique(ranks, axis=0, return_inverse=True)
    width = int(patterns.max()) + 1
    items = np.zeros((len(patterns), width))
    np.add.at(items, (which.ravel()[hit >= 0], hit[hit >= 0]), 1.0)
    members = sets * np.maximum(weights, np.finfo(np.float64).tiny)
    right = np.zeros(len(sets))
    step = max(1, _PORTION // (len(sets) * max(width, 1)))
    for start in range(0, len(patterns) if width else 0, step):
        part = slice(start, start + step)
        cast = (patterns[part].T[:, :, None] == np.arange(width)).astype(np.float64)
        sums = (members @ cast.reshape(len(weights), -1)).reshape(len(sets), -1, width)
        top = sums.max(axis=2, keepdims=True)
        label = ((sums >= top - TIE) & (sums > 0.0)).argmax(axis=2)
        hits = items[part][np.arange(label.shape[1]), label]
        right += np.where(top[:, :, 0] > 0.0, hits, 0.0).sum(axis=1)
    share: Array = right / known.sum()
    return share


def _ranks(
    votes: NDArray[np.int64], truth: NDArray[np.int64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Votes and truth as positions among the labels that got a vote on the item, −1 for none.

    Which labels these are does not matter for the vote, only their order does, so that many more items are
    alike.
    """
    voted = (votes[:, :, None] == np.arange(count)).any(axis=1)
    rank = np.where(voted, voted.cumsum(axis=1) - 1, -1)
    ranks = np.where(votes >= 0, np.take_along_axis(rank, np.maximum(votes, 0), axis=1), -1)
    return ranks, rank[np.arange(len(truth)), truth]


def frontier(costs: Array, values: Array) -> NDArray[np.intp]:
    """The positions that no other one beats: none costs at most as much and is worth at least as much.

    In ascending cost, and so in ascending value. Of equal ones the first is named.

    >>> frontier(np.array([3.0, 1.0, 2.0]), np.array([0.9, 0.7, 0.6])).tolist()
    [1, 0]
    """
    order = np.lexsort((-values, costs))
    before = np.concatenate([[-np.inf], np.maximum.accumulate(values[order])[:-1]])
    best: NDArray[np.intp] = order[values[order] > before]
    return best

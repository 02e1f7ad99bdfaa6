"""Votes drawn from models whose parameters are known, for tests of :mod:`camvo.joint`."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
from numpy.typing import NDArray

from camvo.joint.models import Kinds
from camvo.joint.two_coins import TwoCoins
from camvo.joint.votes import Rows, VoteRows, renumber
from camvo.state.exploration import SILENT, UNASKED, PatternCounts, VotePattern, named_labels
from camvo.typing import Array

COINS = TwoCoins(np.array([[0.9, 0.6], [0.7, 0.8], [0.75, 0.75]]), np.array([0.4, 0.6]), np.ones(3))
"""Three arms on two labels."""


def made_up_kinds(arms: int, labels: int, *, temper: Array | None = None) -> Kinds:
    """A model of K arms on M labels with arbitrary parameters, some below chance."""
    rng = np.random.default_rng(0)
    return Kinds(
        rng.uniform(0.15, 0.97, (arms, 2)),
        rng.uniform(0.1, 0.8, 2),
        np.array([0.7, 0.3]),
        labels,
        np.ones(arms) if temper is None else temper,
    )


def draw_votes(
    accuracy: Array, *, labels: int, items: int, seed: int = 0, decoy: float = 0.0, copies: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Votes of K arms and the truth: shapes (items, K) and (items,).

    Args:
        accuracy: the probability of a right vote, shape (K,) or, for each label, (K, M).
        labels: M.
        items: the number of items.
        seed: the seed.
        decoy: the probability that a wrong vote is the item's one tempting label.
        copies: so many arms after the first vote as the first does in 95% of the items.
    """
    rng = np.random.default_rng(seed)
    truth = rng.integers(labels, size=items)
    chances = accuracy[:, truth].T if accuracy.ndim == 2 else np.tile(accuracy, (items, 1))
    arms = chances.shape[1]
    wrong = (truth[:, None] + rng.integers(1, labels, size=(items, arms))) % labels
    tempting = (truth + rng.integers(1, labels, size=items)) % labels
    wrong = np.where(rng.random((items, arms)) < decoy, tempting[:, None], wrong)
    votes = np.where(rng.random((items, arms)) < chances, truth[:, None], wrong)
    for arm in range(1, copies + 1):
        votes[:, arm] = np.where(rng.random(items) < 0.95, votes[:, 0], votes[:, arm])
    return votes, truth


def rows_of(votes: NDArray[np.int64], labels: int) -> VoteRows:
    """The rows of rounds that asked all arms; with two labels, numbers are the labels themselves."""
    rows, counts = np.unique(votes if labels == 2 else renumber(votes), axis=0, return_counts=True)
    return VoteRows(rows, counts.astype(np.float64), np.zeros(len(rows)))


def no_rounds(arms: int) -> VoteRows:
    """No rounds of K arms."""
    return VoteRows(np.zeros((0, arms), dtype=np.int64), np.zeros(0), np.zeros(0))


def every_row(arms: int, labels: int, *, silent: bool = True) -> Rows:
    """Every vote row of K arms, each arm unasked, silent or with a vote, numbered by first appearance."""
    states = [UNASKED, *([SILENT] if silent else []), *range(labels)]
    rows = np.array([*product(states, repeat=arms)], dtype=np.int64)
    return rows if labels == 2 else np.unique(renumber(rows), axis=0)


def evidence_of(
    votes: NDArray[np.int64], arms: tuple[str, ...], labels: tuple[str, ...], *, everyone: bool = True
) -> PatternCounts:
    """The vote patterns of rounds with these votes (positions among ``labels``), as a state counts them."""
    patterns = Counter(
        VotePattern.of(
            arms,
            {arm: labels[vote] for arm, vote in zip(arms, row, strict=True)},
            everyone=everyone,
            labels=named_labels(labels),
        )
        for row in votes.tolist()
    )
    return PatternCounts(dict(patterns), patterns.total())


SKILLED = Kinds(
    np.array([[0.9, 0.6], [0.97, 0.8], [0.8, 0.5]]), np.array([0.3, 0.5]), np.array([0.7, 0.3]), 3, np.ones(3)
)


def joint_probabilities(model, labels):
    """P(z, v_1 … v_K) for every z and all votes, by the definition of the model."""
    table = {}
    for votes in product(range(labels), repeat=3):
        for z in range(labels):
            if labels == 2:
                right = model.accuracy[:, z]
                chances = np.where(np.array(votes) == z, right, 1.0 - right)
                table[z, votes] = model.share[z] * np.prod(chances)
                continue
            total = 0.0
            for w, d in product(range(labels), range(2)):
                if w != z:
                    shared = model.shared[d]
                    wrong = (1.0 - shared) / (labels - 1) + shared * (np.array(votes) == w)
                    right = model.accuracy[:, d]
                    chances = np.where(np.array(votes) == z, right, (1.0 - right) * wrong)
                    total += model.share[d] * np.prod(chances) / (labels * (labels - 1))
            table[z, votes] = total
    return table


def mass(table, seen):
    """The probability of the votes ``seen`` (arm → label)."""
    return sum(p for (_, votes), p in table.items() if all(votes[arm] == vote for arm, vote in seen.items()))

"""What each arm's vote is worth, from votes alone: the one-coin model (Dawid and Skene 1979), fitted by EM.

It needs only who voted with whom (:mod:`camvo.state.vote_patterns`), but in rounds that are not selected by
their votes. Dear arms are seen on hard items alone where others end early, and since arms err together, no
model of independent errors makes up for the missing votes. :func:`complete_rounds` does, without any model.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from camvo.state.vote_patterns import UNASKED, Signature, canonical
from camvo.typing import Array

PRIOR_ROUNDS = 10.0
"""What the prior is worth: every arm is as good as the mean, up to 3% better or worse by the rank of its
price. With little evidence a dear model is the better bet, and a tie goes to the dearer side."""

_PRICE = 0.03
_START = 0.7
LEAST_WEIGHT = 0.01
_ITERATIONS = 30
_LOWEST, _HIGHEST = 0.02, 0.995


def complete_rounds(
    rows: Mapping[Signature, int], everyone: Mapping[Signature, int]
) -> dict[Signature, float]:
    """The rounds as if everyone had been asked in each: the votes that are missing are those of their like.

    A round that ended early stands for rounds that had the same votes and asked everyone by chance, in
    the proportions in which those came; where there are none it stays as it is. A round that went to the end
    stands for itself. So every round counts once, whatever its votes led to.

    Args:
        rows: the coin's rounds → how many there were.
        everyone: those of them that asked everyone whatever the votes.
    """
    complete: dict[Signature, float] = {}
    alike: dict[tuple[int, ...], dict[Signature, dict[Signature, int]]] = {}
    for groups, count in sorted(rows.items()):
        asked = tuple(position for position, group in enumerate(groups) if group != UNASKED)
        like = {groups: 1}
        if len(asked) < len(groups):
            if asked not in alike:
                alike[asked] = _by_votes(everyone, asked)
            like = alike[asked].get(tuple(groups[position] for position in asked), like)
        share = count / sum(like.values())
        for other, n in like.items():
            complete[other] = complete.get(other, 0.0) + share * n
    return complete


def _by_votes(
    everyone: Mapping[Signature, int], asked: tuple[int, ...]
) -> dict[Signature, dict[Signature, int]]:
    """The rounds by what the arms at the positions ``asked`` voted in them."""
    found: dict[Signature, dict[Signature, int]] = {}
    for groups, count in sorted(everyone.items()):
        votes = canonical(groups[position] for position in asked)
        found.setdefault(votes, {})[groups] = count
    return found


def accuracies(patterns: Mapping[Signature, float], prices: Array, labels: int) -> Array:
    """The probability that each arm is right, shape (K,), in [0.02, 0.995].

    Args:
        patterns: the groups of all K arms in a round → how many rounds were like that.
        prices: of the arms, any one unit, shape (K,).
        labels: M, the number of labels.
    """
    size = len(prices)
    rank = np.sign(prices[:, None] - prices).sum(axis=1) / max(size - 1, 1)
    lean = 1.0 + _PRICE * rank
    right: Array = _START * lean
    if not patterns:
        return right
    groups = np.array(list(patterns), dtype=np.int64).reshape(-1, size)
    counts = np.array(list(patterns.values()), dtype=np.float64)
    member = groups[:, :, None] == np.arange(size)
    named = member.any(axis=1)
    unnamed = np.maximum(labels - named.sum(axis=1), 0)
    voted = counts @ (groups >= 0)
    for _ in range(_ITERATIONS):
        odds = np.log(right * max(labels - 1, 1) / (1.0 - right))
        evidence = np.einsum("nkg,k->ng", member, odds)
        top = np.maximum(evidence.max(axis=1, where=named, initial=-np.inf), 0.0)
        chance = np.where(named, np.exp(np.minimum(evidence - top[:, None], 0.0)), 0.0)
        total = chance.sum(axis=1) + unnamed * np.exp(-top)
        chance *= np.divide(counts, total, out=np.zeros_like(total), where=total > 0.0)[:, None]
        expected = np.einsum("nkg,ng->k", member, chance)
        mean = expected.sum() / max(voted.sum(), 1.0)
        fitted = (expected + PRIOR_ROUNDS * mean * lean) / (voted + PRIOR_ROUNDS)
        right = np.clip(fitted, _LOWEST, _HIGHEST)
    return right


def log_odds(right: Array) -> Array:
    """ω = ln p/(1 − p), at least 0.01: the best weights where two labels compete (Nitzan and Paroush 1982).

    There are two of them nearly always, however many labels there are: arms that err do not scatter over
    the others, they fall for the same one. An arm that is wrong more often than right decides ties only.

    Args:
        right: p, the arms' :func:`accuracies`, shape (K,).
    """
    odds: Array = np.log(right) - np.log1p(-right)
    return np.maximum(odds, LEAST_WEIGHT)

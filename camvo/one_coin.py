"""How accurate each arm is, from votes alone: the one-coin model (Dawid and Skene 1979), fitted by EM.

It needs only who voted with whom (:mod:`camvo.probes`), and only rounds in which everybody was asked: among
rounds that ended early the dear arms are seen on hard items alone, and since arms err together, no model of
independent errors makes up for it (measured: on one real table such weights cost 0.5 points of accuracy).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.stats import rankdata

from camvo.probes import Signature
from camvo.typing import Array

PRIOR_ROUNDS = 10.0
"""What the prior is worth: every arm is as good as the mean, up to 10% better or worse by the rank of its
price. With little evidence a dear model is the better bet, and a tie goes to the dearer side."""

_PRICE = 0.1
_START = 0.7
_ITERATIONS = 30
_LOWEST, _HIGHEST = 0.02, 0.995


def accuracies(patterns: Mapping[Signature, int], prices: Array, labels: int) -> Array:
    """The probability that each arm is right, shape (K,), in [0.02, 0.995].

    Args:
        patterns: the groups of all K arms in a round → how many rounds were like that.
        prices: of the arms, any one unit, shape (K,).
        labels: M, the number of labels.
    """
    size = len(prices)
    rank = (rankdata(prices) - 1.0) / max(size - 1, 1) * 2.0 - 1.0
    lean = 1.0 + _PRICE * (rank - rank.mean())
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

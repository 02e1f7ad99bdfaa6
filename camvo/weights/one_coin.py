"""The accuracy of each arm from votes alone: the one-coin model (Dawid and Skene 1979), fitted by EM.

The fit needs only the vote patterns (:mod:`camvo.state.vote_patterns`), from rounds that were not selected by
their votes. If easy rounds end early, dear arms vote on hard items only. Arms err together, so no model of
independent errors can make up for the missing votes. :func:`complete_rounds` does so without a model.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from camvo.state.vote_patterns import UNASKED, Signature, canonical
from camvo.typing import Array

PRIOR_ROUNDS = 10.0
"""The weight of the prior in rounds. The prior accuracy of an arm is the mean accuracy of all arms, up to 3%
more or less by the rank of its price: with little evidence, a dearer model is more likely to be right."""

_PRICE_EFFECT = 0.03
_INITIAL_ACCURACY = 0.7
LEAST_WEIGHT = 0.01
"""The smallest ω of an arm: an arm that is wrong more often than right only breaks ties."""

_ITERATIONS = 30
_LOWEST, _HIGHEST = 0.02, 0.995


def complete_rounds(
    rows: Mapping[Signature, int], everyone: Mapping[Signature, int]
) -> dict[Signature, float]:
    """Impute the missing votes of rounds that ended early, as if every round had asked all arms.

    A round that asked some arms is replaced by rounds with the same votes of these arms that asked all arms
    at random, in the proportions in which those occurred. If there are none, it stays as it is. A round that
    asked all arms stays as it is. Every round therefore counts once, whatever its votes led to.

    Args:
        rows: signature → number of rounds, over all rounds that are not selected by their votes.
        everyone: the same for those of them that asked all arms whatever the votes.

    Returns:
        Signature → number of rounds, not necessarily whole.
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
    """Group the rounds by the votes of the arms at the positions ``asked``."""
    by_votes: dict[Signature, dict[Signature, int]] = {}
    for groups, count in sorted(everyone.items()):
        votes = canonical(groups[position] for position in asked)
        by_votes.setdefault(votes, {})[groups] = count
    return by_votes


def accuracies(patterns: Mapping[Signature, float], prices: Array, labels: int) -> Array:
    """Estimate the probability that each arm is right, by EM.

    Args:
        patterns: the signature of all K arms → number of rounds.
        prices: the price of each arm, in any one unit, shape (K,).
        labels: M, the number of labels.

    Returns:
        The accuracies, shape (K,), in [0.02, 0.995].
    """
    if not patterns:
        return _prior(prices)
    groups = np.array(list(patterns), dtype=np.int64).reshape(-1, len(prices))
    counts = np.array(list(patterns.values()), dtype=np.float64)
    right: Array = fit_accuracies(groups, counts[None], prices, labels)[0]
    return right


def fit_accuracies(groups: NDArray[np.int64], counts: Array, prices: Array, labels: int) -> Array:
    """Estimate the accuracies B times over: the same patterns, each time with other counts.

    Args:
        groups: the n patterns of the K arms, shape (n, K), n ≥ 1.
        counts: how often each pattern occurs each time, ≥ 0, shape (B, n).
        prices: the price of each arm, in any one unit, shape (K,).
        labels: M, the number of labels.

    Returns:
        The accuracies, shape (B, K), in [0.02, 0.995].
    """
    n, size = groups.shape
    draws = len(counts)
    lean = _lean(prices)
    member = (groups[:, :, None] == np.arange(size)).astype(np.float64)
    named = member.any(axis=1)
    unnamed = np.maximum(labels - named.sum(axis=1), 0)
    by_group = member.transpose(0, 2, 1).reshape(n * size, size)
    voted = counts @ (groups >= 0)
    right: Array = np.repeat(_prior(prices)[None], draws, axis=0)
    for _ in range(_ITERATIONS):
        odds = np.log(right * max(labels - 1, 1) / (1.0 - right))
        evidence = (odds @ by_group.T).reshape(draws, n, size)
        evidence = np.where(named, evidence, -np.inf)
        top = np.maximum(evidence.max(axis=2), 0.0)
        chance = np.exp(evidence - top[:, :, None])
        total = chance.sum(axis=2) + unnamed * np.exp(-top)
        chance *= np.divide(counts, total, out=np.zeros_like(total), where=total > 0.0)[:, :, None]
        expected = chance.reshape(draws, n * size) @ by_group
        mean = expected.sum(axis=1) / np.maximum(voted.sum(axis=1), 1.0)
        fitted = (expected + PRIOR_ROUNDS * mean[:, None] * lean) / (voted + PRIOR_ROUNDS)
        right = np.clip(fitted, _LOWEST, _HIGHEST)
    return right


def _prior(prices: Array) -> Array:
    """The accuracies before any round, shape (K,)."""
    return np.asarray(_INITIAL_ACCURACY * _lean(prices), dtype=np.float64)


def _lean(prices: Array) -> Array:
    """How much more or less often than the mean arm each arm is right by its price, shape (K,)."""
    size = len(prices)
    rank = np.sign(prices[:, None] - prices).sum(axis=1) / max(size - 1, 1)
    return np.asarray(1.0 + _PRICE_EFFECT * rank, dtype=np.float64)


def log_odds(right: Array) -> Array:
    """Compute ω = ln p/(1 − p), at least 0.01: the best weights for two labels (Nitzan and Paroush 1982).

    Nearly always only two labels compete, however many there are, because arms that err tend to choose the
    same wrong label.

    Args:
        right: p, the :func:`accuracies` of the arms, shape (K,).

    Returns:
        ω, shape (K,).
    """
    odds: Array = np.log(right) - np.log1p(-right)
    return np.maximum(odds, LEAST_WEIGHT)

"""The weights of the arms' votes: from agreement with the other arms, corrected by human labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from camvo.state.vote_patterns import PatternCounts, Signature, VotePattern, canonical
from camvo.typing import Array
from camvo.weights.near_copies import near_copies_in
from camvo.weights.one_coin import LEAST_WEIGHT, accuracies, complete_rounds, log_odds
from camvo.weights.stacking import StackedVote


@lru_cache(maxsize=64)
def weights_by_agreement(
    evidence: PatternCounts, order: tuple[str, ...], shares: tuple[float, ...], labels: int
) -> tuple[float, ...]:
    """Compute ω of the arms from their agreement in the rounds that were selected at random.

    Only the first of several near-copies has a weight, so that the others need not be asked. Results are
    cached by the identity of ``evidence``.

    Args:
        evidence: the vote patterns of the rounds that were selected at random, not by their votes.
        order: the K arms, cheapest first.
        shares: the cost of each arm in ``order``, in any one unit, length K.
        labels: M, the number of labels.

    Returns:
        ω ≥ 0 of the arms in ``order``, length K.
    """
    pools: dict[frozenset[str], _Pool] = {}
    for pattern, count in evidence.patterns.items():
        shared = _shared(pattern, order)
        if len(shared) > 1:
            pool = pools.setdefault(shared, _Pool())
            among = _among(pattern, order)
            pool.probes[among] += count
            pool.everyone[among] += count if pattern.everyone else 0
    return tuple(_weights([*pools.values()], np.array(shares), labels).tolist())


@dataclass(frozen=True, slots=True)
class _Pool:
    """The rounds of one pool of models: signature → number of rounds, and of those that asked everyone."""

    probes: Counter[Signature] = field(default_factory=Counter)
    everyone: Counter[Signature] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class VoteWeights:
    """The weights of the arms' votes on one question.

    Attributes:
        agreed: arm → ω from agreement alone.
        stack: the corrections learnt from human labels, or ``None`` without human labels.
    """

    agreed: Mapping[str, float]
    stack: StackedVote | None = None

    def by_arm(self) -> dict[str, float]:
        """ω ≥ 0 of every arm after the corrections; arms without a weight by agreement stay at 0.

        Arms whose corrected weight is not positive get the smallest weight, because certificates need
        weights ≥ 0.
        """
        if self.stack is None:
            return dict(self.agreed)
        scale, corrections = self.stack.scale, self.stack.arms
        return {
            arm: weight and max(scale * weight + corrections.get(arm, 0.0), LEAST_WEIGHT)
            for arm, weight in self.agreed.items()
        }

    def describe(self) -> dict[str, Any]:
        """Describe the corrections as plain JSON; empty without human labels."""
        return {} if self.stack is None else {"stack": self.stack.describe(), "agreed": dict(self.agreed)}


def _weights(pools: Sequence[_Pool], shares: Array, labels: int) -> Array:
    """ω of K arms, shape (K,), from the rounds of every pool that had at least two of them.

    A round is completed by rounds of its own pool only. A model that is new, or has changed, would otherwise
    get imputed votes by the thousand after the first few real ones.
    """
    rows = [groups for pool in pools for groups in pool.probes]
    counts = np.array([max(count, 0) for pool in pools for count in pool.probes.values()], dtype=np.int64)
    votes = np.array(rows, dtype=np.int64).reshape(len(rows), len(shares))
    seats = near_copies_in(np.repeat(votes, counts, axis=0), level=0.5)
    first = np.array(sorted(set(seats)))
    seated: dict[Signature, float] = {}
    for pool in pools:
        for groups, weight in complete_rounds(pool.probes, +pool.everyone).items():
            among = canonical(groups[seat] for seat in first)
            seated[among] = seated.get(among, 0.0) + weight
    weights = np.zeros(len(shares))
    weights[first] = log_odds(accuracies(seated, shares[first], labels))
    return weights


@lru_cache(maxsize=2**14)
def _shared(pattern: VotePattern, order: tuple[str, ...]) -> frozenset[str]:
    """The arms of ``order`` that were in the pattern's pool."""
    return frozenset(pattern.arms) & frozenset(order)


@lru_cache(maxsize=2**14)
def _among(pattern: VotePattern, order: tuple[str, ...]) -> Signature:
    """:meth:`.VotePattern.among_known`, cached."""
    return pattern.among_known(order)

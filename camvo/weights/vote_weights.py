"""The weights of the arms' votes: from agreement with the other arms, corrected by human labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from camvo.state.vote_patterns import PatternCounts, Signature, VotePattern, canonical
from camvo.typing import Array
from camvo.weights.corrected_vote import CorrectedVote
from camvo.weights.near_copies import near_copies_in
from camvo.weights.one_coin import LEAST_WEIGHT, accuracies, complete_rounds, fit_accuracies, log_odds
from camvo.weights.redrawn_labels import changed_labels

MOST_CHANGED: Final = 0.02
"""The largest share of labels that may depend on which rounds have taught the weights."""

FEWEST_ROUNDS, ENOUGH_ROUNDS = 50, 500
"""The fewest rounds with all arms at which weights can be settled, and how many always settle them."""


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


@lru_cache(maxsize=64)
def weights_are_settled(
    evidence: PatternCounts, order: tuple[str, ...], shares: tuple[float, ...], labels: int
) -> bool:
    """Whether enough rounds have asked all arms to rely on the weights.

    Weights drawn again (:func:`.changed_labels`) must change at most :data:`MOST_CHANGED` of the labels.
    Fewer than :data:`FEWEST_ROUNDS` rounds are never enough, because the bootstrap knows nothing of patterns
    that have not come yet. :data:`ENOUGH_ROUNDS` always are. The arguments are those of
    :func:`weights_by_agreement`.
    """
    probes, everyone = _signatures(evidence, order)
    if not FEWEST_ROUNDS <= everyone.total() < ENOUGH_ROUNDS:
        return everyone.total() >= ENOUGH_ROUNDS
    rows = np.array(list(probes), dtype=np.int64).reshape(len(probes), len(order))
    first = _seated(rows, np.maximum(list(probes.values()), 0).astype(np.int64))
    return _unsettled_labels(first, everyone, np.array(shares), labels) <= MOST_CHANGED


def _unsettled_labels(
    first: NDArray[np.int64], everyone: Mapping[Signature, int], shares: Array, labels: int
) -> float:
    """The share of labels that would change if other rounds had taught the weights of the arms ``first``."""
    seated: Counter[Signature] = Counter()
    for groups, count in everyone.items():
        seated[canonical(groups[seat] for seat in first)] += count
    rows = np.array(list(seated), dtype=np.int64)
    member = rows[:, :, None] == np.arange(len(first))

    def labels_of(counts: Array) -> NDArray[np.int64]:
        weights = log_odds(fit_accuracies(rows, counts, shares[first], labels))
        return np.asarray(np.einsum("bk,nkg->bng", weights, member).argmax(axis=2), dtype=np.int64)

    return changed_labels(np.array(list(seated.values()), dtype=np.float64), labels_of)


def _signatures(
    evidence: PatternCounts, order: tuple[str, ...]
) -> tuple[Counter[Signature], Counter[Signature]]:
    """The signatures of all exploration rounds, and of those that asked all arms whatever their votes."""
    probes: Counter[Signature] = Counter()
    everyone: Counter[Signature] = Counter()
    for pattern, count in evidence.patterns.items():
        if len(_shared(pattern, order)) == len(order):
            among = _among(pattern, order)
            probes[among] += count
            everyone[among] += count if pattern.everyone else 0
    return probes, +everyone


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
        corrected: the vote with the corrections learnt from human labels, or ``None`` without human labels.
    """

    agreed: Mapping[str, float]
    corrected: CorrectedVote | None = None

    def by_arm(self) -> dict[str, float]:
        """ω ≥ 0 of every arm after the corrections; arms without a weight by agreement stay at 0.

        Arms whose corrected weight is not positive get the smallest weight, because certificates need
        weights ≥ 0.
        """
        if self.corrected is None:
            return dict(self.agreed)
        scale, corrections = self.corrected.scale, self.corrected.arms
        return {
            arm: weight and max(scale * weight + corrections.get(arm, 0.0), LEAST_WEIGHT)
            for arm, weight in self.agreed.items()
        }

    def describe(self) -> dict[str, Any]:
        """Describe the corrections as plain JSON; empty without human labels."""
        if self.corrected is None:
            return {}
        return {"corrected": self.corrected.describe(), "agreed": dict(self.agreed)}


def _weights(pools: Sequence[_Pool], shares: Array, labels: int) -> Array:
    """ω of K arms, shape (K,), from the rounds of every pool that had at least two of them.

    A round is completed by rounds of its own pool only. A model that is new, or has changed, would otherwise
    get imputed votes by the thousand after the first few real ones.
    """
    rows = [groups for pool in pools for groups in pool.probes]
    counts = np.array([max(count, 0) for pool in pools for count in pool.probes.values()], dtype=np.int64)
    first = _seated(np.array(rows, dtype=np.int64).reshape(len(rows), len(shares)), counts)
    seated: dict[Signature, float] = {}
    for pool in pools:
        for groups, weight in complete_rounds(pool.probes, +pool.everyone).items():
            among = canonical(groups[seat] for seat in first)
            seated[among] = seated.get(among, 0.0) + weight
    weights = np.zeros(len(shares))
    weights[first] = log_odds(accuracies(seated, shares[first], labels))
    return weights


def _seated(rows: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The positions of the arms that have a vote: of several near-copies only the first."""
    seats = near_copies_in(np.repeat(rows, counts, axis=0), level=0.5)
    return np.array(sorted(set(seats)))


@lru_cache(maxsize=2**14)
def _shared(pattern: VotePattern, order: tuple[str, ...]) -> frozenset[str]:
    """The arms of ``order`` that were in the pattern's pool."""
    return frozenset(pattern.arms) & frozenset(order)


@lru_cache(maxsize=2**14)
def _among(pattern: VotePattern, order: tuple[str, ...]) -> Signature:
    """:meth:`.VotePattern.among_known`, cached."""
    return pattern.among_known(order)

"""What each arm's vote weighs: by agreement with the others at first, corrected by what humans say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from camvo.state.vote_patterns import Evidence, Pattern, Signature, canonical
from camvo.typing import Array
from camvo.weights.near_copies import near_copies_in
from camvo.weights.one_coin import LEAST_WEIGHT, accuracies, complete_rounds, log_odds
from camvo.weights.stacking import StackedVote


@lru_cache(maxsize=64)
def weights_by_agreement(
    evidence: Evidence, order: tuple[str, ...], shares: tuple[float, ...], labels: int
) -> tuple[float, ...]:
    """ω of the arms in ``order``, from who voted with whom in the coin's rounds.

    Of near-copies only the first has a weight, so that the others need not be asked.

    Args:
        evidence: the coin's rounds; while it is the same object, nothing is worked out again.
        order: the arms, the cheapest first.
        shares: what each costs, in any one unit.
        labels: M, the number of labels.
    """
    probes: Counter[Signature] = Counter()
    everyone: Counter[Signature] = Counter()
    for pattern, count in evidence.patterns.items():
        among = _among(pattern, order)
        if among is not None:
            probes[among] += count
            everyone[among] += count if pattern.everyone else 0
    return tuple(_weights(probes, +everyone, np.array(shares), labels).tolist())


@dataclass(frozen=True, slots=True)
class VoteWeights:
    """What the arms' votes on one question weigh.

    Attributes:
        agreed: arm → ω by agreement alone.
        stack: what human labels say beside it; ``None`` while there are none.
    """

    agreed: Mapping[str, float]
    stack: StackedVote | None = None

    def by_arm(self) -> dict[str, float]:
        """ω ≥ 0 of every arm; one without a weight is not given one by human labels.

        A vote that speaks against its own label has the least weight: certificates take no negative ones.
        """
        if self.stack is None:
            return dict(self.agreed)
        scale, corrections = self.stack.scale, self.stack.arms
        return {
            arm: weight and max(scale * weight + corrections.get(arm, 0.0), LEAST_WEIGHT)
            for arm, weight in self.agreed.items()
        }

    def describe(self) -> dict[str, Any]:
        """What human labels say, as plain JSON; nothing where there are none."""
        return {} if self.stack is None else {"stack": self.stack.describe(), "agreed": dict(self.agreed)}


def _weights(
    probes: Mapping[Signature, int], everyone: Mapping[Signature, int], shares: Array, labels: int
) -> Array:
    rows = np.array(list(probes), dtype=np.int64).reshape(len(probes), len(shares))
    counts = np.maximum(list(probes.values()), 0).astype(np.int64)
    seats = near_copies_in(np.repeat(rows, counts, axis=0), level=0.5)
    first = np.array(sorted(set(seats)))
    seated: dict[Signature, float] = {}
    for groups, weight in complete_rounds(probes, everyone).items():
        among = canonical(groups[seat] for seat in first)
        seated[among] = seated.get(among, 0.0) + weight
    weights = np.zeros(len(shares))
    weights[first] = log_odds(accuracies(seated, shares[first], labels))
    return weights


@lru_cache(maxsize=2**14)
def _among(pattern: Pattern, order: tuple[str, ...]) -> Signature | None:
    return pattern.among(order)

"""The corrected vote: the log-odds of each label, with a correction for each model learnt from human labels.

The log-odds of a label are the weighted vote times a scale, and a correction for each model that voted for
it. A vote counts the same whatever label it is for. :mod:`camvo.weights.corrected_vote_fit` fits the
corrections. See ``docs/sequential.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class CorrectedVote:
    """The terms of a label's log-odds on one question.

    Attributes:
        scale: log-odds per unit of weight behind the label.
        none: log-odds of "none of the labels that got a vote".
        alone: the increase of ``scale`` if no arm was asked; in proportion to the share of unasked arms.
        arms: arm → the correction if the arm voted for the label.
        trust: the share in [0, 1] with which the corrections count. The numbers above already include it.
    """

    scale: float = 1.0
    none: float = 0.0
    alone: float = 0.0
    arms: Mapping[str, float] = field(default_factory=dict)
    trust: float = 0.0

    def describe(self) -> dict[str, Any]:
        """Describe the terms as plain JSON."""
        shared = {"trust": self.trust, "scale": self.scale, "none": self.none, "alone": self.alone}
        return {**shared, "arms": dict(self.arms)}

    def log_odds(self, votes: Mapping[str, str | None], weights: Mapping[str, float]) -> dict[str, float]:
        """Compute the log-odds of each label that got a vote.

        Args:
            votes: arm → label, or ``None`` if the arm gave no vote. Arms that were not asked are absent.
            weights: arm → ω ≥ 0, as in the weighted vote.

        Returns:
            Label → log-odds.
        """
        absent = 1.0 - len(votes.keys() & self.arms.keys()) / max(len(self.arms), 1)
        scale = self.scale + self.alone * absent
        terms: dict[str, list[float]] = {}
        for arm in sorted(votes):
            if (label := votes[arm]) is not None:
                terms.setdefault(label, []).append(scale * weights[arm] + self.arms.get(arm, 0.0))
        return {label: math.fsum(values) for label, values in terms.items()}

    def probabilities(
        self, votes: Mapping[str, str | None], weights: Mapping[str, float], labels: Sequence[str]
    ) -> dict[str, float]:
        """Compute the probability that each label is right, given at least one vote.

        Labels without a vote share the probability of "none of the labels that got a vote" equally.

        Args:
            votes: as for :meth:`log_odds`.
            weights: as for :meth:`log_odds`.
            labels: the label set.

        Returns:
            Label → probability, in the order of ``labels``; the values sum to 1.
        """
        odds = self.log_odds(votes, weights)
        others = len(labels) - len(odds)
        top = max([*odds.values(), self.none] if others else odds.values())
        shares = {label: math.exp(value - top) for label, value in odds.items()}
        rest = math.exp(self.none - top) if others else 0.0
        total = math.fsum([*shares.values(), rest])
        return {label: shares.get(label, rest / max(others, 1)) / total for label in labels}

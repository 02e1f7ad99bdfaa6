"""The stacked vote: the log-odds of each label, with corrections learnt from human labels.

The log-odds of a label are a sum of

- the weighted vote,
- what the arms' confidences add (:mod:`camvo.weights.grades`), if they gave any,
- a correction for each model that voted for the label,
- optionally, a correction for the label itself and one for each pair of model and label.

The corrections are fitted by :mod:`camvo.weights.stacking_fit`. Without human labels they are 0, and the
stacked vote is the weighted vote. See ``docs/stacking.md``, and ``docs/sequential.md`` for its use in the
default policy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

NO_LOG_RATIOS: Final[Mapping[str, float]] = MappingProxyType({})
"""The log ratios of votes without a confidence."""


@dataclass(frozen=True, slots=True)
class StackedVote:
    """The terms of a label's log-odds on one question.

    Attributes:
        scale: log-odds per unit of weight behind the label.
        none: log-odds of "none of the labels that got a vote".
        alone: the increase of ``scale`` if no arm was asked; in proportion to the share of unasked arms.
        arms: arm → the correction if the arm voted for the label.
        labels: label → its correction.
        pairs: arm → label → the correction if the arm voted for this label.
        sure: log-odds per nat of the log ratios of the votes' confidences.
        trust: the share in [0, 1] with which the corrections count. The numbers above already include it.
    """

    scale: float = 1.0
    none: float = 0.0
    alone: float = 0.0
    arms: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, float] = field(default_factory=dict)
    pairs: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    trust: float = 0.0
    sure: float = 0.0

    def describe(self) -> dict[str, Any]:
        """Describe the terms that do not depend on the label, as plain JSON."""
        shared = {"trust": self.trust, "scale": self.scale, "none": self.none, "alone": self.alone}
        if self.sure:
            shared["sure"] = self.sure
        return {**shared, "arms": dict(self.arms)}

    def log_odds(
        self,
        votes: Mapping[str, str | None],
        weights: Mapping[str, float],
        log_ratios: Mapping[str, float] = NO_LOG_RATIOS,
    ) -> dict[str, float]:
        """Compute the log-odds of each label that got a vote.

        Args:
            votes: arm → label, or ``None`` if the arm gave no vote. Arms that were not asked are absent.
            weights: arm → ω ≥ 0, as in the weighted vote.
            log_ratios: arm → the log ratio of its vote's confidence; absent arms have 0.

        Returns:
            Label → log-odds.
        """
        absent = 1.0 - len(votes.keys() & self.arms.keys()) / max(len(self.arms), 1)
        scale = self.scale + self.alone * absent
        terms: dict[str, list[float]] = {}
        for arm in sorted(votes):
            label = votes[arm]
            if label is None:
                continue
            own = self.arms.get(arm, 0.0) + self.pairs.get(arm, {}).get(label, 0.0)
            own += self.sure * log_ratios.get(arm, 0.0)
            terms.setdefault(label, [self.labels.get(label, 0.0)]).append(scale * weights[arm] + own)
        return {label: math.fsum(values) for label, values in terms.items()}

    def probabilities(
        self,
        votes: Mapping[str, str | None],
        weights: Mapping[str, float],
        labels: Sequence[str],
        log_ratios: Mapping[str, float] = NO_LOG_RATIOS,
    ) -> dict[str, float]:
        """Compute the probability that each label is right, given at least one vote.

        Labels without a vote share the probability of "none of the labels that got a vote" equally.

        Args:
            votes: as for :meth:`log_odds`.
            weights: as for :meth:`log_odds`.
            labels: the label set.
            log_ratios: as for :meth:`log_odds`.

        Returns:
            Label → probability, in the order of ``labels``; the values sum to 1.
        """
        odds = self.log_odds(votes, weights, log_ratios)
        others = len(labels) - len(odds)
        top = max([*odds.values(), self.none] if others else odds.values())
        shares = {label: math.exp(value - top) for label, value in odds.items()}
        rest = math.exp(self.none - top) if others else 0.0
        total = math.fsum([*shares.values(), rest])
        return {label: shares.get(label, rest / max(others, 1)) / total for label in labels}

    def leader(
        self,
        votes: Mapping[str, str | None],
        weights: Mapping[str, float],
        labels: Sequence[str],
        log_ratios: Mapping[str, float] = NO_LOG_RATIOS,
    ) -> tuple[str, float]:
        """Return the leading label among those with a vote, and its margin.

        The margin is the lead over the next label in log-odds, which later votes would have to make up for.
        A label without a vote has log-odds of 0. Without any other label the margin is ∞. Ties go to the
        label that comes first in ``labels``. The arguments are those of :meth:`probabilities`.
        """
        odds = self.log_odds(votes, weights, log_ratios)
        first = max(sorted(odds, key=labels.index), key=odds.__getitem__)
        rivals = [value for label, value in odds.items() if label != first]
        if len(odds) < len(labels):
            rivals.append(0.0)
        return first, odds[first] - max(rivals, default=-math.inf)

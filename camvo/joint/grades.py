"""Grades of confidence: how an arm's confidence changes the odds of its vote, learnt for each arm.

Each model states confidences on its own scale. Each arm's confidences are therefore sorted into a few
*grades* with about the same number of votes. The grade of a vote adds the log ratio of past votes,
log P(grade | right) − log P(grade | wrong), to the log-odds of the vote. Calibration per model is the idea of
UCCI; with grades it only takes counting. Once people have labelled enough of an arm's votes for a label, its
votes for that label are graded separately.

Without human labels a vote counts as right if it is the label of the other arms' weighted vote. The others
also make errors, so the log ratios are too small rather than too large if errors are independent. As human
labels arrive, they replace this estimate, which serves as their prior.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np

from camvo.joint.plans import ArmGrades
from camvo.state.contribution import TOP_LEVEL, ConfidenceCounts, level_of
from camvo.student import STUDENT
from camvo.typing import Array

_BELOW: Final = (0.2, 0.5)
"""The shares of an arm's votes below its second and its third grade. An arm makes most of its errors where
it is least sure, so the low grades are narrow."""

_BELOW_STUDENT: Final = (0.2, 0.4, 0.6, 0.75, 0.87, 0.95)
"""The same for the student, whose confidence is a learnt probability: the highest ones inform most."""

_MIN_VOTES: Final = 50
"""The fewest votes from which a scale is learnt."""

_PRIOR_VOTES: Final = 10.0
"""The weight, in votes, of the prior that a grade is as frequent among right votes as among wrong ones."""

_FROM_VOTES: Final = 20.0
"""The weight, in labelled votes, of the estimate from other arms' votes relative to human labels."""


@dataclass(frozen=True, slots=True)
class _Scale:
    """The grades of one arm's votes, for one label or for all.

    Attributes:
        cuts: the level at which each grade but the lowest begins, ascending.
        log_ratios: for each grade, log P(grade | right) − log P(grade | wrong), in nats.
        wrong: P(grade | wrong), for each grade; empty if it is not needed.
    """

    cuts: tuple[int, ...]
    log_ratios: tuple[float, ...]
    wrong: tuple[float, ...] = ()

    def grade(self, confidence: float) -> int:
        """The grade of a confidence in [0, 1], counted from 0, the least sure."""
        return bisect_right(self.cuts, level_of(confidence))

    def log_ratio(self, confidence: float) -> float:
        """The log ratio of a confidence's grade."""
        return self.log_ratios[self.grade(confidence)]


@dataclass(frozen=True, slots=True, eq=False)
class Grades:
    """The grades of all arms. Hashed by identity.

    Attributes:
        arms: arm → its scale; arms whose confidences are not informative yet are absent.
        labels: (arm, label) → the scale of the arm's votes for the label, where people have labelled enough
            of them.
    """

    arms: Mapping[str, _Scale] = field(default_factory=dict)
    labels: Mapping[tuple[str, str], _Scale] = field(default_factory=dict)

    def scale(self, arm: str, label: str) -> _Scale | None:
        """The scale of an arm's votes for a label; ``None`` if nothing is known."""
        return self.labels.get((arm, label)) or self.arms.get(arm)

    def log_ratio(self, arm: str, label: str | None, confidence: float | None) -> float:
        """What a vote's confidence adds to its log-odds; 0 without a vote, a confidence or a scale."""
        if label is None or confidence is None:
            return 0.0
        scale = self.scale(arm, label)
        return 0.0 if scale is None else scale.log_ratio(confidence)

    def log_ratios(self, votes: Mapping[str, str | None], sure: Mapping[str, float]) -> dict[str, float]:
        """Arm → what its confidence adds to the log-odds of its vote."""
        if not self.arms:
            return {}
        return {arm: self.log_ratio(arm, votes.get(arm), confidence) for arm, confidence in sure.items()}

    def describe(self) -> dict[str, Any]:
        """The arms' scales as plain JSON."""
        return {
            arm: {"cuts": list(scale.cuts), "log_ratios": list(scale.log_ratios)}
            for arm, scale in sorted(self.arms.items())
        }

    @classmethod
    @lru_cache(maxsize=64)
    def learnt(cls, counts: ConfidenceCounts) -> Grades:
        """Learn the scale of every arm that has voted often enough. Cached by the identity of ``counts``.

        An arm may be systematically less sure of one label than of another. So its votes for a label have a
        separate scale where people have labelled enough of them. Votes of other arms cannot replace these
        labels, because the other arms also favour some labels.
        """
        tables = _tables(counts)
        blank = np.zeros((2, 2, TOP_LEVEL + 1))
        whole: dict[str, Array] = {}
        for (arm, _), table in tables.items():
            whole[arm] = whole.get(arm, blank) + table
        arms = {
            arm: scale
            for arm, table in sorted(whole.items())
            if (scale := _scale(table, _below(arm))) is not None
        }
        labels = {
            key: scale
            for key, table in tables.items()
            if table[1].sum() >= _MIN_VOTES and (scale := _scale(table, _below(key[0]))) is not None
        }
        return cls(arms, labels)


NO_GRADES: Final = Grades()
"""The grades of arms that give no confidences."""


def _tables(counts: ConfidenceCounts) -> dict[tuple[str, str], Array]:
    """(arm, label) → its votes by source (others, people), wrong or right, and level: (2, 2, levels)."""
    tables: dict[tuple[str, str], Array] = {}
    for source, votes in enumerate((counts.by_others, counts.by_people)):
        for vote, count in sorted(votes.items()):
            key = (vote.arm, vote.label)
            table = tables.setdefault(key, np.zeros((2, 2, TOP_LEVEL + 1)))
            table[source, int(vote.right), vote.level] += max(count, 0)
    return tables


def _below(arm: str) -> tuple[float, ...]:
    return _BELOW_STUDENT if arm == STUDENT else _BELOW


def _scale(table: Array, below: tuple[float, ...]) -> _Scale | None:
    """The scale of some votes from their table, shape (2, 2, levels); ``None`` if it is not informative."""
    by_others, by_people = table
    votes = (by_others + by_people).sum(axis=0)
    if votes.sum() < _MIN_VOTES:
        return None
    cuts = _cuts(votes, below)
    if not cuts:
        return None
    starts = [0, *cuts]
    frequent = np.add.reduceat(votes, starts) / votes.sum()
    from_votes = _shares(np.add.reduceat(by_others, starts, axis=1), frequent, _PRIOR_VOTES)
    shares = _shares(np.add.reduceat(by_people, starts, axis=1), from_votes, _FROM_VOTES)
    ratios = np.log(shares[1]) - np.log(shares[0])
    return _Scale(cuts, tuple(ratios.tolist()), tuple(shares[0].tolist()))


def _shares(counts: Array, prior: Array, weight: float) -> Array:
    """P(grade | wrong) and P(grade | right), shape (2, grades), shrunk to the prior."""
    return np.asarray((counts + weight * prior) / (counts.sum(axis=1, keepdims=True) + weight))


def _cuts(votes: Array, shares: tuple[float, ...]) -> tuple[int, ...]:
    """The levels at which the grades above the lowest begin.

    Of the levels at which a grade may begin, those are taken that split the votes most evenly. A level that
    holds many votes is never split, so an arm may have fewer grades.
    """
    below = np.concatenate(([0.0], np.cumsum(votes)[:-1])) / votes.sum()
    cuts: list[int] = []
    for share in shares:
        cut = int(np.abs(below - share).argmin())
        if 0.0 < below[cut] < 1.0 and cut not in cuts:
            cuts.append(cut)
    return tuple(sorted(cuts))


UNTAUGHT: Final = 0.5
"""What log ratios are multiplied by without human labels."""

_ONE_GRADE: Final = ((0.0, 1.0, 1.0),)


@dataclass(frozen=True, slots=True, eq=False)
class SureVotes:
    """What confidences add to the log-odds of labels. Hashed by identity.

    Attributes:
        grades: the grades of the arms' confidences.
        factor: what log ratios are multiplied by; those of the student are not multiplied, because its errors
            are estimated given all other votes.
    """

    grades: Grades = NO_GRADES
    factor: float = UNTAUGHT

    def tilts(self, votes: Mapping[str, str | None], sure: Mapping[str, float]) -> dict[str, float]:
        """Label → what the confidences in it add to its log-odds."""
        tilts: dict[str, float] = {}
        for arm, ratio in self.grades.log_ratios(votes, sure).items():
            if (label := votes.get(arm)) is not None:
                tilts[label] = tilts.get(label, 0.0) + self._factor(arm) * ratio
        return tilts

    def by_arm(self, arms: Sequence[str], labels: Sequence[str]) -> tuple[ArmGrades, ...]:
        """The grades that plans expect of each arm's next vote."""
        if not labels:
            return tuple((self._expected(arm, self.grades.arms.get(arm)),) for arm in arms)
        return tuple(
            tuple(self._expected(arm, self.grades.scale(arm, label)) for label in labels) for arm in arms
        )

    def without(self, arm: str) -> SureVotes:
        """The same without what one arm's confidences add."""
        arms = {other: scale for other, scale in self.grades.arms.items() if other != arm}
        labels = {key: scale for key, scale in self.grades.labels.items() if key[0] != arm}
        return SureVotes(Grades(arms, labels), self.factor) if arms else NOT_SURE

    def _factor(self, arm: str) -> float:
        return 1.0 if arm == STUDENT else self.factor

    def _expected(self, arm: str, scale: _Scale | None) -> tuple[tuple[float, float, float], ...]:
        if scale is None:
            return _ONE_GRADE
        return tuple(
            (self._factor(arm) * ratio, wrong * math.exp(ratio), wrong)
            for ratio, wrong in zip(scale.log_ratios, scale.wrong, strict=True)
        )


NOT_SURE: Final = SureVotes()
"""No arm gives a confidence."""


def tilted(probabilities: Mapping[str, float], tilts: Mapping[str, float]) -> dict[str, float]:
    """Add to the log-odds of some labels, and scale all to what they were; the rest keeps its odds."""
    if not tilts:
        return dict(probabilities)
    rest = max(1.0 - sum(probabilities.values()), 0.0)
    odds = {label: value * math.exp(tilts.get(label, 0.0)) for label, value in probabilities.items()}
    total = sum(odds.values()) + rest
    return {label: value / total for label, value in odds.items()}

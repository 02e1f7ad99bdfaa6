"""Grades of confidence: what it says about a vote that its arm is sure or unsure, learnt for each arm.

Models state confidences on scales of their own. Each arm's confidences are therefore sorted into a few
*grades*, with about as many votes in each, and a grade is worth what it was worth before:
log P(grade | right) − log P(grade | wrong), to be added to the log-odds of the vote. Calibration per model is
the idea of UCCI; grades keep it a matter of counting.

Without human labels a vote counts as right if it is the label of the other arms' weighted vote. The others
err too, so the log ratios come out too small rather than too large where errors are independent. Votes
with a human label replace them as they come: the estimate from votes is their prior.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np

from camvo.state.confidences import TOP_LEVEL, ConfidenceCounts, SureVote, level_of
from camvo.typing import Array

BELOW: Final = (0.2, 0.5)
"""The shares of an arm's votes below its second and its third grade. An arm errs mostly where it is least
sure, so the low grades are narrow."""

_MIN_VOTES: Final = 50
"""The fewest votes of an arm from which its grades are learnt."""

_PRIOR_VOTES: Final = 10.0
"""The weight, in votes, of the prior that a grade is as frequent among right votes as among wrong ones."""

_FROM_VOTES: Final = 20.0
"""The weight, in labelled votes, of the estimate from other arms' votes beside human labels."""


@dataclass(frozen=True, slots=True)
class ArmGrades:
    """The grades of one arm.

    Attributes:
        cuts: the level at which each grade but the lowest begins, ascending.
        log_ratios: for each grade, log P(grade | right) − log P(grade | wrong), in nats.
    """

    cuts: tuple[int, ...]
    log_ratios: tuple[float, ...]

    def grade(self, confidence: float) -> int:
        """The grade of a confidence in [0, 1], counted from 0, the least sure."""
        return bisect_right(self.cuts, level_of(confidence))


@dataclass(frozen=True, slots=True, eq=False)
class Grades:
    """The grades of all arms. Hashed by identity.

    Attributes:
        arms: arm → its grades; arms whose confidences say nothing yet are absent.
    """

    arms: Mapping[str, ArmGrades] = field(default_factory=dict)

    def log_ratio(self, arm: str, confidence: float | None) -> float:
        """What a vote's confidence adds to its log-odds; 0 without a confidence or without grades."""
        grades = self.arms.get(arm)
        return 0.0 if grades is None or confidence is None else grades.log_ratios[grades.grade(confidence)]

    def log_ratios(self, sure: Mapping[str, float]) -> dict[str, float]:
        """Arm → what its confidence adds to the log-odds of its vote.

        Args:
            sure: arm → confidence in [0, 1]; arms that gave none are absent.
        """
        return {arm: self.log_ratio(arm, confidence) for arm, confidence in sure.items()} if self.arms else {}

    def describe(self) -> dict[str, Any]:
        """The grades as plain JSON."""
        return {
            arm: {"cuts": list(grades.cuts), "log_ratios": list(grades.log_ratios)}
            for arm, grades in sorted(self.arms.items())
        }


NO_GRADES: Final = Grades()
"""The grades of arms that say nothing of how sure they are."""


@lru_cache(maxsize=64)
def learn_grades(counts: ConfidenceCounts) -> Grades:
    """Learn the grades of every arm that has voted often enough. Cached by the identity of ``counts``."""
    arms = sorted({vote.arm for vote in (*counts.by_others, *counts.by_people)})
    learnt = {arm: _grades(_table(counts.by_others, arm), _table(counts.by_people, arm)) for arm in arms}
    return Grades({arm: grades for arm, grades in learnt.items() if grades is not None})


def _table(counts: Mapping[SureVote, int], arm: str) -> Array:
    """The number of votes of an arm, shape (2, levels): wrong votes, then right ones."""
    table = np.zeros((2, TOP_LEVEL + 1))
    for vote, count in counts.items():
        if vote.arm == arm:
            table[int(vote.right), vote.level] += max(count, 0)
    return table


def _grades(by_others: Array, by_people: Array) -> ArmGrades | None:
    """The grades of one arm from its tables, shape (2, levels) each; ``None`` if they say nothing."""
    votes = (by_others + by_people).sum(axis=0)
    if votes.sum() < _MIN_VOTES:
        return None
    cuts = _cuts(votes)
    if not cuts:
        return None
    starts = [0, *cuts]
    frequent = np.add.reduceat(votes, starts) / votes.sum()
    from_votes = _shares(np.add.reduceat(by_others, starts, axis=1), frequent, _PRIOR_VOTES)
    shares = _shares(np.add.reduceat(by_people, starts, axis=1), from_votes, _FROM_VOTES)
    return ArmGrades(cuts, tuple((np.log(shares[1]) - np.log(shares[0])).tolist()))


def _shares(counts: Array, prior: Array, weight: float) -> Array:
    """P(grade | wrong) and P(grade | right), shape (2, grades), shrunk to the prior."""
    return np.asarray((counts + weight * prior) / (counts.sum(axis=1, keepdims=True) + weight))


def _cuts(votes: Array) -> tuple[int, ...]:
    """The levels at which the grades above the lowest begin.

    Of the levels at which a grade may begin, those are taken that split the votes most evenly. A level that
    holds many votes is never split, so an arm may have fewer grades.

    Args:
        votes: the number of votes at each level, shape (levels,).
    """
    below = np.concatenate(([0.0], np.cumsum(votes)[:-1])) / votes.sum()
    cuts: list[int] = []
    for share in BELOW:
        cut = int(np.abs(below - share).argmin())
        if 0.0 < below[cut] < 1.0 and cut not in cuts:
            cuts.append(cut)
    return tuple(sorted(cuts))

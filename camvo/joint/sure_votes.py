"""How sure arms are, on top of what their votes say: the log ratios of their confidences' grades.

The grades are learnt from rounds that asked all arms, whose reference is what the other arms' votes make
probable, and from human labels (:mod:`camvo.joint.grades`). Errors of arms go together, so log ratios count
half until human labels say how much they should count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from camvo.joint.grades import NO_GRADES, Grades, Scale
from camvo.joint.plans.graded_worth import ArmGrades
from camvo.numerics.tolerances import EPSILON
from camvo.student.taught_texts import STUDENT

UNTAUGHT: Final = 0.5
"""What log ratios are multiplied by without human labels."""

_ONE_GRADE: Final = ((0.0, 1.0, 1.0),)


@dataclass(frozen=True, slots=True, eq=False)
class SureVotes:
    """What confidences add to the log-odds of labels. Hashed by identity.

    Attributes:
        grades: the grades of the arms' confidences.
        factor: what log ratios are multiplied by; those of the student, whose errors are read off beside all
            other votes, count once.
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
        """The grades that plans expect of each arm's next vote.

        Args:
            arms: the arms.
            labels: the label of each number if all vote rows number labels alike, else empty.
        """
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

    def _expected(self, arm: str, scale: Scale | None) -> tuple[tuple[float, float, float], ...]:
        if scale is None:
            return _ONE_GRADE
        return tuple(
            (self._factor(arm) * ratio, wrong * math.exp(ratio), wrong)
            for ratio, wrong in zip(scale.log_ratios, scale.wrong, strict=True)
        )


NOT_SURE: Final = SureVotes()
"""No arm says how sure it is."""


def tilted(probabilities: Mapping[str, float], tilts: Mapping[str, float]) -> dict[str, float]:
    """Add to the log-odds of some labels, and scale all to what they were; the rest keeps its odds.

    Args:
        probabilities: label → its probability, of the labels with a vote. Their sum may be below 1.
        tilts: label → what is added.
    """
    if not tilts:
        return dict(probabilities)
    rest = max(1.0 - sum(probabilities.values()), 0.0)
    odds = {label: value * math.exp(tilts.get(label, 0.0)) for label, value in probabilities.items()}
    total = sum(odds.values()) + rest
    return {label: value / total for label, value in odds.items()}


def tilt_of(probability: float, tilted_probability: float) -> float:
    """How much the log-odds have moved."""
    before, after = (min(max(p, EPSILON), 1.0 - EPSILON) for p in (probability, tilted_probability))
    return math.log(after / (1.0 - after)) - math.log(before / (1.0 - before))

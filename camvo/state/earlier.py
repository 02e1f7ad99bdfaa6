"""What is known about arms before they vote: the prior of their skills in a project.

How difficult an earlier project was says nothing about the next one, but which arms were the better ones
does. So of an arm's skill only the difference from the other arms counts: each project finds its own level.
How much these differences change from project to project is learnt from the earlier ones; it is the strength
of the prior.

The votes of two arms say how often these differ, but not which one is right then. Nothing but the prior says
that, and without earlier projects prices do: the arm that costs more is more often the better one.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
from scipy.special import expit

from camvo.numerics.small import weighted_median
from camvo.typing import Array

_SPREAD: Final = 0.4
"""The standard deviation of an arm's skill, in log-odds, between projects, before it is learnt."""

_SPREAD_WEIGHT: Final = 8.0
"""As how many arms' skills in one more project that default counts."""

_INFORMATION: Final = 0.2
"""The information of one round about a skill, p(1 − p): a bold one, so that few rounds overrule the prior."""

LEAST_ROUNDS: Final = 30.0
"""A project with fewer rounds that asked all arms teaches nothing."""

_MOST_ROUNDS: Final = 60.0
"""What earlier projects taught counts as so many rounds that asked all arms, if votes fully bear it out."""

_TAILS: Final = 2.0
"""The degrees of freedom of Student's t for the difference between an arm's skill and its prior."""

_STEPS: Final = 10

_BY_PRICE: Final = 0.4
"""By how much an arm that costs ten times as much is more skilled, in log-odds. On seven tables of votes it
was 0.5 on average, from 0 to 1."""

_MOST_DECADES, _OF_DECADE = 1.5, 0.25
"""A larger ratio of prices says no more; ratios are rounded, so that tasks of all lengths share one fit."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """What the votes of one project say of its arms.

    Attributes:
        project: the project's name.
        skills: (arm, mean log-odds of its votes), by name.
        rounds: the number of rounds that asked all arms.
    """

    project: str
    skills: tuple[tuple[str, float], ...]
    rounds: float

    def to_list(self) -> list[Any]:
        """The value as plain JSON."""
        return [self.project, [list(skill) for skill in self.skills], self.rounds]

    @classmethod
    def from_list(cls, data: Sequence[Any]) -> Lesson:
        """Inverse of :meth:`to_list`."""
        project, skills, rounds = data
        return cls(project, tuple([(arm, skill) for arm, skill in skills]), rounds)


@dataclass(frozen=True, slots=True)
class Earlier:
    """The lessons of earlier projects, one each; and what prices say.

    Attributes:
        lessons: of each project that taught something.
        dearer: of a pool of two arms, the more expensive one and how much more skilled its price makes it,
            in log-odds; ``None`` for other pools and for equal prices.

    >>> lesson = Lesson("1", (("large", 2.0), ("small", 1.0)), rounds=200.0)
    >>> Earlier((lesson,)).prior(("large", "small", "new")).means.tolist()
    [0.5, -0.5, 0.0]
    """

    lessons: tuple[Lesson, ...] = ()
    dearer: tuple[str, float] | None = None

    def priced(self, prices: Mapping[str, float]) -> Earlier:
        """The same with what the prices of two arms, in any unit, say about them."""
        if len(prices) != 2:
            return self
        (_, low), (arm, high) = sorted(prices.items(), key=lambda priced: priced[1])
        decades = math.log10(high / low) if low > 0.0 else _MOST_DECADES * (high > 0.0)
        rounded = min(round(decades / _OF_DECADE) * _OF_DECADE, _MOST_DECADES)
        return replace(self, dearer=(arm, _BY_PRICE * rounded) if rounded else None)

    def prior(self, arms: Sequence[str]) -> SkillPrior | None:
        """The prior of the skills of some arms; ``None`` if nothing is known about two of them."""
        of = _pooled(self.lessons)
        if len(of.keys() & {*arms}) > 1:
            means = np.array([of[arm][0] if arm in of else 0.0 for arm in arms])
            precision = np.array([of[arm][1] if arm in of else 0.0 for arm in arms])
            return SkillPrior(means, precision, len(self.lessons))
        if self.dearer is None or len(arms) != 2 or self.dearer[0] not in arms:
            return None
        means = np.array([self.dearer[1] * (arm == self.dearer[0]) for arm in arms])
        return SkillPrior(means, np.full(2, 1.0 / _SPREAD**2))

    def latest(self, most: int) -> Earlier:
        """The first lessons, at most so many."""
        return Earlier(self.lessons[:most])

    def without(self, projects: Collection[str]) -> Earlier:
        """The lessons of the other projects."""
        return Earlier(tuple([lesson for lesson in self.lessons if lesson.project not in projects]))

    def to_list(self) -> list[Any]:
        """The value as plain JSON."""
        return [lesson.to_list() for lesson in self.lessons]

    @classmethod
    def from_list(cls, data: Sequence[Any]) -> Earlier:
        """Inverse of :meth:`to_list`."""
        return cls(tuple([Lesson.from_list(lesson) for lesson in data]))


NOTHING_EARLIER: Final = Earlier()


@lru_cache(maxsize=32)
def _pooled(lessons: tuple[Lesson, ...]) -> dict[str, tuple[float, float]]:
    """Arm → its expected skill in one more project, and the precision of that.

    The spread between projects is estimated by moments, with a default that counts as a few arms.
    """
    known = [lesson for lesson in lessons if lesson.rounds >= LEAST_ROUNDS and len(lesson.skills) > 1]
    if not known:
        return {}
    arms = sorted({arm for lesson in known for arm, _ in lesson.skills})
    skills = np.full((len(known), len(arms)), np.nan)
    for row, lesson in zip(skills, known, strict=True):
        for arm, skill in lesson.skills:
            row[arms.index(arm)] = skill
    error = 1.0 / (_INFORMATION * np.array([lesson.rounds for lesson in known]))[:, None]
    means, apart = _means(skills, error)
    freedom = float((~np.isnan(skills)).sum() - sum(skills.shape) + 1)
    found = max(float(np.nansum(apart**2)) - freedom * float(error.mean()), 0.0)
    spread = (found + _SPREAD_WEIGHT * _SPREAD**2) / (max(freedom, 0.0) + _SPREAD_WEIGHT)
    weight = np.where(np.isnan(skills), 0.0, 1.0 / (spread + error)).sum(axis=0)
    precision = 1.0 / (spread + 1.0 / weight)
    return dict(zip(arms, zip(means.tolist(), precision.tolist(), strict=True), strict=True))


def _means(skills: Array, error: Array) -> tuple[Array, Array]:
    """The mean of each arm's skill over projects that have a level each, and what is left, shape (J, K).

    ``skills`` has NaN for arms that a project does not have.
    """
    weight = np.where(np.isnan(skills), 0.0, 1.0 / (_SPREAD**2 + error))
    known, levels = np.nan_to_num(skills), np.nanmean(skills, axis=1, keepdims=True)
    means = np.zeros(skills.shape[1])
    for _ in range(_STEPS):
        means = ((known - levels) * weight).sum(axis=0) / weight.sum(axis=0)
        levels = ((known - means) * weight).sum(axis=1, keepdims=True) / weight.sum(axis=1, keepdims=True)
    return means - means.mean(), skills - levels - means


@dataclass(frozen=True, slots=True, eq=False)
class SkillPrior:
    """The prior of the skills of K arms, in log-odds, up to a level that they share.

    Attributes:
        means: shape (K,).
        precision: shape (K,); 0 for arms of which nothing is known.
        projects: the number of earlier projects that taught it.
    """

    means: Array
    precision: Array
    projects: int = 0

    def among(self, positions: Sequence[int]) -> SkillPrior:
        """The prior of some of the arms."""
        return replace(self, means=self.means[[*positions]], precision=self.precision[[*positions]])

    def beside(self, skills: Array, rounds: float) -> tuple[Array, float]:
        """What it adds to the skills that a project's own votes say.

        It counts as far as it is more probable than that the models' skills are new ones, as different as the
        earlier ones. The difference of an arm's skill from its prior has heavy tails: an arm that is clearly
        another one than it was keeps little of its prior. Two arms differ as their prior says: their own
        votes do not show by how much.

        Args:
            skills: by the project's own votes, shape (K,).
            rounds: how many rounds that asked all arms these are.

        Returns:
            What is added to each arm's log-odds, shape (K,); and as how many rounds that asked all arms the
            earlier projects count, 0 if an arm is new.
        """
        known = self.precision > 0.0
        if not known.any():
            return np.zeros(len(skills)), 0.0
        if len(skills) == 2:
            by = self.means - skills
            return (by - by.mean() if known.all() else np.zeros(2)), 0.0
        own, prior = _INFORMATION * max(rounds, 1.0), self.precision[known]
        variance = 1.0 / prior + 1.0 / own
        apart, alone = (skills - self.means)[known], skills[known]
        apart, alone = (gap - weighted_median(gap, 1.0 / variance) for gap in (apart, alone))
        anew = variance + self.means[known].var()
        as_before = expit((_log_t(apart, variance) - _log_t(alone, anew)).sum())
        trust = as_before * np.minimum((_TAILS + 1.0) / (_TAILS + apart**2 / variance), 1.0)
        by, prior = np.zeros(len(skills)), prior * trust
        by[known] = -apart * prior / (prior + own)
        return by - by.mean(), _MOST_ROUNDS * float(trust.mean()) if known.all() else 0.0


def _log_t(gaps: Array, variance: Array) -> Array:
    """The log-density of Student's t, up to a constant."""
    return np.asarray(-0.5 * ((_TAILS + 1.0) * np.log1p(gaps**2 / (_TAILS * variance)) + np.log(variance)))

"""Skills that hang on a task's features: the log-odds of an arm being right, with a linear term.

Arm k is right on a task with features x with log-odds b_kc + w_k·x, where c is the kind of the item, or its
right label where there are two. With two labels the log-odds of the second one are linear in x as well:
a text tells something of its label, and would otherwise pass that off as skill on items of that label.
Everything is fitted by EM to votes. The slopes have a normal prior, whose variance is learnt too (MacKay,
1992).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import expit, logit

from camvo.joint.models.explained import Explained
from camvo.joint.models.kinds import Kinds
from camvo.joint.models.two_coins import TwoCoins
from camvo.joint.vote_rows import Rows
from camvo.typing import Array

_STEPS: Final = 15
_FIRST_VARIANCE: Final = 1.0
"""The prior variance of a slope before the first step. Smaller ones leave EM at skills without slopes."""

_FIRST_ACCURACY: Final = 0.7
"""With two labels all arms start alike, because biases found without features may be skills."""

_ANCHOR_ROUNDS: Final = 5.0
"""So many rounds with average features pull the accuracy of an arm to that of the model without features."""

_LONGEST_STEP: Final = 3.0
_LOWEST, _HIGHEST = 0.005, 0.995
_LEAST_SHARE, _MOST_SHARE = 0.02, 0.98
"""The least and the most probable that features make a label."""

_WITNESS: Final = 0.5
"""How far the slopes of a label count beside votes. The models read the same text, so its word is no
independent witness: where it misleads, it misleads them too."""


@dataclass(frozen=True, slots=True, eq=False)
class SkillTerms:
    """The skills of K arms on items of C kinds, with r features.

    Attributes:
        model: the model of votes; it holds everything but the accuracies.
        base: b, shape (K, C).
        slopes: w, shape (K, r).
        lean: the slopes of the log-odds of the second of two labels, shape (r,); 0 where there are more.
    """

    model: TwoCoins | Kinds
    base: Array
    slopes: Array
    lean: Array

    def accuracy(self, features: Array) -> Array:
        """The accuracy of each arm on each task, shape (n, K, C), given features of shape (n, r)."""
        odds = self.base + (features @ self.slopes.T)[:, :, None]
        return np.asarray(np.clip(expit(odds), _LOWEST, _HIGHEST), dtype=np.float64)

    def at(self, features: Array) -> TwoCoins | Kinds:
        """The model of votes on one task, given its features, shape (r,).

        The slopes of the label count by half: features and votes have the same text behind them.
        """
        model = self._leaning(_WITNESS * features)
        return replace(model, accuracy=self.accuracy(features[None])[0])

    def evidence(self, rows: Rows, features: Array) -> Array:
        """The log-probability of the votes in each row, shape (n,)."""
        return self.explained(rows, features).evidence

    def explained(self, rows: Rows, features: Array) -> Explained:
        """What the votes in each row say. Without slopes the skills are the same on all tasks."""
        alike = not self.slopes.any()
        accuracy = self.accuracy(features[:1])[0] if alike else self.accuracy(features)
        return self._leaning(features).explained(rows, accuracy)

    def _leaning(self, features: Array) -> TwoCoins | Kinds:
        """The model with the labels' probabilities on tasks with these features, shape (…, r)."""
        if not isinstance(self.model, TwoCoins) or not self.lean.any():
            return self.model
        second = np.clip(expit(logit(self.model.share[1]) + features @ self.lean), _LEAST_SHARE, _MOST_SHARE)
        return replace(self.model, share=np.stack((1.0 - second, second), axis=-1))


def fit_skill_terms(
    model: TwoCoins | Kinds, rows: Rows, features: Array, *, skilled: bool = True
) -> SkillTerms:
    """Fit the terms by EM to rounds that asked all arms.

    Args:
        model: the model of votes without features.
        rows: vote rows, shape (n, K).
        features: shape (n, r), with mean 0 and mean variance 1.
        skilled: whether skills may hang on the features; otherwise only the label does.
    """
    anchor = logit(np.clip(model.accuracy, _LOWEST, _HIGHEST))
    count = features.shape[1]
    skills, leans = _Slopes.none(anchor, count if skilled else 0), _Slopes.none(np.zeros((1, 1)), count)
    if isinstance(model, TwoCoins):
        skills = replace(skills, base=np.full_like(anchor, logit(_FIRST_ACCURACY)))
        model = replace(model, share=np.full(2, 0.5))
    terms = _terms(model, skills, leans)
    for _ in range(_STEPS):
        explained = terms.explained(rows, features)
        seen = explained.mass * (rows >= 0).T[:, :, None]
        right = np.moveaxis(explained.right, 1, 0)
        skills = skills.taught(features[:, : skills.slopes.shape[1]], seen, right, anchor)
        if isinstance(model, TwoCoins):
            leans = leans.of_labels(explained, features)
        else:
            model = model.with_shares(explained.mass)
        terms = _terms(model, skills, leans)
    return terms


def fit_label_terms(model: TwoCoins, rows: Rows, features: Array) -> SkillTerms:
    """Fit by EM what features tell of the label; the accuracies stay those of the model.

    Args:
        model: the model of votes without features.
        rows: vote rows, shape (n, K).
        features: shape (n, r), with mean 0 and mean variance 1.
    """
    skills = _Slopes.none(logit(np.clip(model.accuracy, _LOWEST, _HIGHEST)), 0)
    leans = _Slopes.none(np.zeros((1, 1)), features.shape[1])
    for _ in range(_STEPS):
        leans = leans.of_labels(_terms(model, skills, leans).explained(rows, features), features)
    return _terms(model, skills, leans)


def _terms(model: TwoCoins | Kinds, skills: _Slopes, leans: _Slopes) -> SkillTerms:
    """The terms with these slopes; a model of two labels gets the labels' shares as well."""
    if isinstance(model, TwoCoins):
        second = float(np.clip(expit(leans.base[0, 0]), _LEAST_SHARE, _MOST_SHARE))
        model = replace(model, share=np.array([1.0 - second, second]))
    count = leans.slopes.shape[1]
    slopes = skills.slopes if skills.slopes.shape[1] == count else np.zeros((len(skills.base), count))
    return SkillTerms(model, skills.base, slopes, leans.slopes[0])


@dataclass(frozen=True, slots=True, eq=False)
class _Slopes:
    """Logistic regressions that are being fitted.

    Attributes:
        base: shape (K, C).
        slopes: shape (K, r).
        variance: the prior variance of a slope.
    """

    base: Array
    slopes: Array
    variance: float

    @classmethod
    def none(cls, base: Array, count: int) -> _Slopes:
        """No slopes yet."""
        return cls(base.copy(), np.zeros((len(base), count)), _FIRST_VARIANCE)

    def taught(self, features: Array, seen: Array, right: Array, anchor: Array) -> _Slopes:
        """After one Newton step; see :class:`_Lesson`."""
        lesson = _Lesson(features, seen, right, anchor, self.variance)
        step, spread = lesson.newton(self.base, self.slopes)
        kinds = self.base.shape[1]
        base, slopes = self.base + step[:, :kinds], self.slopes + step[:, kinds:]
        variance = (float((slopes**2).sum()) + spread + 0.2) / (slopes.size + 2.0)
        return _Slopes(base, slopes, variance)

    def of_labels(self, explained: Explained, features: Array) -> _Slopes:
        """After one Newton step of the log-odds of the second of two labels."""
        second = explained.mass[None, :, 1:]
        return self.taught(features, np.ones_like(second), second, np.zeros((1, 1)))


@dataclass(frozen=True, slots=True, eq=False)
class _Lesson:
    """What votes say about each arm's skill: K logistic regressions on soft labels.

    Attributes:
        features: shape (n, r).
        seen: the probability of each kind in rounds in which the arm voted, shape (K, n, C).
        right: the same, times the probability that the vote is right, shape (K, n, C).
        anchor: the log-odds without features, shape (K, C).
        variance: the prior variance of a slope.
    """

    features: Array
    seen: Array
    right: Array
    anchor: Array
    variance: float

    def newton(self, base: Array, slopes: Array) -> tuple[Array, float]:
        """One Newton step of each arm, shape (K, C + r), and the sum of the slopes' posterior variances."""
        (arms, kinds), x = base.shape, self.features
        chance = expit(base[:, None] + (slopes @ x.T)[:, :, None])
        expected, at_mean = self.seen * chance, expit(base)
        gap, curve = self.right - expected, expected * (1.0 - chance)
        gradient = np.concatenate(
            (
                gap.sum(axis=1) + _ANCHOR_ROUNDS * (expit(self.anchor) - at_mean),
                gap.sum(axis=2) @ x - slopes / self.variance,
            ),
            axis=1,
        )
        size = gradient.shape[1]
        hessian = np.zeros((arms, size, size))
        own = curve.sum(axis=1) + _ANCHOR_ROUNDS * at_mean * (1.0 - at_mean)
        hessian[:, range(kinds), range(kinds)] = own + 1e-6
        hessian[:, kinds:, :kinds] = x.T @ curve
        hessian[:, :kinds, kinds:] = np.swapaxes(hessian[:, kinds:, :kinds], 1, 2)
        hessian[:, kinds:, kinds:] = x.T @ (x * curve.sum(axis=2)[:, :, None])
        hessian[:, range(kinds, size), range(kinds, size)] += 1.0 / self.variance
        inverse = np.linalg.inv(hessian)
        step = (inverse @ gradient[:, :, None])[:, :, 0]
        longest = np.abs(step).max(axis=1, keepdims=True)
        step *= np.minimum(1.0, _LONGEST_STEP / np.maximum(longest, _LONGEST_STEP))
        return step, float(inverse[:, range(kinds, size), range(kinds, size)].sum())

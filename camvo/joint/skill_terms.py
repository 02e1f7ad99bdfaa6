"""Skills that hang on a task's features: the log-odds of an arm being right, with a linear term.

Arm k is right on a task with features x with log-odds b_kc + w_k·x, where c is the kind of the item, or its
right label where there are two. Everything is fitted by EM to votes. The slopes w have a normal prior, whose
variance is learnt too (MacKay, 1992).
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


@dataclass(frozen=True, slots=True, eq=False)
class SkillTerms:
    """The skills of K arms on items of C kinds, with r features.

    Attributes:
        model: the model of votes; it holds everything but the accuracies.
        base: b, shape (K, C).
        slopes: w, shape (K, r).
    """

    model: TwoCoins | Kinds
    base: Array
    slopes: Array

    def accuracy(self, features: Array) -> Array:
        """The accuracy of each arm on each task, shape (n, K, C), given features of shape (n, r)."""
        odds = self.base + (features @ self.slopes.T)[:, :, None]
        return np.asarray(np.clip(expit(odds), _LOWEST, _HIGHEST), dtype=np.float64)

    def at(self, features: Array) -> TwoCoins | Kinds:
        """The model of votes on one task, given its features, shape (r,)."""
        return replace(self.model, accuracy=self.accuracy(features[None])[0])

    def evidence(self, rows: Rows, features: Array) -> Array:
        """The log-probability of the votes in each row, shape (n,)."""
        return self.explained(rows, features).evidence

    def explained(self, rows: Rows, features: Array) -> Explained:
        """What the votes in each row say. Without any feature the skills are the same on all tasks."""
        accuracy = self.accuracy(features) if features.shape[1] else self.accuracy(features[:1])[0]
        return self.model.explained(rows, accuracy)


def fit_skill_terms(model: TwoCoins | Kinds, rows: Rows, features: Array) -> SkillTerms:
    """Fit the terms by EM to rounds that asked all arms.

    Args:
        model: the model of votes without features.
        rows: vote rows, shape (n, K).
        features: shape (n, r), with mean 0 and mean variance 1.
    """
    anchor = logit(np.clip(model.accuracy, _LOWEST, _HIGHEST))
    start, start_model = anchor, model
    if isinstance(model, TwoCoins):
        start = np.full_like(anchor, logit(_FIRST_ACCURACY))
        start_model = replace(model, share=np.full(2, 0.5))
    arms, count = len(anchor), features.shape[1]
    terms, variance = SkillTerms(start_model, start.copy(), np.zeros((arms, count))), _FIRST_VARIANCE
    for _ in range(_STEPS):
        explained = terms.explained(rows, features)
        lesson = _Lesson(
            features,
            explained.mass * (rows >= 0).T[:, :, None],
            np.moveaxis(explained.right, 1, 0),
            anchor,
            variance,
        )
        step, spread = lesson.newton(terms.base, terms.slopes)
        kinds = terms.base.shape[1]
        base, slopes = terms.base + step[:, :kinds], terms.slopes + step[:, kinds:]
        terms = SkillTerms(model.with_shares(explained.mass), base, slopes)
        variance = (float((slopes**2).sum()) + spread + 0.2) / (arms * count + 2.0)
    return terms


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

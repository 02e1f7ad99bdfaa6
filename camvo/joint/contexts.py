"""Where an arm's skill hangs on the task's context: a linear term on the log-odds of being right.

Arm k is right on a task with features x with log-odds b_kc + w_k·x, where c is the kind of the item, or its
right label where there are two. The features are the principal components of the contexts. All is fitted by
EM to the votes of rounds that asked all arms, with a normal prior on w whose variance is learnt too. It is
used only where it predicts the votes of held-out rounds better than the model without contexts, by two
standard errors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import expit, logit, logsumexp

from camvo.joint.kinds import Kinds
from camvo.joint.two_coins import TwoCoins
from camvo.joint.vote_rows import Rows
from camvo.typing import Array

_FEATURES: Final = 64
_STEPS: Final = 15
_FOLDS: Final = 3
_FEWEST: Final = 36
_ANCHOR: Final = 5.0
_SURELY: Final = 2.0
_FIRST_VARIANCE: Final = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    mean: Array
    axes: Array

    def of(self, contexts: Array) -> Array:
        return np.asarray((contexts - self.mean) @ self.axes, dtype=np.float64)


def principal_features(contexts: Array) -> Features:
    mean = contexts.mean(axis=0)
    centred = contexts - mean
    _, spread, axes = np.linalg.svd(centred, full_matrices=False)
    kept = min(_FEATURES, int((spread > 1e-6 * max(spread[0], 1e-12)).sum()))
    variance = spread[:kept] ** 2 / len(contexts)
    return Features(mean, axes[:kept].T / np.sqrt(variance.mean()))


@dataclass(frozen=True, slots=True, eq=False)
class Skills:
    """b (K, C), w (K, r)."""

    base: Array
    slope: Array

    def accuracy(self, features: Array) -> Array:
        """(n, K, C)."""
        return np.clip(expit(self.base + (features @ self.slope.T)[:, :, None]), 0.005, 0.995)


def responsibilities(model, rows, accuracy):
    """mass (n, C), right (n, K, C), evidence (n,)."""
    if isinstance(model, TwoCoins):
        joint = np.tile(np.log(model.share), (len(rows), 1))
        for c in range(2):
            p = accuracy[:, :, c]
            votes = np.where(rows == c, np.log(p), np.log1p(-p)) * (rows >= 0)
            joint[:, c] += votes @ model.temper
        evidence = logsumexp(joint, axis=1)
        mass = np.exp(joint - evidence[:, None])
        right = np.stack([(rows == c) * mass[:, c, None] for c in range(2)], axis=2)
        return mass, right, evidence
    from camvo.joint.kinds import _Named

    at = replace(model, accuracy=accuracy)
    label, _, evidence = at._posterior(_Named.of(rows, model.labels, model.temper))
    mass = label.sum(axis=1)
    right = label[np.arange(len(rows))[:, None], np.maximum(rows, 0)] * (rows >= 0)[:, :, None]
    return mass, right, evidence


def fit_skills(model, rows, features, steps=_STEPS):
    n, arms = rows.shape
    anchor = logit(np.clip(model.accuracy, 0.005, 0.995))
    skills = Skills(anchor.copy(), np.zeros((arms, features.shape[1])))
    classes, r = anchor.shape[1], features.shape[1]
    variance = _FIRST_VARIANCE
    for _ in range(steps):
        mass, right, _ = responsibilities(model, rows, skills.accuracy(features))
        base, slope = skills.base.copy(), skills.slope.copy()
        spread = 0.0
        for k in range(arms):
            seen = mass * (rows[:, k] >= 0)[:, None]
            p = expit(base[k] + (features @ slope[k])[:, None])  # n, C
            gap = right[:, k] - seen * p
            curve = seen * p * (1 - p)
            gradient = np.concatenate([gap.sum(axis=0), features.T @ gap.sum(axis=1)])
            h = np.zeros((classes + r, classes + r))
            h[:classes, :classes] = np.diag(curve.sum(axis=0))
            cross = features.T @ curve
            h[classes:, :classes], h[:classes, classes:] = cross, cross.T
            h[classes:, classes:] = (features * curve.sum(axis=1)[:, None]).T @ features + np.eye(r) / variance
            p0, q0 = expit(base[k]), expit(anchor[k])
            gradient[:classes] += _ANCHOR * (q0 - p0)
            gradient[classes:] -= slope[k] / variance
            h[range(classes), range(classes)] += _ANCHOR * p0 * (1 - p0) + 1e-6
            inverse = np.linalg.inv(h)
            step = inverse @ gradient
            step *= min(1.0, 3.0 / np.abs(step).max())
            base[k] += step[:classes]
            slope[k] += step[classes:]
            spread += np.trace(inverse[classes:, classes:])
        skills = Skills(base, slope)
        variance = (float((slope**2).sum()) + spread + 0.2) / (arms * r + 2.0)
    return skills, variance

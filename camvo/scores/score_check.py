"""Whether scores keep their word: an alarm that may be looked at after every label.

A score s promises that its label is right with probability s. Whoever bets at these odds that labels are
right less often multiplies the wealth by e^(λr) / (1 − s + s·e^λ) at each label, with r = 1 for a right one
and a bet λ < 0. If scores keep their word, the wealth ever reaches 1/α with probability at most α
(:mod:`camvo.numerics.wagers`), whatever decides which label comes next and however often one looks. The odds
are those of the score less a tolerance, so that scores which are nearly right never raise an alarm. The same
holds for bets that labels are right more often, with the score plus the tolerance.

The wealth of the past does not vanish once scores are mended. The alarm is therefore over when the latest
labels no longer contradict their scores; that can only end alarms, so it leaves α as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import logsumexp

from camvo.numerics.proportion import clopper_pearson
from camvo.typing import Array

LEVEL = 0.02
"""α, the probability of ever raising a false alarm about a question, over both directions."""

TOLERANCE = 0.05
"""By how much a score may differ from the share right without an alarm."""

LEAST = 10
"""Labels that an alarm needs."""

LATEST = 100
"""Labels that decide whether an alarm is over."""

_BETS = np.array([0.4, 0.8, 1.6, 3.2])
"""|λ|: the odds are e^0.4 to e^3.2 times as high, or as low, as promised."""


@dataclass(frozen=True, slots=True)
class ScoreCheck:
    """The scores of the latest labels beside what people said of them.

    Attributes:
        count: the number of these labels.
        score: their mean score.
        share: how many of them were right.
        low: the lower bound of the 95% interval of that (Clopper and Pearson).
        high: the upper bound.
        off: whether scores are too ``high`` or too ``low``; ``None`` if nothing says so.
    """

    count: int
    score: float
    share: float
    low: float
    high: float
    off: Literal["high", "low"] | None


def check_scores(labels: Sequence[tuple[float, float]]) -> ScoreCheck | None:
    """Check scores against people's answers; ``None`` without a label.

    Args:
        labels: the score that was fixed before the answer, and the reward, each in [0, 1], in the order in
            which labels were predicted.
    """
    if not labels:
        return None
    scores, rewards = np.asarray(labels, dtype=np.float64).T
    latest_scores, latest_rewards = scores[-LATEST:], rewards[-LATEST:]
    low, high = clopper_pearson(float(latest_rewards.sum()), len(latest_rewards))
    mean = float(latest_scores.mean())
    needed = math.log(2.0 / LEVEL)
    off: Literal["high", "low"] | None = None
    if len(labels) >= LEAST:
        if mean - TOLERANCE > high and _evidence(scores - TOLERANCE, rewards, -_BETS) >= needed:
            off = "high"
        elif mean + TOLERANCE < low and _evidence(scores + TOLERANCE, rewards, _BETS) >= needed:
            off = "low"
    return ScoreCheck(len(latest_rewards), mean, float(latest_rewards.mean()), low, high, off)


def _evidence(promised: Array, rewards: Array, bets: Array) -> float:
    """The logarithm of the wealth, spread evenly over the bets."""
    share = np.clip(promised, 0.0, 1.0)[:, None]
    factors = rewards[:, None] * bets - np.log(1.0 - share + share * np.exp(bets))
    return float(logsumexp(factors.sum(axis=0)) - math.log(len(bets)))

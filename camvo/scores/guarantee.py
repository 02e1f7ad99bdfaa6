"""The selective guarantee: at least 97% of all labels with score ≥ s are right; and the recall of one label.

People look at the result repeatedly and stop when they like it. An interval made for a single look, such as
Clopper and Pearson's, is then wrong far more often than its level allows. A *betting test* (test martingale)
stays valid under repeated looks:

- Each threshold s of a fixed grid runs one test of the hypothesis that at most a share m of its labels are
  right. A label belongs to the test if its score is at least s and it was audited.
- The test's wealth starts at 1. At each label it is multiplied by 1 + λ(r − m), with r = 1 for a right label
  and 0 for a wrong one. The bet λ = u/m is mixed over a fixed grid of u in (0, 1).
- If the hypothesis holds, the wealth is a supermartingale. By Ville's inequality it ever reaches 1/a with
  probability at most a. A threshold that may be wrong with probability a therefore needs the wealth 1/a.
- The error α is split in two halves. One is shared equally by all G thresholds. The other half belongs to
  the highest threshold, which passes all its error to the next lower one once it is certified, and so on
  downwards (the *fallback procedure* of Wiens). The half from the top needs fewer labels where most scores
  are high. The shared half certifies a lower threshold where few scores reach the highest.

Betting and the beta-binomial mixture are equivalent for binary outcomes. A bet u is the likelihood ratio of
m + (1 − m)u to m, and a uniform u is a mixture over shares above m only. The two-sided mixture also spreads
over shares below m, which cannot support the claim, so its bound is looser. A mixture of finitely many bets
needs no integration. The grid of bets has equal weights at quantiles of Beta(1, ½), which prefers shares
near 1. At 97% it needs a sixth fewer labels than a uniform grid where none is wrong, as many where two are
wrong, and 3% more where five or ten are.

The wealth depends on how many labels were right and wrong, not on their order. It is computed from counts,
and a withdrawn answer is subtracted from them. A partly right label counts in both, which can only lower the
wealth, because the logarithm is concave.

The certified quantity is the mean, over all audited labels so far with a score of at least s, of their
probability of being right when they were audited. It does not cover future labels from another distribution.
The half that is passed down is valid only if a threshold whose share is above m stays above it. The shared
half is also valid if texts, models and calibration drift, and if a label's score depends on all previous
rounds. The test requires that

- audits were chosen at random before any vote,
- they come in an order that was fixed before any answer, and none is left out,
- the human saw no prediction,
- the score was fixed before the human answered, and
- the human's answer taught neither the label nor the score.

**Recall**: tasks with at least some score of it hold 95% of all that have it.

Each task has a score of the label, such as its probability, fixed before anybody answered. Blind tasks that
people gave the label are a random sample of all tasks with it, and a threshold t finds those with a score of
at least t. So each of them is a trial that succeeds with the probability that is sought: the *recall* of t. A
betting test of "the recall is at most the target" is valid at every look.

Choosing t among all thresholds needs no correction. The recall falls as t rises, and so does the number of
tasks found at every look, and with it the wealth. Let t* be the lowest threshold whose recall is too low. A
higher one is only certified if t* is too, which has a probability of at most 1 − confidence.

Nothing is assumed of the scores: models may be wrong, related or silent. But the blind tasks must be a random
sample, and people must not have seen the scores. Later tasks are covered once blind tasks among them are
labelled. Only tasks with the label say anything: at 95%, 74 of them are needed if all are found. Blind tasks
chosen where the label is probable would show more of it, but nothing of what is missed elsewhere.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from statistics import median_low
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtr, poch

from camvo.errors import InvalidParameterError
from camvo.typing import Array


def queue_place(project: str, task: int) -> int:
    """A task's place within its cohort: a hash in [0, 2⁶³), independent of the one that makes it blind."""
    digest = hashlib.sha256(f"queue:{project}:{task}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


@dataclass(frozen=True, slots=True)
class BlindTask:
    """One task of the queue, for one question.

    Attributes:
        cohort: the number of its cohort; lower ones come first.
        place: its place in the cohort (:func:`queue_place`).
        task: its number, which decides between equal places.
        score: the score that was fixed before anybody answered, in [0, 1].
        reward: how right its label counts, in [0, 1]; ``None`` while nobody has answered.
    """

    cohort: int
    place: int
    task: int
    score: float
    reward: float | None

    @property
    def position(self) -> tuple[int, int, int]:
        """What the queue is ordered by."""
        return self.cohort, self.place, self.task


def unbroken_run(queue: Iterable[BlindTask]) -> list[BlindTask]:
    """The answered tasks from the front of the queue, up to the first that nobody has answered."""
    in_order = sorted(queue, key=lambda blind: blind.position)
    return list(takewhile(lambda blind: blind.reward is not None, in_order))


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The verdicts of the answers on one blind task about its label. No verdict can be raised later.

    People usually take a second look at labels that disagreed with the vote. If that could turn a wrong label
    into a right one, errors in the vote's favour would remain and the others would disappear. So the first
    answer is an upper bound for later ones, and a changed answer counts with its lowest verdict so far.

    Attributes:
        first: how right the label was by the first answer, in [0, 1]; ``None`` before it.
        lowest: the number of an answer → how right the label was by it, the least of its versions.
    """

    first: float | None = None
    lowest: Mapping[int, float] = field(default_factory=dict)

    def after(self, standing: Mapping[int, float]) -> Verdicts:
        """The verdicts after these answers, by number in the order of their arrival."""
        first = self.first if self.first is not None else next(iter(standing.values()), None)
        changed = {number: min(reward, self.lowest.get(number, 1.0)) for number, reward in standing.items()}
        return Verdicts(first, {**self.lowest, **changed})

    def reward(self, standing: Iterable[int]) -> float:
        """How right the label counts as being, given the answers that remain, in [0, 1].

        It is the first verdict or the lower median of the remaining ones, whichever is less. Two people who
        disagree are tied, which the lower median counts as wrong. If no answer remains, because the task was
        skipped or its answers were deleted or withdrawn, the label counts as wrong.
        """
        rewards = [self.lowest[number] for number in standing]
        if self.first is None or not rewards:
            return 0.0
        return min(self.first, median_low(rewards))


_GRID = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975)
"""The default thresholds, fixed before any audit."""

_BETS = 1.0 - (1.0 - (np.arange(32) + 0.5) / 32) ** 2
"""The grid of u = λm, shape (32,): quantiles of Beta(1, ½), all of the same weight."""

_LOG_LOSSES = np.log1p(-_BETS)
"""The change of each bet's log wealth by a wrong label, shape (32,)."""

_BISECTIONS = 50


@dataclass(frozen=True, slots=True)
class Certified:
    """A threshold that the audits certify.

    Attributes:
        threshold: s; labels with at least this score may be accepted.
        bound: at least this share of these labels is right, with the guarantee's confidence; the target, or
            more where the threshold's own part of the error allows it.
        audits: the number of audited labels with at least this score.
        right: the sum of their rewards.
        freed: the share of audited labels with at least this score, which estimates the share of all labels
            that need no review.
    """

    threshold: float
    bound: float
    audits: int
    right: float
    freed: float


class Guarantee:
    """A betting test per threshold, computed from counts of audited labels.

    Args:
        grid: the G thresholds s, ascending, in [0, 1]. They must be chosen without looking at audits.
        target: the required share of right labels, in (0, 1).
        confidence: 1 − α, in (0, 1).

    Raises:
        InvalidParameterError: a parameter is out of range.

    >>> guarantee = Guarantee(target=0.97)
    >>> guarantee.update([(0.96, 1.0)] * 300)  # 300 audited labels with the score 0.96, all of them right
    >>> guarantee.certified().audits
    300
    """

    def __init__(self, grid: Sequence[float] = _GRID, target: float = 0.97, confidence: float = 0.95) -> None:
        rising = all(low < high for low, high in pairwise(grid))
        if not grid or not rising or not (grid[0] >= 0.0 and grid[-1] <= 1.0):
            raise InvalidParameterError(f"thresholds must be in [0, 1] and ascend, got {list(grid)}")
        if not (0.0 < target < 1.0 and 0.0 < confidence < 1.0):
            raise InvalidParameterError(
                f"target and confidence must be in (0, 1), got {target} and {confidence}"
            )
        self.grid = tuple(grid)
        self.target = target
        self.confidence = confidence
        self.counts: Array = np.zeros((len(grid) + 1, 2))
        """Audited labels by score cell and (wrong, right), shape (G + 1, 2). Cell 0 is below the grid."""

    def update(self, audits: Iterable[tuple[float, float]], sign: int = 1) -> None:
        """Add or withdraw audited labels.

        Args:
            audits: the score that was fixed before the human answered, and the reward, each in [0, 1].
            sign: +1 to add, −1 to withdraw.

        Raises:
            InvalidParameterError: a score or a reward is outside [0, 1].
        """
        for score, right in audits:
            if not (0.0 <= score <= 1.0 and 0.0 <= right <= 1.0):
                raise InvalidParameterError(f"scores and rewards must be in [0, 1], got {score} and {right}")
            cell = self.counts[bisect_right(self.grid, score)]
            cell[0] += sign * (1.0 - right)
            cell[1] += sign * right

    def log_wealth(self, share: float) -> Array:
        """The logarithm of each test's wealth against "at most ``share`` are right", shape (G,)."""
        return _log_wealth(*self._above, np.full(len(self.grid), share))

    @property
    def bounds(self) -> Array:
        """A lower bound of the share of right labels for each threshold, valid at every look, shape (G,).

        All bounds hold together. Each uses only its threshold's own part of the error.
        """
        required = -np.log(self._own_errors)
        low: Array = np.zeros(len(self.grid))
        high: Array = np.ones(len(self.grid))
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2.0
            exceeded = _log_wealth(*self._above, middle) >= required
            low, high = np.where(exceeded, middle, low), np.where(exceeded, high, middle)
        return low

    def certified(self) -> Certified | None:
        """Return the smallest certified threshold, or ``None`` if no threshold is certified."""
        at = self._smallest_certified()
        if at is None:
            return None
        wrong, right = (float(count[at]) for count in self._above)
        return Certified(
            threshold=self.grid[at],
            bound=max(self.target, float(self.bounds[at])),
            audits=round(wrong + right),
            right=right,
            freed=(wrong + right) / float(self.counts.sum()),
        )

    def threshold(self) -> float | None:
        """The smallest certified threshold, without the bound that :meth:`certified` computes."""
        at = self._smallest_certified()
        return None if at is None else self.grid[at]

    def _smallest_certified(self) -> int | None:
        """The index of the smallest certified threshold; each passes its error down once it is certified."""
        log_wealth, own, found, handed = self.log_wealth(self.target), self._own_errors, None, 0.0
        for at in reversed(range(len(self.grid))):
            error = own[at] + handed
            certified = log_wealth[at] >= -math.log(error)
            found, handed = (at, error) if certified else (found, 0.0)
        return found

    @property
    def _own_errors(self) -> Array:
        """Each threshold's own part of the error, shape (G,); they sum to α."""
        alpha = 1.0 - self.confidence
        errors: Array = np.full(len(self.grid), alpha / 2.0 / len(self.grid))
        errors[-1] += alpha / 2.0
        return errors

    @property
    def _above(self) -> tuple[Array, Array]:
        """The sums of wrong and of right labels at or above each threshold, each of shape (G,)."""
        wrong, right = self.counts[:0:-1].cumsum(axis=0)[::-1].T
        return wrong, right


def _log_wealth(wrong: Array, right: Array, shares: Array) -> Array:
    """The log wealth of G tests, mixed over all bets; all arguments have shape (G,), or (1,) if alike."""
    gain = np.log1p(_BETS * ((1.0 - shares) / shares)[:, None])
    log_wealth = right[:, None] * gain + wrong[:, None] * _LOG_LOSSES
    most = log_wealth.max(axis=1)
    mean = np.exp(log_wealth - most[:, None]).mean(axis=1)
    return np.asarray(most + np.log(mean), dtype=np.float64)


_PRIOR = 4.0
"""The weight of the score itself, in labels, in the expected share of right labels of a cell of the grid."""


def labels_to_certify(
    audits: Sequence[tuple[float, float]], scores: Sequence[tuple[float, float]], target: float, *, most: int
) -> int | None:
    """Return the fewest further blind labels that are expected to certify some score.

    Further labels are expected to have scores like all labels, and to be right as often as the blind labels
    so far with such a score, with the score itself counting for four labels.

    Args:
        audits: score and reward of the blind labels that count, each in [0, 1].
        scores: (score, number of labels) over all labels.
        target: the share that must be right, in (0, 1).
        most: how many labels to consider at most.

    Returns:
        The number, 0 if the labels certify already; ``None`` if ``most`` labels are not expected to suffice.

    Raises:
        InvalidParameterError: there is no label at all.

    >>> labels_to_certify([(0.99, 1.0)] * 20, [(0.99, 500)], 0.9, most=500)
    24
    """
    guarantee = Guarantee(target=target)
    guarantee.update(audits)
    so_far = guarantee.counts.copy()
    expected = _expected(guarantee, scores)

    def suffice(more: int) -> bool:
        guarantee.counts = so_far + more * expected
        return guarantee.threshold() is not None

    if suffice(0):
        return 0
    enough = next((more for more in _growing(most) if suffice(more)), None)
    if enough is None:
        return None
    too_few = max((more for more in _growing(most) if more < enough), default=0)
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        too_few, enough = (too_few, middle) if suffice(middle) else (middle, enough)
    return enough


def _expected(guarantee: Guarantee, scores: Sequence[tuple[float, float]]) -> Array:
    """The (wrong, right) of one further label by cell of the grid, shape (G + 1, 2)."""
    mass, score_mass = np.zeros(len(guarantee.grid) + 1), np.zeros(len(guarantee.grid) + 1)
    for score, number in scores:
        cell = bisect_right(guarantee.grid, score)
        mass[cell] += number
        score_mass[cell] += number * score
    if mass.sum() <= 0.0:
        raise InvalidParameterError("there is no label to certify")
    prior = np.divide(score_mass, mass, out=np.zeros_like(mass), where=mass > 0.0)
    right = (guarantee.counts[:, 1] + _PRIOR * prior) / (guarantee.counts.sum(axis=1) + _PRIOR)
    share = mass / mass.sum()
    return np.column_stack([share * (1.0 - right), share * right])


def _growing(most: int) -> list[int]:
    """1, 2, 3, 5, 7, 11, …: about a tenth more each time beyond ten, up to ``most``."""
    numbers, number = [], 1
    while number < most:
        numbers.append(number)
        number += 1 + number // 4
    return [*numbers, most] if most > 0 else []


_BINS = 100
"""The bins of the score into which labels are sorted, which keeps the work independent of their number."""

_SHIFTS = np.linspace(-8.0, 8.0, 81)
_SLOPES = np.exp(np.linspace(-2.5, 1.5, 25))

_DF = 3.0
_UNITS = _SHIFTS / 3.0

# scipy.stats has these densities: Student's t of the shift, the log-normal of the slope. Importing it takes
# longer than all of camvo.
_LOG_PRIOR = (
    (np.log(poch(0.5 * _DF, 0.5)) - 0.5 * (np.log(_DF) + np.log(np.pi)))
    - ((_DF + 1) / 2 * np.log1p(_UNITS * _UNITS / _DF))[:, None]
    + (-(np.log(_SLOPES) ** 2) / 2 - np.log(_SLOPES * np.sqrt(2 * np.pi)))[None, :]
    + np.log(_SLOPES)[None, :]  # the grid is even in the logarithm
)
"""Heavy tails for the shift, since scores can be far off; slopes mostly between 1/5 and 5. Shape (A, B)."""

_SHARE_RIGHT_BISECTIONS = 40


@dataclass(frozen=True, slots=True)
class _EstimatedShare:
    """An estimated share with the bounds of its 95% interval, each in [0, 1]."""

    share: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ScoreCounts:
    """Labels sorted by their scores into 100 bins of equal width.

    Attributes:
        labels: how many labels each bin has, shape (100,).
        checked: how many of them people reviewed, shape (100,).
        right: the sum of these labels' rewards, shape (100,).
    """

    labels: Array
    checked: Array
    right: Array

    @classmethod
    def of(cls, scores: Sequence[float], checked: Sequence[tuple[float, float]]) -> ScoreCounts:
        """Sort the scores of all labels, and (score, reward) of the reviewed ones, which are among them."""
        labels: Array = np.zeros(_BINS)
        reviewed, right = np.zeros(_BINS), np.zeros(_BINS)
        np.add.at(labels, ScoreCounts.bin_of(np.asarray(scores, dtype=np.float64)), 1.0)
        for score, reward in checked:
            place = int(ScoreCounts.bin_of(np.asarray(score)))
            reviewed[place] += 1.0
            right[place] += reward
        return cls(labels, reviewed, right)

    @staticmethod
    def bin_of(scores: Array) -> NDArray[np.int64]:
        """The bin of each score in [0, 1]; the result has the shape of the argument."""
        return np.minimum((scores * _BINS).astype(np.int64), _BINS - 1)

    def share_right(self) -> _EstimatedShare:
        """Estimate the share of all labels that are right, with its 95% interval.

        Raises:
            InvalidParameterError: there is no label, or more are reviewed than there are.

        >>> counts = ScoreCounts.of([0.9] * 100, [(0.9, 1.0)] * 15 + [(0.9, 0.0)] * 15)
        >>> round(counts.share_right().share, 1)
        0.5
        """
        total, open_ = float(self.labels.sum()), self.labels - self.checked
        if total <= 0.0 or np.any(open_ < 0.0):
            raise InvalidParameterError("need labels, reviewed ones among them")
        chance, filled = _chances(self.labels)
        right, open_ = self.right[filled], open_[filled]
        wrong = self.checked[filled] - right
        log_weight = _LOG_PRIOR + np.log(chance) @ right + np.log1p(-chance) @ wrong
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        mean = (right.sum() + chance @ open_) / total
        deviation = np.sqrt((chance * (1.0 - chance)) @ open_) / total
        return _EstimatedShare(
            share=float((weight * mean).sum()),
            low=_quantile(weight, mean, deviation, 0.025),
            high=_quantile(weight, mean, deviation, 0.975),
        )


def _chances(labels: Array) -> tuple[Array, NDArray[np.intp]]:
    """The probability of being right for each shift, slope and bin with labels, and which bins these are."""
    filled = np.flatnonzero(labels)
    odds = logit((filled + 0.5) / _BINS)
    middle = float(odds @ labels[filled] / labels.sum())
    shifted = odds + _SHIFTS[:, None, None] + (_SLOPES[:, None] - 1.0) * (odds - middle)
    return np.clip(expit(shifted), 1e-9, 1.0 - 1e-9), filled


def _quantile(weight: Array, mean: Array, deviation: Array, tail: float) -> float:
    """A quantile of the mixture of normal distributions, by bisection."""
    low, high, spread = 0.0, 1.0, np.maximum(deviation, 1e-9)
    for _ in range(_SHARE_RIGHT_BISECTIONS):
        middle = (low + high) / 2.0
        below = float((weight * ndtr((middle - mean) / spread)).sum()) < tail
        low, high = (middle, high) if below else (low, middle)
    return (low + high) / 2.0


CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True)
class LabelFound:
    """What a threshold finds of a label.

    Attributes:
        threshold: tasks with at least this score are found.
        bound: at least this share of the tasks with the label is found, with the confidence.
        blind: the number of blind tasks with the label, and of those that are neither known nor found.
        found: how many of them are found.
    """

    threshold: float
    bound: float
    blind: int
    found: int


def label_found(blind: Sequence[tuple[float, bool | None]], target: float) -> LabelFound | None:
    """The highest threshold that finds a share ``target`` of a label; ``None`` if none is certified.

    Args:
        blind: the score of each blind task, in [0, 1], and whether people say that it has the label; ``None``
            if that is not known. Such a task counts as missed wherever it is not found.
        target: the share to find, in (0, 1).

    Raises:
        InvalidParameterError: the target is out of range.

    >>> label_found([(0.9, True)] * 60 + [(0.2, True)] * 20 + [(0.1, False)] * 500, 0.95).threshold
    0.2
    """
    if not 0.0 < target < 1.0:
        raise InvalidParameterError(f"target must be in (0, 1), got {target}")
    has: Array = np.sort(np.array([score for score, label in blind if label], dtype=np.float64))
    unknown = np.sort([score for score, label in blind if label is None])
    at_or_above, below = np.arange(len(has), 0, -1), np.arange(len(has)) + np.searchsorted(unknown, has)
    found, missed = at_or_above.astype(np.float64), below.astype(np.float64)
    required = -np.log(1.0 - CONFIDENCE)
    certified = _log_wealth(missed, found, np.array([target])) >= required
    if not certified.any():
        return None
    at = int(np.flatnonzero(certified)[-1])
    at = int(np.searchsorted(has, has[at]))  # equal scores are found together
    low, high = target, 1.0
    for _ in range(_SHARE_RIGHT_BISECTIONS // 5):  # a call finds which of 32 parts, as five bisections do
        parts: Array = low + (high - low) * np.arange(1, 32, dtype=np.float64) / 32.0
        holding = int((_log_wealth(missed[[at]], found[[at]], parts) >= required).sum())
        low, high = parts[holding - 1] if holding else low, parts[holding] if holding < 31 else high
    return LabelFound(float(has[at]), float(low), int(missed[at] + found[at]), int(found[at]))


def labels_to_find(target: float) -> int:
    """The fewest blind tasks with a label that certify its recall, if every one of them is found.

    >>> labels_to_find(0.95)
    74
    """
    count = 1
    while _log_wealth(np.zeros(1), np.full(1, float(count)), np.array([target]))[0] < -np.log(
        1.0 - CONFIDENCE
    ):
        count += 1
    return count

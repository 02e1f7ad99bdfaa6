"""Measures of a replay: accuracy, the quality of its scores, and the interval of a mean over runs.

Labels and truth are positions in the label set, shape (n,), and so are the votes of K models, shape (n, K).
``weights`` has one weight for each model's vote, shape (K,), and ``count`` is M, the number of labels. A
missing value is −1:

- A truth of −1 is unknown. Only :func:`full_vote_agreement` counts such items.
- A label of −1 is no answer. It is wrong and predicts no label. :func:`calibration_error` ignores it, and
  :func:`risk_coverage_area` ranks it below every answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from camvo.errors import InvalidParameterError
from camvo.numerics.small import TIE
from camvo.scores.calibration import BINS, reliability, risk_curve
from camvo.typing import Array

_CONFIDENCE = 0.95
"""The confidence level of :func:`mean_interval`."""


@dataclass(frozen=True, slots=True)
class _LabelQuality:
    """Precision, recall and F1 of one label; a ratio whose denominator is 0 is ``None``."""

    precision: float | None
    recall: float | None
    f1: float | None
    support: int


def accuracy(labels: NDArray[np.int64], truth: NDArray[np.int64]) -> float | None:
    """Compute the share of right labels, or ``None`` if no truth is known."""
    known = truth >= 0
    return float(np.mean(labels[known] == truth[known])) if known.any() else None


def calibration_error(
    labels: NDArray[np.int64], scores: Array, truth: NDArray[np.int64], bins: int = BINS
) -> float | None:
    """Compute the ECE: the mean of |accuracy − mean score| over bins, weighted by their numbers of items.

    ``None`` if no item has both an answer and a known truth. The bins divide [0, 1] into equal parts. A score
    on the edge of two bins belongs to the lower one.
    """
    diagram = reliability(labels, scores, truth, bins)
    items = int(diagram.counts.sum())
    if not items:
        return None
    return float(np.nansum(diagram.counts * np.abs(diagram.accuracy - diagram.score)) / items)


def risk_coverage_area(labels: NDArray[np.int64], scores: Array, truth: NDArray[np.int64]) -> float | None:
    """Compute the AURC: the mean over m = 1 … n of the error rate of the m items with the highest scores.

    ``None`` if no truth is known. Items with equal scores are averaged over all their orders, so the order of
    the items does not matter.
    """
    errors = risk_curve(labels, scores, truth)
    return float(np.mean(errors)) if len(errors) else None


def quality_by_label(
    labels: NDArray[np.int64], truth: NDArray[np.int64], count: int
) -> tuple[_LabelQuality, ...]:
    """Precision, recall and F1 of each label, in the order of the label set."""
    known = truth >= 0
    predictions, right_labels = labels[known], truth[known]
    true_positives = np.bincount(right_labels[predictions == right_labels], minlength=count)
    predicted = np.bincount(predictions[predictions >= 0], minlength=count)
    support = np.bincount(right_labels, minlength=count)
    return tuple(
        _LabelQuality(_ratio(tp, named), _ratio(tp, true), _ratio(2 * tp, named + true), int(true))
        for tp, named, true in zip(true_positives, predicted, support, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _ScaleQuality:
    """How far labels on a scale are from the right ones, in steps.

    Attributes:
        within_one: the share of labels that are at most one step off.
        absolute: the mean number of steps that labels are off.
        kappa: Cohen's kappa with quadratic weights; ``None`` if labels or truth never vary.
    """

    within_one: float
    absolute: float
    kappa: float | None


def scale_quality(labels: NDArray[np.int64], truth: NDArray[np.int64]) -> _ScaleQuality | None:
    """Measure labels on a scale, as positions from the lowest; ``None`` without answer of known truth.

    Items without an answer are left out, because no answer has no place on a scale.
    """
    known = (truth >= 0) & (labels >= 0)
    if not known.any():
        return None
    said, right = labels[known].astype(np.float64), truth[known].astype(np.float64)
    steps = np.abs(said - right)
    chance = said.var() + right.var() + (said.mean() - right.mean()) ** 2
    kappa = None if chance == 0.0 else float(1.0 - (steps**2).mean() / chance)
    return _ScaleQuality(float((steps <= 1.0).mean()), float(steps.mean()), kappa)


def scale_median(votes: NDArray[np.int64], weights: Array, count: int) -> NDArray[np.int64]:
    """The weighted median of all models' votes on a scale, the lower one of two; −1 where nobody voted."""
    sums = np.stack([(votes == label) @ weights for label in range(count)], axis=1).cumsum(axis=1)
    middle = (sums >= sums[:, -1:] / 2.0 - TIE).argmax(axis=1)
    return np.where((votes >= 0).any(axis=1), middle, -1)


def full_vote_agreement(labels: NDArray[np.int64], full: NDArray[np.int64]) -> float | None:
    """The share of labels that equal those of :func:`full_vote`; ``None`` if that decides no item."""
    decided = full >= 0
    return float(np.mean(labels[decided] == full[decided])) if decided.any() else None


def model_accuracy(votes: NDArray[np.int64], truth: NDArray[np.int64]) -> Array:
    """Each model's share of right votes on items with known truth, shape (K,); NaN without any vote."""
    known = truth >= 0
    cast = votes[known] >= 0
    right = (votes[known] == truth[known, None]).sum(axis=0)
    with np.errstate(invalid="ignore"):
        return np.asarray(right / cast.sum(axis=0), dtype=np.float64)


def full_vote(votes: NDArray[np.int64], truth: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The label positions by the vote of all models, each weighted by its true accuracy, shape (n,).

    This is the paper's majority vote, the reference for the accuracy of asking every model. No policy can use
    it, because it needs the truth. If no truth is known, all weights are equal.
    """
    return weighted_labels(votes, full_vote_weights(votes, truth), count)


def full_vote_weights(votes: NDArray[np.int64], truth: NDArray[np.int64]) -> Array:
    """Compute the weights of :func:`full_vote`, shape (K,): 0 for a model without a vote of known truth."""
    if not (truth >= 0).any():
        return np.ones(votes.shape[1])
    return np.nan_to_num(model_accuracy(votes, truth), nan=0.0)


def weighted_labels(votes: NDArray[np.int64], weights: Array, count: int) -> NDArray[np.int64]:
    """The label with the largest sum of weights on each item, shape (n,); −1 where no model voted.

    Sums that differ by less than 1e-12 are tied, and the label that comes first wins, as in
    :func:`camvo.votes.labels.weighted_vote` with equal tie-breakers.
    """
    sums = np.full((len(votes), count), -np.inf)
    for model, weight in enumerate(weights):
        (voted,) = np.nonzero(votes[:, model] >= 0)
        label = votes[voted, model]
        sums[voted, label] = np.maximum(sums[voted, label], 0.0) + weight
    top = sums.max(axis=1, keepdims=True)
    winners = np.argmax(sums >= top - TIE, axis=1)
    return np.where(np.isfinite(top[:, 0]), winners, -1)


def mean_interval(values: Sequence[float]) -> tuple[float, tuple[float, float] | None]:
    """The mean over runs and its 95% interval by Student's t; no interval for a single run."""
    mean, n = float(np.mean(values)), len(values)
    if n < 2:
        return mean, None
    half = float(stdtrit(n - 1, (1.0 + _CONFIDENCE) / 2.0) * np.std(values, ddof=1) / np.sqrt(n))
    return mean, (mean - half, mean + half)


def _ratio(part: int, whole: int) -> float | None:
    return float(part / whole) if whole else None


@dataclass(frozen=True, slots=True)
class ClairvoyantBound:
    """The mean over items of the shortest sequence of models whose weighted vote is the answer.

    A sequence starts with the cheapest model and adds the others in ascending order of cost.

    Attributes:
        reached: the share of items that have such a sequence, in [0, 1].
        cost: the mean cost per item of that sequence, in the unit of the prices. An item without such a
            sequence counts with the cost of the cheapest model.
    """

    reached: float
    cost: float


def clairvoyant_bound(
    votes: NDArray[np.int64], weights: Array, costs: Array, answers: NDArray[np.int64], count: int
) -> ClairvoyantBound | None:
    """The bound for policies that ask the cheapest model first; ``None`` if no item has an answer.

    A policy that asks in another order can be cheaper than this. Models of equal cost are asked in the order
    of the columns. ``costs`` is what asking each model about one item costs, shape (K,); ``answers`` are the
    label positions that the vote has to reach, the truth or the full vote.
    """
    known = answers >= 0
    if not known.any():
        return None
    order = np.argsort(costs, kind="stable")
    prefix_costs = np.cumsum(costs[order])
    cost = np.full(int(known.sum()), prefix_costs[0])
    reached = np.zeros(len(cost), dtype=np.bool_)
    for length in range(1, len(order) + 1):
        prefix = order[:length]
        correct = weighted_labels(votes[known][:, prefix], weights[prefix], count) == answers[known]
        cost[correct & ~reached] = prefix_costs[length - 1]
        reached |= correct
    return ClairvoyantBound(float(reached.mean()), float(cost.mean()))


_MOST_SETS = 2**12 - 1
"""The number of non-empty sets of 12 models. With more models, a sample of about this size is drawn."""

_CHUNK = 2**23
"""The number of sums of weights that are held in memory at once."""


def fixed_sets(models: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Indicator rows of sets of models, shape (S, K), by ascending size; a sample with more than 12 models.

    With up to 12 models, these are all 2ᴷ − 1 non-empty sets. A sample holds the single models, the set of
    all models and random sets, whose sizes are uniform. No set occurs twice.

    Raises:
        InvalidParameterError: K is 0.
    """
    if models < 1:
        raise InvalidParameterError(f"fixed sets need at least one model, got {models}")
    if 2**models - 1 <= _MOST_SETS:
        numbers = np.arange(1, 2**models)
        sets = (numbers[:, None] >> np.arange(models) & 1).astype(np.bool_)
    else:
        rank = rng.random((_MOST_SETS, models)).argsort(axis=1)
        sample = rank < rng.integers(1, models + 1, size=_MOST_SETS)[:, None]
        extremes = np.vstack([np.eye(models, dtype=np.bool_), np.ones((1, models), dtype=np.bool_)])
        sets = np.unique(np.vstack([extremes, sample]), axis=0)
    sizes = sets.sum(axis=1)
    ordered: NDArray[np.bool_] = sets[np.lexsort((sets.argmax(axis=1), sizes))]
    return ordered


def set_accuracy(
    sets: NDArray[np.bool_], votes: NDArray[np.int64], weights: Array, truth: NDArray[np.int64], count: int
) -> Array:
    """The share of items on which the weighted vote of each set, a row of (S, K), is right, shape (S,).

    Sums of weights that differ by less than 1e-12 are tied, and the label that comes first wins, as in
    :func:`camvo.votes.labels.weighted_vote`. A set is wrong on an item if none of its models voted. Items on
    which the models agree and disagree in the same way are counted together, so that thousands of sets are
    affordable.

    Raises:
        InvalidParameterError: no item has a known right label.
    """
    known = truth >= 0
    if not known.any():
        raise InvalidParameterError(
            "the accuracy of a set of models needs at least one item whose truth is known"
        )
    ranks, right_ranks = _rank_voted_labels(votes[known], truth[known], count)
    patterns, pattern_of = np.unique(ranks, axis=0, return_inverse=True)
    width = int(patterns.max()) + 1
    right_items = np.zeros((len(patterns), width))
    attainable = right_ranks >= 0
    np.add.at(right_items, (pattern_of.ravel()[attainable], right_ranks[attainable]), 1.0)
    set_weights = sets * np.maximum(weights, np.finfo(np.float64).tiny)
    right = np.zeros(len(sets))
    step = max(1, _CHUNK // (len(sets) * max(width, 1)))
    for start in range(0, len(patterns) if width else 0, step):
        chunk = slice(start, start + step)
        cast = (patterns[chunk].T[:, :, None] == np.arange(width)).astype(np.float64)
        sums = (set_weights @ cast.reshape(len(weights), -1)).reshape(len(sets), -1, width)
        top = sums.max(axis=2, keepdims=True)
        winner = ((sums >= top - TIE) & (sums > 0.0)).argmax(axis=2)
        won = right_items[chunk][np.arange(winner.shape[1]), winner]
        right += np.where(top[:, :, 0] > 0.0, won, 0.0).sum(axis=1)
    accuracies: Array = right / known.sum()
    return accuracies


def _rank_voted_labels(
    votes: NDArray[np.int64], truth: NDArray[np.int64], count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Replace label positions by ranks among the labels that have a vote on the item; −1 for none.

    The vote depends only on the order of these labels. More items share a pattern of ranks than of labels.
    """
    voted = (votes[:, :, None] == np.arange(count)).any(axis=1)
    rank = np.where(voted, voted.cumsum(axis=1) - 1, -1)
    ranks = np.where(votes >= 0, np.take_along_axis(rank, np.maximum(votes, 0), axis=1), -1)
    return ranks, rank[np.arange(len(truth)), truth]


def pareto_positions(costs: Array, values: Array) -> NDArray[np.intp]:
    """Find the options that no other option dominates by costing at most as much for at least the value.

    The result is in ascending order of cost, and therefore of value. Of options with equal cost and value,
    only the first counts.

    >>> pareto_positions(np.array([3.0, 1.0, 2.0]), np.array([0.9, 0.7, 0.6])).tolist()
    [1, 0]
    """
    order = np.lexsort((-values, costs))
    best_cheaper = np.concatenate([[-np.inf], np.maximum.accumulate(values[order])[:-1]])
    undominated: NDArray[np.intp] = order[values[order] > best_cheaper]
    return undominated

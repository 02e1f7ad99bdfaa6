"""Rankings: three rules to combine them, and a reward for agreement (the paper's conclusion)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from camvo.errors import InvalidParameterError
from camvo.numerics.small import EPSILON, TIE
from camvo.typing import Array
from camvo.votes.aggregation import Ballot

_MAX_KEMENY_ITEMS = 8
"""The most items for Kemeny's order, whose search takes m·2ᵐ⁻¹ steps for m items."""


def _pairwise_preferences(heights: Array) -> Array:
    """At [..., i, j]: 1 if item i is above item j, ½ if they are level, else 0; heights have shape (…, m)."""
    one, other = heights[..., :, None], heights[..., None, :]  # their difference could overflow
    preferred: Array = (np.greater(one, other) + np.greater_equal(one, other).astype(np.float64)) / 2.0
    return preferred


def _borda_points(heights: Array) -> Array:
    """Compute Borda's points: 1 for each item ranked below and ½ for each level item."""
    points: Array = _pairwise_preferences(heights).sum(axis=-1) - 0.5
    return points


def _order_by_totals(totals: Array, tie_breakers: Array) -> list[int]:
    """Sort items by descending total.

    Totals that differ by less than 1e-12 are tied. Ties go to the larger tie-breaker, then to the earlier
    item.
    """
    remaining, order = list(range(len(totals))), []
    while remaining:
        candidates = remaining
        for values in (totals, tie_breakers):
            top = max(values[item] for item in candidates)
            candidates = [item for item in candidates if values[item] >= top - TIE]
        order.append(candidates[0])
        remaining.remove(candidates[0])
    return order


def _kemeny_order(preferences: Array, tie_breakers: Array) -> list[int]:
    """Find Kemeny's order, which agrees with the most weight over all pairs of items.

    Ties go to the order that agrees most with ``tie_breakers``, then to the order whose items come first.
    The search is dynamic programming over subsets of items.
    """
    m = len(preferences)
    if m > _MAX_KEMENY_ITEMS:
        raise InvalidParameterError(
            f"{m} items, Kemeny's rule takes at most {_MAX_KEMENY_ITEMS}", fix="use Borda's"
        )
    gains = [_sums_over_subsets(weights) for weights in (preferences, tie_breakers)]
    best, first = np.zeros((2**m, 2)), [0] * 2**m
    for items in range(1, 2**m):
        top = np.full(2, -np.inf)
        for item in range(m):
            if items >> item & 1:
                rest = items & ~(1 << item)
                value = best[rest] + [gain[item, rest] for gain in gains]
                if value[0] > top[0] + TIE or (value[0] >= top[0] - TIE and value[1] > top[1] + TIE):
                    top, first[items] = value, item
        best[items] = top
    order, items = [], 2**m - 1
    while items:
        order.append(first[items])
        items &= ~(1 << first[items])
    return order


def _sums_over_subsets(weights: Array) -> NDArray[np.float64]:
    """For each row, the sum of its entries over every subset of columns, shape (m, 2ᵐ)."""
    sums = np.zeros((len(weights), 1))
    for column in weights.T:
        sums = np.concatenate((sums, sums + column[:, None]), axis=1)
    return sums


_RankingRule: TypeAlias = Literal["scores", "borda", "kemeny"]

_LARGEST_SUMMED = 1e290
"""The largest score that is added up as it is: hundreds of millions of them do not overflow."""


def _read_ranking(vote: str) -> dict[str, float]:
    """Item → height, higher is better, from a JSON array (best item first) or a JSON object item → score."""
    try:
        value = json.loads(vote)
        if isinstance(value, list):
            heights = {str(item): float(len(value) - 1 - place) for place, item in enumerate(value)}
        else:
            heights = {item: float(score) for item, score in value.items()}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InvalidParameterError("a ranking is neither a JSON array nor an object of scores") from error
    if len(heights) != len(value) or not np.all(np.isfinite(list(heights.values()))):
        raise InvalidParameterError("a ranking names an item twice, or has a score that is not finite")
    return heights


def _kendall_agreement(left: Array, right: Array) -> float:
    """Compute (τ + 1)/2 with Kendall's τ: the share of pairs in the same order; level pairs count half.

    τ is τ_a. Without level items it equals the τ_b of ``scipy.stats.kendalltau``.
    """
    pairs = np.triu_indices(len(left), 1)
    signs = (2.0 * _pairwise_preferences(left)[pairs] - 1.0) * (
        2.0 * _pairwise_preferences(right)[pairs] - 1.0
    )
    return float((signs.mean() + 1.0) / 2.0)


@dataclass(frozen=True, slots=True)
class RankingVote:
    """Rankings of the question's options; a vote is a JSON array, best item first, or an object item → score.

    The answer is a JSON array, best item first, without ties.

    Attributes:
        rule: how rankings are combined:

            - ``"scores"``: the weighted sum of the arms' scores (the paper's rule). Ask for scores on one
              scale, because an arm with a wider scale outweighs the others.
            - ``"borda"``: the weighted sum of Borda's points.
            - ``"kemeny"``: the order that agrees with the most weight over all pairs (at most 8 items).

    >>> from camvo.votes.aggregation import Ballot
    >>> votes = {"a": '["x", "y"]', "b": '["x", "y"]', "c": '["y", "x"]'}
    >>> equal = dict.fromkeys(votes, 1.0)
    >>> ballot = Ballot(votes, equal, equal, dict.fromkeys(votes, 0.8))
    >>> answer, scores = RankingVote().aggregate(ballot, ("x", "y"))
    >>> answer, round(scores[answer], 2)
    ('["x","y"]', 0.8)
    """

    rule: _RankingRule = "borda"

    def __post_init__(self) -> None:
        if self.rule not in ("scores", "borda", "kemeny"):
            raise InvalidParameterError(f'rule is "scores", "borda" or "kemeny", got {self.rule!r}')

    def guess(self, options: Sequence[str]) -> float:
        """½: a random order has half of its pairs right."""
        if len(options) < 2 or len(set(options)) < len(options):
            raise InvalidParameterError("a ranking needs at least two items, all different")
        return 0.5

    def aggregate(self, ballot: Ballot, options: Sequence[str]) -> tuple[str, Mapping[str, float]]:
        """The combined order, and the expected share of its pairs that are right.

        Each pair of items is a vote between two labels. An arm orders it rightly with its ``correctness``,
        independently of the others. The order of the pair in the answer is right with the posterior
        probability of that vote.
        """
        if not ballot.votes:
            raise InvalidParameterError("there is no vote to count")
        arms = sorted(ballot.votes)
        self.guess(options)
        heights = np.array([self._heights(arm, ballot.votes[arm], options) for arm in arms])
        weights, lower, correctness = (
            np.array([column[arm] for arm in arms])
            for column in (ballot.weights, ballot.tie_breakers, ballot.correctness)
        )
        if self.rule == "kemeny":
            above = _pairwise_preferences(heights)
            order = _kemeny_order(np.tensordot(weights, above, 1), np.tensordot(lower, above, 1))
        else:
            points = _summable(heights) if self.rule == "scores" else _borda_points(heights)
            order = _order_by_totals(weights @ points, lower @ points)
        answer = json.dumps([options[item] for item in order], ensure_ascii=False, separators=(",", ":"))
        return answer, {answer: _expected_agreement(heights[:, order], correctness)}

    def reward(self, vote: str, answer: str) -> float:
        """The :func:`_kendall_agreement` of the vote and the answer."""
        voted, right = _read_ranking(vote), _read_ranking(answer)
        if voted.keys() != right.keys() or len(right) < 2:
            raise InvalidParameterError("the rankings have different items, or fewer than two")
        return _kendall_agreement(np.array([voted[item] for item in right]), np.array(list(right.values())))

    def _heights(self, arm: str, vote: str, options: Sequence[str]) -> list[float]:
        if self.rule == "scores" and not vote.lstrip().startswith("{"):
            raise InvalidParameterError(f"the vote of {arm!r} has no scores to add up")
        heights = _read_ranking(vote)
        if heights.keys() != set(options):
            raise InvalidParameterError(f"the vote of {arm!r} ranks other items than the question's")
        return [heights[item] for item in options]


def _summable(scores: Array) -> Array:
    """Scores that are so large that their sum could overflow, on a smaller scale; others as they are."""
    largest = float(np.abs(scores).max())
    return scores / largest if largest > _LARGEST_SUMMED else scores


def _expected_agreement(heights: Array, correctness: Array) -> float:
    """The mean posterior probability that a pair of the answer is in the right order."""
    pairs = np.triu_indices(heights.shape[1], 1)
    signs = 2.0 * _pairwise_preferences(heights)[:, *pairs] - 1.0
    return float(expit(logit(np.clip(correctness, EPSILON, 1.0 - EPSILON)) @ signs).mean())

"""Rankings: three ways to combine them, and how well each agrees with the whole (the paper's conclusion)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import expit, logit

from camvo.errors import InvalidParameterError
from camvo.numerics.tolerances import EPSILON
from camvo.typing import Array
from camvo.votes.aggregation import Ballot
from camvo.votes.ranking_rules import borda_points, kemeny_order, order_by_totals, pairwise_preferences

RankingRule: TypeAlias = Literal["scores", "borda", "kemeny"]


def read_ranking(vote: str) -> dict[str, float]:
    """Item → height, higher is better, from a JSON array (best item first) or an object item → score.

    Raises:
        InvalidParameterError: anything else, an item that comes twice, or a score that is not finite.

    >>> read_ranking('["a", "b"]'), read_ranking('{"a": 0.5, "b": 2}')
    ({'a': 1.0, 'b': 0.0}, {'a': 0.5, 'b': 2.0})
    """
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


def kendall_agreement(left: Array, right: Array) -> float:
    """(τ + 1)/2 with Kendall's τ: the share of pairs in the same order, level pairs counting half.

    That is τ_a; without level items it is the τ_b of ``scipy.stats.kendalltau`` too.

    Args:
        left: the items' heights, shape (m,), m ≥ 2.
        right: the same items' heights in the other ranking, shape (m,).
    """
    pairs = np.triu_indices(len(left), 1)
    signs = (2.0 * pairwise_preferences(left)[pairs] - 1.0) * (2.0 * pairwise_preferences(right)[pairs] - 1.0)
    return float((signs.mean() + 1.0) / 2.0)


@dataclass(frozen=True, slots=True)
class RankingVote:
    """Rankings of the question's options; the text of a vote is what :func:`read_ranking` takes.

    The answer is a JSON array, best item first, without ties.

    Attributes:
        rule: ``"scores"`` adds the arms' scores up, times ω (the paper's; ask for them on one scale, as one
            that is wider outweighs the rest); ``"borda"`` adds up how many items each is ranked above;
            ``"kemeny"`` agrees with the most weight over all pairs (at most eight items).
    """

    rule: RankingRule = "borda"

    def __post_init__(self) -> None:
        if self.rule not in ("scores", "borda", "kemeny"):
            raise InvalidParameterError(f'rule is "scores", "borda" or "kemeny", got {self.rule!r}')

    def guess(self, options: Sequence[str]) -> float:
        """½: a random order has half of the pairs right."""
        if len(options) < 2 or len(set(options)) < len(options):
            raise InvalidParameterError("a ranking needs at least two items, all different")
        return 0.5

    def aggregate(self, ballot: Ballot, options: Sequence[str]) -> tuple[str, Mapping[str, float]]:
        """The combined order, and the share of its pairs that it can expect to have right.

        Each pair is a vote between two labels: the arms order it rightly with their ``correctness``,
        independently, and the order in which it stands is right with the posterior of that vote.
        """
        if not ballot.votes:
            raise InvalidParameterError("there is no vote to count")
        arms = sorted(ballot.votes)
        heights = np.array([self._heights(arm, ballot.votes[arm], options) for arm in arms])
        weights, lower, correctness = (
            np.array([column[arm] for arm in arms])
            for column in (ballot.weights, ballot.tie_breakers, ballot.correctness)
        )
        if self.rule == "kemeny":
            above = pairwise_preferences(heights)
            order = kemeny_order(np.tensordot(weights, above, 1), np.tensordot(lower, above, 1))
        else:
            points = heights if self.rule == "scores" else borda_points(heights)
            order = order_by_totals(weights @ points, lower @ points)
        answer = json.dumps([options[item] for item in order], ensure_ascii=False, separators=(",", ":"))
        return answer, {answer: _expected_agreement(heights[:, order], correctness)}

    def reward(self, vote: str, answer: str) -> float:
        """(τ + 1)/2 between the vote and the answer."""
        given, right = read_ranking(vote), read_ranking(answer)
        if given.keys() != right.keys() or len(right) < 2:
            raise InvalidParameterError("two rankings of different items, or of fewer than two")
        return kendall_agreement(np.array([given[item] for item in right]), np.array(list(right.values())))

    def _heights(self, arm: str, vote: str, options: Sequence[str]) -> list[float]:
        if self.rule == "scores" and not vote.lstrip().startswith("{"):
            raise InvalidParameterError(f"the vote of {arm!r} has no scores to add up")
        heights = read_ranking(vote)
        if heights.keys() != set(options):
            raise InvalidParameterError(f"the vote of {arm!r} ranks other items than were asked about")
        return [heights[item] for item in options]


def _expected_agreement(heights: Array, correctness: Array) -> float:
    """The mean posterior of every pair's order; heights (n, m) with the items in the order of the answer."""
    pairs = np.triu_indices(heights.shape[1], 1)
    signs = 2.0 * pairwise_preferences(heights)[:, *pairs] - 1.0
    return float(expit(logit(np.clip(correctness, EPSILON, 1.0 - EPSILON)) @ signs).mean())

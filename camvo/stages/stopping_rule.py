"""When to stop asking about one question, and when no further vote can change the label."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from camvo.numerics.tolerances import TIE
from camvo.state.vote_patterns import SILENT, UNASKED, Signature


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """How many arms to ask on one question, stage by stage.

    Attributes:
        first: how many arms of the order the first stage asks.
        moves: for each stage but the last, the groups of the arms asked so far → how many arms to have asked
            after the next stage. The number of arms asked so far means stop.
        certain: whether the rule stops only at certain labels. The patterns with a certain label are not in
            ``moves``; the caller tests them with :func:`is_certain`.
        error: the share of labels that differed from the full vote in rounds that did not choose the rule.
            Certain labels count as right.
        price: λ, the price of an error in prices of asking all models; 0 for a certain rule.
    """

    first: int
    moves: tuple[Mapping[Signature, int], ...]
    certain: bool
    error: float = 0.0
    price: float = 0.0

    def after(self, stage: int, groups: Signature, arms: int) -> int:
        """How many arms to have asked after the next stage.

        A pattern that is not in ``moves`` goes half of the way to all arms, or all of it in the last stage.

        Args:
            stage: how many stages came before, counted from 0.
            groups: the groups of the arms asked so far, in the order of asking.
            arms: the number of all arms.
        """
        last = stage == len(self.moves) - 1
        if self.certain and last:
            return arms
        return self.moves[stage].get(groups, unseen_move(len(groups), arms, last=last))

    def describe(self) -> dict[str, Any]:
        """The rule as plain JSON."""
        moves = [{json.dumps(groups)[1:-1]: upto for groups, upto in stage.items()} for stage in self.moves]
        return {
            "first": self.first,
            "moves": moves,
            "certain": self.certain,
            "error": self.error,
            "price": self.price,
        }


def unseen_move(asked: int, arms: int, *, last: bool) -> int:
    """How many arms to have asked after the next stage if the votes so far form a pattern never seen."""
    return arms if last else (asked + arms + 1) // 2


def is_complete(groups: Signature, weights: Sequence[float]) -> bool:
    """Whether a round shows the full vote: it asked all arms, or its label was certain when it ended.

    Args:
        groups: the groups of all arms, in the order of asking; the arms that were not asked come last.
        weights: ω of all arms in the same order, as for :func:`is_certain`.
    """
    return UNASKED not in groups or is_certain(groups[: groups.index(UNASKED)], weights)


def is_certain(groups: Signature, weights: Sequence[float]) -> bool:
    """Whether the leader's margin exceeds the weight of all remaining arms, so that no vote can change it.

    Args:
        groups: the groups of the arms asked so far, in the order of asking.
        weights: ω ≥ 0 of all arms in the same order. An arm that gave no vote never counts.
    """
    totals = [0.0]
    for group, weight in zip(groups, weights, strict=False):
        if group != SILENT:
            totals.extend([0.0] * (group + 2 - len(totals)))
            totals[group] += weight
    leader, runner_up = sorted([*totals, 0.0], reverse=True)[:2]
    return leader - runner_up > sum(weights[len(groups) :]) + 2.0 * TIE

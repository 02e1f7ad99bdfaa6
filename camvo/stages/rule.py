"""Whom to ask after what has been seen, on one question, and when no vote can change the label any more."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from camvo.numerics.tolerances import TIE
from camvo.state.vote_patterns import SILENT, UNASKED, Signature


@dataclass(frozen=True, slots=True)
class Rule:
    """Whom to ask, stage by stage, on one question.

    Attributes:
        first: how many arms of the order are asked at first.
        moves: for each stage but the last, what has been seen → how many arms are to have been asked after
            the next; the number that have been asked says stop.
        certain: whether it stops at certificates alone. Otherwise they are in ``moves`` no more than here.
        error: the expected share of labels that are not everybody's, certificates counted as right.
        price: λ, what an error was taken to cost, in prices of asking everybody; 0 for a certain rule.
    """

    first: int
    moves: tuple[Mapping[Signature, int], ...]
    certain: bool
    error: float = 0.0
    price: float = 0.0

    def after(self, stage: int, seen: Signature, arms: int) -> int:
        """How many arms to have asked after the next stage; what was never seen goes half the way."""
        last = stage == len(self.moves) - 1
        if self.certain and last:
            return arms
        return self.moves[stage].get(seen, arms if last else (len(seen) + arms + 1) // 2)

    def describe(self) -> dict[str, Any]:
        """As plain JSON."""
        moves = [{json.dumps(seen)[1:-1]: upto for seen, upto in stage.items()} for stage in self.moves]
        return {
            "first": self.first,
            "moves": moves,
            "certain": self.certain,
            "error": self.error,
            "price": self.price,
        }


def is_complete(seen: Signature, weights: Sequence[float]) -> bool:
    """Whether a round shows what everybody would have said: all were asked, or it ended where it is certain.

    Args:
        seen: the groups of all arms, those that were not asked at the end.
        weights: as of :func:`is_certain`.
    """
    return UNASKED not in seen or is_certain(seen[: seen.index(UNASKED)], weights)


def is_certain(seen: Signature, weights: Sequence[float]) -> bool:
    """Whether the leader is ahead by more than all arms to come weigh, so that no vote of theirs changes it.

    Args:
        seen: the groups of the arms asked so far.
        weights: of all arms in the order, ≥ 0. An arm that gave no vote counts for nothing, now and later.
    """
    totals = [0.0]
    for group, weight in zip(seen, weights, strict=False):
        if group != SILENT:
            totals.extend([0.0] * (group + 2 - len(totals)))
            totals[group] += weight
    ahead, behind = sorted([*totals, 0.0], reverse=True)[:2]
    return ahead - behind > sum(weights[len(seen) :]) + 2.0 * TIE

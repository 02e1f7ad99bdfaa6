"""The Oracle: the cheapest set of arms whose vote is confident enough (Algorithm 1, line 11).

Sets are visited in the order of their cost (:mod:`camvo.subsets.candidates`), so the first set that satisfies
every question is the cheapest. More arms can mean less confidence, so a set says nothing about its supersets.
A set is skipped only if a valid bound shows that it cannot reach δ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from camvo.errors import InvalidParameterError
from camvo.subsets.beta_confidence import BetaConfidence
from camvo.subsets.confidence import Confidence
from camvo.subsets.copula import Copula, CopulaConfidence
from camvo.subsets.exact_confidence import ExactConfidence
from camvo.subsets.search import search_cheapest
from camvo.typing import Array

ConfidenceName: TypeAlias = Literal["beta", "exact", "copula"]
Demand: TypeAlias = tuple[Array, Array]
"""The (L, ω) of one question, each of shape (K,) for K arms."""

MOST_ARMS = 20
"""The most arms to choose from: the number of sets doubles with every arm."""

BUDGET = 10_000
"""How many sets a search computes the confidence of before it gives up."""


@dataclass(frozen=True, slots=True)
class Subset:
    """A set of arms that the Oracle chose.

    Attributes:
        arms: the positions of the arms, ascending.
        confidence: δ_A on the question where it is lowest.
        complete: false if the search ran out of budget. Then a cheaper set may exist. If the confidence is
            below δ, other sets may still reach δ.
    """

    arms: tuple[int, ...]
    confidence: float
    complete: bool = True


def cheapest_subset(
    costs: Array,
    demands: Sequence[Demand],
    delta: float,
    k_min: int = 1,
    *,
    confidence: ConfidenceName = "beta",
    copulas: Sequence[Copula] = (),
    held: Sequence[int] = (),
    excluded: Sequence[int] = (),
    budget: int = BUDGET,
) -> Subset | None:
    """Find the cheapest set with δ_A ≥ δ on every question and at least ``k_min`` arms.

    Ties in cost go to the higher confidence, then to fewer arms, then to the arms that come first (ascending
    positions are compared as tuples). Costs are tied within 1e-12 of the lowest (relative), confidences
    within 1e-12 of the highest. A confidence within 1e-12 of δ reaches δ.

    If the budget runs out, the result is the best set found, or all arms that may be asked if none was
    found. Its ``complete`` is false.

    Args:
        costs: what asking each arm costs, shape (K,), ≥ 0, in any one unit.
        demands: one (L, ω) per question, each of shape (K,).
        delta: the required confidence, in [0, 1].
        k_min: the fewest arms in the set, held arms included.
        confidence: ``"beta"`` for the paper's approximation, ``"exact"`` for Lemma 1, ``"copula"`` for
            Lemma 1's event with correlated arms.
        copulas: the copula of each question, only for ``"copula"``.
        held: positions that are in every set and cost nothing more, because their votes are known.
        excluded: positions that are in no set, because they failed or may not be asked.
        budget: the most sets to compute the confidence of, ≥ 1.

    Returns:
        The subset, or ``None`` if no set qualifies.

    Raises:
        InvalidParameterError: shapes do not match; a cost is negative or not finite; there are more than
            :data:`MOST_ARMS` arms to choose from; the budget is below 1; or there is not exactly one copula
            per question.
    """
    prices = check_costs(costs)
    _check_demands(costs, demands, confidence, copulas, budget)
    fixed = sorted({int(arm) for arm in held})
    barred = {*fixed, *excluded}
    free = sorted((arm for arm in range(len(prices)) if arm not in barred), key=prices.__getitem__)
    if len(free) > MOST_ARMS:
        raise InvalidParameterError(f"{len(free)} arms to choose from, at most {MOST_ARMS} are searched")
    arms = [*free, *fixed]
    if len(arms) < max(k_min, 1):
        return None
    questions = _confidences(demands, confidence, copulas, arms)
    chosen, complete = search_cheapest(
        questions, costs[free], arms, k_min=max(k_min, 1), delta=delta, budget=budget
    )
    if chosen is None:
        return None
    reached = min(question.confidence_of(chosen) for question in questions)
    return Subset(tuple(sorted(arms[column] for column in chosen)), reached, complete)


def _confidences(
    demands: Sequence[Demand], confidence: ConfidenceName, copulas: Sequence[Copula], arms: list[int]
) -> list[Confidence]:
    """δ_A of each question for sets whose columns are ``arms``."""
    if confidence == "copula":
        return [
            CopulaConfidence(lower, weights, copula, arms)
            for (lower, weights), copula in zip(demands, copulas, strict=True)
        ]
    form = ExactConfidence if confidence == "exact" else BetaConfidence
    return [form(lower[arms], weights[arms]) for lower, weights in demands]


def _check_demands(
    costs: Array,
    demands: Sequence[Demand],
    confidence: ConfidenceName,
    copulas: Sequence[Copula],
    budget: int,
) -> None:
    if not demands:
        raise InvalidParameterError("demands are empty; the Oracle needs at least one question")
    for lower, weights in demands:
        if lower.shape != costs.shape or weights.shape != costs.shape:
            raise InvalidParameterError(
                f"L {lower.shape} and ω {weights.shape} must have the shape of the costs {costs.shape}"
            )
    if confidence == "copula" and len(copulas) != len(demands):
        raise InvalidParameterError(f"{len(demands)} questions need as many copulas, got {len(copulas)}")
    if budget < 1:
        raise InvalidParameterError(f"a search needs a budget of at least one set, got {budget}")


def check_costs(costs: Array) -> list[float]:
    """Return the costs, shape (K,), as a list of finite numbers ≥ 0.

    Raises:
        InvalidParameterError: a cost is negative or not finite, or the shape is not (K,).
    """
    prices: list[float] = costs.tolist()
    if costs.ndim != 1 or not all(0.0 <= price < math.inf for price in prices):
        raise InvalidParameterError(f"costs must be finite and not negative, shape (K,); got {costs}")
    return prices

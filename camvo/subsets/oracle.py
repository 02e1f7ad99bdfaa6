"""The Oracle: the cheapest set of arms whose vote is confident enough (Algorithm 1, line 11).

Sets are visited in the order of their cost (:mod:`camvo.subsets.candidates`), so the first one that satisfies
every question is the cheapest. More arms can mean less confidence, so nothing is concluded from a set about
its supersets; a set is passed over only where a valid bound says that it cannot reach δ.
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
"""One question's (L, ω), each of shape (K,)."""

MOST_ARMS = 20
"""More free arms than this are refused: the number of sets doubles with every arm."""

BUDGET = 10_000
"""Sets whose confidence is computed before a search gives up."""


@dataclass(frozen=True, slots=True)
class Subset:
    """Arms by position, in ascending order, and the confidence that they reach on their weakest question.

    ``complete`` is false where the budget ran out: a cheaper set may exist, or, where the confidence is
    below δ, any set at all.
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
    """The cheapest set with δ_A ≥ δ on every question and at least k_min arms; ``None`` if there is none.

    Ties in cost go to the higher confidence, then to fewer arms, then to the arms that come first
    (positions in ascending order are compared as tuples). Costs are tied within 1e-12 of the cheapest
    (relative), confidences within 1e-12 of the highest, and δ is reached by what falls short of it by less.

    A search whose budget runs out returns the best set it found, or else all arms that may be asked, with
    ``complete`` false.

    Args:
        costs: what asking each arm costs, shape (K,), ≥ 0, any one unit.
        demands: one (L, ω) a question, each of shape (K,).
        delta: the confidence that is asked for, in [0, 1].
        k_min: the fewest arms in the set (held ones count).
        confidence: ``"beta"`` for the paper's approximation, ``"exact"`` for Lemma 1, ``"copula"`` for
            Lemma 1's event with correlated arms.
        copulas: how the arms depend on each other on each question, for ``"copula"`` alone.
        held: positions that are in every set and cost nothing more: their votes are there.
        excluded: positions that are in no set: they failed, or may not be asked.
        budget: the number of sets whose confidence is computed at the most, ≥ 1.

    Raises:
        InvalidParameterError: shapes that do not fit, costs that are negative or not finite, more than
            :data:`MOST_ARMS` arms to choose from, no budget, or not one copula a question.
    """
    prices = check_costs(costs)
    _check(costs, demands, confidence, copulas, budget)
    fixed = sorted({int(arm) for arm in held})
    barred = {*fixed, *excluded}
    free = sorted((arm for arm in range(len(prices)) if arm not in barred), key=prices.__getitem__)
    if len(free) > MOST_ARMS:
        raise InvalidParameterError(f"{len(free)} arms to choose from, at most {MOST_ARMS} are searched")
    arms = [*free, *fixed]
    if len(arms) < max(k_min, 1):
        return None
    questions = _questions(demands, confidence, copulas, arms)
    chosen, complete = search_cheapest(
        questions, costs[free], arms, k_min=max(k_min, 1), delta=delta, budget=budget
    )
    if chosen is None:
        return None
    reached = min(question.confidence_of(chosen) for question in questions)
    return Subset(tuple(sorted(arms[column] for column in chosen)), reached, complete)


def _questions(
    demands: Sequence[Demand], confidence: ConfidenceName, copulas: Sequence[Copula], arms: list[int]
) -> list[Confidence]:
    """δ_A of each question, for sets of the arms in the given order."""
    if confidence == "copula":
        return [
            CopulaConfidence(lower, weights, copula, arms)
            for (lower, weights), copula in zip(demands, copulas, strict=True)
        ]
    form = ExactConfidence if confidence == "exact" else BetaConfidence
    return [form(lower[arms], weights[arms]) for lower, weights in demands]


def _check(
    costs: Array,
    demands: Sequence[Demand],
    confidence: ConfidenceName,
    copulas: Sequence[Copula],
    budget: int,
) -> None:
    if not demands:
        raise InvalidParameterError("no question, so no set of arms to choose")
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
    """The costs as numbers.

    Raises:
        InvalidParameterError: one is negative or not finite, or they are not of shape (K,).
    """
    prices: list[float] = costs.tolist()
    if costs.ndim != 1 or not all(0.0 <= price < math.inf for price in prices):
        raise InvalidParameterError(f"costs must be finite and not negative, shape (K,); got {costs}")
    return prices

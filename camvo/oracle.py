"""The Oracle: the cheapest set of arms whose vote is confident enough (Algorithm 1, line 11).

Sets are visited in the order of their cost, so the first one that satisfies every question is the cheapest;
all that is computed ahead for each of the 2ⁿ sets are sums, by doubling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from camvo.confidence import TIE, beta_of_sums, exact
from camvo.errors import InvalidParameterError
from camvo.typing import Array

ConfidenceName: TypeAlias = Literal["beta", "exact"]
Demand: TypeAlias = tuple[Array, Array]
"""One question's (L, ω), each of shape (K,)."""

MOST_ARMS = 20
"""More free arms than this are refused: the number of sets doubles with every arm."""

_BLOCK = {"beta": 256, "exact": 8}
"""Sets looked at together: the approximation is vectorised, Lemma 1 costs 2ⁿ for each."""
_SLACK = 1e-9
_COST_TIE = 1e-12
"""Relative: sums of the same prices in another order differ by rounding, whatever the unit."""


@dataclass(frozen=True, slots=True)
class Subset:
    """Arms by position, in ascending order, and the confidence that they reach on their weakest question."""

    arms: tuple[int, ...]
    confidence: float


def cheapest(
    costs: Array,
    demands: Sequence[Demand],
    delta: float,
    k_min: int = 1,
    *,
    confidence: ConfidenceName = "beta",
    held: Sequence[int] = (),
    excluded: Sequence[int] = (),
) -> Subset | None:
    """The cheapest set with δ_A ≥ δ on every question and at least k_min arms; ``None`` if there is none.

    Ties in cost go to the higher confidence, then to fewer arms, then to the arms that come first.

    Args:
        costs: what asking each arm costs, shape (K,), ≥ 0, any one unit.
        demands: one (L, ω) a question, each of shape (K,).
        delta: the confidence that is asked for, in [0, 1].
        k_min: the fewest arms in the set (held ones count).
        confidence: ``"beta"`` for the paper's approximation, ``"exact"`` for Lemma 1.
        held: positions that are in every set and cost nothing more: their votes are there.
        excluded: positions that are in no set: they failed, or may not be asked.

    Raises:
        InvalidParameterError: shapes that do not fit, costs that are negative or not finite, or more than
            :data:`MOST_ARMS` arms to choose from.
    """
    _check(costs, demands)
    free = [arm for arm in range(len(costs)) if arm not in held and arm not in excluded]
    if len(free) > MOST_ARMS:
        raise InvalidParameterError(f"{len(free)} arms to choose from, at most {MOST_ARMS} are searched")
    cost = _subset_sums(costs[free], 0.0)
    size = _subset_sums(np.ones(len(free)), float(len(held)))
    order = np.lexsort((size, cost))
    order = order[size[order] >= max(k_min, 1)]
    if confidence == "exact":
        order = order[_promising(demands, free, list(held), delta)[order]]
    reach = _Reach(demands, free, list(held), confidence)
    best: tuple[int, float] | None = None
    limit = 0.0
    for start in range(0, len(order), _BLOCK[confidence]):
        block = order[start : start + _BLOCK[confidence]]
        for subset, reached in zip(block, reach.confidences(block), strict=True):
            if best is not None and cost[subset] > limit:
                return _result(best, free, held)
            if reached < delta:
                continue
            if best is None:
                limit = cost[subset] * (1.0 + _COST_TIE)
            elif reached <= best[1] - TIE or (reached <= best[1] + TIE and size[subset] >= size[best[0]]):
                continue
            best = (int(subset), float(reached))
    return None if best is None else _result(best, free, held)


class _Reach:
    """The confidence that sets reach on their weakest question."""

    def __init__(
        self, demands: Sequence[Demand], free: list[int], held: list[int], confidence: ConfidenceName
    ) -> None:
        self._demands, self._free, self._held, self._confidence = demands, free, held, confidence
        if confidence == "beta":
            self._sums = [
                tuple(
                    _subset_sums(parts[free], float(parts[held].sum()))
                    for parts in (weights * lower, weights * (1.0 - lower))
                )
                for lower, weights in demands
            ]

    def confidences(self, subsets: NDArray[np.intp]) -> Array:
        """δ_A of each set, shape (m,)."""
        if self._confidence == "beta":
            reached = np.stack([beta_of_sums(right[subsets], wrong[subsets]) for right, wrong in self._sums])
            return np.asarray(reached.min(axis=0), dtype=np.float64)
        return np.array([self._exact(int(subset)) for subset in subsets])

    def _exact(self, subset: int) -> float:
        arms = self._held + _members(subset, self._free)
        return min(exact(lower[arms], weights[arms]) for lower, weights in self._demands)


def _promising(
    demands: Sequence[Demand], free: list[int], held: list[int], delta: float
) -> NDArray[np.bool_]:
    """Which sets Lemma 1 could let reach δ at all, shape (2ⁿ,).

    Whatever the weights, δ_A is at most (1 + √(1 − Π 4L(1−L))) / 2 over the arms with weight (the vote of the
    best weights, by the Bhattacharyya bound), so for δ > ½ a set needs Σ −log 4L(1−L) ≥ −log(1 − (2δ−1)²).
    """
    promising = np.ones(2 ** len(free), dtype=np.bool_)
    if delta <= 0.5:
        return promising
    with np.errstate(divide="ignore"):
        needed = -np.log(1.0 - (2.0 * delta - 1.0) ** 2)
        for lower, weights in demands:
            evidence = np.where(weights > 0.0, -np.log(4.0 * lower * (1.0 - lower)), 0.0)
            promising &= _subset_sums(evidence[free], float(evidence[held].sum())) >= needed - _SLACK
    return promising


def _members(subset: int, free: Sequence[int]) -> list[int]:
    return [arm for position, arm in enumerate(free) if subset >> position & 1]


def _result(best: tuple[int, float], free: Sequence[int], held: Sequence[int]) -> Subset:
    subset, confidence = best
    return Subset(tuple(sorted([*held, *_members(subset, free)])), confidence)


def _subset_sums(values: Array, start: float) -> Array:
    """The sum over every subset, bit i of the index standing for ``values[i]``: shape (2ⁿ,)."""
    sums = np.array([start])
    for value in values:
        sums = np.concatenate((sums, sums + value))
    return sums


def _check(costs: Array, demands: Sequence[Demand]) -> None:
    if not demands:
        raise InvalidParameterError("no question, so no set of arms to choose")
    if costs.ndim != 1 or not np.all(np.isfinite(costs)) or np.any(costs < 0.0):
        raise InvalidParameterError(f"costs must be finite and not negative, shape (K,); got {costs}")
    for lower, weights in demands:
        if lower.shape != costs.shape or weights.shape != costs.shape:
            raise InvalidParameterError(
                f"L {lower.shape} and ω {weights.shape} must have the shape of the costs {costs.shape}"
            )

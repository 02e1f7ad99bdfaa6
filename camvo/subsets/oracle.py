"""The Oracle: the cheapest set of arms whose vote is confident enough (Algorithm 1, line 11).

Sets are visited in the order of their cost (:func:`_sets_by_cost`), so the first set that satisfies
every question is the cheapest. More arms can mean less confidence, so a set's confidence does not bound that
of its supersets. A set is skipped only if a valid bound shows that it cannot reach δ.

For the Beta approximation and at most 12 arms there is a table of all sets instead. The costs and confidences
of all sets are a few matrix products, for one task or a window of tasks. The cheapest set that may be
confident enough is nearly always the answer. All other sets of a task are compared only if that set is not
confident enough, or another set costs the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from camvo.errors import InvalidParameterError
from camvo.numerics.small import TIE
from camvo.subsets.confidence import (
    TABLE_ARMS,
    BetaConfidence,
    Copula,
    CopulaConfidence,
    ExactConfidence,
    confidence_by_beta_sums,
    confidences_by_beta_sums,
    may_reach,
)
from camvo.typing import Array

_Screen: TypeAlias = tuple[Array, Array]
"""Values (J, n) and thresholds (J,): on at least one line a set's values must add up to the threshold."""

_WINDOW, _SHARE_GROWTH = 16, 4
"""The rows in the first window, and the factor from one window to the next."""
_PORTION = 2**14
"""The most pairs whose sums are in memory at once."""
_SLACK = 1e-9
_COST, _SIZE, _VALUES = 0, 1, 2
"""The rows of a table of sums: cost, size, then the values of every line."""


def _pairs_by_cost(
    costs: Array, fewest: int, screens: Sequence[_Screen]
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], Array]]:
    """Yield all pairs of at least ``fewest`` arms that pass every screen, in windows of ascending cost."""
    cheap, dear = _split_arms(len(costs))
    if not (screens or dear):
        column = _of_size(len(costs), fewest)
        yield np.zeros_like(column), column, (costs @ _all_sets(len(costs)))[column]
        return
    table = np.concatenate([costs[None], np.ones((1, len(costs))), *(values for values, _ in screens)])
    columns = table[:, :cheap] @ _all_sets(cheap)
    columns[_SIZE] -= fewest
    if screens:
        columns[_VALUES:] -= np.concatenate([thresholds for _, thresholds in screens])[:, None]
    lines = _slices(screens)
    if not dear:
        (column,) = _passing(columns, lines).nonzero()
        yield np.zeros_like(column), column, columns[_COST, column]
        return
    rows = table[:, cheap:] @ _all_sets(dear)
    order = columns[_COST].argsort(kind="stable")
    columns = columns[:, order]
    bound = rows[_COST] + _cheapest_column(rows, columns, lines)
    ranked = bound.argsort(kind="stable")[: np.isfinite(bound).sum()]
    bounds = bound[ranked]
    for floor, ceiling in _cost_windows(bounds):
        window = ranked[: bounds.searchsorted(ceiling, side="right")]
        row, column = _pairs(rows[_COST, window], columns[_COST], floor, ceiling)
        row = window[row]
        for part in _portions(rows[_COST, row] + columns[_COST, column]):
            sums = rows[:, row[part]] + columns[:, column[part]]
            passing = _passing(sums, lines)
            yield row[part][passing], order[column[part][passing]], sums[_COST, passing]


def _cost_windows(bounds: Array) -> Iterator[tuple[float, float]]:
    """The cost intervals (floor, ceiling] of the windows, from the ascending bounds of the rows."""
    if not len(bounds):
        return
    count, floor = _WINDOW, float(np.nextafter(bounds[0], -np.inf))
    while count < len(bounds):
        ceiling = float(bounds[count - 1])
        if ceiling > floor:
            yield floor, ceiling
        count, floor = count * _SHARE_GROWTH, ceiling
    yield floor, np.inf


def _portions(costs: Array) -> Iterator[slice | NDArray[np.intp]]:
    """Split pairs into portions that fit in memory, the cheapest first."""
    if len(costs) <= _PORTION:
        yield slice(None)
        return
    order = costs.argsort(kind="stable")
    for start in range(0, len(order), _PORTION):
        yield order[start : start + _PORTION]


def _cheapest_column(rows: Array, columns: Array, lines: Sequence[slice]) -> Array:
    """A lower bound of the cost of the column with which each row passes; ∞ if there is no such column.

    Each screen is considered separately. Columns are sorted by cost, so the first column that passes is where
    the running maximum of the values reaches what the row lacks.
    """
    least = np.zeros(rows.shape[1])
    costs = np.append(columns[_COST], np.inf)
    for question in lines:
        cheapest = np.full(rows.shape[1], np.inf)
        for row_values, column_values in zip(rows[question], columns[question], strict=True):
            first = np.maximum.accumulate(column_values).searchsorted(-_SLACK - row_values)
            np.minimum(cheapest, costs[first], out=cheapest)
        np.maximum(least, cheapest, out=least)
    return least


def _pairs(
    row_costs: Array, column_costs: Array, floor: float, ceiling: float
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The pairs whose cost is above ``floor`` and at most ``ceiling``."""
    affordable = column_costs.searchsorted((ceiling - row_costs.min()) * (1.0 + _SLACK), side="right")
    cost = row_costs[:, None] + column_costs[None, :affordable]
    row, column = np.nonzero((cost > floor) & (cost <= ceiling))
    return row, column


def _passing(sums: Array, lines: Sequence[slice]) -> NDArray[np.bool_]:
    """Whether each set is large enough and passes every screen."""
    passing: NDArray[np.bool_] = sums[_SIZE] >= 0.0
    for question in lines:
        values = sums[question]
        passing &= (values[0] if len(values) == 1 else values.max(axis=0)) >= -_SLACK
    return passing


def _slices(screens: Sequence[_Screen]) -> list[slice]:
    """The rows of the table of sums that belong to each screen."""
    slices, end = [], _VALUES
    for _, thresholds in screens:
        slices.append(slice(end, end + len(thresholds)))
        end += len(thresholds)
    return slices


@lru_cache(maxsize=256)
def _of_size(n: int, fewest: int) -> NDArray[np.intp]:
    """The positions in :func:`_all_sets` of the sets of at least ``fewest`` of n arms."""
    return np.flatnonzero(_all_sets(n).sum(axis=0) >= fewest)


def _split_arms(n: int) -> tuple[int, int]:
    """Split n arms, cheapest first: how many make up the columns and how many the rows."""
    columns = n if n <= TABLE_ARMS else (n + 1) // 2
    return columns, n - columns


@lru_cache(maxsize=32)
def _all_sets(n: int) -> Array:
    """Every set of n arms as an indicator column, shape (n, 2ⁿ). Bit i of its position is arm i."""
    return np.where(np.arange(2**n) >> np.arange(n)[:, None] & 1, 1.0, 0.0)


_BLOCK, _LARGEST_BLOCK, _GROWTH = 32, 1024, 4
"""The size of the first block, the largest size, and the factor from one block to the next."""


def _sets_by_cost(
    costs: Array, fewest: int, screens: Sequence[_Screen], most: int
) -> Iterator[tuple[Array, Array]]:
    """Yield blocks of sets in the order of their cost.

    Every set of at least ``fewest`` arms that passes all screens is yielded exactly once, at least for the
    ``most`` cheapest sets. Sets beyond these may be missing.
    """
    cheap, dear = (_all_sets(n) for n in _split_arms(len(costs)))
    for row, column, cost in _pairs_by_cost(costs, fewest, screens):
        if len(cost) <= most:
            order = cost.argsort(kind="stable")
        else:
            order = np.argpartition(cost, most - 1)[:most]
            order = order[cost[order].argsort(kind="stable")]
        start, size = 0, _BLOCK
        while start < len(order):
            block = order[start : start + size]
            sets = cheap.take(column[block], axis=1)
            if len(dear):
                sets = np.concatenate((sets, dear[:, row[block]]))
            yield sets.T, cost[block]
            start, size = start + size, min(size * _GROWTH, _LARGEST_BLOCK)


_COST_TIE = 1e-12
"""Relative tolerance of costs: sums of the same prices in another order differ by rounding."""


@dataclass(slots=True)
class _ConfidentSets:
    """The sets found so far that reach δ at a cost tied with the cheapest.

    Attributes:
        sets: blocks of indicator rows, each of shape (m, n).
        costs: the costs of each block, shape (m,).
        reached: δ_A of each block, shape (m,).
        limit: the highest cost that is tied with the cheapest.
    """

    sets: list[Array] = field(default_factory=list)
    costs: list[Array] = field(default_factory=list)
    reached: list[Array] = field(default_factory=list)
    limit: float = np.inf

    def add(self, sets: Array, costs: Array, reached: Array, enough: float) -> None:
        """Of m sets, add those that reach ``enough`` and cost no more than the limit."""
        (hits,) = (reached >= enough).nonzero()
        if len(hits):
            self.limit = min(self.limit, float(costs[hits].min()) * (1.0 + _COST_TIE))
            hits = hits[costs[hits] <= self.limit]
            self.sets.append(sets[hits])
            self.costs.append(costs[hits])
            self.reached.append(reached[hits])

    def best(self, arms: Sequence[int]) -> list[int] | None:
        """The winner by the tie-breaks of :func:`.cheapest_subset`, as columns, or ``None`` without sets."""
        if not self.sets:
            return None
        if len(self.sets) == 1 and len(self.sets[0]) == 1:
            only: list[int] = self.sets[0][0].nonzero()[0].tolist()
            return only
        sets, costs, reached = (np.concatenate(parts) for parts in (self.sets, self.costs, self.reached))
        tied = costs <= self.limit
        tied &= reached >= reached[tied].max() - TIE
        rivals = sets[tied]
        if len(rivals) > 1:
            sizes = rivals.sum(axis=1)
            rivals = rivals[sizes == sizes.min()]
        members = [row.nonzero()[0].tolist() for row in rivals]
        winner: list[int] = min(members, key=lambda columns: sorted(arms[column] for column in columns))
        return winner


class _Confidence(Protocol):
    """δ_A on one question, for many sets of the same n arms.

    A set is a row of an indicator matrix, shape (m, n): 1.0 if the arm is in the set, else 0.0.
    """

    def confidences(self, sets: Array) -> Array:
        """δ_A of each set, shape (m,), from indicators of shape (m, n)."""
        ...

    def confidence_of(self, arms: list[int]) -> float:
        """δ_A of one set, bit for bit the same whichever sets were searched."""
        ...

    def linear_bounds(self, delta: float) -> tuple[Array, Array] | None:
        """A necessary condition for a set to reach δ > ½, as J lines: values (J, n) and thresholds (J,).

        On at least one line, the values of the set's arms must add up to the threshold. The condition is not
        sufficient. ``None`` means that no condition is known.
        """
        ...

    def upper_bound(self) -> float:
        """A bound that δ_A of no set exceeds."""
        ...


def _search_cheapest(
    questions: Sequence[_Confidence],
    costs: Array,
    arms: Sequence[int],
    *,
    k_min: int,
    delta: float,
    budget: int,
) -> tuple[list[int] | None, bool]:
    """Search for the cheapest set that is confident enough on every question."""
    held = np.ones((1, len(arms) - len(costs)))
    finds, remaining = _ConfidentSets(), budget
    for free, prices in _sets_by_cost(
        costs, k_min - held.shape[1], _screens(questions, len(costs), delta), budget + 1
    ):
        if prices[0] > finds.limit or (not finds.sets and remaining < budget and _hopeless(questions, delta)):
            break
        sets = np.concatenate((free, held.repeat(len(free), axis=0)), axis=1) if held.size else free
        evaluated = sets[:remaining]
        finds.add(evaluated, prices[:remaining], _weakest(questions, evaluated), delta - TIE)
        if len(sets) > remaining and prices[remaining] <= finds.limit:
            guesses = _guesses(questions, len(costs), len(arms), k_min)
            reached = _weakest(questions, guesses)
            finds.add(guesses, guesses[:, : len(costs)] @ costs, reached, delta - TIE)
            return finds.best(arms) or list(range(len(arms))), False
        remaining -= len(evaluated)
    return finds.best(arms), True


def _weakest(questions: Sequence[_Confidence], sets: Array) -> Array:
    """δ_A of each set on the question where it is lowest, shape (m,)."""
    weakest = questions[0].confidences(sets)
    for question in questions[1:]:
        weakest = np.minimum(weakest, question.confidences(sets))
    return weakest


def _hopeless(questions: Sequence[_Confidence], delta: float) -> bool:
    """Whether a bound shows that no set reaches δ."""
    return any(question.upper_bound() < delta - _SLACK for question in questions)


def _screens(questions: Sequence[_Confidence], free: int, delta: float) -> list[_Screen]:
    """The linear bounds of each question over the free arms, minus the values of the held arms."""
    screens = []
    for question in questions:
        lines = question.linear_bounds(delta)
        if lines is not None:
            values, thresholds = lines
            screens.append((values[:, :free], thresholds - values[:, free:].sum(axis=1)))
    return screens


def _guesses(questions: Sequence[_Confidence], free: int, arms: int, k_min: int) -> Array:
    """Sets to try when the budget is spent: for each size, the cheapest arms and the most confident arms."""
    alone = np.array([min(question.confidence_of([arm]) for question in questions) for arm in range(free)])
    sets = np.zeros((2 * free, arms))
    sets[:, free:] = 1.0
    for number in range(free):
        sets[number, : number + 1] = 1.0
        sets[free + number, alone.argsort(kind="stable")[free - 1 - number :]] = 1.0
    large_enough: Array = sets[sets.sum(axis=1) >= k_min]
    return large_enough


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
    prices = _check_costs(costs)
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
    chosen, complete = _search_cheapest(
        questions, costs[free], arms, k_min=max(k_min, 1), delta=delta, budget=budget
    )
    if chosen is None:
        return None
    reached = min(question.confidence_of(chosen) for question in questions)
    return Subset(tuple(sorted(arms[column] for column in chosen)), reached, complete)


def _confidences(
    demands: Sequence[Demand], confidence: ConfidenceName, copulas: Sequence[Copula], arms: list[int]
) -> list[_Confidence]:
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


def _check_costs(costs: Array) -> list[float]:
    """Return the costs, shape (K,), as a list of finite numbers ≥ 0."""
    prices: list[float] = costs.tolist()
    if costs.ndim != 1 or not all(0.0 <= price < math.inf for price in prices):
        raise InvalidParameterError(f"costs must be finite and not negative, shape (K,); got {costs}")
    return prices


MOST_SETS = 2**12
"""The most sets of a table. With more sets the search is faster."""

_CELLS = 2**14
"""The most sets × tasks that are in memory at once, so that they fit into a cache."""


@dataclass(frozen=True, slots=True, eq=False)
class _Sets:
    """All M sets that may be asked, in the order of the last tie-break; the indicators have shape (K, M)."""

    arms: tuple[tuple[int, ...], ...]
    indicators: Array


def cheapest_subsets(
    costs: Array, demands: Sequence[Demand], delta: float, k_min: int, *, held: Sequence[int]
) -> list[Subset | None]:
    """The cheapest set of each of W tasks by the Beta approximation; equal to :func:`cheapest_subset`.

    Costs are the same in every task, and 2^K ≤ :data:`MOST_SETS`. Each question has one (L, ω), each of shape
    (W, K). δ is in (½, 1), and the held positions are in every set.

    Raises:
        InvalidParameterError: a cost is negative or not finite.
    """
    _check_costs(costs)
    tasks = len(demands[0][0])
    sets = _sets(len(costs), tuple(held), k_min)
    if not sets.arms:
        return [None] * tasks
    if held:
        costs = costs.copy()
        costs[list(held)] = 0.0
    prices = costs @ sets.indicators
    step = max(_CELLS // len(sets.arms), 1)
    subsets: list[Subset | None] = []
    for start in range(0, tasks, step):
        block = slice(start, start + step)
        block_demands = [(lower[block], weights[block]) for lower, weights in demands]
        subsets.extend(_cheapest_of_block(sets, prices, block_demands, delta))
    return subsets


def _cheapest_of_block(
    sets: _Sets, prices: Array, demands: Sequence[Demand], delta: float
) -> list[Subset | None]:
    """The subsets for a block of tasks; ``prices`` are those of the sets, shape (M,)."""
    offers, sums = prices, []
    for lower, weights in demands:
        on_right = weights * lower
        right, wrong = on_right @ sets.indicators, (weights - on_right) @ sets.indicators
        offers = np.where(may_reach(delta, right, wrong), offers, np.inf)
        sums.append((right, wrong))
    return [
        _chosen(sets, offers[task], number, [(right[task], wrong[task]) for right, wrong in sums], delta)
        for task, number in enumerate(offers.argmin(axis=1).tolist())
    ]


def _chosen(
    sets: _Sets, offers: Array, first: int, sums: Sequence[tuple[Array, Array]], delta: float
) -> Subset | None:
    """The subset for one task, given the cost of each set, ∞ if it cannot be confident enough, shape (M,)."""
    price = offers.item(first)
    if price == math.inf:
        return None
    if np.count_nonzero(offers <= price * (1.0 + _COST_TIE)) == 1:
        confidence = min(
            [confidence_by_beta_sums(right.item(first), wrong.item(first)) for right, wrong in sums]
        )
        if confidence >= delta - TIE:
            return Subset(sets.arms[first], confidence)
    (rivals,) = np.isfinite(offers).nonzero()
    reached = np.minimum.reduce(
        [confidences_by_beta_sums(right[rivals], wrong[rivals]) for right, wrong in sums]
    )
    enough = reached >= delta - TIE
    if not enough.any():
        return None
    rivals, reached = rivals[enough], reached[enough]
    prices = offers[rivals]
    tied = prices <= prices.min() * (1.0 + _COST_TIE)
    tied &= reached >= reached[tied].max() - TIE
    winner = int(tied.argmax())
    return Subset(sets.arms[rivals[winner]], float(reached[winner]))


@lru_cache(maxsize=16)
def _sets(n: int, held: tuple[int, ...], k_min: int) -> _Sets:
    """All sets of at least ``k_min`` of n arms that contain the held arms."""
    arms = tuple(
        chosen
        for size in range(max(k_min, 1), n + 1)
        for chosen in combinations(range(n), size)
        if set(held) <= set(chosen)
    )
    indicators = np.zeros((n, len(arms)))
    for number, chosen in enumerate(arms):
        indicators[list(chosen), number] = 1.0
    return _Sets(arms, indicators)

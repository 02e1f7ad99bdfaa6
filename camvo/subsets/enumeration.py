"""Every set of arms as a pair: of the cheaper arms a column, of the dearer ones a row.

Costs, sizes and the values of :meth:`camvo.subsets.confidence.Confidence.linear_bounds` are sums over arms, so a
pair's are those of its row plus those of its column, and the least cost at which a row can fulfil every
question is found by binary search in the columns. Rows are taken up in the order of that cost, in windows
that grow; most searches end in the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from camvo.subsets.confidence import FEW
from camvo.typing import Array

Screen: TypeAlias = tuple[Array, Array]
"""Values (J, n) and thresholds (J,): a set's values must add up to the threshold on one line at least."""

_WINDOW, _GROWTH = 16, 4
"""Rows in the first window, and how many times more there are in each further one."""
_PORTION = 2**14
"""Pairs whose sums are in memory together."""
_SLACK = 1e-9
_COST, _SIZE, _VALUES = 0, 1, 2
"""The rows of a table of sums: cost, size, and from here on the values of every line."""


def pairs_by_cost(
    costs: Array, fewest: int, screens: Sequence[Screen]
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], Array]]:
    """(row, column, cost) of all pairs that are large enough and pass, in windows of ascending cost.

    A row or column is the number of a set in :func:`all_sets`; costs have shape (n,) and ascend.
    """
    left, right = split_arms(len(costs))
    if not (screens or right):
        column = _of_size(len(costs), fewest)
        yield np.zeros_like(column), column, (costs @ all_sets(len(costs)))[column]
        return
    table = np.concatenate([costs[None], np.ones((1, len(costs))), *(values for values, _ in screens)])
    columns = table[:, :left] @ all_sets(left)
    columns[_SIZE] -= fewest
    if screens:
        columns[_VALUES:] -= np.concatenate([thresholds for _, thresholds in screens])[:, None]
    lines = _slices(screens)
    if not right:
        (column,) = _passing(columns, lines).nonzero()
        yield np.zeros_like(column), column, columns[_COST, column]
        return
    rows = table[:, left:] @ all_sets(right)
    order = columns[_COST].argsort(kind="stable")
    columns = columns[:, order]
    bound = rows[_COST] + _cheapest_column(rows, columns, lines)
    ranked = bound.argsort(kind="stable")[: np.isfinite(bound).sum()]
    bounds = bound[ranked]
    for floor, ceiling in _steps(bounds):
        window = ranked[: bounds.searchsorted(ceiling, side="right")]
        row, column = _pairs(rows[_COST, window], columns[_COST], floor, ceiling)
        row = window[row]
        for part in _portions(rows[_COST, row] + columns[_COST, column]):
            sums = rows[:, row[part]] + columns[:, column[part]]
            passing = _passing(sums, lines)
            yield row[part][passing], order[column[part][passing]], sums[_COST, passing]


def _steps(bounds: Array) -> Iterator[tuple[float, float]]:
    """The costs between which windows lie, from the ascending bounds of the rows: above, and up to."""
    if not len(bounds):
        return
    count, floor = _WINDOW, float(np.nextafter(bounds[0], -np.inf))
    while count < len(bounds):
        ceiling = float(bounds[count - 1])
        if ceiling > floor:
            yield floor, ceiling
        count, floor = count * _GROWTH, ceiling
    yield floor, np.inf


def _portions(costs: Array) -> Iterator[slice | NDArray[np.intp]]:
    """Pairs to hold in memory together, the cheapest first."""
    if len(costs) <= _PORTION:
        yield slice(None)
        return
    order = costs.argsort(kind="stable")
    for start in range(0, len(order), _PORTION):
        yield order[start : start + _PORTION]


def _cheapest_column(rows: Array, columns: Array, lines: Sequence[slice]) -> Array:
    """The least that a column costs with which each row passes every screen, infinite where none does.

    Every screen is looked at by itself, and the columns are sorted by cost: the first with which the row
    reaches the threshold is where the running maximum of the values reaches what the row lacks.
    """
    least = np.zeros(rows.shape[1])
    costs = np.append(columns[_COST], np.inf)
    for question in lines:
        cheapest = np.full(rows.shape[1], np.inf)
        for have, offered in zip(rows[question], columns[question], strict=True):
            first = np.maximum.accumulate(offered).searchsorted(-_SLACK - have)
            np.minimum(cheapest, costs[first], out=cheapest)
        np.maximum(least, cheapest, out=least)
    return least


def _pairs(
    row_costs: Array, column_costs: Array, floor: float, ceiling: float
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The pairs that cost more than the floor and at most the ceiling."""
    affordable = column_costs.searchsorted((ceiling - row_costs.min()) * (1.0 + _SLACK), side="right")
    cost = row_costs[:, None] + column_costs[None, :affordable]
    row, column = np.nonzero((cost > floor) & (cost <= ceiling))
    return row, column


def _passing(sums: Array, lines: Sequence[slice]) -> NDArray[np.bool_]:
    """Which sets are large enough and pass every screen."""
    passing: NDArray[np.bool_] = sums[_SIZE] >= 0.0
    for question in lines:
        values = sums[question]
        passing &= (values[0] if len(values) == 1 else values.max(axis=0)) >= -_SLACK
    return passing


def _slices(screens: Sequence[Screen]) -> list[slice]:
    slices, end = [], _VALUES
    for _, thresholds in screens:
        slices.append(slice(end, end + len(thresholds)))
        end += len(thresholds)
    return slices


@lru_cache(maxsize=256)
def _of_size(n: int, fewest: int) -> NDArray[np.intp]:
    """The numbers of the sets of at least ``fewest`` of n arms."""
    return np.flatnonzero(all_sets(n).sum(axis=0) >= fewest)


def split_arms(n: int) -> tuple[int, int]:
    """How many of n arms, the cheapest first, make up the columns, and how many the rows."""
    columns = n if n <= FEW else (n + 1) // 2
    return columns, n - columns


@lru_cache(maxsize=32)
def all_sets(n: int) -> Array:
    """Every set of n arms, bit i of its number standing for arm i: indicator columns, shape (n, 2ⁿ)."""
    return np.where(np.arange(2**n) >> np.arange(n)[:, None] & 1, 1.0, 0.0)

"""Enumeration of all affordable sets of arms as pairs of two halves (meet in the middle).

A set is a pair: a *column* is a set of the cheaper arms, a *row* a set of the dearer arms. Costs, sizes and
the values of :meth:`.Confidence.linear_bounds` are sums over arms, so those of a pair are the row's plus the
column's. For each row, binary search in the columns finds the smallest cost at which it can pass the screens
of all questions. Rows are processed in the order of that cost, in windows that grow. Most searches end in
the first window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from camvo.subsets.confidence import TABLE_ARMS
from camvo.typing import Array

Screen: TypeAlias = tuple[Array, Array]
"""Values (J, n) and thresholds (J,): on at least one line a set's values must add up to the threshold."""

_WINDOW, _GROWTH = 16, 4
"""The rows in the first window, and the factor from one window to the next."""
_PORTION = 2**14
"""The most pairs whose sums are in memory at once."""
_SLACK = 1e-9
_COST, _SIZE, _VALUES = 0, 1, 2
"""The rows of a table of sums: cost, size, then the values of every line."""


def pairs_by_cost(
    costs: Array, fewest: int, screens: Sequence[Screen]
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], Array]]:
    """Yield all pairs of at least ``fewest`` arms that pass every screen, in windows of ascending cost.

    Pairs within a window are not sorted.

    Args:
        costs: what each arm costs, shape (n,), ascending.
        fewest: the fewest arms in a set.
        screens: the linear bounds of each question that has any.

    Yields:
        The row, the column and the cost of m pairs, each of shape (m,). Rows and columns are positions in
        :func:`all_sets`.
    """
    cheap, dear = split_arms(len(costs))
    if not (screens or dear):
        column = _of_size(len(costs), fewest)
        yield np.zeros_like(column), column, (costs @ all_sets(len(costs)))[column]
        return
    table = np.concatenate([costs[None], np.ones((1, len(costs))), *(values for values, _ in screens)])
    columns = table[:, :cheap] @ all_sets(cheap)
    columns[_SIZE] -= fewest
    if screens:
        columns[_VALUES:] -= np.concatenate([thresholds for _, thresholds in screens])[:, None]
    lines = _slices(screens)
    if not dear:
        (column,) = _passing(columns, lines).nonzero()
        yield np.zeros_like(column), column, columns[_COST, column]
        return
    rows = table[:, cheap:] @ all_sets(dear)
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
        count, floor = count * _GROWTH, ceiling
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


def _slices(screens: Sequence[Screen]) -> list[slice]:
    """The rows of the table of sums that belong to each screen."""
    slices, end = [], _VALUES
    for _, thresholds in screens:
        slices.append(slice(end, end + len(thresholds)))
        end += len(thresholds)
    return slices


@lru_cache(maxsize=256)
def _of_size(n: int, fewest: int) -> NDArray[np.intp]:
    """The positions in :func:`all_sets` of the sets of at least ``fewest`` of n arms."""
    return np.flatnonzero(all_sets(n).sum(axis=0) >= fewest)


def split_arms(n: int) -> tuple[int, int]:
    """Split n arms, cheapest first: how many make up the columns and how many the rows."""
    columns = n if n <= TABLE_ARMS else (n + 1) // 2
    return columns, n - columns


@lru_cache(maxsize=32)
def all_sets(n: int) -> Array:
    """Every set of n arms as an indicator column, shape (n, 2ⁿ). Bit i of its position stands for arm i."""
    return np.where(np.arange(2**n) >> np.arange(n)[:, None] & 1, 1.0, 0.0)

"""Compare rows: means with their intervals, and our points minus a rival's at the same cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from camvo.replays.measures import mean_interval

Rows = Mapping[str, list[dict[str, Any]]]

LABEL_FREE, TAUGHT, COMPLETED = "joint 15", "joint 15, 5% labels", "joint 15, 5% labels, completed"
AGREEING = "joint, agreement 0.99"
OURS = (LABEL_FREE, TAUGHT, COMPLETED, AGREEING)
RIVALS = {
    "CaMVo, k_min 3": ("camvo", "k_min 3"),
    "CaMVo, k_min 1": ("camvo", "k_min 1"),
    "CCaMVo, k_min 3": ("ccamvo", "k_min 3"),
    "cascade": ("cascade", ""),
    "learned cascade": ("learned", ""),
    "random": ("random", ""),
    "best single by the same labels": ("best-single", ""),
    "router": ("router", ""),
}
TO_EVERYONE = ("cascade", "random")
"""Families whose dearest setting asks every model and weighs every vote the same."""
LOSS = 0.2


def column(records: Sequence[Mapping[str, Any]], name: str) -> NDArray[np.float64]:
    return np.array([record[name] for record in records], dtype=np.float64)


def cell(values: Sequence[float] | NDArray[np.float64], digits: int = 1, *, sign: bool = False) -> str:
    """Mean ± half the interval as text; – if a value is missing."""
    numbers = np.asarray(values, dtype=np.float64)
    if np.isnan(numbers).any():
        return "–"
    mean, interval = mean_interval(numbers.tolist())
    text = f"{mean:{'+' if sign else ''}.{digits}f}"
    half = 0.0 if interval is None else (interval[1] - interval[0]) / 2.0
    return f"{text} ± {half:.{digits}f}" if half >= 0.5 * 10.0**-digits else text


def cells(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Cells with points, share of the cost and the three errors of the score."""
    errors = (cell(column(records, name), 3) for name in ("ece", "shown_ece", "confirmed_ece"))
    return [
        cell(column(records, "points"), 2, sign=True),
        cell(100.0 * column(records, "cost_share")),
        *errors,
    ]


def spread(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Cells with the lowest, the median and the highest points and share of the cost over the shuffles."""
    points, costs = column(records, "points"), 100.0 * column(records, "cost_share")
    return [
        f"{value:{form}}"
        for values, form in ((points, "+.2f"), (costs, ".1f"))
        for value in np.quantile(values, (0.0, 0.5, 1.0)).tolist()
    ]


def table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [list(heads), ["---"] * len(heads), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def curve(rows: Rows, rival: str) -> list[list[dict[str, Any]]]:
    """The rows of a rival's family."""
    first, last = RIVALS[rival]
    family = [
        records for name, records in rows.items() if name.split()[0].rstrip(",") == first and last in name
    ]
    if family and rival in TO_EVERYONE and "majority" in rows:
        family.append(rows["majority"])
    return family


def at_cost(
    family: Sequence[Sequence[Mapping[str, Any]]], shares: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Points of a family at given shares of the cost, for each shuffle, interpolated between its settings.

    Below its cheapest setting the points are those of that setting, which favours the family.
    """
    costs = np.array([column(records, "cost_share") for records in family])
    points = np.array([column(records, "points") for records in family])
    order = costs.argsort(axis=0)
    costs, points = np.take_along_axis(costs, order, 0), np.take_along_axis(points, order, 0)
    return np.array([np.interp(share, costs[:, i], points[:, i]) for i, share in enumerate(shares)])


def compared(rows: Rows, ours: str, rival: str) -> str:
    """A cell with our points minus the rival's at equal cost.

    "(no)" marks an interval that does not exclude a loss above 0.2 points. The cell is – if we cost more than
    every setting of the rival that was replayed.
    """
    family = curve(rows, rival)
    if ours not in rows or not family:
        return "–"
    if column(rows[ours], "cost_share").mean() > max(
        column(records, "cost_share").mean() for records in family
    ):
        return "–"
    difference = column(rows[ours], "points") - at_cost(family, column(rows[ours], "cost_share"))
    _, interval = mean_interval(difference.tolist())
    sure = interval is not None and interval[0] > -LOSS
    return cell(difference, 2, sign=True) + ("" if sure else " (no)")

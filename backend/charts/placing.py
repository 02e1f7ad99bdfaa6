"""Placing names beside points, so that no name covers another name or a marker."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.transforms import Bbox

from backend.charts.style import INK, MUTED, PAPER
from camvo.typing import Array

_SIZE = 8.5
_MARKER = 5.0
"""Half the assumed width of a marker, in points."""
_RINGS = (4.0, 12.0, 22.0, 34.0, 48.0, 66.0)
"""Free space between point and name, in points, nearest first."""
_DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))


def name_points(
    axes: Axes, points: Array, names: Sequence[str], markers: Array, lines: Sequence[Array]
) -> None:
    """Write each name near its point, joined by a thin line if it is not next to it.

    Args:
        axes: axes whose limits and layout are final.
        points: the points in data coordinates, shape (n, 2); n ≥ 1.
        names: their n names.
        markers: points that must stay visible, in data coordinates, shape (m, 2).
        lines: polylines that must stay visible, each of shape (corners, 2).
    """
    figure = axes.get_figure(root=True)
    assert figure is not None  # noqa: S101 - a figure created these axes
    figure.draw_without_rendering()
    dots = figure.dpi / 72
    pixels = axes.transData.transform(points)
    shown = np.concatenate([pixels, axes.transData.transform(markers)])
    inked = [_along(axes.transData.transform(line), 2 * dots) for line in lines]
    occupied = np.concatenate([_boxes(shown, _MARKER * dots), *(_boxes(points, dots) for points in inked)])
    for point, pixel, name in zip(points, pixels, names, strict=True):
        trial = axes.text(0, 0, name, fontsize=_SIZE)
        size = trial.get_window_extent()
        trial.remove()
        offset, ring, box = _free(pixel, size, occupied, inside=axes.bbox, dots=dots)
        occupied = np.concatenate([occupied, box[None]])
        axes.annotate(
            name,
            (float(point[0]), float(point[1])),
            xytext=offset,
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=_SIZE,
            color=INK,
            path_effects=[withStroke(linewidth=2.5, foreground=PAPER)],
            arrowprops={"arrowstyle": "-", "color": MUTED, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3}
            if ring > _RINGS[0]
            else None,
            zorder=6,
        ).set_in_layout(False)


def _boxes(middles: Array, half: float) -> Array:
    """Return boxes as (left, bottom, right, top), shape (n, 4)."""
    return np.concatenate([middles - half, middles + half], axis=1)


def _along(corners: Array, step: float) -> Array:
    """Return points on a polyline, about ``step`` apart."""
    parts = [corners[-1:]]
    for start, end in pairwise(corners):
        count = int(np.hypot(*(end - start)) / step) + 1
        parts.append(start + np.linspace(0.0, 1.0, count, endpoint=False)[:, None] * (end - start))
    return np.concatenate(parts)


def _free(
    pixel: Array, size: Bbox, occupied: Array, *, inside: Bbox, dots: float
) -> tuple[tuple[float, float], float, Array]:
    """Find the nearest place that covers least; return its middle's offset in points, ring and box."""
    width, height = size.width, size.height
    places = []
    for ring in _RINGS:
        for right, up in _DIRECTIONS:
            gap = (_MARKER + ring) * dots * (0.75 if right and up else 1.0)
            middle = pixel + np.array([right * (gap + width / 2), up * (gap + height / 2)])
            half = np.array([width, height]) / 2
            box = np.concatenate([middle - half, middle + half])
            outside = width * height - _common(box, np.array(inside.extents)[None])
            covered = _common(box, occupied) + outside
            x, y = (middle - pixel) / dots
            places.append((round(covered), ring, (float(x), float(y)), box))
    _, ring, offset, box = min(places, key=lambda place: place[:2])
    return offset, ring, box


def _common(box: Array, others: Array) -> float:
    """Return the area that a box shares with others."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    return float(np.maximum(sides, 0.0).prod(axis=1).sum())

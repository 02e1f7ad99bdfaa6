"""The lines of the targets."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from scipy.optimize import isotonic_regression

from backend.charts.style import MUTED
from backend.commands.replay.report.data import ReportData
from camvo.typing import Array


def target_lines(axes: Axes, data: ReportData) -> None:
    """Draw a dashed line at δ × full for each δ, named on the right. Call this after all other drawing."""
    if not data.targets:
        return
    figure = axes.get_figure(root=True)
    assert figure is not None  # noqa: S101 - a figure created these axes
    for level in data.targets.values():
        axes.axhline(level, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1.5)
    names = [
        axes.annotate(
            f"{delta:g} × full",
            (1.0, level),
            xycoords=axes.get_yaxis_transform(),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=MUTED,
            annotation_clip=False,
        )
        for delta, level in data.targets.items()
    ]
    figure.draw_without_rendering()
    boxes = [name.get_window_extent() for name in names]
    heights = np.array([(box.y0 + box.y1) / 2 for box in boxes])
    moved = spread(heights, max(box.height for box in boxes) * 1.05)
    for name, shift in zip(names, (moved - heights) * 72 / figure.dpi, strict=True):
        name.set_position((4, float(shift)))


def spread(positions: Array, gap: float) -> Array:
    """Return the ascending positions nearest to ``positions`` with at least ``gap`` between neighbours."""
    steps = gap * np.arange(len(positions))
    apart: Array = isotonic_regression(positions - steps).x + steps
    return apart

"""Small pictures side by side, one for each setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from backend.charts.style import WIDTH, new_figure, short
from backend.commands.replay.report.data import SettingRuns

_COLUMNS = 4


@dataclass(frozen=True)
class Cell:
    """Axes from top to bottom, and whether they are first in their row and last in their column."""

    axes: tuple[Axes, ...]
    first: bool
    last: bool

    def title(self, setting: SettingRuns, *more: str) -> None:
        """Set a title of two lines: the policy, and its parameters with further facts."""
        second = ", ".join([*setting.parameters, *filter(None, more)])
        lines = filter(None, [short(setting.policy, 26), second])
        self.axes[0].set_title("\n".join(lines), fontsize=8.5)


def grid(
    count: int, *, height: float, margin: float, parts: Sequence[float] = (1,)
) -> tuple[Figure, list[Cell]]:
    """Create a figure with ``count`` cells, four in a row.

    Args:
        count: the number of cells.
        height: the height of a row, in inches.
        margin: the approximate width of the labels on the left, in inches.
        parts: the relative heights of the axes in a cell.
    """
    rows, columns = -(-count // _COLUMNS), min(count, _COLUMNS)
    figure = new_figure(margin + columns * (WIDTH - margin) / _COLUMNS, height * rows)
    places = figure.add_gridspec(rows * len(parts), columns, height_ratios=list(parts) * rows)
    cells = []
    for cell in range(count):
        row, column = divmod(cell, columns)
        axes = tuple(
            figure.add_subplot(places[row * len(parts) + part, column]) for part in range(len(parts))
        )
        cells.append(Cell(axes, first=column == 0, last=cell + columns >= count))
    return figure, cells

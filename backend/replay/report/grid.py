"""Small pictures side by side, one for each setting."""

from __future__ import annotations

from collections.abc import Sequence

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from backend.replay.report.study import Setting
from backend.replay.report.style import WIDTH, short

_COLUMNS = 4


@dataclass(frozen=True)
class Cell:
    """Axes from top to bottom; whether they are the first of their row, and the last of their column."""

    axes: tuple[Axes, ...]
    first: bool
    last: bool

    def title(self, setting: Setting, *more: str) -> None:
        """Two lines: the policy, and its parameters with whatever else there is to say."""
        second = ", ".join([*setting.parameters, *filter(None, more)])
        self.axes[0].set_title(f"{short(setting.policy, 26)}\n{second}", fontsize=8.5)


def grid(count: int, *, height: float, parts: Sequence[float] = (1,)) -> tuple[Figure, list[Cell]]:
    """A figure with ``count`` cells.

    Args:
        count: of cells, four in a row.
        height: of a row, in inches.
        parts: relative heights of the axes in a cell.
    """
    rows, columns = -(-count // _COLUMNS), min(count, _COLUMNS)
    figure = Figure(figsize=(WIDTH * (columns + 0.4) / (_COLUMNS + 0.4), height * rows))
    outer = figure.add_gridspec(rows, columns)
    cells = []
    for cell in range(count):
        row, column = divmod(cell, columns)
        inner = outer[row, column].subgridspec(len(parts), 1, height_ratios=parts, hspace=0.02)
        axes = tuple(figure.add_subplot(inner[part]) for part in range(len(parts)))
        cells.append(Cell(axes, first=column == 0, last=cell + columns >= count))
    return figure, cells

"""The style of the pictures: one palette, one font, little decoration."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

PAPER, INK, MUTED, GRID, DOT = "#ffffff", "#1f2328", "#59636e", "#dfe3e8", "#b6bec7"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Okabe and Ito's colours, safe for all colour vision, without yellow, which is too pale on white."""

THEMED = {PAPER: "paper", INK: "ink", MUTED: "muted", GRID: "grid", DOT: "dot"} | {
    colour: f"colour-{number}" for number, colour in enumerate(COLOURS)
}
"""Colours that a page may replace with its own, light or dark, and their names there."""

WIDTH = 9.0
"""The width of every picture, in inches."""

RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "text.color": INK,
    "text.parse_math": False,
    "axes.edgecolor": MUTED,
    "axes.facecolor": PAPER,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "figure.facecolor": PAPER,
    "figure.constrained_layout.use": True,
    "figure.dpi": 150,
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.6,
    "svg.fonttype": "path",
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
}


@dataclass(frozen=True)
class Picture:
    """A figure with its file name, heading, alternative text and caption."""

    name: str
    heading: str
    figure: Figure
    alt: str
    caption: tuple[str, ...]


_drawing = threading.Lock()


@contextmanager
def style() -> Iterator[None]:
    """Draw in this style within the block, one thread at a time: matplotlib's settings are global."""
    with _drawing, matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(RC)
        yield


def percent_tick(value: float, _: object) -> str:
    """Format a tick of an axis of shares, with as few decimals as possible."""
    return f"{round(100 * value, 6):g}%"


def new_figure(width: float, height: float) -> Figure:
    """Create an empty figure, size in inches, that can be measured before it is saved."""
    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def short(name: str, most: int) -> str:
    """Shorten a name to ``most`` characters by cutting out its middle."""
    head = (most - 1) // 2
    return name if len(name) <= most else f"{name[:head]}…{name[-(most - 1 - head) :]}"


def legend(figure: Figure, handles: Sequence[Artist], names: Sequence[str]) -> None:
    """Add a legend below the axes, and make the figure taller by its height."""
    shown = [short(name, 40) for name in names]
    columns = max(1, min(4, int(WIDTH * 11.5) // (max(map(len, shown)) + 7)))
    rows = -(-len(shown) // columns)
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + 0.2 * rows + 0.1)
    figure.legend(handles, shown, loc="outside lower center", ncols=columns)

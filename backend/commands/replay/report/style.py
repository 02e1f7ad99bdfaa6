"""The style of the pictures: one palette, one font, little decoration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from backend.commands.replay.report.data import SettingRuns

PAPER, INK, MUTED, GRID, DOT = "#ffffff", "#1f2328", "#59636e", "#dfe3e8", "#b6bec7"
THEMED = {PAPER: "paper", INK: "ink", MUTED: "muted", GRID: "grid", DOT: "dot"}
"""Colours that the page replaces with its own, light or dark, and their names there."""

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Okabe and Ito's colours, safe for all colour vision, without yellow, which is too pale on white."""
_SOLID: tuple[float, ...] = ()
_LINES = (_SOLID, (5, 2), (1.5, 1.5), (6, 2, 1, 2), (10, 2), (3, 1, 1, 1, 1, 1))
"""Dashes and gaps, in line widths."""
_MARKERS = ("o", "s", "^", "D", "<", "p")
_PLAIN_MARKERS = ("v", "P", "X", ">")

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


@dataclass(frozen=True)
class Style:
    """How one setting is drawn in every picture."""

    colour: str
    dashes: tuple[float, ...]
    marker: str


def styles(settings: Sequence[SettingRuns]) -> list[Style]:
    """Choose a colour for each policy and δ or agreement; settings that share it differ in lines and markers.

    A policy without δ has its own marker, because several of them may lie on one point.
    """
    colours: dict[tuple[str, float | None, float | None], str] = {}
    used: dict[str, int] = {}
    chosen, plain = [], 0
    for setting in settings:
        summary = setting.summary
        key = summary.policy, summary.delta, summary.agreement_asked
        colour = colours.setdefault(key, _COLOURS[len(colours) % len(_COLOURS)])
        number = used[colour] = used.get(colour, -1) + 1
        marker = _MARKERS[number % len(_MARKERS)]
        if summary.delta is None:
            marker, plain = _PLAIN_MARKERS[plain % len(_PLAIN_MARKERS)], plain + 1
        chosen.append(Style(colour, _LINES[number % len(_LINES)], marker))
    return chosen


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

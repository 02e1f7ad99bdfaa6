"""Charts in one style: colours, legends, names beside points, and SVG that takes the colours of its page."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import matplotlib
import numpy as np
from markupsafe import escape
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.transforms import Bbox

from camvo.typing import Array

PAPER, INK, MUTED, _GRID, DOT = "#ffffff", "#1f2328", "#59636e", "#dfe3e8", "#b6bec7"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Okabe and Ito's colours, safe for all colour vision, without yellow, which is too pale on white."""

_THEMED = {PAPER: "paper", INK: "ink", MUTED: "muted", _GRID: "grid", DOT: "dot"} | {
    colour: f"colour-{number}" for number, colour in enumerate(COLOURS)
}
"""Colours that a page may replace with its own, light or dark, and their names there."""

WIDTH = 9.0
"""The width of every picture, in inches."""

_RC: dict[Any, Any] = {
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
    "grid.color": _GRID,
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
        matplotlib.rcParams.update(_RC)
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


_DECIMALS = re.compile(r"(\.\d\d)\d+")
"""Decimals beyond a hundredth of a point, which no screen shows and which double a file's size."""


def svg(picture: Picture) -> str:
    """Return a picture as an SVG document, with its layout settled; the same picture gives the same text.

    Call it within :func:`backend.charts.style`.
    """
    figure, dpi = picture.figure, picture.figure.dpi
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    file = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": picture.name}):
        canvas: Any = FigureCanvasSVG(figure)  # savefig would draw it twice
        canvas.print_svg(file, metadata={"Date": None, "Creator": None})
    figure.dpi = dpi  # print_svg changes it
    return re.sub(r' d="[^"]*"', lambda path: _DECIMALS.sub(r"\1", path[0]), file.getvalue())


def inline(document: str, name: str, alt: str) -> str:
    """Return a document's ``<svg>`` element for use in a page beside others.

    Its ids begin with ``name``. It has no size of its own. Its colours are the page's ``--paper``, ``--ink``,
    …, with the document's as fallback.

    Args:
        document: the result of :func:`svg`.
        name: a name that is unique in the page.
        alt: the alternative text, plain.
    """
    element = document[document.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", element, flags=re.DOTALL)
    element = re.sub(r'\bid="', f'id="{name}-', element)
    element = re.sub(r'href="#', f'href="#{name}-', element)
    element = element.replace("url(#", f"url(#{name}-")
    for colour, role in _THEMED.items():
        element = element.replace(colour, f"var(--{role}, {colour})")
    opening = re.compile(r'<svg\b[^>]*(viewBox="[^"]*")[^>]*>')
    return opening.sub(
        lambda match: f'<svg {match[1]} role="img" aria-label="{escape(alt)}">', element, count=1
    )

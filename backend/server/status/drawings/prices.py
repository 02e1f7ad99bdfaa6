"""Price against accuracy, of every model and of the vote."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backend.charts.placing import name_points
from backend.charts.style import COLOURS, DOT, Picture, new_figure, percent_tick, short
from backend.server.status.drawings.drawing import SIZE


@dataclass(frozen=True, slots=True)
class Priced:
    """A model, or the vote: dollars for a task, and the share of right labels with its interval."""

    name: str
    usd: float
    share: float
    low: float
    high: float


def prices(models: tuple[Priced, ...], vote: Priced | None, measure: str) -> Picture:
    """Draw price against accuracy.

    Args:
        models: the models.
        vote: the vote of those that were asked; ``None`` if nobody checked it.
        measure: what the shares are of, in a few words.
    """
    figure = new_figure(*SIZE)
    axes = figure.add_subplot()
    points = {}
    for point, colour, marker in [
        *((model, COLOURS[1], "o") for model in models),
        *([] if vote is None else [(vote, COLOURS[0], "D")]),
    ]:
        price = 1000.0 * point.usd
        axes.plot([price, price], [point.low, point.high], color=DOT, linewidth=1.2)
        axes.plot([price], [point.share], marker=marker, color=colour, markersize=6)
        points[short(point.name, 22)] = (price, point.share)
    most = max((price for price, _ in points.values()), default=0.0)
    axes.set(xlabel="$ per 1,000 tasks", ylabel=measure, ylim=(-0.02, 1.06))
    axes.set_xlim(-0.06 * (most or 1.0), 1.3 * (most or 1.0))
    axes.yaxis.set_major_formatter(percent_tick)
    if points:
        places = np.array(list(points.values()))
        name_points(axes, places, list(points), places, [])
    caption = ("Higher is better, further left is cheaper.", "Lines are 95% intervals.")
    alt = f"Price against {measure} of {len(models)} models{' and of the vote' if vote else ''}."
    return Picture("prices", "Price and accuracy", figure, alt, caption)

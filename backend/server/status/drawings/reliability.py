"""Score against right: a reliability diagram."""

from __future__ import annotations

from matplotlib.axes import Axes

from backend.charts.style import COLOURS, MUTED, Picture, new_figure, percent_tick
from backend.server.status.drawings.drawing import SIZE
from backend.server.status.evidence import ReliabilityReport


def reliability(blind: ReliabilityReport, reviewed: ReliabilityReport) -> Picture:
    """Draw the share of right labels by their score, of blind labels and of reviewed ones."""
    figure = new_figure(*SIZE)
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    _points(axes, reviewed, "reviewed labels", COLOURS[1], "s", 0.006)
    _points(axes, blind, "blind labels", COLOURS[0], "o", -0.006)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel="score", ylabel="right")
    axes.xaxis.set_major_formatter(percent_tick)
    axes.yaxis.set_major_formatter(percent_tick)
    if blind.labels.count or reviewed.labels.count:
        figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    else:
        axes.text(0.5, 0.1, "no human label yet", ha="center")
    caption = (
        "On the dashed line the score keeps its word, below it promises too much.",
        "Lines are 95% intervals.",
    )
    alt = "Share of right labels against their score, with the line on which both are equal."
    return Picture("reliability", "Score and truth", figure, alt, caption)


def _points(  # noqa: PLR0917 - how one kind of labels is drawn
    axes: Axes, scores: ReliabilityReport, name: str, colour: str, marker: str, shift: float
) -> None:
    filled = [each for each in scores.bins if each.count]
    for each in filled:
        right, score = each.right, each.score
        if right.low is not None and right.high is not None and score is not None:
            axes.plot([score + shift] * 2, [right.low, right.high], color=colour, linewidth=0.9, alpha=0.6)
    axes.plot(
        [(each.score or 0.0) + shift for each in filled],
        [each.right.share or 0.0 for each in filled],
        marker=marker,
        markersize=4.5,
        color=colour,
        linestyle="",
        label=f"{name} ({scores.labels.count:,})" if filled else None,
    )

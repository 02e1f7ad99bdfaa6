"""The labels' shares, and the histogram of scores."""

from __future__ import annotations

import numpy as np
from matplotlib.ticker import MaxNLocator

from backend.charts.style import COLOURS, INK, Picture, new_figure, percent_tick, short
from backend.server.status.drawings.drawing import SIZE
from backend.server.status.parts.labels import HISTOGRAM, LabelCount


def label_shares(counts: tuple[LabelCount, ...]) -> Picture:
    """Draw how frequent each label is."""
    total = sum(each.count for each in counts)
    figure = new_figure(SIZE[0], max(SIZE[1], 0.8 + 0.24 * len(counts)))
    axes = figure.add_subplot()
    shares = [each.count / total for each in counts]
    axes.barh(range(len(counts)), shares, height=0.7, color=COLOURS[0])
    for row, share in enumerate(shares):
        axes.text(share + 0.01, row, f"{share:.1%}", va="center", fontsize=8.5, color=INK)
    axes.set_yticks(range(len(counts)), [short(each.label, 18) for each in counts])
    axes.set(xlim=(0, 1.16 * max(shares)), ylim=(max(len(counts), 3) - 0.4, -0.6))
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_formatter(percent_tick)
    caption = (f"The labels of the latest {total:,} tasks.",)
    alt = "Bars: " + ", ".join(f"{each.label} {each.count / total:.1%}" for each in counts)
    return Picture("shares", "Labels", figure, alt, caption)


def score_histogram(counts: tuple[int, ...]) -> Picture:
    """Draw how many labels have which score."""
    figure = new_figure(*SIZE)
    axes = figure.add_subplot()
    edges = np.arange(HISTOGRAM) / HISTOGRAM
    axes.bar(edges, counts, width=0.92 / HISTOGRAM, align="edge", color=COLOURS[0])
    axes.set(xlim=(0, 1), xlabel="score", ylabel="labels")
    axes.grid(visible=False, axis="x")
    axes.xaxis.set_major_formatter(percent_tick)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
    caption = ("Far right: labels that the models agree on. Few there, and many tasks are doubtful.",)
    alt = f"Histogram of the scores of {sum(counts):,} labels."
    return Picture("scores", "Scores", figure, alt, caption)

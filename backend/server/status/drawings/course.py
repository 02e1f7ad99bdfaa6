"""Cost and accuracy over time."""

from __future__ import annotations

import numpy as np

from backend.charts.style import COLOURS, DOT, Picture, new_figure, percent_tick
from backend.server.status.drawings.drawing import SIZE
from backend.server.status.parts.labels import BlockReport
from camvo.numerics.proportion import clopper_pearson


def course(blocks: tuple[BlockReport, ...]) -> Picture:
    """Draw what each block cost, above the share of its labels that were right."""
    figure = new_figure(*SIZE)
    upper, lower = figure.subplots(2, 1, sharex=True)
    ends = np.cumsum([block.rounds for block in blocks])
    paid = [
        (end, block.cost_usd / block.every_model_usd)
        for end, block in zip(ends, blocks, strict=True)
        if block.every_model_usd > 0.0
    ]
    if paid:
        upper.plot(*zip(*paid, strict=True), color=COLOURS[0])
    else:
        upper.text(0.5, 0.5, "no model costs anything", ha="center", va="center", transform=upper.transAxes)
    upper.set(ylabel="cost of\nasking all", ylim=(0, 1.05))
    checked = [(end, block) for end, block in zip(ends, blocks, strict=True) if block.checked]
    if checked:
        places = [end for end, _ in checked]
        bounds = [clopper_pearson(min(block.right, block.checked), block.checked) for _, block in checked]
        lower.vlines(places, *zip(*bounds, strict=True), color=DOT)
        shares = [block.right / block.checked for _, block in checked]
        lower.plot(places, shares, marker="o", markersize=4, color=COLOURS[2], linestyle="")
    else:
        lower.text(0.5, 0.5, "no human label yet", ha="center", va="center", transform=lower.transAxes)
    lower.set(ylabel="right", ylim=(-0.03, 1.05), xlim=(0, ends[-1] * 1.02), xlabel="labels so far")
    for axes in (upper, lower):
        axes.yaxis.set_major_formatter(percent_tick)
        axes.set_yticks([0, 0.5, 1])
    lower.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    caption = (
        "Above: what labels cost, as a share of asking every model.",
        "Below: how many of them people confirmed, with the 95% interval of each point.",
    )
    alt = "Cost and share of right labels over the labels so far."
    return Picture("course", "Cost and accuracy over time", figure, alt, caption)

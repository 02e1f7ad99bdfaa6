"""How often each model was asked."""

from __future__ import annotations

from backend.charts.style import INK, Picture, percent_tick, short
from backend.commands.replay.report.data import ReportData
from backend.commands.replay.report.grid import grid
from backend.commands.replay.report.style import styles


def calls_per_model(data: ReportData) -> Picture:
    """Draw bars for each setting, with the most expensive model on top."""
    models = sorted(data.table.prices, key=lambda model: -data.table.prices[model])
    names = [f"{short(model, 26)}  ${data.table.prices[model]:g}" for model in models]
    figure, cells = grid(
        len(data.settings), height=0.75 + 0.22 * len(models), margin=0.3 + 0.075 * max(map(len, names))
    )
    for cell, setting, style in zip(cells, data.settings, styles(data.settings), strict=True):
        (axes,) = cell.axes
        shares = [setting.calls.get(model, 0.0) for model in models]
        axes.barh(range(len(models)), shares, height=0.7, color=style.colour)
        for row, share in enumerate(shares):
            axes.text(share + 0.02, row, f"{share:.0%}", va="center", fontsize=8, color=INK)
        axes.set(xlim=(0, 1.22), xticks=[0, 0.5, 1], yticks=range(len(models)))
        cell.title(setting)
        axes.set_ylim(len(models) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
        axes.tick_params(axis="y", length=0)
        axes.set_yticklabels(names if cell.first else [])
        axes.xaxis.set_major_formatter(percent_tick)
    alt = "Bars of the share of items on which each model was asked, for each setting; a table has the calls."
    caption = (
        "The share of the items on which each model was asked, mean over the shuffles."
        if data.shuffles > 1
        else "The share of the items on which each model was asked.",
        "Models are in the order of their price, in $ per million input tokens, the dearest first: cheap"
        " settings have their long bars at the bottom.",
    )
    return Picture("calls", "Calls per model", figure, alt, caption)

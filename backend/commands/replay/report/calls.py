"""How often each model was asked."""

from __future__ import annotations

from backend.commands.replay.report.grid import grid
from backend.commands.replay.report.study import Study
from backend.commands.replay.report.style import INK, Picture, percent_tick, short, styles


def calls_per_model(study: Study) -> Picture:
    """Bars for each setting, the dearest model on top."""
    models = sorted(study.table.prices, key=lambda model: -study.table.prices[model])
    names = [f"{short(model, 26)}  ${study.table.prices[model]:g}" for model in models]
    figure, cells = grid(
        len(study.settings), height=0.75 + 0.22 * len(models), margin=0.3 + 0.075 * max(map(len, names))
    )
    for cell, setting, style in zip(cells, study.settings, styles(study.settings), strict=True):
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
        if study.shuffles > 1
        else "The share of the items on which each model was asked.",
        "Models are in the order of their price, in $ per million input tokens, the dearest first: cheap"
        " settings have their long bars at the bottom.",
    )
    return Picture("calls", "Calls per model", figure, alt, caption)

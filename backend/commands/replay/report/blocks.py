"""Accuracy, agreement and cost of every 500 rounds by themselves."""

from __future__ import annotations

import numpy as np

from backend.charts.style import WIDTH, Picture, legend, new_figure, percent_tick
from backend.commands.replay.report.data import ReportData, SettingRuns
from backend.commands.replay.report.style import styles
from backend.commands.replay.series import BLOCK
from camvo.typing import Array

_PANELS = {"accuracy": "accuracy", "agreement": "agreement", "cost": "cost, share of all"}


def over_blocks(data: ReportData) -> Picture | None:
    """Draw the series of the runs; ``None`` if no run has more than one block."""
    if len(data.settings[0].runs[0].row.series["rounds"]) < 2:
        return None
    names = [name for name in _PANELS if name != "accuracy" or data.truth]
    figure = new_figure(WIDTH, 0.6 + 2.2 * len(names))
    panels = figure.subplots(len(names), 1, sharex=True, squeeze=False)[:, 0]
    handles = []
    for axes, name in zip(panels, names, strict=True):
        handles = [
            line
            for setting, style in zip(data.settings, styles(data.settings), strict=True)
            for line in axes.plot(
                setting.runs[0].row.series["rounds"],
                mean_series(setting, name) / (_scale(data) if name == "cost" else 1.0),
                color=style.colour,
                dashes=style.dashes,
            )
        ]
        axes.set_ylabel(_PANELS[name])
        axes.yaxis.set_major_formatter(percent_tick)
    panels[-1].set_xlabel("rounds")
    panels[-1].xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    legend(figure, handles, [setting.name for setting in data.settings])
    heading = f"Every {BLOCK} rounds by themselves"
    caption = [
        f"Each point is the mean of the {BLOCK} rounds up to it. A line that falls shows items that get"
        " harder, models that get worse, or weights that were learnt wrongly. With the rows as they stand"
        " (--in-order) it shows drift."
    ]
    if data.shuffles > 1:
        caption.append("The lines are means over the shuffles.")
    alt = f"Lines of {' and '.join(names)} of every {BLOCK} rounds, one for each of {len(handles)} settings."
    return Picture("blocks", heading, figure, alt, tuple(caption))


def mean_series(setting: SettingRuns, name: str) -> Array:
    """Return the mean of one series over the runs, shape (blocks,); NaN where a run has no value."""
    rows = [run.row.series[name] for run in setting.runs]
    means: Array = np.array(rows, dtype=np.float64).mean(axis=0)
    return means


def _scale(data: ReportData) -> float:
    return data.table.full_cost or 1.0

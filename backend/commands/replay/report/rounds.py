"""Accuracy and cost over the rounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from backend.charts.style import WIDTH, Picture, legend, new_figure, percent_tick
from backend.commands.replay.report.data import ReportData, SettingRuns
from backend.commands.replay.report.style import Style, styles
from backend.commands.replay.report.targets import target_lines
from backend.commands.replay.results import ReplayRun
from camvo.typing import Array

_POINTS = 300
"""Points of a line. More would make the files larger, but the lines no clearer."""
_NOISE = 0.01
"""Share of the rounds at the start for which no accuracy is drawn."""
_UNSETTLED = 0.1
"""Share of the rounds at the start that do not decide how far the axes reach."""


def over_rounds(data: ReportData) -> Picture:
    """Draw cumulative accuracy, if the truth is known, above cumulative cost."""
    figure = new_figure(WIDTH, 6.4 if data.truth else 3.6)
    panels = figure.subplots(2 if data.truth else 1, 1, sharex=True, squeeze=False)[:, 0]
    chosen = styles(data.settings)
    handles = _lines(panels[-1], data, chosen, lambda run: cumulative_cost(data, run), [])
    panels[-1].set(ylabel="cost so far, share of asking all", xlabel="rounds")
    if data.truth:
        _lines(panels[0], data, chosen, lambda run: cumulative_accuracy(data, run), [*data.targets.values()])
        panels[0].set_ylabel("accuracy so far")
    for axes in panels:
        axes.yaxis.set_major_formatter(percent_tick)
        axes.set_xlim(0, max(len(run.order) for setting in data.settings for run in setting.runs))
    panels[-1].xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    legend(figure, handles, [setting.name for setting in data.settings])
    if data.truth:
        target_lines(panels[0], data)
    what = "accuracy and cost" if data.truth else "cost"
    alt = f"Lines of the cumulative {what} over the rounds, one for each of {len(handles)} settings."
    return Picture("over-rounds", f"{what.capitalize()} over the rounds", figure, alt, _caption(data))


def cumulative_accuracy(data: ReportData, run: ReplayRun) -> Array:
    """Return the share of right labels among the first t items with a known truth; NaN at the start."""
    truth = data.table.truth[run.order]
    known = np.cumsum(truth >= 0)
    right = np.cumsum((run.trace.labels == truth) & (truth >= 0))
    drawn = known > _NOISE * known[-1]
    share: Array = np.divide(right, known, out=np.full(len(truth), np.nan), where=drawn)
    return share


def cumulative_cost(data: ReportData, run: ReplayRun) -> Array:
    """Return the cost of the first t items, as a share of asking every model about them."""
    rounds = np.arange(1, len(run.order) + 1)
    share: Array = np.cumsum(run.trace.costs) / (rounds * (data.table.full_cost or 1.0))
    return share


def _lines(
    axes: Axes,
    data: ReportData,
    chosen: list[Style],
    value: Callable[[ReplayRun], Array],
    levels: list[float],
) -> list[Artist]:
    """Draw each setting's mean with a band of one standard deviation; keep ``levels`` in view."""
    handles: list[Artist] = []
    in_view = list(levels)
    for setting, style in zip(data.settings, chosen, strict=True):
        rounds, mean, deviation = _band(setting, value)
        handles += axes.plot(rounds, mean, color=style.colour, dashes=style.dashes)
        if len(setting.runs) > 1:
            axes.fill_between(
                rounds, mean - deviation, mean + deviation, color=style.colour, alpha=0.12, linewidth=0
            )
        settled = rounds >= _UNSETTLED * rounds[-1]
        in_view += [*(mean - deviation)[settled], *(mean + deviation)[settled]]
    low, high = np.nanmin(in_view), np.nanmax(in_view)
    margin = 0.06 * (high - low or 1.0)
    axes.set_ylim(max(0.0, low - margin), high + margin)
    return handles


def _band(setting: SettingRuns, value: Callable[[ReplayRun], Array]) -> tuple[Array, Array, Array]:
    lines = np.array([value(run) for run in setting.runs])
    at = np.unique(np.linspace(0, lines.shape[1] - 1, _POINTS).astype(np.intp))
    deviation = lines.std(axis=0, ddof=1) if len(lines) > 1 else np.zeros(lines.shape[1])
    return (at + 1).astype(np.float64), lines.mean(axis=0)[at], deviation[at]


def _caption(data: ReportData) -> tuple[str, ...]:
    sentences = ["Each line is the mean over all items up to that round, so its right end is the result."]
    if data.shuffles > 1:
        sentences.append("Bands are one standard deviation over the shuffles.")
    sentences.append(
        "A policy that learns starts dear, because it asks every model until it knows them, and settles where"
        " the cost line is flat; where it still falls at the right end, a longer run would cost less an item."
    )
    if data.targets:
        sentences.append("Dashed lines are the targets, δ times the accuracy of the full vote.")
    if data.truth:
        sentences.append(
            "The accuracy lines begin after a hundredth of the rounds: a mean of fewer items is noise."
        )
    return tuple(sentences)

"""The cost and accuracy of each policy, compared with all fixed sets of models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes

from backend.charts.placing import name_points
from backend.charts.style import (
    DOT,
    INK,
    MUTED,
    PAPER,
    WIDTH,
    Picture,
    legend,
    new_figure,
    percent_tick,
    short,
)
from backend.commands.replay.report.data import ReportData, SettingRuns
from backend.commands.replay.report.numbers import many
from backend.commands.replay.report.style import Style, styles
from backend.commands.replay.report.targets import target_lines
from camvo.typing import Array


def cost_accuracy(data: ReportData) -> Picture:
    """Draw cost against accuracy, or without truth against agreement."""
    field = "accuracy" if data.truth else "agreement"
    figure = new_figure(WIDTH, 5.2)
    axes = figure.add_subplot()
    handles = _static(axes, data)
    names = [_sets(data), "best sets for their cost", "single models", "full vote: all models"]
    best = data.static.best
    points = np.column_stack([data.static.costs, data.static.worth])
    lines, means = [points[best]], [points[-1]]
    for setting, style in zip(data.settings, styles(data.settings), strict=True):
        bars = _bars(setting, field)
        if bars is not None:
            mean, *arms = bars
            handles.append(_policy(axes, mean, arms, style))
            names.append(setting.name)
            means.append(mean)
            lines += arms
    what = "accuracy" if data.truth else "agreement with the full vote"
    axes.set(xlabel="cost per item ($ per million input tokens)", ylabel=what)
    low = _scale(axes, data, np.concatenate([*(line[:, 1] for line in lines), [*data.targets.values()]]))
    below = [model for model, worth in zip(data.table.prices, data.static.worth, strict=False) if worth < low]
    if below:
        names[2] += f" ({len(below)} below the axis)"
    legend(figure, handles, names)
    target_lines(axes, data)
    shown = {name: point for name, point in zip(data.table.prices, points, strict=False) if point[1] >= low}
    name_points(
        axes, np.array(list(shown.values())), [short(name, 40) for name in shown], np.array(means), lines
    )
    alt = f"Scatter plot of {field} against cost for {_sets(data)}, and for {len(means) - 1} policies."
    return Picture("cost-accuracy", f"Cost and {field}", figure, alt, _caption(data, field, below))


def _static(axes: Axes, data: ReportData) -> list[Artist]:
    """Draw the fixed sets, the best of them, the single models and the full vote."""
    costs, worth, models = data.static.costs, data.static.worth, len(data.table.prices)
    best = data.static.best
    return [
        axes.scatter(costs, worth, s=12, color=DOT, linewidths=0, zorder=2),
        *axes.plot(costs[best], worth[best], color=MUTED, linewidth=1, marker="o", ms=3.5, zorder=2.5),
        axes.scatter(costs[:models], worth[:models], s=34, c=PAPER, marker="D", edgecolors=INK, zorder=4),
        axes.scatter(costs[-1:], worth[-1:], s=190, c="none", marker="*", edgecolors=INK, zorder=5.5),
    ]


def _bars(setting: SettingRuns, field: str) -> tuple[Array, Array, Array] | None:
    """Return a setting's mean point, and the ends of its intervals of cost and worth."""
    cost, worth = setting.mean("cost"), setting.mean(field)
    if cost is None or worth is None:
        return None
    costs, worths = setting.interval("cost") or (cost, cost), setting.interval(field) or (worth, worth)
    return (
        np.array([cost, worth]),
        np.array([(end, worth) for end in costs]),
        np.array([(cost, end) for end in worths]),
    )


def _policy(axes: Axes, mean: Array, arms: Sequence[Array], style: Style) -> Artist:
    for arm in arms:
        axes.plot(*arm.T, color=style.colour, linewidth=1.1, zorder=4.5)
    (marker,) = axes.plot(
        *mean, color=style.colour, marker=style.marker, ms=7.5, mec=PAPER, mew=0.7, linestyle="none", zorder=5
    )
    return marker


def _scale(axes: Axes, data: ReportData, levels: Array) -> float:
    """Set the limits and return the lower one. Sets far below all ``levels`` stay outside."""
    low, high = levels.min(), max(levels.max(), data.static.worth.max())
    margin = 0.05 * (high - low or 1.0)
    axes.set(xlim=(0, data.table.full_cost * 1.04 or 1.0), ylim=(low - margin, high + margin))
    axes.yaxis.set_major_formatter(percent_tick)
    full = data.table.full_cost
    if full > 0:
        share = axes.secondary_xaxis(
            "top", functions=(lambda cost: np.divide(cost, full), lambda part: np.multiply(part, full))
        )
        share.xaxis.set_major_formatter(percent_tick)
        share.set_xlabel("share of what asking every model costs")
        share.spines["top"].set_visible(False)
    return float(low - margin)


def _sets(data: ReportData) -> str:
    kind = "random set" if data.static.sampled else "fixed set"
    return f"{many(len(data.static.sets), kind)} of models"


def _caption(data: ReportData, field: str, below: Sequence[str]) -> tuple[str, ...]:
    weighed = (
        "its votes weighted by the models’ true accuracy" if data.truth else "all votes weighing the same"
    )
    sentences = [
        "Farther left is cheaper, farther up is better.",
        f"Each grey dot is a set of models that is asked about every item, {weighed}; the line joins the"
        f" {len(data.static.best)} sets that no other set beats in both cost and {field}.",
    ]
    if data.static.sampled:
        sentences.append(
            "There are too many sets to draw all: these are a random sample, small and large alike."
        )
    if data.truth:
        sentences.append(
            "Which sets these are is known only afterwards, from the truth; a policy has to find out as it"
            " goes."
        )
    if data.clairvoyant is not None:
        sentences.append(
            "A policy that knew the answers, asked the cheapest model first and stopped at the first right"
            f" vote would be right in {data.clairvoyant.reached:.1%} at a cost of"
            f" {data.clairvoyant.cost:.3g}."
        )
    if data.targets:
        sentences.append("Dashed lines are the targets, δ times the accuracy of the full vote.")
    if data.shuffles > 1:
        sentences.append(
            "A policy’s marker is its mean over the shuffles, its bars the 95% intervals of that mean."
        )
    if below:
        worth = dict(zip(data.table.prices, data.static.worth, strict=False))
        left_out = ", ".join(f"{model} ({worth[model]:.1%})" for model in below)
        sentences.append(f"Too low to be in the picture: {left_out}.")
    return tuple(sentences)

"""What each policy cost and how right it was, among all fixed sets of models."""

from __future__ import annotations

import numpy as np
from matplotlib.artist import Artist
from matplotlib.figure import Figure

from backend.replay.report.placing import name_points
from backend.replay.report.study import Study
from backend.replay.report.style import DOT, INK, MUTED, PAPER, WIDTH, Picture, legend, percent_tick, styles, target_lines


def cost_accuracy(study: Study) -> Picture:
    """The scatter of cost and accuracy, or of cost and agreement where no truth is known."""
    field = "accuracy" if study.truth else "agreement"
    static, models = study.static, len(study.table.prices)
    figure = Figure(figsize=(WIDTH, 5.2))
    axes = figure.add_subplot()
    best = static.best
    handles: list[Artist] = [
        axes.scatter(static.costs, static.worth, s=12, color=DOT, linewidths=0, zorder=2),
        *axes.plot(
            static.costs[best], static.worth[best], color=MUTED, linewidth=1, marker="o", ms=3.5, zorder=2.5
        ),
        axes.scatter(
            static.costs[:models], static.worth[:models], s=34, c=PAPER, marker="D", edgecolors=INK, zorder=4
        ),
        axes.scatter(
            static.costs[-1:], static.worth[-1:], s=190, c="none", marker="*", edgecolors=INK, zorder=5.5
        ),
    ]
    sets = f"{'random sample of ' if static.sampled else ''}{len(static.sets):,} fixed sets of models"
    names = [sets, "best sets for their cost", "single models", "full vote: all models"]
    drawn = [(float(static.costs[-1]), study.full)]
    lines = [np.column_stack([static.costs[best], static.worth[best]])]
    for setting, style in zip(study.settings, styles(study.settings), strict=True):
        cost, worth = setting.mean("cost"), setting.mean(field)
        if cost is None or worth is None:
            continue
        (left, right), (low, high) = (setting.interval("cost") or (cost, cost)), (setting.interval(field) or (worth, worth))
        drawn.append((cost, worth))
        for bar in ([(left, worth), (right, worth)], [(cost, low), (cost, high)]):
            lines.append(np.array(bar))
            axes.plot(*lines[-1].T, color=style.colour, linewidth=1.1, zorder=4.5)
        handles += axes.plot(
            cost, worth, color=style.colour, marker=style.marker, ms=7.5, mec=PAPER, mew=0.7, linestyle="none", zorder=5
        )
        names.append(setting.name)
    axes.set(xlabel="cost per item ($ per million input tokens)", ylabel=_WORTH[field])
    axes.set_xlim(0, study.table.full_cost * 1.04 or 1.0)
    axes.yaxis.set_major_formatter(percent_tick)
    if study.table.full_cost > 0:
        full = study.table.full_cost
        share = axes.secondary_xaxis("top", functions=(lambda cost: cost / full, lambda part: part * full))
        share.xaxis.set_major_formatter(percent_tick)
        share.set_xlabel("share of what asking every model costs")
        share.spines["top"].set_visible(False)
    legend(figure, handles, names)
    target_lines(axes, study)
    points = np.column_stack([static.costs[:models], static.worth[:models]])
    right = study.table.full_cost * 1.04
    lines += [np.array([(0.0, level), (right, level)]) for level in study.targets.values()]
    name_points(axes, points, list(study.table.prices), np.array(drawn), lines)
    heading = f"Cost and {field}"
    alt = f"Scatter plot of {field} against cost for {sets}, and for {len(drawn) - 1} policies."
    return Picture("cost-accuracy", heading, figure, alt, _caption(study, field))


_WORTH = {"accuracy": "accuracy", "agreement": "agreement with the full vote"}


def _caption(study: Study, field: str) -> tuple[str, ...]:
    static = study.static
    weighed = "weighted by the models’ true accuracy" if study.truth else "all votes weighing the same"
    sample = " (a random sample of all sets, the same number of each size but for chance)" if static.sampled else ""
    sentences = [
        "Farther left is cheaper, farther up is better.",
        f"Each grey dot is a set of models that is asked about every item, {weighed}{sample}; the line joins"
        f" the {len(static.best)} sets that no other set beats in both cost and {field}.",
    ]
    if study.truth:
        sentences.append(
            "Which sets these are is known only afterwards, from the truth; a policy has to find out as it goes."
        )
    if study.targets:
        sentences.append("Dashed lines are the targets, δ times the accuracy of the full vote.")
    if study.shuffles > 1:
        sentences.append("A policy’s marker is its mean over the shuffles, with the 95% interval of that mean.")
    return tuple(sentences)

"""The pictures of a report, such as the cost and accuracy of each policy beside all fixed sets of models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from backend.charts import (
    DOT,
    INK,
    MUTED,
    PAPER,
    WIDTH,
    Picture,
    legend,
    name_points,
    new_figure,
    percent_tick,
    short,
)
from backend.commands.replay.report_data import ReportData, SettingRuns
from backend.commands.replay.runs import BLOCK, ReplayRun
from backend.server.status.formats import of
from camvo.scores.calibration import BINS, reliability, risk_curve
from camvo.typing import Array

_PANELS = {"accuracy": "accuracy", "agreement": "agreement", "cost": "cost, share of all"}


def _over_blocks(data: ReportData) -> Picture | None:
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
            for setting in data.settings
            for line in axes.plot(
                setting.runs[0].row.series["rounds"],
                _mean_series(setting, name) / ((data.table.full_cost or 1.0) if name == "cost" else 1.0),
                **setting.line,
            )
        ]
        axes.set_ylabel(_PANELS[name])
        axes.yaxis.set_major_formatter(percent_tick)
    panels[-1].set_xlabel("rounds")
    panels[-1].xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    legend(figure, handles, [setting.name for setting in data.settings])
    heading = f"Every {BLOCK} rounds by themselves"
    left = round(data.settings[0].runs[0].row.series["rounds"][-1] or 0) % BLOCK
    last = f", the last one of the {left} that are left" if left else ""
    caption = [
        f"Each point is the mean of the {BLOCK} rounds up to it{last}. A line that falls shows items that get"
        " harder, models that get worse, or weights that were learnt wrongly. In the order of the table"
        " (--in-order) it shows drift."
    ]
    if data.shuffles > 1:
        caption.append("The lines are means over the shuffles.")
    alt = f"Lines of {' and '.join(names)} of every {BLOCK} rounds, one for each of {len(handles)} settings."
    return Picture("blocks", heading, figure, alt, tuple(caption))


def _mean_series(setting: SettingRuns, name: str) -> Array:
    """Return the mean of one series over the runs, shape (blocks,); NaN where a run has no value."""
    rows = [run.row.series[name] for run in setting.runs]
    means: Array = np.array(rows, dtype=np.float64).mean(axis=0)
    return means


_COLUMNS = 4


@dataclass(frozen=True)
class _Cell:
    """Axes from top to bottom, and whether they are first in their row and last in their column."""

    axes: tuple[Axes, ...]
    first: bool
    last: bool

    def title(self, setting: SettingRuns, *more: str) -> None:
        """Set a title of two lines: the policy, and its parameters with further facts."""
        second = ", ".join([*setting.parameters, *filter(None, more)])
        lines = filter(None, [short(setting.policy, 26), second])
        self.axes[0].set_title("\n".join(lines), fontsize=8.5)


def _grid(
    count: int, *, height: float, margin: float, parts: Sequence[float] = (1,)
) -> tuple[Figure, list[_Cell]]:
    """Create a figure with ``count`` cells, four in a row."""
    rows, columns = -(-count // _COLUMNS), min(count, _COLUMNS)
    figure = new_figure(margin + columns * (WIDTH - margin) / _COLUMNS, height * rows)
    places = figure.add_gridspec(rows * len(parts), columns, height_ratios=list(parts) * rows)
    cells = []
    for cell in range(count):
        row, column = divmod(cell, columns)
        axes = tuple(
            figure.add_subplot(places[row * len(parts) + part, column]) for part in range(len(parts))
        )
        cells.append(_Cell(axes, first=column == 0, last=cell + columns >= count))
    return figure, cells


_POINTS = 300


def _reliability_diagrams(data: ReportData) -> Picture | None:
    """Draw a reliability diagram for each setting; ``None`` without truth."""
    if not data.truth:
        return None
    figure, cells = _grid(len(data.settings), height=2.8, margin=0.7, parts=(4, 1))
    most = max(len(run.order) for setting in data.settings for run in setting.runs)
    for cell, setting in zip(cells, data.settings, strict=True):
        _reliability_diagram(cell, data, setting, most)
    alt = f"Reliability diagrams in {BINS} bins: share of right labels against score, for each setting."
    caption = (
        f"Answers are sorted into {BINS} bins by their score; a point says how many of a bin’s answers were"
        " right and what they scored on average.",
        "On the dashed line the score is right; below it the score promises too much, above it too little.",
        "The bars count the answers in each bin of one shuffle, on a logarithmic scale, and points with more"
        " answers are larger: small points are noise.",
        "ECE is the mean distance from the line, each bin counting by its answers.",
    )
    return Picture("reliability", "Reliability of the score", figure, alt, caption)


def _reliability_diagram(cell: _Cell, data: ReportData, setting: SettingRuns, most: int) -> None:
    """Draw the diagram of one setting above bars that count its answers, ``most`` of them in a shuffle."""
    (upper, lower), bins = cell.axes, reliability(*_answers(data, setting))
    share, colour = bins.counts / bins.counts.sum(), setting.style.colour
    upper.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    upper.plot(bins.score, bins.accuracy, color=colour, linewidth=0.8, alpha=0.6)
    upper.scatter(
        bins.score,
        bins.accuracy,
        s=9 + 80 * share,
        color=colour,
        edgecolors=PAPER,
        linewidths=0.4,
        zorder=3,
        clip_on=False,
    )
    error = setting.mean("ece")
    cell.title(setting, "" if error is None else f"ECE {error:.3f}")
    counts, edges = bins.counts / len(setting.runs), np.arange(BINS) / BINS
    lower.bar(edges, counts, width=0.9 / BINS, align="edge", color=DOT)
    upper.set(xlim=(0, 1), ylim=(0, 1), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    upper.yaxis.set_major_formatter(percent_tick)
    decades = [10**power for power in range(0, int(np.log10(most)) + 1, 2 if most >= 1000 else 1)]
    lower.set(xlim=(0, 1), yscale="log", ylim=(0.5, most * 2), xticks=[0, 0.5, 1], yticks=decades)
    lower.minorticks_off()
    lower.grid(visible=False)
    lower.xaxis.set_major_formatter("{x:g}")
    lower.yaxis.set_major_formatter("{x:,.0f}")
    upper.tick_params(labelbottom=False, labelleft=cell.first)
    lower.tick_params(labelleft=cell.first)
    if cell.last:
        lower.set_xlabel("score")
    if cell.first:
        upper.set_ylabel("share right")
        lower.set_ylabel("answers")


def _risk_coverage(data: ReportData) -> Picture | None:
    """Draw the error rate among the most certain answers; ``None`` without truth."""
    if not data.truth:
        return None
    figure = new_figure(WIDTH, 4.2)
    axes = figure.add_subplot()
    handles, names, highest = [], [], 0.0
    for setting in data.settings:
        coverage, risk = _mean_curve(data, setting)
        handles += axes.plot(coverage, risk, **setting.line)
        area = setting.mean("aurc")
        names.append(setting.name if area is None else f"{setting.name}: AURC {area:.3f}")
        highest = max(highest, float(risk.max()))
    axes.set(
        xlabel="coverage: the most certain answers, share of all items", ylabel="risk: share of them wrong"
    )
    axes.set(xlim=(0, 1), ylim=(0, highest * 1.08 or 1.0))
    axes.xaxis.set_major_formatter(percent_tick)
    axes.yaxis.set_major_formatter(percent_tick)
    legend(figure, handles, names)
    alt = f"Lines of the error rate against coverage, one for each of {len(handles)} settings."
    caption = (
        "Keep only the answers with the highest scores and give the rest to people: the line says how many of"
        " the kept ones are wrong.",
        "Lower is better; a score that knows nothing gives a flat line, and the right end is the error rate"
        " of all answers.",
        "AURC is the mean height of the line.",
    )
    return Picture("risk-coverage", "Risk and coverage", figure, alt, caption)


_SETTLED = 0.02
"""Coverage below which no risk is drawn, because it rests on too few answers."""


def _answers(data: ReportData, setting: SettingRuns) -> tuple[NDArray[np.int64], Array, NDArray[np.int64]]:
    """Return the labels, scores and truth of all shuffles."""
    return (
        np.concatenate([run.trace.labels for run in setting.runs]),
        np.concatenate([run.trace.scores for run in setting.runs]),
        np.concatenate([data.table.truth[run.order] for run in setting.runs]),
    )


def _mean_curve(data: ReportData, setting: SettingRuns) -> tuple[Array, Array]:
    """Return coverages, and the mean risk over the shuffles at each."""
    at = np.linspace(_SETTLED, 1, _POINTS).astype(np.float64)
    curves = []
    for run in setting.runs:
        risk = risk_curve(run.trace.labels, run.trace.scores, data.table.truth[run.order])
        curves.append(np.interp(at, np.arange(1, len(risk) + 1) / len(risk), risk))
    return at, np.asarray(np.mean(curves, axis=0))


def _calls_per_model(data: ReportData) -> Picture:
    """Draw bars for each setting, with the most expensive model on top."""
    models = sorted(data.table.prices, key=lambda model: -data.table.prices[model])
    names = [f"{short(model, 26)}  ${data.table.prices[model]:g}" for model in models]
    figure, cells = _grid(
        len(data.settings), height=0.75 + 0.22 * len(models), margin=0.3 + 0.075 * max(map(len, names))
    )
    for cell, setting in zip(cells, data.settings, strict=True):
        (axes,) = cell.axes
        shares = [setting.calls.get(model, 0.0) for model in models]
        axes.barh(range(len(models)), shares, height=0.7, color=setting.style.colour)
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
        "Models are in the order of their price, in $ per million input tokens, the most expensive first:"
        " cheap settings have their long bars at the bottom.",
    )
    return Picture("calls", "Calls per model", figure, alt, caption)


def _target_lines(axes: Axes, data: ReportData) -> None:
    """Draw a dashed line at δ × full for each δ, named on the right. Call this after all other drawing."""
    if not data.targets:
        return
    figure = axes.get_figure(root=True)
    assert figure is not None  # noqa: S101 - a figure created these axes
    for level in data.targets.values():
        axes.axhline(level, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)), zorder=1.5)
    names = [
        axes.annotate(
            f"{delta:g} × full",
            (1.0, level),
            xycoords=axes.get_yaxis_transform(),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=MUTED,
            annotation_clip=False,
        )
        for delta, level in data.targets.items()
    ]
    figure.draw_without_rendering()
    boxes = [name.get_window_extent() for name in names]
    heights = np.array([(box.y0 + box.y1) / 2 for box in boxes])
    moved = _spread(heights, max(box.height for box in boxes) * 1.05)
    for name, shift in zip(names, (moved - heights) * 72 / figure.dpi, strict=True):
        name.set_position((4, float(shift)))


def _spread(positions: Array, gap: float) -> Array:
    """Return the ascending positions nearest to ``positions`` with at least ``gap`` between neighbours."""
    steps = gap * np.arange(len(positions))
    return np.asarray(isotonic_regression(positions - steps).x + steps)


def _cost_accuracy(data: ReportData) -> Picture:
    """Draw cost against accuracy, or without truth against agreement."""
    field = "accuracy" if data.truth else "agreement"
    figure = new_figure(WIDTH, 5.2)
    axes = figure.add_subplot()
    handles = _static(axes, data)
    names = [_sets(data), "best sets for their cost", "single models", "full vote: all models"]
    best = data.static.best
    points = np.column_stack([data.static.costs, data.static.worth])
    lines, means = [points[best]], [points[-1]]
    for setting in data.settings:
        bars = _bars(setting, field)
        if bars is not None:
            mean, *arms = bars
            handles.append(_policy(axes, mean, arms, setting))
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
    _target_lines(axes, data)
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


def _policy(axes: Axes, mean: Array, arms: Sequence[Array], setting: SettingRuns) -> Artist:
    for arm in arms:
        axes.plot(*arm.T, color=setting.style.colour, linewidth=1.1, zorder=4.5)
    (marker,) = axes.plot(
        *mean,
        color=setting.style.colour,
        marker=setting.style.marker,
        ms=7.5,
        mec=PAPER,
        mew=0.7,
        linestyle="none",
        zorder=5,
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
    return f"{of(len(data.static.sets), kind)} of models"


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


_NOISE = 0.01
"""Share of the rounds at the start for which no accuracy is drawn."""
_UNSETTLED = 0.1
"""Share of the rounds at the start that do not affect the range of the axes."""


def _over_rounds(data: ReportData) -> Picture:
    """Draw cumulative accuracy, if the truth is known, above cumulative cost."""
    figure = new_figure(WIDTH, 6.4 if data.truth else 3.6)
    panels = figure.subplots(2 if data.truth else 1, 1, sharex=True, squeeze=False)[:, 0]
    handles = _lines(panels[-1], data, lambda run: _cumulative_cost(data, run), [])
    panels[-1].set(ylabel="cost so far, share of asking all", xlabel="rounds")
    if data.truth:
        _lines(panels[0], data, lambda run: _cumulative_accuracy(data, run), [*data.targets.values()])
        panels[0].set_ylabel("accuracy so far")
    for axes in panels:
        axes.yaxis.set_major_formatter(percent_tick)
        axes.set_xlim(0, max(len(run.order) for setting in data.settings for run in setting.runs))
    panels[-1].xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    legend(figure, handles, [setting.name for setting in data.settings])
    if data.truth:
        _target_lines(panels[0], data)
    what = "accuracy and cost" if data.truth else "cost"
    alt = f"Lines of the cumulative {what} over the rounds, one for each of {len(handles)} settings."
    return Picture("over-rounds", f"{what.capitalize()} over the rounds", figure, alt, _rounds_caption(data))


def _cumulative_accuracy(data: ReportData, run: ReplayRun) -> Array:
    """Return the share of right labels among the first t items with a known truth; NaN at the start."""
    truth = data.table.truth[run.order]
    known = np.cumsum(truth >= 0)
    right = np.cumsum((run.trace.labels == truth) & (truth >= 0))
    drawn = known > _NOISE * known[-1]
    share: Array = np.divide(right, known, out=np.full(len(truth), np.nan), where=drawn)
    return share


def _cumulative_cost(data: ReportData, run: ReplayRun) -> Array:
    """Return the cost of the first t items, as a share of asking every model about them."""
    rounds = np.arange(1, len(run.order) + 1)
    share: Array = np.cumsum(run.trace.costs) / (rounds * (data.table.full_cost or 1.0))
    return share


def _lines(
    axes: Axes, data: ReportData, value: Callable[[ReplayRun], Array], levels: list[float]
) -> list[Artist]:
    """Draw each setting's mean with a band of one standard deviation; keep ``levels`` in view."""
    handles: list[Artist] = []
    in_view = list(levels)
    for setting in data.settings:
        rounds, mean, deviation = _band(setting, value)
        handles += axes.plot(rounds, mean, **setting.line)
        if len(setting.runs) > 1:
            axes.fill_between(
                rounds,
                mean - deviation,
                mean + deviation,
                color=setting.style.colour,
                alpha=0.12,
                linewidth=0,
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


def _rounds_caption(data: ReportData) -> tuple[str, ...]:
    sentences = ["Each line is the mean over all items up to that round, so its right end is the result."]
    if data.shuffles > 1:
        sentences.append("Bands are one standard deviation over the shuffles.")
    sentences.append(
        "A policy that learns is expensive at first, because it asks every model until it knows them. It has"
        " settled where the cost line is flat; where that still falls at the right end, a longer run would"
        " cost less an item."
    )
    if data.targets:
        sentences.append("Dashed lines are the targets, δ times the accuracy of the full vote.")
    if data.truth:
        sentences.append(
            "The accuracy lines begin after a hundredth of the rounds: a mean of fewer items is noise."
        )
    return tuple(sentences)


PICTURES: Final[tuple[Callable[[ReportData], Picture | None], ...]] = (
    _cost_accuracy,
    _over_rounds,
    _over_blocks,
    _reliability_diagrams,
    _risk_coverage,
    _calls_per_model,
)
"""What draws each picture, in the order of the page; ``None`` where the data have nothing to draw."""

"""The quality of the scores: reliability diagrams and risk–coverage curves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from backend.charts.style import DOT, MUTED, PAPER, WIDTH, Picture, legend, new_figure, percent_tick
from backend.commands.replay.report.data import ReportData, SettingRuns
from backend.commands.replay.report.grid import grid
from backend.commands.replay.report.style import styles
from camvo.scores.reliability import BINS, reliability, risk_curve
from camvo.typing import Array

_POINTS = 300


def reliability_diagrams(data: ReportData) -> Picture | None:
    """Draw a reliability diagram for each setting; ``None`` without truth."""
    if not data.truth:
        return None
    figure, cells = grid(len(data.settings), height=2.8, margin=0.7, parts=(4, 1))
    edges, most = (
        np.arange(BINS) / BINS,
        max(len(run.order) for setting in data.settings for run in setting.runs),
    )
    decades = [10**power for power in range(0, int(np.log10(most)) + 1, 2 if most >= 1000 else 1)]
    chosen = styles(data.settings)
    for cell, setting, style in zip(cells, data.settings, chosen, strict=True):
        upper, lower = cell.axes
        bins = reliability(*_answers(data, setting))
        share = bins.counts / bins.counts.sum()
        upper.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
        upper.plot(bins.score, bins.accuracy, color=style.colour, linewidth=0.8, alpha=0.6)
        upper.scatter(
            bins.score,
            bins.accuracy,
            s=9 + 80 * share,
            color=style.colour,
            edgecolors=PAPER,
            linewidths=0.4,
            zorder=3,
            clip_on=False,
        )
        error = setting.mean("ece")
        cell.title(setting, "" if error is None else f"ECE {error:.3f}")
        lower.bar(edges, bins.counts / len(setting.runs), width=0.9 / BINS, align="edge", color=DOT)
        upper.set(xlim=(0, 1), ylim=(0, 1), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
        upper.yaxis.set_major_formatter(percent_tick)
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
    alt = f"Reliability diagrams in {BINS} bins: share of right labels against score, for each setting."
    caption = (
        f"Answers are sorted into {BINS} bins by their score; a point says how many of a bin’s answers were"
        " right and what they scored on average.",
        "On the dashed line the score keeps its word; below it the score promises too much, above it too"
        " little.",
        "The bars count the answers in each bin of one shuffle, on a logarithmic scale, and points with more"
        " answers are larger: small points are noise.",
        "ECE is the mean distance from the line, each bin counting by its answers.",
    )
    return Picture("reliability", "Reliability of the score", figure, alt, caption)


def risk_coverage(data: ReportData) -> Picture | None:
    """Draw the error rate among the most certain answers; ``None`` without truth."""
    if not data.truth:
        return None
    figure = new_figure(WIDTH, 4.2)
    axes = figure.add_subplot()
    handles, names, highest = [], [], 0.0
    for setting, style in zip(data.settings, styles(data.settings), strict=True):
        coverage, risk = _mean_curve(data, setting)
        handles += axes.plot(coverage, risk, color=style.colour, dashes=style.dashes)
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

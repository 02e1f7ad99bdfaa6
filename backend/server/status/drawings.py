"""The charts of a project's status page and of its certificate."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.ticker import MaxNLocator

from backend.charts import (
    COLOURS,
    DOT,
    INK,
    MUTED,
    Picture,
    inline,
    name_points,
    new_figure,
    percent_tick,
    short,
    style,
    svg,
)
from backend.ledger.reports import Block
from backend.server.status.question_reports import HISTOGRAM
from backend.server.status.report import (
    ConfusionCount,
    LabelCount,
    ModelReport,
    ProjectReport,
    QuestionReport,
    ReliabilityReport,
    Share,
)
from camvo.numerics.small import clopper_pearson
from camvo.shares import LabelShare

_SIZE = (3.7, 2.6)
"""Width and height of a drawing in inches: on a screen of 360 pixels its texts have their own size."""

_KEPT = 256

_MOST_CERTIFIED = 25
"""The labels that a certificate draws, the most frequent ones."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """One chart: its heading, the ``<svg>`` element and what it shows, in sentences."""

    heading: str
    svg: Markup
    caption: str


@lru_cache(maxsize=_KEPT)
def _drawn(draw: Callable[..., Picture], name: str, *data: Any) -> Drawing:
    """Draw a chart."""
    # Label names may be in any script: the browser has their fonts, and matplotlib need not.
    with style(), warnings.catch_warnings(), matplotlib.rc_context({"svg.fonttype": "none"}):
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        picture = draw(*data)
        element = Markup(inline(svg(picture), name, picture.alt))  # noqa: S704 - drawn text, escaped alt
    return Drawing(picture.heading, element, " ".join(picture.caption))


def _confusion(cells: tuple[ConfusionCount, ...]) -> Picture:
    """Draw how often each pair of voted and human label came up, as shares of the human label."""
    names = sorted({name for cell in cells for name in (cell.vote, cell.human)})
    of_human = {name: sum(cell.count for cell in cells if cell.human == name) for name in names}
    size = len(names)
    figure = new_figure(_SIZE[0], max(_SIZE[1], 1.0 + 0.3 * size))
    axes = figure.add_subplot()
    for cell in cells:
        row, column = names.index(cell.human), names.index(cell.vote)
        colour = COLOURS[2] if row == column else COLOURS[1]
        share = cell.count / of_human[cell.human]
        axes.barh([row], [1.0], left=[column - 0.5], height=1.0, color=to_rgba(colour, 0.12 + 0.6 * share))
        axes.text(column, row, f"{cell.count:,}", ha="center", va="center", fontsize=9, color=INK)
    axes.set(xlim=(-0.5, size - 0.5), ylim=(size - 0.5, -0.5), xlabel="vote", ylabel="people")
    axes.set_xticks(
        range(size),
        [short(name, 12) for name in names],
        rotation=0 if size < 4 else 40,
        ha="center" if size < 4 else "right",
    )
    axes.set_yticks(range(size), [short(name, 14) for name in names])
    axes.grid(visible=False)
    axes.tick_params(length=0)
    right = sum(cell.count for cell in cells if cell.vote == cell.human)
    total = sum(cell.count for cell in cells)
    caption = (f"Vote and people agree on {right:,} of {total:,} labels: the diagonal.",)
    alt = f"Table of voted labels against human labels; {right:,} of {total:,} agree."
    return Picture("confusion", "Vote and people", figure, alt, caption)


def _course(blocks: tuple[Block, ...]) -> Picture:
    """Draw what each block cost, above the share of its labels that were right."""
    figure = new_figure(*_SIZE)
    upper, lower = figure.subplots(2, 1, sharex=True)
    ends = np.cumsum([block.rounds for block in blocks])
    if any(block.every_model_usd > 0.0 for block in blocks):
        # A line between blocks would be none for a single block.
        upper.stairs(
            [block.cost_usd / (block.every_model_usd or np.nan) for block in blocks],
            [0, *ends],
            baseline=None,
            color=COLOURS[0],
            linewidth=1.6,
        )
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
    lower.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
    caption = (
        "Above: what labels cost, as a share of asking every model, in the order in which tasks were begun.",
        "Below: how many of them people confirmed, with the 95% interval of each point.",
    )
    alt = "Cost and share of right labels over the labels so far."
    return Picture("course", "Cost and accuracy over time", figure, alt, caption)


@dataclass(frozen=True, slots=True)
class _Priced:
    """A model, or the vote: dollars for a task, and the share of right labels with its interval."""

    name: str
    usd: float
    share: float
    low: float
    high: float


def _prices(models: tuple[_Priced, ...], vote: _Priced | None, measure: str) -> Picture:
    """Draw price against accuracy."""
    figure = new_figure(*_SIZE)
    axes = figure.add_subplot()
    points = {}
    for point, colour, marker in [
        *((model, COLOURS[1], "o") for model in models),
        *([] if vote is None else [(vote, COLOURS[0], "D")]),
    ]:
        price = 1000.0 * point.usd
        axes.plot([price, price], [point.low, point.high], color=DOT, linewidth=1.2)
        axes.plot([price], [point.share], marker=marker, color=colour, markersize=6)
        points[short(point.name, 22)] = (price, point.share)
    most = max((price for price, _ in points.values()), default=0.0)
    axes.set(xlabel="$ per 1,000 tasks", ylabel=measure, ylim=(-0.02, 1.06))
    axes.set_xlim(-0.06 * (most or 1.0), 1.3 * (most or 1.0))
    axes.yaxis.set_major_formatter(percent_tick)
    if points:
        places = np.array(list(points.values()))
        name_points(axes, places, list(points), places, [])
    caption = ("Higher is better, further left is cheaper.", "Lines are 95% intervals.")
    alt = f"Price against {measure} of {len(models)} models{' and of the vote' if vote else ''}."
    return Picture("prices", "Price and accuracy", figure, alt, caption)


def _reliability(blind: ReliabilityReport, reviewed: ReliabilityReport) -> Picture:
    """Draw the share of right labels by their score, of blind labels and of reviewed ones."""
    figure = new_figure(*_SIZE)
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    _points(axes, reviewed, "reviewed labels", COLOURS[1], "s", 0.006)
    _points(axes, blind, "blind labels", COLOURS[0], "o", -0.006)
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel="score", ylabel="right")
    axes.xaxis.set_major_formatter(percent_tick)
    axes.yaxis.set_major_formatter(percent_tick)
    if blind.labels.count or reviewed.labels.count:
        figure.legend(loc="outside lower center", ncols=2, fontsize=8)
    else:
        axes.text(0.5, 0.1, "no human label yet", ha="center")
    caption = (
        "On the dashed line the score keeps its word, below it promises too much.",
        "Lines are 95% intervals.",
    )
    alt = "Share of right labels against their score, with the line on which both are equal."
    return Picture("reliability", "Score and truth", figure, alt, caption)


def _points(  # noqa: PLR0917 - how one kind of labels is drawn
    axes: Axes, scores: ReliabilityReport, name: str, colour: str, marker: str, shift: float
) -> None:
    filled = [each for each in scores.bins if each.count]
    for each in filled:
        right, score = each.right, each.score
        if right.low is not None and right.high is not None and score is not None:
            axes.plot([score + shift] * 2, [right.low, right.high], color=colour, linewidth=0.9, alpha=0.6)
    axes.plot(
        [(each.score or 0.0) + shift for each in filled],
        [each.right.share or 0.0 for each in filled],
        marker=marker,
        markersize=4.5,
        color=colour,
        linestyle="",
        label=f"{name} ({scores.labels.count:,})" if filled else None,
    )


def _label_shares(counts: tuple[LabelCount, ...]) -> Picture:
    """Draw how frequent each label is."""
    total = sum(each.count for each in counts)
    figure = new_figure(_SIZE[0], max(_SIZE[1], 0.8 + 0.24 * len(counts)))
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


def _score_histogram(counts: tuple[int, ...]) -> Picture:
    """Draw how many labels have which score."""
    figure = new_figure(*_SIZE)
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


_LEAST = 10
"""Checked votes that each model needs, so that models can be compared."""

_MEASURES = ("right, blind", "right, reviewed", "agrees with the vote")


def drawings(project: ProjectReport) -> dict[str, list[Drawing]]:
    """Return control → the charts of its question, after those of the project, which have no name.

    A project with one question has all of them without a name.
    """
    if not project.rounds:
        return {}
    current = project.current
    if len(current) == 1:
        return {"": [*_of_project(project), *_of_question(current[0], 0)]}
    each = {question.control: list(_of_question(question, at)) for at, question in enumerate(current)}
    return {"": list(_of_project(project)), **each}


def _of_project(project: ProjectReport) -> Iterator[Drawing]:
    yield _drawn(_reliability, "reliability", project.audit, project.reviewed)
    measure, models = _measured(project)
    if models:
        yield _drawn(_prices, "prices", models, _vote(project, measure), measure)


def _of_question(question: QuestionReport, number: int) -> Iterator[Drawing]:
    labels = question.labels
    if labels is None:
        return
    yield _drawn(_course, f"course-{number}", labels.blocks)
    yield _drawn(_score_histogram, f"scores-{number}", labels.histogram)
    if labels.shares:
        yield _drawn(_label_shares, f"shares-{number}", labels.shares)
    if labels.confusion:
        yield _drawn(_confusion, f"confusion-{number}", labels.confusion)


def _measured(project: ProjectReport) -> tuple[str, tuple[_Priced, ...]]:
    """The best kind of evidence that every model has, and the models with it."""
    asked = [model for model in project.models if model.in_pool and model.asked and _price(model) is not None]
    for measure in _MEASURES:
        points = [point for model in asked if (point := _priced(model, measure)) is not None]
        if points and len(points) == len(asked):
            return measure, tuple(points)
    return _MEASURES[-1], ()


def _share(model: ModelReport, measure: str) -> Share:
    return dict(zip(_MEASURES, (model.audit, model.reviewed, model.agreement), strict=True))[measure]


def _price(model: ModelReport) -> float | None:
    return model.cost_usd / model.answered if model.answered else None


def _priced(model: ModelReport, measure: str) -> _Priced | None:
    share, price = _share(model, measure), _price(model)
    enough = share.count >= _LEAST
    if price is None or not enough or share.share is None or share.low is None or share.high is None:
        return None
    return _Priced(model.name, price, share.share, share.low, share.high)


def _vote(project: ProjectReport, measure: str) -> _Priced | None:
    """The vote, at the mean price of a task so far."""
    scores = dict(zip(_MEASURES, (project.audit, project.reviewed), strict=False)).get(measure)
    if scores is None or scores.labels.share is None or not project.progress.predicted:
        return None
    right = scores.labels
    price = project.cost.rounds_usd / project.progress.predicted
    return _Priced("CaMVo", price, right.share or 0.0, right.low or 0.0, right.high or 0.0)


def _certified(labels: tuple[LabelShare, ...]) -> Picture:
    """Draw each label's share with its interval, above the interval of the blind labels alone."""
    most = sorted(labels, key=lambda label: -label.share)[:_MOST_CERTIFIED]
    figure = new_figure(_SIZE[0], 0.8 + 0.28 * len(most))
    axes = figure.add_subplot()
    for row, label in enumerate(most):
        axes.plot(
            [label.alone_low, label.alone_high], [row, row], color=DOT, linewidth=6, solid_capstyle="butt"
        )
        axes.plot([label.low, label.high], [row, row], color=COLOURS[0], linewidth=2.6, solid_capstyle="butt")
    rows = range(len(most))
    axes.plot(
        [label.predicted for label in most], rows, "D", color=COLOURS[1], markersize=4, fillstyle="none"
    )
    axes.plot([label.share for label in most], rows, "o", color=COLOURS[0], markersize=5)
    axes.set_yticks(rows, [short(label.label, 18) for label in most])
    axes.set(ylim=(len(most) - 0.4, -0.6), xlim=(0, None))
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_formatter(percent_tick)
    left_out = len(labels) - len(most)
    caption = (
        "Filled: the estimate, with its 95% interval. Open: the models' labels, counted.",
        "Grey: the interval that the blind labels give alone.",
        *([f"{left_out} rarer labels are in the table only."] if left_out else []),
    )
    alt = "Shares with 95% intervals: " + ", ".join(
        f"{label.label} {label.share:.1%} ({label.low:.1%} to {label.high:.1%})" for label in most
    )
    return Picture("shares", "The share of each label", figure, alt, caption)


def certificate_drawings(questions: Sequence[QuestionReport]) -> dict[str, Drawing]:
    """Return control → the picture of its labels' shares; controls without shares are absent."""
    return {
        question.control: _drawn(_certified, f"shares-{number}", question.shares.labels)
        for number, question in enumerate(questions)
        if question.shares is not None and question.shares.labels
    }

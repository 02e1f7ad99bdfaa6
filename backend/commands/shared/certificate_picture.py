"""The pictures of a certificate; a module of its own, since it loads matplotlib."""

from __future__ import annotations

from collections.abc import Sequence

from backend.charts import COLOURS, DOT, Picture, new_figure, percent_tick, short
from backend.server.status.drawings import SIZE, Drawing, drawn
from backend.server.status.report import QuestionReport
from camvo.shares import LabelShare

_MOST = 25
"""The labels that are drawn, the most frequent ones."""


def _shares(labels: tuple[LabelShare, ...]) -> Picture:
    """Draw each label's share with its interval, above the interval of the blind labels alone."""
    drawn = sorted(labels, key=lambda label: -label.share)[:_MOST]
    figure = new_figure(SIZE[0], 0.8 + 0.28 * len(drawn))
    axes = figure.add_subplot()
    for row, label in enumerate(drawn):
        axes.plot(
            [label.alone_low, label.alone_high], [row, row], color=DOT, linewidth=6, solid_capstyle="butt"
        )
        axes.plot([label.low, label.high], [row, row], color=COLOURS[0], linewidth=2.6, solid_capstyle="butt")
    rows = range(len(drawn))
    axes.plot(
        [label.predicted for label in drawn], rows, "D", color=COLOURS[1], markersize=4, fillstyle="none"
    )
    axes.plot([label.share for label in drawn], rows, "o", color=COLOURS[0], markersize=5)
    axes.set_yticks(rows, [short(label.label, 18) for label in drawn])
    axes.set(ylim=(len(drawn) - 0.4, -0.6), xlim=(0, None))
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_formatter(percent_tick)
    left_out = len(labels) - len(drawn)
    caption = (
        "Filled: the estimate, with its 95% interval. Open: the models' labels, counted.",
        "Grey: the interval that the blind labels give alone.",
        *([f"{left_out} rarer labels are in the table only."] if left_out else []),
    )
    alt = "Shares with 95% intervals: " + ", ".join(
        f"{label.label} {label.share:.1%} ({label.low:.1%} to {label.high:.1%})" for label in drawn
    )
    return Picture("shares", "The share of each label", figure, alt, caption)


def draw(questions: Sequence[QuestionReport]) -> dict[str, Drawing]:
    """Return control → the picture of its labels' shares; controls without shares are absent."""
    return {
        question.control: drawn(_shares, f"shares-{number}", question.shares.labels)
        for number, question in enumerate(questions)
        if question.shares is not None and question.shares.labels
    }

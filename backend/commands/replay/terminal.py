"""What a replay prints: a line for each setting, and its spread over the shuffles."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from backend.commands.replay.results import HIGHEST, LOWEST, MEDIAN, Summary
from backend.commands.replay.verdict import named

_COLUMNS = (
    ("accuracy", "right\n%", 1, 100.0),
    ("relative_accuracy", "of full\n%", 1, 100.0),
    ("target_met", "met\n%", 0, 100.0),
    ("agreement", "agree\n%", 1, 100.0),
    ("cost", "cost\n$", 2, 1.0),
    ("cost_share", "of all\n%", 1, 100.0),
    ("mean_subset", "asked\n", 2, 1.0),
    ("ece", "ECE\n", 3, 1.0),
    ("calibrated_ece", "ECE\nshown", 3, 1.0),
    ("rounds_per_second", "items\n/s", 0, 1.0),
)
"""Field, heading, decimals and factor. The JSON and the report have the other fields."""

_LEFT_OUT = ("rounds_per_second", "agreement", "mean_subset")
"""Fields left out, in this order, one for each further column, so that a line fits 80 characters."""

_SPREAD = (("right %", "accuracy"), ("% of the cost", "cost_share"))


def print_summaries(
    console: Console, summaries: Sequence[Summary], coordinates: Sequence[dict[str, float | None]] = ()
) -> None:
    """Print a table of the means, with half the 95% interval of accuracy if there are several shuffles.

    Args:
        console: where it is printed.
        summaries: one per line.
        coordinates: the values of further columns on the left, one mapping (name → value) per summary.
    """
    asked = any(summary.agreement_asked is not None for summary in summaries)
    calibrated = any(summary.means["calibrated_ece"] is not None for summary in summaries)
    further = (len(coordinates[0]) if coordinates else 0) + asked + calibrated
    left_out = {*_LEFT_OUT[:further], *(() if calibrated else ("calibrated_ece",))}
    columns = [column for column in _COLUMNS if column[0] not in left_out]
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("policy\n", overflow="fold", min_width=len("baseline"))
    own = {"δ": "delta", "k_min": "k_min", **({"agree ≥": "agreement_asked"} if asked else {})}
    for name in (*(coordinates[0] if coordinates else ()), *own):
        table.add_column(f"{name}\n", justify="right", no_wrap=True)
    for _, heading, _, _ in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for number, summary in enumerate(summaries):
        before = coordinates[number].values() if coordinates else ()
        parameters = [
            _plain(value) for value in (*before, *(getattr(summary, name) for name in own.values()))
        ]
        measured = [_mean(summary, name, digits, scale) for name, _, digits, scale in columns]
        table.add_row(summary.policy, *parameters, *measured)
    console.print(table)


def print_spread(console: Console, summaries: Sequence[Summary]) -> None:
    """Print the lowest, median and highest accuracy and cost over the shuffles, if there are several."""
    if summaries[0].shuffles < 2:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("over the shuffles\n", overflow="fold", min_width=len("baseline"))
    for name, _ in _SPREAD:
        for heading in (f"{name}\nlow", "\nhalf", "\nhigh"):
            table.add_column(heading, justify="right", no_wrap=True)
    for summary in summaries:
        cells = []
        for _, field in _SPREAD:
            quantiles = summary.quantiles[field]
            cells += [
                "" if quantiles is None else f"{100.0 * quantiles[position]:.1f}"
                for position in (LOWEST, MEDIAN, HIGHEST)
            ]
        table.add_row(named(summary), *cells)
    console.print()
    console.print(table)


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _mean(summary: Summary, name: str, digits: int, scale: float) -> str:
    mean, interval = summary.means[name], summary.intervals[name]
    if mean is None:
        return ""
    text = f"{scale * mean:.{digits}f}"
    if name != "accuracy" or interval is None:
        return text
    return f"{text} ±{scale * (interval[1] - interval[0]) / 2.0:.{digits}f}"

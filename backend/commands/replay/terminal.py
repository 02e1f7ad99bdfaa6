"""What a replay prints: a line for each setting, and a verdict on the target."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from backend.commands.replay.results import Summary

_COLUMNS = (
    ("accuracy", "right\n%", 1, 100.0),
    ("relative_accuracy", "of full\n%", 1, 100.0),
    ("target_met", "met\n%", 0, 100.0),
    ("agreement", "agree\n%", 1, 100.0),
    ("cost", "cost\n$", 2, 1.0),
    ("cost_share", "of all\n%", 1, 100.0),
    ("mean_subset", "asked\n", 2, 1.0),
    ("ece", "ECE\n", 3, 1.0),
    ("rounds_per_second", "items\n/s", 0, 1.0),
)
"""Field, heading, decimals and factor. The JSON and the report have the other fields."""

_LEFT_OUT = ("rounds_per_second", "agreement")
"""Fields left out if there are further columns, so that a line fits 80 characters."""


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
    left_out = _LEFT_OUT if coordinates else _LEFT_OUT[:1] if asked else ()
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


def target_verdict(summaries: Sequence[Summary]) -> str:
    """Say in one sentence which settings met the target, δ times the accuracy of the full vote."""
    full = summaries[0].means["full_accuracy"]
    if full is None:
        return (
            "No item's truth is known, so neither is the target. Agreement is with the vote of all models"
            " with equal weights."
        )
    full_vote = f"The full vote, with all models weighted by their true accuracy, is {full:.1%} right."
    with_target = [
        (summary, met) for summary in summaries if (met := summary.means["target_met"]) is not None
    ]
    if not with_target:
        return f"No policy here has a target. {full_vote}"
    meeting = [summary for summary, met in with_target if met == 1.0]
    if not meeting:
        nearest = max((summary for summary, _ in with_target), key=_margin)
        return (
            f"No setting met its target in every shuffle. The nearest is {_name(nearest)}, with"
            f" {nearest.means['relative_accuracy']:.1%} of the full vote's accuracy. {full_vote}"
        )
    best = min(meeting, key=lambda summary: summary.means["cost"] or 0.0)
    share = best.means["cost_share"]
    price = "" if share is None else f" at {share:.0%} of the cost of asking every model"
    return (
        f"{len(meeting)} of {len(with_target)} settings met their target in every shuffle. The cheapest is"
        f" {_name(best)}: {best.means['relative_accuracy']:.1%} of the full vote's accuracy{price}."
        f" {full_vote}"
    )


def target_count(summaries: Sequence[Summary]) -> str:
    """Say how many settings met their target, for settings of several tables."""
    met_shares = [met for summary in summaries if (met := summary.means["target_met"]) is not None]
    return f"{met_shares.count(1.0)} of {len(met_shares)} settings met their target in every table drawn."


def _margin(summary: Summary) -> float:
    """Return by how much the target was exceeded, as a share of the full vote's accuracy."""
    return (summary.means["relative_accuracy"] or 0.0) - (summary.delta or 0.0)


def _name(summary: Summary) -> str:
    return f"{summary.policy} with δ = {summary.delta} and k_min = {summary.k_min}"


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

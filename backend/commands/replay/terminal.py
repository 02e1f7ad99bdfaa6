"""What a replay prints: a line for each setting, and what that says about the target."""

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
"""Field, heading, decimals and factor; the others are in the JSON and the report."""

_LEFT_OUT = ("rounds_per_second", "agreement")
"""What gives way to further columns, so that a line fits 80; the first of them to the agreement asked for."""


def show(
    console: Console, summaries: Sequence[Summary], given: Sequence[dict[str, float | None]] = ()
) -> None:
    """A table of the means; accuracy goes with half of its interval where there are several shuffles.

    Args:
        console: where it is printed.
        summaries: its lines.
        given: further columns to put before them, one mapping a summary (name → value).
    """
    asked = any(summary.agreement_asked is not None for summary in summaries)
    left_out = _LEFT_OUT if given else _LEFT_OUT[:1] if asked else ()
    columns = [column for column in _COLUMNS if column[0] not in left_out]
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("policy\n", overflow="fold", min_width=len("baseline"))
    own = {"δ": "delta", "k_min": "k_min", **({"agree ≥": "agreement_asked"} if asked else {})}
    for name in (*(given[0] if given else ()), *own):
        table.add_column(f"{name}\n", justify="right", no_wrap=True)
    for _, heading, _, _ in columns:
        table.add_column(heading, justify="right", no_wrap=True)
    for number, summary in enumerate(summaries):
        before = given[number].values() if given else ()
        parameters = [
            _plain(value) for value in (*before, *(getattr(summary, name) for name in own.values()))
        ]
        measured = [_mean(summary, name, digits, scale) for name, _, digits, scale in columns]
        table.add_row(summary.policy, *parameters, *measured)
    console.print(table)


def verdict(summaries: Sequence[Summary]) -> str:
    """One sentence on the target, δ times the accuracy of the full vote."""
    full = summaries[0].means["full_accuracy"]
    if full is None:
        return (
            "Without the truth of any item nothing is known about the target; agreement is with the vote of"
            " all models, each of the same weight."
        )
    everyone = f"the full vote, all models by their true accuracy, is right in {full:.1%}"
    aimed = [(summary, met) for summary in summaries if (met := summary.means["target_met"]) is not None]
    if not aimed:
        return f"No policy here has a target; {everyone}."
    kept = [summary for summary, met in aimed if met == 1.0]
    if not kept:
        nearest = max((summary for summary, _ in aimed), key=_margin)
        return (
            f"No setting met its target in every shuffle; {everyone}, and {_name(nearest)}, which came"
            f" nearest, kept {nearest.means['relative_accuracy']:.1%} of that."
        )
    best = min(kept, key=lambda summary: summary.means["cost"] or 0.0)
    share = best.means["cost_share"]
    price = "" if share is None else f" at {share:.0%} of the cost of asking all"
    return (
        f"{len(kept)} of {len(aimed)} settings met their target in every shuffle, and {_name(best)} is the"
        f" cheapest of them: {best.means['relative_accuracy']:.1%} of the full vote's accuracy{price};"
        f" {everyone}."
    )


def kept(summaries: Sequence[Summary]) -> str:
    """How many settings met their target, where they are not of one table."""
    aimed = [met for summary in summaries if (met := summary.means["target_met"]) is not None]
    return f"{aimed.count(1.0)} of {len(aimed)} settings met their target in every table that was drawn."


def _margin(summary: Summary) -> float:
    """By how much the target was exceeded, as a share of the full vote's accuracy."""
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

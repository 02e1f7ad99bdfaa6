"""The numbers of a report as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from backend.commands.replay.report.data import ReportData, SettingRuns
from backend.commands.replay.results import HIGHEST, LOWEST, MEDIAN
from backend.commands.replay.verdict import student_note
from camvo.numerics.tolerances import TIE

MISSING = "–"


@dataclass(frozen=True)
class Column:
    """A column of the summary: a field of the rows, its heading and its number format."""

    field: str
    heading: str
    text: Callable[[float], str]

    def mean(self, setting: SettingRuns) -> str:
        """Return the mean over the shuffles."""
        mean = setting.mean(self.field)
        return MISSING if mean is None else self.text(mean)

    def interval(self, setting: SettingRuns) -> str | None:
        """Return the 95% interval; ``None`` if there is none, or if both ends look the same."""
        interval = setting.interval(self.field)
        low, high = map(self.text, interval or (0.0, 0.0))
        return None if low == high else f"{low.rstrip('%')}–{high.lstrip('$')}"


@dataclass(frozen=True)
class TargetMet(Column):
    """The number of shuffles in which the target was met."""

    def mean(self, setting: SettingRuns) -> str:
        """Return the count, which is not averaged."""
        met = [run.row.target_met for run in setting.runs if run.row.target_met is not None]
        return f"{sum(met)} of {len(met)}" if met else MISSING

    def interval(self, setting: SettingRuns) -> str | None:
        """Return ``None``: a count has no interval."""
        return None


@dataclass(frozen=True)
class Spread(Column):
    """The lowest, the median and the highest value of the shuffles."""

    def mean(self, setting: SettingRuns) -> str:
        """Return the three values, or a dash if there is one shuffle or no value."""
        quantiles = setting.summary.quantiles.get(self.field)
        if quantiles is None or setting.summary.shuffles < 2:
            return MISSING
        return " · ".join(self.text(quantiles[position]) for position in (LOWEST, MEDIAN, HIGHEST))

    def interval(self, setting: SettingRuns) -> str | None:
        """Return ``None``: these are no means."""
        return None


def percent(value: float) -> str:
    """Format a share as a percentage with one decimal."""
    return f"{value:.1%}"


def dollars(value: float) -> str:
    """Format dollars with three significant digits."""
    return f"${value:#.3g}".rstrip(".") if value < 1000 else f"${value:,.0f}"


_COLUMNS = (
    Column("accuracy", "accuracy", percent),
    Spread("accuracy", "accuracy: low · half · high", percent),
    Column("full_accuracy", "full vote’s accuracy", percent),
    Column("relative_accuracy", "relative accuracy", percent),
    TargetMet("target_met", "target met", str),
    Column("agreement", "agreement with full vote", percent),
    Column("cost", "cost per item", dollars),
    Column("cost_share", "share of full cost", percent),
    Spread("cost_share", "share: low · half · high", percent),
    Column("mean_subset", "models asked", "{:.2f}".format),
    Column("ece", "ECE", "{:.3f}".format),
    Column("calibrated_ece", "ECE of the server’s score", "{:.3f}".format),
    Column("aurc", "AURC", "{:.3f}".format),
    Column("rounds_per_second", "rounds per second", "{:,.0f}".format),
)


def columns(data: ReportData) -> list[Column]:
    """Return the columns that have a number in any row."""
    return [
        column for column in _COLUMNS if any(column.mean(setting) != MISSING for setting in data.settings)
    ]


def findings(data: ReportData) -> list[str]:
    """Describe in sentences what was replayed."""
    table = data.table
    known = int((table.truth >= 0).sum())
    sizes = (
        f"{many(len(table.truth), 'item')}, {many(len(table.prices), 'model')},"
        f" {many(len(table.labels), 'label')}, {many(data.shuffles, 'shuffle')}."
    )
    student = student_note([setting.summary for setting in data.settings])
    if not known:
        return [
            sizes,
            *student,
            "No right label is known, so nothing here says how right a label is: only what it cost, and how"
            " often it is the full vote’s, in which every model has one vote.",
        ]
    partly = [f"The right label is known for {known:,} items."] if known < len(table.truth) else []
    return [sizes, *partly, *student]


def targets(data: ReportData) -> list[str]:
    """Name for each δ the cheapest setting of any policy that reached its target in every shuffle."""
    return [
        f"δ = {delta:g}, a target of {percent(level)}: {_cheapest(data, delta)}."
        for delta, level in data.targets.items()
    ]


def label_rows(setting: SettingRuns) -> list[tuple[str, list[str]]]:
    """Return for each label its mean precision, recall and F1 over the shuffles, and its items."""
    rows = []
    for label in setting.runs[0].row.per_label:
        quality = [run.row.per_label[label] for run in setting.runs]
        shares = [_mean([of_run[name] for of_run in quality]) for name in ("precision", "recall", "f1")]
        support = _mean([of_run["support"] for of_run in quality])
        rows.append(
            (
                label,
                [
                    *(MISSING if share is None else percent(share) for share in shares),
                    MISSING if support is None else f"{support:,.0f}",
                ],
            )
        )
    return rows


def _cheapest(data: ReportData, delta: float) -> str:
    met = [
        setting
        for setting in data.settings
        if all((run.row.relative_accuracy or 0.0) >= delta - TIE for run in setting.runs)
    ]
    if not met:
        return "none"
    best = min(met, key=lambda setting: setting.mean("cost_share") or 0.0)
    accuracy, share = (percent(best.mean(field) or 0.0) for field in ("accuracy", "cost_share"))
    return f"{best.name}, with {accuracy} at {share} of the full vote’s cost"


def many(count: int, noun: str) -> str:
    """Format a count with its noun, in the singular for one."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return fmean(numbers) if numbers else None

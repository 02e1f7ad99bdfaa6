"""The data of a report: the table, the settings with their runs, and the fixed sets of models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backend.charts import COLOURS
from backend.commands.replay.runs import HIGHEST, LOWEST, MEDIAN, Point, ReplayRun, Summary, student_note
from backend.server.status.formats import of
from camvo.errors import InvalidParameterError
from camvo.numerics.small import TIE
from camvo.replays.measures import (
    ClairvoyantBound,
    clairvoyant_bound,
    fixed_sets,
    full_vote_weights,
    pareto_positions,
    set_accuracy,
)
from camvo.replays.replay import VotesTable
from camvo.typing import Array

_NAMES = {
    "camvo": "CaMVo",
    "ccamvo": "CCaMVo",
    "joint": "Joint",
    "baseline": "Baseline",
    "majority": "Majority",
    "cascade": "Cascade, score ≥ {}",
    "random": "Random, {} of the models",
    "single": "{} alone",
    "subset": "{}",
    "best-single": "Best single by labels",
    "router": "Router, gain > {}",
}
_SHARES = ("accuracy", "agreement", "cost_share", "ece", "aurc")
_SAMPLE_SEED = 0


_SOLID: tuple[float, ...] = ()
_LINES = (_SOLID, (5, 2), (1.5, 1.5), (6, 2, 1, 2), (10, 2), (3, 1, 1, 1, 1, 1))
"""Dashes and gaps, in line widths."""
_MARKERS = ("o", "s", "^", "D", "<", "p")
_PLAIN_MARKERS = ("v", "P", "X", ">")


@dataclass(frozen=True)
class _Style:
    """How one setting is drawn in every picture."""

    colour: str
    dashes: tuple[float, ...]
    marker: str


def _styles(summaries: Sequence[Summary]) -> list[_Style]:
    """Choose a colour for each policy and δ or agreement; settings that share it differ in lines and markers.

    A policy without δ has its own marker, because several of them may lie on one point.
    """
    colours: dict[tuple[str, float | None, float | None], str] = {}
    used: dict[str, int] = {}
    chosen, plain = [], 0
    for summary in summaries:
        key = summary.policy, summary.delta, summary.agreement_asked
        colour = colours.setdefault(key, COLOURS[len(colours) % len(COLOURS)])
        number = used[colour] = used.get(colour, -1) + 1
        marker = _MARKERS[number % len(_MARKERS)]
        if summary.delta is None:
            marker, plain = _PLAIN_MARKERS[plain % len(_PLAIN_MARKERS)], plain + 1
        chosen.append(_Style(colour, _LINES[number % len(_LINES)], marker))
    return chosen


@dataclass(frozen=True, eq=False)
class SettingRuns:
    """One setting: a policy with its parameters, its run on every shuffle, and how pictures draw it."""

    summary: Summary
    runs: tuple[ReplayRun, ...]
    style: _Style = _Style(COLOURS[0], _SOLID, _MARKERS[0])

    @property
    def line(self) -> dict[str, Any]:
        """How its lines are drawn."""
        return {"color": self.style.colour, "dashes": self.style.dashes}

    @property
    def policy(self) -> str:
        """The policy's name as the report shows it."""
        policy, _, rest = self.summary.policy.partition(":")
        name = _NAMES.get(policy, policy)
        return name.format(rest) if "{}" in name else name

    @property
    def parameters(self) -> list[str]:
        """Those of δ, k_min and the required agreement that the policy has."""
        words = []
        if self.summary.delta is not None:
            words.append(f"δ = {self.summary.delta:g}")
        if self.summary.k_min is not None:
            words.append(f"k ≥ {self.summary.k_min}")
        if self.summary.agreement_asked is not None:
            words.append(f"agreement ≥ {self.summary.agreement_asked:g}")
        return words

    @property
    def name(self) -> str:
        """The policy and its parameters."""
        return ", ".join([self.policy, *self.parameters])

    def mean(self, field: str) -> float | None:
        """Return the mean of one field of the rows over the shuffles."""
        return self.summary.means.get(field)

    def interval(self, field: str) -> tuple[float, float] | None:
        """Return the mean's 95% interval, clipped to its range; ``None`` with one shuffle or no mean."""
        interval = self.summary.intervals.get(field)
        most = 1.0 if field in _SHARES else np.inf
        return interval and (max(0.0, interval[0]), min(most, interval[1]))

    @property
    def rounds(self) -> float:
        """The mean number of rounds of a run."""
        return sum(len(run.order) for run in self.runs) / len(self.runs)

    def label_rows(self) -> list[tuple[str, list[str]]]:
        """Each label with its mean precision, recall and F1 over the shuffles, and its items."""
        rows = []
        for label in self.runs[0].row.per_label:
            quality = [run.row.per_label[label] for run in self.runs]
            shares = [_mean([of_run[name] for of_run in quality]) for name in ("precision", "recall", "f1")]
            support = _mean([of_run["support"] for of_run in quality])
            cells = [_MISSING if share is None else _percent(share) for share in shares]
            rows.append((label, [*cells, _MISSING if support is None else f"{support:,.0f}"]))
        return rows

    @property
    def calls(self) -> dict[str, float]:
        """Model → the share of items on which it was asked."""
        rounds = sum(len(run.order) for run in self.runs)
        return {
            model: sum(run.row.calls.get(model, 0) for run in self.runs) / rounds
            for model in self.runs[0].row.calls
        }


_MISSING = "–"


@dataclass(frozen=True)
class _Column:
    """A column of the summary: a field of the rows, its heading and its number format."""

    field: str
    heading: str
    text: Callable[[float], str]

    def mean(self, setting: SettingRuns) -> str:
        """Return the mean over the shuffles."""
        mean = setting.mean(self.field)
        return _MISSING if mean is None else self.text(mean)

    def interval(self, setting: SettingRuns) -> str | None:
        """Return the 95% interval; ``None`` if there is none, or if both ends look the same."""
        interval = setting.interval(self.field)
        low, high = map(self.text, interval or (0.0, 0.0))
        return None if low == high else f"{low.rstrip('%')}–{high.lstrip('$')}"


@dataclass(frozen=True)
class _TargetMet(_Column):
    """The number of shuffles in which the target was met."""

    def mean(self, setting: SettingRuns) -> str:
        """Return the count, which is not averaged."""
        met = [run.row.target_met for run in setting.runs if run.row.target_met is not None]
        return f"{sum(met)} of {len(met)}" if met else _MISSING

    def interval(self, setting: SettingRuns) -> str | None:
        """Return ``None``: a count has no interval."""
        return None


@dataclass(frozen=True)
class _Spread(_Column):
    """The lowest, the median and the highest value of the shuffles."""

    def mean(self, setting: SettingRuns) -> str:
        """Return the three values, or a dash if there is one shuffle or no value."""
        quantiles = setting.summary.quantiles.get(self.field)
        if quantiles is None or setting.summary.shuffles < 2:
            return _MISSING
        return " · ".join(self.text(quantiles[position]) for position in (LOWEST, MEDIAN, HIGHEST))

    def interval(self, setting: SettingRuns) -> str | None:
        """Return ``None``: these are no means."""
        return None


def _percent(value: float) -> str:
    """Format a share as a percentage with one decimal."""
    return f"{value:.1%}"


def _dollars(value: float) -> str:
    """Format dollars with three significant digits."""
    return f"${value:#.3g}".rstrip(".") if value < 1000 else f"${value:,.0f}"


_COLUMNS = (
    _Column("accuracy", "accuracy", _percent),
    _Spread("accuracy", "accuracy: low · half · high", _percent),
    _Column("full_accuracy", "full vote’s accuracy", _percent),
    _Column("relative_accuracy", "relative accuracy", _percent),
    _TargetMet("target_met", "target met", str),
    _Column("agreement", "agreement with full vote", _percent),
    _Column("cost", "cost per item", _dollars),
    _Column("cost_share", "share of full cost", _percent),
    _Spread("cost_share", "share: low · half · high", _percent),
    _Column("mean_subset", "models asked", "{:.2f}".format),
    _Column("ece", "ECE", "{:.3f}".format),
    _Column("calibrated_ece", "ECE of the server’s score", "{:.3f}".format),
    _Column("aurc", "AURC", "{:.3f}".format),
    _Column("rounds_per_second", "rounds per second", "{:,.0f}".format),
    _Column("within_one", "at most one step off", _percent),
    _Column("mae", "mean error in steps", "{:.3f}".format),
    _Column("kappa", "quadratic kappa", "{:.3f}".format),
)


@dataclass(frozen=True, eq=False)
class _Static:
    """The fixed sets of models: the single models first, the set of all models last."""

    sets: NDArray[np.bool_]
    costs: Array
    worth: Array
    sampled: bool

    @property
    def best(self) -> NDArray[np.intp]:
        """Positions of the sets on the Pareto frontier, in ascending order of cost."""
        return pareto_positions(self.costs, self.worth)


@dataclass(frozen=True, eq=False)
class ReportData:
    """The table and its settings."""

    table: VotesTable
    settings: tuple[SettingRuns, ...]

    @property
    def truth(self) -> bool:
        """Whether the right label of any item is known."""
        return bool((self.table.truth >= 0).any())

    @property
    def shuffles(self) -> int:
        """The largest number of shuffles of any setting."""
        return max(setting.summary.shuffles for setting in self.settings)

    @cached_property
    def static(self) -> _Static:
        """All fixed sets of models, or a sample of them if there are more than 12 models."""
        votes, models = self.table.votes, self.table.votes.shape[1]
        sets = fixed_sets(models, np.random.default_rng(_SAMPLE_SEED))
        truth, count = self.table.truth, len(self.table.labels)
        weights = full_vote_weights(votes, truth)
        if not self.truth:
            truth = _plurality(votes, count)
        prices = np.array(list(self.table.prices.values()))
        worth = set_accuracy(sets, votes, weights, truth, count)
        return _Static(sets, sets @ prices, worth, sampled=len(sets) < 2**models - 1)

    @cached_property
    def clairvoyant(self) -> ClairvoyantBound | None:
        """The bound by the cheapest right prefix of the models; ``None`` without truth."""
        votes, truth = self.table.votes, self.table.truth
        prices = np.array(list(self.table.prices.values()))
        return clairvoyant_bound(
            votes, full_vote_weights(votes, truth), prices, truth, len(self.table.labels)
        )

    @property
    def full(self) -> float:
        """The worth of the full vote."""
        return float(self.static.worth[-1])

    @property
    def targets(self) -> dict[float, float]:
        """δ → δ × the full vote's accuracy, for every δ of a setting; empty without truth."""
        deltas = {s.summary.delta for s in self.settings if s.summary.delta is not None}
        return {delta: delta * self.full for delta in sorted(deltas)} if self.truth else {}

    @classmethod
    def of(cls, table: VotesTable, runs: Sequence[ReplayRun], summaries: Sequence[Summary]) -> ReportData:
        """Group the runs by the settings of the summaries. Each setting needs a run."""
        runs_of: dict[Point, list[ReplayRun]] = {}
        for run in runs:
            runs_of.setdefault(run.row.point, []).append(run)
        settings = tuple(
            SettingRuns(summary, tuple(runs_of.get(summary.point, ())), style)
            for summary, style in zip(summaries, _styles(summaries), strict=True)
        )
        if not settings or not all(setting.runs for setting in settings):
            raise InvalidParameterError("a report needs at least one setting, and a run of each")
        return cls(table, settings)

    def columns(self) -> list[_Column]:
        """The columns of the summary that have a number in any row."""
        return [
            column
            for column in _COLUMNS
            if any(column.mean(setting) != _MISSING for setting in self.settings)
        ]

    def findings(self) -> list[str]:
        """Sentences that describe what was replayed."""
        known = int((self.table.truth >= 0).sum())
        sizes = (
            f"{of(len(self.table.truth), 'item')}, {of(len(self.table.prices), 'model')},"
            f" {of(len(self.table.labels), 'label')}, {of(self.shuffles, 'shuffle')}."
        )
        student = student_note([setting.summary for setting in self.settings])
        if not known:
            return [
                sizes,
                *student,
                "No right label is known, so nothing here says how right a label is: only what it cost, and"
                " how often it is the full vote’s, in which every model has one vote.",
            ]
        partly = known < len(self.table.truth)
        return [sizes, *([f"The right label is known for {known:,} items."] if partly else []), *student]

    def target_findings(self) -> list[str]:
        """For each δ, the cheapest setting of any policy that reached its target in every shuffle."""
        return [
            f"δ = {delta:g}, a target of {_percent(level)}: {self._cheapest(delta)}."
            for delta, level in self.targets.items()
        ]

    def _cheapest(self, delta: float) -> str:
        met = [
            setting
            for setting in self.settings
            if all((run.row.relative_accuracy or 0.0) >= delta - TIE for run in setting.runs)
        ]
        if not met:
            return "none"
        best = min(met, key=lambda setting: setting.mean("cost_share") or 0.0)
        accuracy, share = (_percent(best.mean(field) or 0.0) for field in ("accuracy", "cost_share"))
        return f"{best.name}, with {accuracy} at {share} of the full vote’s cost"


def _plurality(votes: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the unweighted vote of all models: the first label in a tie, −1 without a vote."""
    tally = (votes[:, :, None] == np.arange(count)).sum(axis=1)
    return np.where(tally.any(axis=1), tally.argmax(axis=1), -1)


def _mean(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return fmean(numbers) if numbers else None

"""The results of a replay: a row for each run, and the means of each setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from backend.commands.replay.policies import ReplaySetting
from backend.commands.replay.series import series_of
from camvo.numerics.tolerances import TIE
from camvo.replays import measures
from camvo.replays.replay import Trace
from camvo.replays.votes_table import VotesTable
from camvo.typing import Array

Point: TypeAlias = tuple[str, float | None, int | None, float | None]
"""Policy, δ, k_min and required agreement: what identifies a setting."""

AVERAGED: Final = (
    "accuracy",
    "full_accuracy",
    "relative_accuracy",
    "target_met",
    "agreement",
    "cost",
    "cost_share",
    "mean_subset",
    "ece",
    "calibrated_ece",
    "aurc",
    "rounds_per_second",
)
"""The fields of a row that are averaged. The mean of ``target_met`` is the share of runs that met it."""

QUANTILES: Final = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
"""The quantiles over the runs of a setting, linear between neighbouring runs."""

LOWEST, MEDIAN, HIGHEST = 0, 3, 6
"""Positions in :data:`QUANTILES`."""


@dataclass(frozen=True, slots=True)
class ReplayRow:
    """The measures of one run of one policy; docs/replay.md defines each field.

    ``None`` means unknown or absent: measures of accuracy without truth, parameters that the policy lacks,
    and ``calibrated_ece`` without ``--calibrate``. ``cost`` is per item, in the unit of the prices.
    """

    policy: str
    delta: float | None
    k_min: int | None
    agreement_asked: float | None
    seed: int
    accuracy: float | None
    full_accuracy: float | None
    relative_accuracy: float | None
    target_met: bool | None
    agreement: float | None
    cost: float
    cost_share: float | None
    mean_subset: float
    ece: float | None
    calibrated_ece: float | None
    aurc: float | None
    rounds_per_second: float
    calls: dict[str, int]
    per_label: dict[str, dict[str, float | int | None]]
    series: dict[str, Sequence[float | None]]
    student: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ReplayRun:
    """A row with its trace; ``order[i]`` is the position in the table of the trace's item i."""

    row: ReplayRow
    trace: Trace
    order: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Summary:
    """The means of one setting's runs.

    Attributes:
        policy: its name.
        delta: δ, or ``None`` if the policy has none.
        k_min: k_min, or ``None`` if the policy has none.
        agreement_asked: the required agreement, or ``None`` if the policy has none.
        shuffles: the number of runs.
        means: field of :data:`AVERAGED` → mean; ``None`` if a run has no value.
        intervals: field → the mean's 95% interval by Student's t; ``None`` also with a single run.
        quantiles: field → its :data:`QUANTILES` over the runs; ``None`` where there is no mean.
        student: whether the student voted too.
    """

    policy: str
    delta: float | None
    k_min: int | None
    agreement_asked: float | None
    shuffles: int
    means: dict[str, float | None]
    intervals: dict[str, tuple[float, float] | None]
    quantiles: dict[str, list[float] | None]
    student: bool = False


def row_of(
    setting: ReplaySetting,
    seed: int,
    table: VotesTable,
    trace: Trace,
    seconds: float,
    *,
    calibrated: Array | None = None,
    student: bool = False,
) -> ReplayRow:
    """Measure a trace.

    Args:
        setting: what was replayed.
        seed: the seed of the shuffle.
        table: the items, in the order of the trace.
        trace: the decisions.
        seconds: how long the replay took.
        calibrated: the scores of :func:`camvo.replays.calibrated_scores.calibrated_scores`, or ``None`` if
            they are not to be measured.
        student: whether the student voted too.
    """
    count = len(table.labels)
    full = measures.full_vote(table.votes, table.truth, count)
    accuracy = measures.accuracy(trace.labels, table.truth)
    full_accuracy = measures.accuracy(full, table.truth)
    met = None
    if setting.delta is not None and accuracy is not None and full_accuracy is not None:
        met = accuracy >= setting.delta * full_accuracy - TIE
    cost, asked = float(trace.costs.mean()), trace.asked.sum(axis=0)
    qualities = measures.quality_by_label(trace.labels, table.truth, count)
    return ReplayRow(
        policy=setting.name,
        delta=setting.delta,
        k_min=setting.k_min,
        agreement_asked=setting.agreement,
        seed=seed,
        accuracy=accuracy,
        full_accuracy=full_accuracy,
        relative_accuracy=accuracy / full_accuracy if accuracy is not None and full_accuracy else None,
        target_met=met,
        agreement=measures.full_vote_agreement(trace.labels, full),
        cost=cost,
        cost_share=cost / table.full_cost if table.full_cost else None,
        mean_subset=float(asked.sum() / len(trace.labels)),
        ece=measures.calibration_error(trace.labels, trace.scores, table.truth),
        calibrated_ece=None
        if calibrated is None
        else measures.calibration_error(trace.labels, calibrated, table.truth),
        aurc=measures.risk_coverage_area(trace.labels, trace.scores, table.truth),
        rounds_per_second=len(trace.labels) / seconds,
        calls={model: int(calls) for model, calls in zip(table.prices, asked, strict=True)},
        per_label={label: asdict(quality) for label, quality in zip(table.labels, qualities, strict=True)},
        series=series_of(table, trace, full),
        student=student,
    )


def summaries_of(rows: Sequence[ReplayRow]) -> list[Summary]:
    """Average the rows of each setting, in the order of their first row."""
    groups: dict[Point, list[ReplayRow]] = {}
    for row in rows:
        groups.setdefault(point(row), []).append(row)
    summaries = []
    for setting, group in groups.items():
        means: dict[str, float | None] = {}
        intervals: dict[str, tuple[float, float] | None] = {}
        quantiles: dict[str, list[float] | None] = {}
        for name in AVERAGED:
            values = [getattr(row, name) for row in group]
            known = None not in values
            means[name], intervals[name] = measures.mean_interval(values) if known else (None, None)
            quantiles[name] = np.quantile(np.asarray(values, float), QUANTILES).tolist() if known else None
        summaries.append(Summary(*setting, len(group), means, intervals, quantiles, group[0].student))
    return summaries


def point(result: ReplayRow | Summary) -> Point:
    """Return what identifies the setting of a row or a summary."""
    return result.policy, result.delta, result.k_min, result.agreement_asked

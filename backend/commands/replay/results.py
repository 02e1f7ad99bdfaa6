"""What a replay found: a row for each run, and the mean of the runs of a setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from backend.commands.replay.policies import Setting
from camvo.numerics.tolerances import TIE
from camvo.replays import measures
from camvo.replays.replay import Trace
from camvo.replays.votes_table import VotesTable
from camvo.typing import Array

Point: TypeAlias = tuple[str, float | None, int | None, float | None]
"""Policy, δ, k_min and the agreement asked for."""

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
"""The fields of a row whose mean is taken; of ``target_met`` it is the share of the runs that met it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One run of one policy; docs/replay.md says how each field is computed.

    ``None`` is what is not known: anything about the truth in a table without one, δ, k_min and the agreement
    asked for of a policy without them, a calibration that nobody asked for. ``cost`` is in the unit of the
    prices, per item.
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


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A row with the trace behind it; ``order[i]`` is the table's item at the trace's position i."""

    row: Row
    trace: Trace
    order: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Summary:
    """The runs of one setting.

    Attributes:
        policy: its name.
        delta: δ, where the policy has one.
        k_min: k_min, where the policy has one.
        agreement_asked: the agreement asked for, where the policy has one.
        shuffles: how many runs there were.
        means: field of :data:`AVERAGED` → mean; ``None`` where a run has no value.
        intervals: field → the mean's 95% interval by Student's t; ``None`` with a single run too.
    """

    policy: str
    delta: float | None
    k_min: int | None
    agreement_asked: float | None
    shuffles: int
    means: dict[str, float | None]
    intervals: dict[str, tuple[float, float] | None]


def row_of(
    setting: Setting,
    seed: int,
    table: VotesTable,
    trace: Trace,
    seconds: float,
    *,
    calibrated: Array | None = None,
) -> Row:
    """Measure a trace against the items that it went over, ``table`` in the order of the trace.

    ``calibrated`` are the scores of :func:`camvo.replays.rescored.rescored`, where they are wanted.
    """
    count = len(table.labels)
    full = measures.full_vote(table.votes, table.truth, count)
    accuracy = measures.accuracy(trace.labels, table.truth)
    full_accuracy = measures.accuracy(full, table.truth)
    met = None
    if setting.delta is not None and accuracy is not None and full_accuracy is not None:
        met = accuracy >= setting.delta * full_accuracy - TIE
    cost, asked = float(trace.costs.mean()), trace.asked.sum(axis=0)
    qualities = measures.per_label(trace.labels, table.truth, count)
    return Row(
        policy=setting.name,
        delta=setting.delta,
        k_min=setting.k_min,
        agreement_asked=setting.agreement,
        seed=seed,
        accuracy=accuracy,
        full_accuracy=full_accuracy,
        relative_accuracy=accuracy / full_accuracy if accuracy is not None and full_accuracy else None,
        target_met=met,
        agreement=measures.agreement(trace.labels, full),
        cost=cost,
        cost_share=cost / table.full_cost if table.full_cost else None,
        mean_subset=float(asked.sum() / len(trace.labels)),
        ece=measures.calibration_error(trace.labels, trace.scores, table.truth),
        calibrated_ece=None
        if calibrated is None
        else measures.calibration_error(trace.labels, calibrated, table.truth),
        aurc=measures.risk_coverage(trace.labels, trace.scores, table.truth),
        rounds_per_second=len(trace.labels) / seconds,
        calls={model: int(calls) for model, calls in zip(table.prices, asked, strict=True)},
        per_label={label: asdict(quality) for label, quality in zip(table.labels, qualities, strict=True)},
    )


def summarised(rows: Sequence[Row]) -> list[Summary]:
    """The rows of each setting together, in the order of their first row."""
    groups: dict[Point, list[Row]] = {}
    for row in rows:
        groups.setdefault(point(row), []).append(row)
    summaries = []
    for where, group in groups.items():
        means: dict[str, float | None] = {}
        intervals: dict[str, tuple[float, float] | None] = {}
        for name in AVERAGED:
            values = [getattr(row, name) for row in group]
            known = None not in values
            means[name], intervals[name] = measures.mean_interval(values) if known else (None, None)
        summaries.append(Summary(*where, len(group), means, intervals))
    return summaries


def point(found: Row | Summary) -> Point:
    """What tells a setting from the others of a replay."""
    return found.policy, found.delta, found.k_min, found.agreement_asked

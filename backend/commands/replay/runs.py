"""What is replayed, a policy with its parameters, and what its runs measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from backend.errors import ReplayError
from backend.settings.mistakes import did_you_mean
from camvo.errors import InvalidParameterError
from camvo.numerics.small import TIE
from camvo.policies.named import POLICIES, parameters_of, policy_by_name
from camvo.policies.policy import Policy
from camvo.replays import measures
from camvo.replays.replay import Trace, VotesTable
from camvo.subsets.oracle import MOST_ARMS
from camvo.typing import Array
from camvo.votes.labels import OrderedVote

_NUMBERS: Final = ("share", "threshold")
"""Parameters that follow the policy's name, as in ``random:0.3``."""


@dataclass(frozen=True, slots=True)
class ReplaySetting:
    """A policy to replay, with its name as in ``--policy`` and the parameters that may be lists.

    A parameter that the policy lacks is ``None``.
    """

    name: str
    delta: float | None
    k_min: int | None
    agreement: float | None
    policy: Policy

    @classmethod
    def every(
        cls,
        names: Sequence[str],
        deltas: Sequence[float],
        k_mins: Sequence[int],
        agreements: Sequence[float],
        shared: Mapping[str, object],
        *,
        models: Sequence[str],
    ) -> list[ReplaySetting]:
        """Combine each policy with each δ and k_min, or each agreement, that it takes, without repetition."""
        settings = []
        for name in dict.fromkeys(names):
            kind, from_name = _parse(name, models)
            own = parameters_of(kind)
            points = product(
                dict.fromkeys(deltas if "delta" in own else [None]),
                dict.fromkeys(k_mins if "k_min" in own else [None]),
                dict.fromkeys(agreements if agreements and "agreement" in own else [None]),
            )
            for delta, k_min, agreement in points:
                point = {"delta": delta, "k_min": k_min, "agreement": agreement}
                try:
                    policy = policy_by_name(kind, {**shared, **point, **from_name})
                except InvalidParameterError as error:
                    raise ReplayError(error.message, where=f"--policy {name}") from error
                settings.append(cls(name, delta, k_min, agreement, policy))
        return settings


def _parse(name: str, models: Sequence[str]) -> tuple[str, dict[str, object]]:
    """Split a value of ``--policy`` into the policy and the parameter after its colon."""
    where = f"--policy {name}"
    kind, colon, rest = name.partition(":")
    if kind not in POLICIES or (_named_in(kind) is not None) != bool(colon):
        known = (policy if _named_in(policy) is None else f"{policy}:…" for policy in POLICIES)
        raise ReplayError("there is no such policy", where=where, fix=did_you_mean(name, known))
    if "delta" in parameters_of(kind) and len(models) > MOST_ARMS:
        raise ReplayError(
            f"the table has {len(models)} models, and at most {MOST_ARMS} can be searched",
            where=where,
            fix="remove some, or choose another policy",
        )
    parameter = _named_in(kind)
    if parameter is None:
        return kind, {}
    if parameter in _NUMBERS:
        try:
            return kind, {parameter: float(rest)}
        except ValueError:
            raise ReplayError(f"{rest!r} is not a number", where=where, fix=f"give e.g. {kind}:0.5") from None
    chosen = tuple(rest.split("+")) if parameter == "models" else (rest,)
    for model in chosen:
        if model not in models:
            raise ReplayError(
                f"{model!r} is not a model of the table", where=where, fix=did_you_mean(model, models)
            )
    return kind, {"model": rest, "models": chosen}


def _named_in(kind: str) -> str | None:
    """Return the parameter that follows the policy's name after a colon, if any."""
    own = parameters_of(kind)
    return next((name for name in ("model", "models", *_NUMBERS) if name in own), None)


BLOCK = 500
"""Rounds of a block; the last block of a run may have fewer."""

Point: TypeAlias = tuple[str, float | None, int | None, float | None]
"""Policy, δ, k_min and required agreement: what identifies a setting."""

_AVERAGED: Final = (
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
    "within_one",
    "mae",
    "kappa",
)
"""The fields of a row that are averaged. The mean of ``target_met`` is the share of runs that met it."""

_QUANTILES: Final = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
"""The quantiles over the runs of a setting, linear between neighbouring runs."""

LOWEST, MEDIAN, HIGHEST = 0, 3, 6
"""Positions in :data:`_QUANTILES`."""


@dataclass(frozen=True, slots=True)
class _OfSetting:
    """What identifies the setting that numbers are of."""

    policy: str
    delta: float | None
    k_min: int | None
    agreement_asked: float | None

    @property
    def point(self) -> Point:
        """What identifies the setting."""
        return self.policy, self.delta, self.k_min, self.agreement_asked


@dataclass(frozen=True, slots=True)
class ReplayRow(_OfSetting):
    """The measures of one run of one policy; docs/replay.md defines each field.

    ``None`` means unknown or absent: measures of accuracy without truth, parameters that the policy lacks,
    ``calibrated_ece`` without ``--calibrate``, and errors in steps without ``--ordered``. ``cost`` is per
    item, in the unit of the prices.
    """

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
    within_one: float | None = None
    mae: float | None = None
    kappa: float | None = None

    @classmethod
    def of(
        cls,
        setting: ReplaySetting,
        seed: int,
        table: VotesTable,
        trace: Trace,
        seconds: float,
        *,
        calibrated: Array | None = None,
        student: bool = False,
    ) -> ReplayRow:
        """Measure a trace whose items are in the order of the table."""
        full = _full_labels(table)
        accuracy = measures.accuracy(trace.labels, table.truth)
        full_accuracy = measures.accuracy(full, table.truth)
        cost, asked = float(trace.costs.mean()), trace.asked.sum(axis=0)
        qualities = measures.quality_by_label(trace.labels, table.truth, len(table.labels))
        on_a_scale = isinstance(table.aggregation, OrderedVote)
        steps = measures.scale_quality(trace.labels, table.truth) if on_a_scale else None
        return cls(
            policy=setting.name,
            delta=setting.delta,
            k_min=setting.k_min,
            agreement_asked=setting.agreement,
            seed=seed,
            accuracy=accuracy,
            full_accuracy=full_accuracy,
            relative_accuracy=accuracy / full_accuracy if accuracy is not None and full_accuracy else None,
            target_met=_is_met(setting.delta, accuracy, full_accuracy),
            agreement=measures.full_vote_agreement(trace.labels, full),
            cost=cost,
            cost_share=cost / table.full_cost if table.full_cost else None,
            mean_subset=float(asked.sum() / len(trace.labels)),
            ece=_calibration_error(table, trace, trace.scores if _scores_are_chances(table) else None),
            calibrated_ece=_calibration_error(table, trace, calibrated),
            aurc=measures.risk_coverage_area(trace.labels, trace.scores, table.truth),
            rounds_per_second=len(trace.labels) / seconds,
            calls={model: int(calls) for model, calls in zip(table.prices, asked, strict=True)},
            per_label={
                label: asdict(quality) for label, quality in zip(table.labels, qualities, strict=True)
            },
            series=_series_of(table, trace, full),
            student=student,
            within_one=None if steps is None else steps.within_one,
            mae=None if steps is None else steps.absolute,
            kappa=None if steps is None else steps.kappa,
        )


def _full_labels(table: VotesTable) -> NDArray[np.int64]:
    """The labels of the full vote; on a scale the median."""
    count = len(table.labels)
    if not isinstance(table.aggregation, OrderedVote):
        return measures.full_vote(table.votes, table.truth, count)
    return measures.scale_median(table.votes, measures.full_vote_weights(table.votes, table.truth), count)


def _is_met(delta: float | None, accuracy: float | None, full_accuracy: float | None) -> bool | None:
    """Whether the share δ of the full vote's accuracy is reached; ``None`` without δ or truth."""
    if delta is None or accuracy is None or full_accuracy is None:
        return None
    return accuracy >= delta * full_accuracy - TIE


def _scores_are_chances(table: VotesTable) -> bool:
    """Whether scores are the probability that a label is right; on a scale they may be of its error."""
    return not isinstance(table.aggregation, OrderedVote) or table.aggregation.error == "exact"


def _calibration_error(table: VotesTable, trace: Trace, scores: Array | None) -> float | None:
    return None if scores is None else measures.calibration_error(trace.labels, scores, table.truth)


def _series_of(table: VotesTable, trace: Trace, full: NDArray[np.int64]) -> dict[str, Sequence[float | None]]:
    """Measure each block of a run separately."""
    n = len(trace.labels)
    blocks = [slice(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK)]
    return {
        "rounds": [block.stop for block in blocks],
        "accuracy": [measures.accuracy(trace.labels[block], table.truth[block]) for block in blocks],
        "agreement": [measures.full_vote_agreement(trace.labels[block], full[block]) for block in blocks],
        "cost": [float(trace.costs[block].mean()) for block in blocks],
    }


@dataclass(frozen=True, slots=True, eq=False)
class ReplayRun:
    """A row with its trace; ``order[i]`` is the position in the table of the trace's item i."""

    row: ReplayRow
    trace: Trace
    order: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Summary(_OfSetting):
    """The means of one setting's runs, by the fields of :data:`_AVERAGED`; ``None`` if a run has no value.

    ``intervals`` are the means' 95% intervals by Student's t, and ``quantiles`` the :data:`_QUANTILES`.
    """

    shuffles: int
    means: dict[str, float | None]
    intervals: dict[str, tuple[float, float] | None]
    quantiles: dict[str, list[float] | None]
    student: bool = False

    @property
    def name(self) -> str:
        """The policy with the parameters that it has."""
        parameters = {"δ": self.delta, "k_min": self.k_min, "agreement": self.agreement_asked}
        words = [f"{name} = {value:g}" for name, value in parameters.items() if value is not None]
        return f"{self.policy} with {' and '.join(words)}" if words else self.policy

    @classmethod
    def of_rows(cls, rows: Sequence[ReplayRow]) -> list[Summary]:
        """Average the rows of each setting, in the order of their first row."""
        groups: dict[Point, list[ReplayRow]] = {}
        for row in rows:
            groups.setdefault(row.point, []).append(row)
        summaries = []
        for setting, group in groups.items():
            means: dict[str, float | None] = {}
            intervals: dict[str, tuple[float, float] | None] = {}
            quantiles: dict[str, list[float] | None] = {}
            for name in _AVERAGED:
                values = [getattr(row, name) for row in group]
                known = None not in values
                means[name], intervals[name] = measures.mean_interval(values) if known else (None, None)
                quantiles[name] = (
                    np.quantile(np.asarray(values, float), _QUANTILES).tolist() if known else None
                )
            summaries.append(cls(*setting, len(group), means, intervals, quantiles, group[0].student))
        return summaries


def student_note(summaries: Sequence[Summary]) -> list[str]:
    """Print the settings in which the student voted; nothing if there are none."""
    beside = list(dict.fromkeys(summary.policy for summary in summaries if summary.student))
    return [f"The student voted too, free of charge, with {' and '.join(beside)}."] if beside else []

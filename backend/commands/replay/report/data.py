"""The data of a report: the table, the settings with their runs, and the fixed sets of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from backend.commands.replay.results import Point, ReplayRun, Summary, point
from camvo.errors import InvalidParameterError
from camvo.replays.clairvoyant_bound import ClairvoyantBound, clairvoyant_bound
from camvo.replays.frontier import fixed_sets, pareto_positions, set_accuracy
from camvo.replays.measures import full_vote_weights
from camvo.replays.votes_table import VotesTable
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


@dataclass(frozen=True, eq=False)
class SettingRuns:
    """One setting: a policy with its parameters, and its run on every shuffle."""

    summary: Summary
    runs: tuple[ReplayRun, ...]

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

    @property
    def calls(self) -> dict[str, float]:
        """Model → the share of items on which it was asked."""
        rounds = sum(len(run.order) for run in self.runs)
        return {
            model: sum(run.row.calls.get(model, 0) for run in self.runs) / rounds
            for model in self.runs[0].row.calls
        }


@dataclass(frozen=True, eq=False)
class Static:
    """The fixed sets of models: the single models first, the set of all models last.

    ``worth`` is the accuracy, or without truth the agreement with the unweighted vote of all models.
    """

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
    def static(self) -> Static:
        """All fixed sets of models, or a sample of them if there are more than 12 models."""
        votes, models = self.table.votes, self.table.votes.shape[1]
        sets = fixed_sets(models, np.random.default_rng(_SAMPLE_SEED))
        truth, count = self.table.truth, len(self.table.labels)
        weights = full_vote_weights(votes, truth)
        if not self.truth:
            truth = _plurality(votes, count)
        prices = np.array(list(self.table.prices.values()))
        worth = set_accuracy(sets, votes, weights, truth, count)
        return Static(sets, sets @ prices, worth, sampled=len(sets) < 2**models - 1)

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


def report_data(table: VotesTable, runs: Sequence[ReplayRun], summaries: Sequence[Summary]) -> ReportData:
    """Group the runs by the settings of the summaries.

    Raises:
        InvalidParameterError: there is no summary, or one has no run.
    """
    runs_of: dict[Point, list[ReplayRun]] = {}
    for run in runs:
        runs_of.setdefault(point(run.row), []).append(run)
    settings = tuple(SettingRuns(summary, tuple(runs_of.get(point(summary), ()))) for summary in summaries)
    if not settings or not all(setting.runs for setting in settings):
        raise InvalidParameterError("a report needs at least one setting, and a run of each")
    return ReportData(table, settings)


def _plurality(votes: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the unweighted vote of all models: the first label in a tie, −1 without a vote."""
    tally = (votes[:, :, None] == np.arange(count)).sum(axis=1)
    return np.where(tally.any(axis=1), tally.argmax(axis=1), -1)

"""The part of a fit that needs no human label: the model of votes, with families, a student, or many arms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import numpy as np

from camvo.joint.families import excess_agreement, tempers
from camvo.joint.models.taught_arm import others_say, with_taught_arm
from camvo.joint.models.vote_model import VoteModel, fit_vote_model
from camvo.joint.vote_rows import Rows, VoteRows, tabulate
from camvo.state.vote_patterns import UNASKED, PatternCounts
from camvo.student.taught_texts import STUDENT
from camvo.typing import Array

_PARTIAL_ROUNDS: Final = 300.0
"""Rounds that stopped early count at most as this many rounds. They make the first fits better, but if they
outweigh the others, the model drifts: it then believes what it stopped at."""


@dataclass(frozen=True, slots=True, eq=False)
class VotesFit:
    """The part of the fit that human labels do not change.

    With a student, ``witnesses`` is the model of the other arms' votes, and ``taught`` its position.
    """

    rows: VoteRows
    model: VoteModel
    excess: Array
    witnesses: VoteModel | None = None
    taught: int | None = None

    @property
    def arms(self) -> int:
        """K."""
        return self.rows.rows.shape[1]

    def reference(self, positions: Sequence[int]) -> Callable[[Rows], Array] | None:
        """What the votes of the witnesses among some arms make probable; ``None`` if all are witnesses."""
        if self.witnesses is None or self.taught is None:
            return None
        model, taught, among = self.witnesses, self.taught, [*positions]

        def reference(rows: Rows) -> Array:
            whole = np.full((len(rows), self.arms), UNASKED, dtype=np.int64)
            whole[:, among] = rows
            return others_say(model, whole, taught)[:, : max(len(among), 2)]

        return reference

    def of(self, positions: Sequence[int]) -> VoteRows:
        """The votes of some arms."""
        return replace(self.rows, rows=self.rows.rows[:, positions])


@lru_cache(maxsize=32)
def fit_votes(evidence: PatternCounts, arms: tuple[str, ...], labels: int) -> VotesFit:
    """Fit the model of votes; cached, because human labels and prices change more often than votes."""
    return fit_vote_rows(tabulate(evidence.patterns, arms, labels), labels)


def fit_vote_rows(rows: VoteRows, labels: int) -> VotesFit:
    """Fit the model of votes to vote rows.

    Args:
        rows: the rows.
        labels: M, the number of labels.
    """
    partial = rows.partial.sum()
    weights = rows.counts + rows.partial * min(1.0, _PARTIAL_ROUNDS / max(partial, 1.0))
    excess = excess_agreement(rows, labels)
    return VotesFit(rows, fit_vote_model(rows.rows, weights, labels, tempers(excess)), excess)


@lru_cache(maxsize=32)
def fit_votes_and_student(evidence: PatternCounts, arms: tuple[str, ...], labels: int) -> VotesFit:
    """The same model with the student beside it (:mod:`camvo.joint.models.taught_arm`)."""
    taught = arms.index(STUDENT)
    others = fit_votes(evidence, tuple([arm for arm in arms if arm != STUDENT]), labels)
    rows = tabulate(evidence.patterns, arms, labels)
    temper = float(tempers(excess_agreement(rows, labels))[taught])
    model = with_taught_arm(others.model, rows, taught, temper)
    excess = np.insert(np.insert(others.excess, taught, 0.0, axis=0), taught, 0.0, axis=1)
    return VotesFit(rows, model, excess, others.model, taught)


@dataclass(frozen=True, slots=True, eq=False)
class ModelAmong:
    """A model of votes, for rows of some of its arms."""

    model: VoteModel
    positions: Sequence[int]
    arms: int

    @property
    def skill(self) -> Array:
        """The mean log-odds of each arm's vote."""
        return np.asarray(self.model.skill[self.positions], dtype=np.float64)

    def beliefs(self, rows: Rows) -> tuple[Array, Array]:
        """See :meth:`VoteModel.beliefs`; the rows hold these arms only."""
        whole = np.full((len(rows), self.arms), UNASKED, dtype=np.int64)
        whole[:, self.positions] = rows
        right, evidence = self.model.beliefs(whole)
        return right[:, : max(rows.shape[1], 2)], evidence


def shortlist_of(
    votes: VotesFit, prices: Mapping[str, float], arms: tuple[str, ...], most: int
) -> tuple[str, ...]:
    """The arms that plans ask: greedily those whose votes add the most right labels for their price."""
    if len(arms) <= most:
        return arms
    counted = votes.rows.counts > 0.0
    rows, counts = votes.rows.rows[counted], votes.rows.counts[counted]
    total = max(float(counts.sum()), 1.0)
    chosen: list[int] = []
    while len(chosen) < most:
        gains = {}
        for position, arm in enumerate(arms):
            if position in chosen:
                continue
            among = np.full_like(rows, UNASKED)
            among[:, [*chosen, position]] = rows[:, [*chosen, position]]
            right, _ = votes.model.beliefs(among)
            gains[position] = float(counts @ right.max(axis=1)) / total - prices[arm]
        chosen.append(max(gains, key=lambda position: gains[position]))
    return tuple(arms[position] for position in sorted(chosen))

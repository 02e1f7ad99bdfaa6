"""One question's fit where labels are ordered: the same parts as :mod:`camvo.joint.joint_fit`, for a scale.

Votes are predicted by :mod:`camvo.joint.scale_votes` and read by :mod:`camvo.joint.scale_readings`. The
answer is the label with the least expected error, and stopping is worth 1 − that error in steps of the scale:
a step less is worth a right label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from camvo.joint.beliefs import Beliefs, form_ordered_beliefs
from camvo.joint.conventions import Conventions
from camvo.joint.grades import NOT_SURE, SureVotes
from camvo.joint.label_losses import NO_LOSSES, LabelLosses
from camvo.joint.lattice import most_arms, vote_lattice
from camvo.joint.scale_readings import ScaleReadings
from camvo.joint.scale_votes import ScaleVotes
from camvo.joint.votes import Rows, VoteRows
from camvo.numerics.small import weighted_median
from camvo.state.contribution import LatestRounds
from camvo.state.exploration import UNASKED, PatternCounts
from camvo.typing import Array
from camvo.votes.ordered import OrderedVote

_PARTIAL_ROUNDS: Final = 300.0
"""Rounds that stopped early count at most as this many rounds, as in :mod:`camvo.joint.votes_fit`."""

_SHOWN: Final = 4
"""Decimals of what a stored fit only shows."""

_NO_CONFIDENCE: Final[Mapping[str, float]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class _ScaleModel:
    """The model of the votes of K arms, and how they are read. Rows are positions on the scale, (P, K)."""

    votes: ScaleVotes
    reading: ScaleReadings

    def right(self, rows: Rows) -> Array:
        """The probability of each label, shape (P, M)."""
        return self.reading.right(self.votes.expected(rows))

    def taught(self, rows: Rows, truth: NDArray[np.int64]) -> _ScaleModel:
        """The model that human labels correct: their positions, shape (P,)."""
        return replace(self, reading=self.reading.taught(self.votes.expected(rows), truth))


@dataclass(frozen=True, slots=True, eq=False)
class OrderedFit:
    """What votes on one question with ordered labels say. Hashed by identity.

    Attributes:
        arms: all K arms, sorted by name.
        vote: the scale and the error.
        everyone: the number of rounds that asked all arms.
        model: the model of votes of all arms, with what human labels have taught.
        shortlist: the arms that plans ask, sorted by name; all of them unless they are many.
        beliefs: the beliefs at the nodes of the shortlist's lattice, as plans use them.
        right: the probability that people say each label at each node, shape (N, M).
        conventions: what people say where the votes say a label, if human labels prove that it often differs.
        losses: what missing each label loses, by which its error counts; empty if all are worth the same.
    """

    arms: tuple[str, ...]
    vote: OrderedVote
    everyone: float
    model: _ScaleModel
    shortlist: tuple[str, ...]
    beliefs: Beliefs
    right: Array
    conventions: Conventions | None = None
    losses: LabelLosses = NO_LOSSES

    silent = None
    rare = None
    reads_context = False

    @property
    def labels(self) -> tuple[str, ...]:
        """The label set, from the lowest to the highest."""
        return self.vote.scale

    options = labels

    @property
    def sure(self) -> SureVotes:
        """What the arms' confidences add: nothing."""
        return NOT_SURE

    @property
    def human_labels(self) -> int:
        """The number of human labels that the fit knows."""
        return self.model.reading.count if self.conventions is None else self.conventions.count

    @property
    def by_votes(self) -> OrderedFit:
        """The fit that says labels as the models do."""
        return self if self.conventions is None else replace(self, conventions=None)

    @property
    def unasked(self) -> float:
        """What a task without any vote is worth, in right labels."""
        return float(self.beliefs.surest[0])

    @property
    def planned(self) -> Beliefs:
        """The beliefs as plans use them."""
        return self.beliefs

    def at(self, context: Array, prices: Mapping[str, float]) -> OrderedFit:
        """The fit for one task: the same for all."""
        return self

    def node(self, votes: Mapping[str, str | None]) -> int:
        """The lattice node of the shortlist's votes (arm → label, ``None`` if it gave none)."""
        return self.beliefs.lattice.node_of[_row_of(votes, self.shortlist, self.labels)]

    plan_node = node

    def tilt(self, votes: Mapping[str, str | None], sure: Mapping[str, float]) -> float:
        """How much confidences move the log-odds of the most probable label: 0."""
        return 0.0

    def updated_by_context(
        self, votes: Mapping[str, str | None], sure: Mapping[str, float], label: str, probability: float
    ) -> float:
        """How much of a label's probability comes from the task's context: 0."""
        return 0.0

    def probabilities(
        self, votes: Mapping[str, str | None], sure: Mapping[str, float] = _NO_CONFIDENCE
    ) -> dict[str, float]:
        """The probability of each label."""
        cast = {arm: vote for arm, vote in votes.items() if vote is not None}
        if cast.keys() <= set(self.shortlist):
            right = self.right[self.node(cast)]
        else:
            right = self.model.right(np.array([_row_of(cast, self.arms, self.labels)]))[0]
        said = dict(zip(self.labels, right.tolist(), strict=True))
        return said if self.conventions is None else self.conventions.said(said)

    def worths(self, probabilities: Mapping[str, float]) -> dict[str, float]:
        """The expected reward of each label as the answer: 1 − error as a share of the largest one."""
        right = np.array([probabilities[label] for label in self.labels])
        return dict(zip(self.labels, (right @ self.vote.rewards).tolist(), strict=True))

    def values(self, probabilities: Mapping[str, float]) -> dict[str, float]:
        """What each label is worth as the answer: :meth:`worths`, or 1 − the expected loss."""
        if not self.losses:
            return self.worths(probabilities)
        right = np.array([probabilities[label] for label in self.labels])
        lost = right @ _weighed(self.vote, self.losses)
        return dict(zip(self.labels, (1.0 - lost).tolist(), strict=True))

    def describe(self) -> dict[str, Any]:
        """The fit as plain JSON, stored with a round's plan."""
        reading = self.model.reading
        described: dict[str, Any] = {
            "everyone": self.everyone,
            "shortlist": list(self.shortlist),
            "error": self.vote.error,
            **({"losses": dict(self.losses)} if self.losses else {}),
            "weights": dict(zip(self.arms, reading.weights.round(_SHOWN).tolist(), strict=True)),
            "reversed": [arm for arm, back in zip(self.arms, reading.reversed, strict=True) if back],
        }
        if self.conventions is not None:
            return described | {"conventions": self.conventions.describe()}
        if not reading.count:
            return described
        biases = dict(zip(self.arms, reading.biases.round(_SHOWN).tolist(), strict=True))
        return described | {"human": {"count": reading.count, "biases": biases}}

    @classmethod
    def fit(
        cls,
        evidence: PatternCounts,
        latest: LatestRounds,
        vote: OrderedVote,
        prices: Mapping[str, float],
        losses: LabelLosses = NO_LOSSES,
    ) -> OrderedFit:
        """Fit the model of votes, what human labels add, and the beliefs.

        Args:
            evidence: the vote patterns of past rounds.
            latest: the latest rounds with a human label.
            vote: the scale and the error.
            prices: arm → its price in right labels, to choose the arms that plans ask where arms are many.
            losses: what missing each label loses; empty if all labels are worth the same.
        """
        arms = tuple(sorted(prices))
        rows, model = _of_votes(evidence, arms, vote.scale)
        labelled, truth = _labelled(latest, arms, vote.scale)
        conventions = None
        if len(truth):
            conventions = _conventions(model, rows, labelled, truth, vote.scale)
            if conventions is None:
                model = model.taught(labelled, truth)
        weighed = _weighed(vote, losses)
        shortlist = _shortlist_of(model, rows, weighed, prices)
        beliefs, right = _beliefs(model, rows, [arms.index(arm) for arm in shortlist], weighed)
        everyone = float(rows.counts.sum())
        return cls(arms, vote, everyone, model, shortlist, beliefs, right, conventions, losses)


def _weighed(vote: OrderedVote, losses: LabelLosses) -> Array:
    """The error of each label if another is right, times what missing the right one loses, shape (M, M)."""
    loss_of = dict(losses)
    each = np.array([loss_of.get(label, 1.0) for label in vote.scale])
    return np.asarray(each[:, None] * vote.losses)


@lru_cache(maxsize=32)
def _of_votes(
    evidence: PatternCounts, arms: tuple[str, ...], scale: tuple[str, ...]
) -> tuple[VoteRows, _ScaleModel]:
    """The vote rows, and the model without human labels; cached, because these come more often."""
    rows = VoteRows.of(evidence.patterns, arms, scale, ordered=True)
    weights = rows.counts + rows.partial * min(1.0, _PARTIAL_ROUNDS / max(rows.partial.sum(), 1.0))
    asked = rows.counts > 0.0
    votes = ScaleVotes.fit(rows.rows, weights, len(scale))
    return rows, _ScaleModel(votes, ScaleReadings.of_votes(rows.rows[asked], rows.counts[asked], len(scale)))


def _beliefs(
    model: _ScaleModel, rows: VoteRows, positions: Sequence[int], losses: Array
) -> tuple[Beliefs, Array]:
    """The beliefs about the votes of some arms, and the probability that people say each label, (N, M)."""
    lattice = vote_lattice(len(positions), len(losses), ordered=True)
    whole = np.full((len(lattice.rows), rows.rows.shape[1]), UNASKED, dtype=np.int64)
    whole[:, positions] = lattice.rows
    _, evidence = model.votes.levels(whole)
    among = replace(rows, rows=rows.rows[:, positions])
    right = model.right(whole)
    said = form_ordered_beliefs(lattice, among, right, evidence, losses)
    if not model.reading.count:
        return said, said.right
    planned = model.reading.without_exponent(right)
    return form_ordered_beliefs(lattice, among, planned, evidence, losses), said.right


def _row_of(votes: Mapping[str, str | None], arms: Sequence[str], scale: Sequence[str]) -> tuple[int, ...]:
    """One round's votes as positions on the scale; votes for other labels count as none."""
    place = {label: number for number, label in enumerate(scale)}
    return tuple([place.get(votes.get(arm) or "", UNASKED) for arm in arms])


def _labelled(
    latest: LatestRounds, arms: tuple[str, ...], scale: tuple[str, ...]
) -> tuple[Rows, NDArray[np.int64]]:
    """The vote rows of rounds with a vote and a human label, (n, K), and the labels' positions, (n,)."""
    rows, truth = [], []
    for kept in latest.rounds:
        row = _row_of({vote.arm: vote.label for vote in kept.votes}, arms, scale)
        if kept.label in scale and max(row) >= 0:
            rows.append(row)
            truth.append(scale.index(kept.label))
    return np.array(rows, dtype=np.int64).reshape(-1, len(arms)), np.array(truth, dtype=np.int64)


def _conventions(
    model: _ScaleModel, votes: VoteRows, rows: Rows, truth: NDArray[np.int64], scale: tuple[str, ...]
) -> Conventions | None:
    """What people say where the votes say a label, if it predicts held-out labels better than a reading."""

    def taught(held: NDArray[np.bool_]) -> Array:
        return model.taught(rows[~held], truth[~held]).right(rows[held])

    right, usual = model.right(rows), model.right(votes.rows)
    leads, counts = usual.argmax(axis=1), votes.counts + votes.partial
    # Votes for the ends of a scale are surer than others, so each label has its own median.
    medians = np.array(
        [weighted_median(usual[leads == label, label], counts[leads == label]) for label in range(len(scale))]
    )
    sure = right.max(axis=1) >= medians[right.argmax(axis=1)]
    return Conventions.fit(scale, right, truth, taught, sure)


def _shortlist_of(
    model: _ScaleModel, votes: VoteRows, losses: Array, prices: Mapping[str, float]
) -> tuple[str, ...]:
    """The arms that plans ask: greedily those whose votes lower the expected error most for their price."""
    arms, most = tuple(sorted(prices)), most_arms(len(losses), ordered=True)
    if len(arms) <= most:
        return arms
    asked = votes.counts > 0.0
    rows, counts = votes.rows[asked], votes.counts[asked]
    whole = model.right(rows)
    chosen: list[int] = []
    while len(chosen) < most:
        gains = {}
        for position in range(len(arms)):
            if position in chosen:
                continue
            among = np.full_like(rows, UNASKED)
            among[:, [*chosen, position]] = rows[:, [*chosen, position]]
            answers = (model.right(among) @ losses).argmin(axis=1)
            error = counts @ (whole * losses[:, answers].T).sum(axis=1) / max(counts.sum(), 1.0)
            gains[position] = -float(error) - prices[arms[position]]
        chosen.append(max(gains, key=lambda position: gains[position]))
    return tuple([arms[position] for position in sorted(chosen)])

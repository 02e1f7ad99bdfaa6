"""One question's fit where labels are ordered: the same parts as :mod:`camvo.joint.joint_fit`, for a scale.

The answer is the label with the least expected error, and stopping is worth 1 − that error in steps of the
scale: a step less is worth a right label.

**Votes** have a model of their own (:class:`_ScaleVotes`). An item has a level among the M labels, which is
what its votes have in common. Given it, arms vote independently: arm k says the label nearest to level +
bias + noise, whose spread is its own, or the same on half of the scale or on the reversed one. Its
confusion matrix is that of the bias and the spread where it has few votes, and its own where it has many.
Which label is right is another question, because the level where models agree need not be that of people.

**Readings** (:class:`_ScaleReadings`) answer it: a vote pulls the answer to its own place on the scale. With
d the distance from a vote to a label in steps, log P(label | votes) = −Σ_k w_k·d_k + terms. Without human
labels w_k follows from how far arm k usually is from the median of the others, so the most probable label is
nearly their weighted median. An arm's bias is not corrected then: where models differ, votes do not show who
is right, and on real ratings such corrections lose more than they gain. Only an arm that clearly reads the
scale backwards is turned round. Where errors count in steps, an end of the scale stands for all places beyond
it too, so its term is the log of their sum, −log(1 − e^(−Σ_k w_k)): otherwise votes of little weight that all
name an end have their median one step inside. The most probable label, which has the least exact error, needs
no such term: it would draw answers to the ends. Human labels add an exponent, and where they prove it a
correction of each w_k, a bias for each arm, one for all arms, and a term for each label (a conditional
logit). A vote that is missing counts as what the model of votes expects it to be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import ndtr

from camvo.joint.beliefs import Beliefs, form_ordered_beliefs
from camvo.joint.conventions import Conventions
from camvo.joint.grades import NOT_SURE, SureVotes
from camvo.joint.label_losses import NO_LOSSES, LabelLosses
from camvo.joint.lattice import most_arms, vote_lattice
from camvo.joint.votes import Rows, VoteRows, answering
from camvo.numerics.logit import ChoiceSets, NormalPrior, fit_proven_logit
from camvo.numerics.small import EPSILON, weighted_median
from camvo.state.contribution import LatestRounds
from camvo.state.exploration import UNASKED, PatternCounts
from camvo.typing import Array
from camvo.votes.labels import OrderedVote

_STEPS: Final = 30
_PULL: Final = 15.0
"""How many votes on items of one level the bias and the spread count as."""

_STRAY: Final = 0.02
"""The share of votes that fall on any label."""

_BIASES, _SPREADS = 9, 9
_SLOPES: Final = (1.0, 0.5, -1.0)
_SLOPE_LOGS: Final = (0.0, -2.0, -4.0)
"""The log-prior of each slope: few arms use the middle of the scale only, fewer read it backwards."""

_USUAL_BIAS, _USUAL_SPREAD, _SPREAD_LOG = 0.17, 0.27, 0.5
"""The prior of a bias and of a spread, as shares of the scale's length, and the deviation of log-spreads."""

_LEVEL_ROUNDS: Final = 10.0
"""How many rounds the prior counts as that all levels are as frequent."""

_START: Final = 0.7
"""The spread, in steps, of the levels around the mean vote from which the fit starts."""


@dataclass(frozen=True, slots=True, eq=False)
class _ScaleVotes:
    """A fitted model of the votes of K arms on a scale of M labels.

    Attributes:
        confusions: the probability of each vote at each level, shape (K, M, M), levels first.
        share: the share of items at each level, shape (M,).
    """

    confusions: Array
    share: Array

    def levels(self, rows: Rows) -> tuple[Array, Array]:
        """The probability of each level, shape (P, M), and the votes' log-probability, shape (P,)."""
        logs = np.tile(np.log(self.share), (len(rows), 1))
        for confusion, votes in zip(np.log(self.confusions), rows.T, strict=True):
            cast = votes >= 0
            logs[cast] += confusion.T[votes[cast]]
        top = logs.max(axis=1, keepdims=True)
        mass = np.exp(logs - top)
        sums = mass.sum(axis=1, keepdims=True)
        return mass / sums, (np.log(sums) + top)[:, 0]

    def expected(self, rows: Rows) -> Array:
        """The probability of each vote, shape (P, K, M): 1 for a vote that was cast."""
        levels, _ = self.levels(rows)
        labels = np.arange(len(self.share))
        expected = np.einsum("pz,kzv->pkv", levels, self.confusions)
        return np.where((rows >= 0)[:, :, None], rows[:, :, None] == labels, expected)

    @classmethod
    def fit(cls, rows: Rows, counts: Array, labels: int) -> _ScaleVotes:
        """Fit the model by EM to votes alone: positions on the scale, shape (P, K), and how often each."""
        said = rows[:, :, None] == np.arange(labels)
        cast = np.maximum(said.sum(axis=(1, 2)), 1)
        centre = (said @ np.arange(labels)).sum(axis=1) / cast
        levels = np.exp(-0.5 * ((np.arange(labels) - centre[:, None]) / _START) ** 2)
        levels /= levels.sum(axis=1, keepdims=True)
        model = cls(np.zeros(0), np.zeros(0))
        for _ in range(_STEPS):
            weight = levels * counts[:, None]
            by_level = np.moveaxis(np.tensordot(weight, said.astype(np.float64), axes=(0, 0)), 0, 1)
            share = weight.sum(axis=0) + _LEVEL_ROUNDS / labels
            model = cls(_confusions(by_level), share / share.sum())
            levels, _ = model.levels(rows)
        return model


def _confusions(counts: Array) -> Array:
    """Each arm's confusion matrix from its votes by level, shapes (K, M, M)."""
    shapes, logs = _shapes(counts.shape[1])
    fit = np.tensordot(counts, np.log(shapes), axes=((1, 2), (1, 2))) + logs
    weight = np.exp(fit - fit.max(axis=1, keepdims=True))
    prior = np.tensordot(weight / weight.sum(axis=1, keepdims=True), shapes, axes=(1, 0))
    pulled = counts + _PULL * prior
    return np.asarray(pulled / pulled.sum(axis=2, keepdims=True), dtype=np.float64)


@lru_cache(maxsize=16)
def _shapes(labels: int) -> tuple[Array, Array]:
    """Confusion matrices by slope, bias and spread, shape (G, M, M), and their log-prior, shape (G,)."""
    length, levels = labels - 1.0, np.arange(labels)
    middle, cuts = length / 2.0, np.arange(labels - 1) + 0.5
    shapes, logs = [], []
    for slope, log_slope in zip(_SLOPES, _SLOPE_LOGS, strict=True):
        for bias in np.linspace(-0.5, 0.5, _BIASES) * length:
            for spread in np.geomspace(0.08, 1.3, _SPREADS) * length:
                centre = middle + slope * (levels - middle) + bias
                below = ndtr((cuts - centre[:, None]) / spread)
                votes = np.diff(below, axis=1, prepend=0.0, append=1.0)
                shapes.append((1.0 - _STRAY) * votes + _STRAY / labels)
                usual = np.log(spread / (_USUAL_SPREAD * length)) / _SPREAD_LOG
                logs.append(log_slope - 0.5 * (bias / (_USUAL_BIAS * length)) ** 2 - 0.5 * usual**2)
    return np.maximum(np.array(shapes), EPSILON), np.array(logs)


_TEMPER: Final = 0.3
"""The weight of a vote in units of one over its usual distance: arms err together, so each counts less."""

_PULL_OF_TERMS: Final = 60.0
"""How many rounds pull an arm's usual distance to the mean of all arms."""

_LEAST, _MOST_WEIGHT = 0.05, 3.0
_REVERSED: Final = 0.6
"""An arm reads the scale backwards if turning its votes round leaves less than this part of its distance."""

_ERRORS: Final = 2.0
"""By how many standard errors that must be so."""

_ALL, _ARM, _ALL_BIAS, _ARM_BIAS, _LABEL = 8.0, 16.0, 1.0, 4.0, 5.0
"""The precisions of the prior: of the exponent of the whole reading, around 1, and of each arm's deviation
from it; of the bias of all arms, and of each arm's; and of each label's term."""

_PROVEN: Final = 0.5
"""By how many standard errors all terms but the exponent must predict held-out labels better."""

_LEAST_EXPONENT: Final = 1.0 / 3.0


@dataclass(frozen=True, slots=True, eq=False)
class _ScaleReadings:
    """How votes of K arms on M ordered labels are read.

    Attributes:
        places: the place of each vote of each arm on the scale, shape (K, M): its own, or the opposite one.
        weights: w, shape (K,).
        biases: what each arm's vote adds to the labels above it and takes from those below, shape (K,).
        labels: what is added to the log-probability of each label, shape (M,).
        exponent: the part of all that which human labels leave: votes are less sure than they seem.
        count: the number of human labels.
    """

    places: NDArray[np.int64]
    weights: Array
    biases: Array
    labels: Array
    exponent: float = 1.0
    count: int = 0

    @property
    def reversed(self) -> NDArray[np.bool_]:
        """Which arms read the scale backwards, shape (K,)."""
        return np.asarray(self.places[:, 0] > 0)

    def right(self, votes: Array) -> Array:
        """The probability of each label, shape (P, M), given that of each vote, shape (P, K, M)."""
        near, above = self._pulls(votes)
        logs = near @ self.weights + above @ self.biases + self.labels
        mass = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(mass / mass.sum(axis=1, keepdims=True), dtype=np.float64)

    def without_exponent(self, right: Array) -> Array:
        """Probabilities as plans of whom to ask use them.

        Arms make errors in common, which more votes do not reduce. So plans leave the exponent out, but for
        what is below a third.
        """
        sharp = right ** (1.0 / max(self.exponent, _LEAST_EXPONENT))
        return np.asarray(sharp / sharp.sum(axis=1, keepdims=True), dtype=np.float64)

    def _pulls(self, votes: Array) -> tuple[Array, Array]:
        """How near each label is to each vote, and on which side of it, shapes (P, M, K)."""
        apart = np.arange(len(self.labels)) - self.places[:, :, None]
        near = np.einsum("pkv,kvz->pzk", votes, -np.abs(apart))
        return near, np.einsum("pkv,kvz->pzk", votes, np.sign(apart))

    @classmethod
    def of_votes(cls, rows: Rows, counts: Array, vote: OrderedVote) -> _ScaleReadings:
        """The reading without human labels, from rounds that asked all arms: positions, shape (P, K)."""
        arms, labels = rows.shape[1], len(vote.scale)
        places = np.tile(np.arange(labels), (arms, 1))
        far = np.full(arms, _unknown(labels))
        total = float(counts.sum())
        if total and arms > 1:
            for arm in range(arms):
                places[arm], far[arm] = _place(rows[:, arm], np.delete(rows, arm, axis=1), counts, labels)
        mean = max(float(far.mean()), _LEAST)
        usual = np.maximum((total * far + _PULL_OF_TERMS * mean) / (total + _PULL_OF_TERMS), _LEAST)
        weights = np.minimum(_TEMPER * mean / usual**2, _MOST_WEIGHT)
        ends = np.zeros(labels)
        if vote.error != "exact":
            ends[[0, -1]] = -np.log(-np.expm1(-weights.sum()))
        return cls(places, weights, np.zeros(arms), ends)

    def taught(self, votes: Array, truth: NDArray[np.int64]) -> _ScaleReadings:
        """The reading that human labels correct: by an exponent, and by terms if they prove these.

        ``votes`` has the probability of each vote, shape (n, K, M), and ``truth`` the positions of human
        labels.
        """
        rounds, arms, labels = votes.shape
        near, above = (pull * self.weights for pull in self._pulls(votes))
        alike = np.broadcast_to(np.eye(labels), (rounds, labels, labels))
        whole = near.sum(axis=2, keepdims=True) + self.labels[:, None]
        parts = (whole, near, above.sum(axis=2, keepdims=True), above, alike)
        sizes = (1, arms, 1, arms, labels)
        mean, precision = np.zeros(sum(sizes)), np.repeat((_ALL, _ARM, _ALL_BIAS, _ARM_BIAS, _LABEL), sizes)
        mean[0] = 1.0
        design = sparse.csr_matrix(np.concatenate(parts, axis=2).reshape(rounds * labels, -1))
        chosen = (np.arange(labels) == truth[:, None]).reshape(-1)
        choices = ChoiceSets(design, np.arange(rounds) * labels, chosen)
        terms = np.arange(len(mean)) > 0
        found = fit_proven_logit(choices, NormalPrior(mean, precision), terms, (1.0,), _PROVEN)
        exponent, by_arm, bias, biases, by_label = np.split(found, np.cumsum(sizes[:-1]))
        return replace(
            self,
            weights=self.weights * (exponent + by_arm),
            biases=self.weights * (bias + biases),
            labels=exponent * self.labels + by_label,
            exponent=float(exponent[0]),
            count=rounds,
        )


def _unknown(labels: int) -> float:
    """The usual distance of an arm from the others before they have voted together."""
    return (labels - 1) / 6.0


def _place(votes: Rows, others: Rows, counts: Array, labels: int) -> tuple[NDArray[np.int64], float]:
    """The places of an arm's votes, shape (M,), and their mean distance from the median of the others."""
    forward = np.arange(labels)
    seen = (votes >= 0) & (others >= 0).any(axis=1) & (counts > 0.0)
    if not seen.any():
        return forward, _unknown(labels)
    weight, said = counts[seen] / counts[seen].sum(), votes[seen]
    median = np.nanmedian(np.where(others[seen] >= 0, others[seen], np.nan), axis=1)
    ahead, back = np.abs(said - median), np.abs(labels - 1 - said - median)
    gain = _REVERSED * ahead - back
    mean = float(weight @ gain)
    error = np.sqrt(float(weight @ (gain - mean) ** 2) / counts[seen].sum())
    if mean > _ERRORS * error:
        return forward[::-1], float(weight @ back)
    return forward, float(weight @ ahead)


_PARTIAL_ROUNDS: Final = 300.0
"""Rounds that stopped early count at most as this many rounds, as in :mod:`camvo.joint.votes_fit`."""

_SHOWN: Final = 4
"""Decimals of what a stored fit only shows."""

_NO_CONFIDENCE: Final[Mapping[str, float]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class _ScaleModel:
    """The model of the votes of K arms, and how they are read. Rows are positions on the scale, (P, K)."""

    votes: _ScaleVotes
    reading: _ScaleReadings

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
        answering: arm → how often it votes if it is asked. So a vote costs the arm's price over this share.
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
    answering: Mapping[str, float]
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
        rows, model = _of_votes(evidence, arms, vote)
        labelled, truth = _labelled(latest, arms, vote.scale)
        conventions = None
        if len(truth):
            conventions = _conventions(model, rows, labelled, truth, vote.scale)
            if conventions is None:
                model = model.taught(labelled, truth)
        weighed = _weighed(vote, losses)
        shortlist = _shortlist_of(model, rows, weighed, prices)
        beliefs, right = _beliefs(model, rows, [arms.index(arm) for arm in shortlist], weighed)
        everyone, voting = float(rows.counts.sum()), dict(zip(arms, answering(rows).tolist(), strict=True))
        return cls(arms, vote, everyone, model, shortlist, beliefs, right, voting, conventions, losses)


def _weighed(vote: OrderedVote, losses: LabelLosses) -> Array:
    """The error of each label if another is right, times what missing the right one loses, shape (M, M)."""
    loss_of = dict(losses)
    each = np.array([loss_of.get(label, 1.0) for label in vote.scale])
    return np.asarray(each[:, None] * vote.losses)


@lru_cache(maxsize=32)
def _of_votes(
    evidence: PatternCounts, arms: tuple[str, ...], vote: OrderedVote
) -> tuple[VoteRows, _ScaleModel]:
    """The vote rows, and the model without human labels; cached, because these come more often."""
    rows = VoteRows.of(evidence.patterns, arms, vote.scale, ordered=True)
    weights = rows.counts + rows.partial * min(1.0, _PARTIAL_ROUNDS / max(rows.partial.sum(), 1.0))
    asked = rows.counts > 0.0
    votes = _ScaleVotes.fit(rows.rows, weights, len(vote.scale))
    return rows, _ScaleModel(votes, _ScaleReadings.of_votes(rows.rows[asked], rows.counts[asked], vote))


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

"""Fits of one question's kept rounds: what votes are worth, and when to stop asking.

A fit takes up to a second, so a server can run it in the background. :class:`FitData` is a value that no
later round changes. A plan uses the :class:`Fit` in its observation.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Protocol

import numpy as np

from camvo.joint.joint_fit import JointFit, fit_joint
from camvo.stages.stack_stops import Stops, learn_stops
from camvo.state.confidences import NO_COUNTS, ConfidenceCounts
from camvo.state.context_rounds import NO_CONTEXTS, LatestContexts
from camvo.state.kept_rounds import LatestRounds
from camvo.state.vote_patterns import PatternCounts
from camvo.weights.grades import NO_GRADES, Grades, learn_grades
from camvo.weights.near_copies import near_copies_in
from camvo.weights.stacking import StackedVote
from camvo.weights.stacking_fit import ANCHORED, fit_stacked_vote

MOST_ROUNDS: Final = 5000
"""The largest number of kept rounds that a fit reads: the latest ones."""


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """The result of a fit. Hashed by identity.

    Attributes:
        stack: the stacked vote, which holds what human labels say about votes.
        stops: the stages and when to stop; ``None`` if the policy learns its stops from vote patterns.
        shares: arm → the share of its weight that it keeps beside its near-copies, in (0, 1]; empty if the
            policy does not use it.
        grades: what the arms' confidences are worth.
        joint: the model of votes and what follows from it; ``None`` if the policy does not use it.
    """

    stack: StackedVote = field(default_factory=StackedVote)
    stops: Stops | None = None
    shares: Mapping[str, float] = field(default_factory=dict)
    grades: Grades = NO_GRADES
    joint: JointFit | None = None


class FitData(Hashable, Protocol):
    """The input of a fit: the rounds, and everything else that its result depends on."""

    @property
    def basis(self) -> Hashable:
        """What the result depends on: while it is equal, a new fit would give nearly the same result."""
        ...

    @property
    def kind(self) -> Hashable:
        """What the fit is for: a fit of another kind cannot take its place."""
        ...

    def compute(self) -> Fit:
        """Compute the fit. :func:`fitted` caches the result."""
        ...


@lru_cache(maxsize=32)
def fitted(data: FitData) -> Fit:
    """The fit of the data, computed once; the latest 32 are cached."""
    return data.compute()


@dataclass(frozen=True, slots=True)
class WeightsFitData:
    """The data for a fit of vote weights to human labels. A vote's weight does not depend on its label.

    Attributes:
        latest: the rounds.
        labels: the label set.
        weights: (arm, ω), each as it would be without human labels. The votes of an arm whose weight is 0 are
            left out.
    """

    latest: LatestRounds
    labels: tuple[str, ...]
    weights: tuple[tuple[str, float], ...]

    @property
    def basis(self) -> Hashable:
        """The rounds, and the weights without human labels."""
        return self.latest, frozenset(self.weights)

    @property
    def kind(self) -> Hashable:
        """The label set and the arms."""
        return self.labels, frozenset(arm for arm, _ in self.weights)

    def compute(self) -> Fit:
        """Fit the stacked vote."""
        weights = dict(self.weights)
        return Fit(
            fit_stacked_vote(
                [round_.weighted(weights) for round_ in self.latest.rounds], self.labels, ANCHORED
            )
        )


@dataclass(frozen=True, slots=True)
class StackedFitData:
    """The data for a fit of the stacked vote and its stops.

    Attributes:
        latest: the rounds.
        labels: the label set.
        order: the arms, in the order of asking.
        prices: each arm's price as a share of the price of all, in the order of ``order``.
        price: λ, the probability of a right label that is worth the price of asking all arms.
        max_stages: the largest number of stages.
        confidences: how sure the arms said they were.
    """

    latest: LatestRounds
    labels: tuple[str, ...]
    order: tuple[str, ...]
    prices: tuple[float, ...]
    price: float
    max_stages: int
    confidences: ConfidenceCounts = NO_COUNTS

    @property
    def basis(self) -> Hashable:
        """The rounds, and the confidences."""
        return self.latest, self.confidences

    @property
    def kind(self) -> Hashable:
        """Everything except the rounds and the arms' prices, so that tasks of all lengths share one fit."""
        return self.labels, self.order, self.price, self.max_stages

    def compute(self) -> Fit:
        """Fit the stacked vote, its stops and the shares of near-copies."""
        grades = learn_grades(self.confidences)
        stack = _stack(self.latest, self.labels, grades)
        stops = learn_stops(
            stack,
            self.latest.rounds,
            self.order,
            self.prices,
            self.labels,
            price=self.price,
            max_stages=self.max_stages,
            grades=grades,
        )
        return Fit(stack, stops, _shares(self.latest, self.labels, self.order), grades)


@dataclass(frozen=True, slots=True)
class JointFitData:
    """The data for a fit of the model of votes and its human terms.

    Attributes:
        evidence: the vote patterns of past rounds.
        latest: the latest rounds that are kept whole, those with a human label.
        labels: the label set.
        prices: (arm, its price in right labels), by name; all 0 if plans can hold all arms.
        confidences: how sure the arms said they were.
        contexts: the contexts of rounds that asked all arms.
    """

    evidence: PatternCounts
    latest: LatestRounds
    labels: tuple[str, ...]
    prices: tuple[tuple[str, float], ...]
    confidences: ConfidenceCounts = NO_COUNTS
    contexts: LatestContexts = NO_CONTEXTS

    @property
    def basis(self) -> Hashable:
        """The rounds, the confidences, and the contexts."""
        return self.evidence, self.latest, self.confidences, self.contexts

    @property
    def kind(self) -> Hashable:
        """The policy, the label set, the arms, and whether there are human labels.

        A fit without human labels does not take the place of the first one with them, so these count at once.
        """
        return "joint", self.labels, frozenset(arm for arm, _ in self.prices), self.latest.labelled

    def compute(self) -> Fit:
        """Fit the model of votes."""
        grades = learn_grades(self.confidences)
        return Fit(
            joint=fit_joint(self.evidence, self.latest, self.labels, dict(self.prices), grades, self.contexts)
        )


@lru_cache(maxsize=16)
def _stack(latest: LatestRounds, labels: tuple[str, ...], grades: Grades) -> StackedVote:
    """The stacked vote, cached apart from the stops, because it does not depend on the prices of a task."""
    return fit_stacked_vote(latest.rounds, labels, grades=grades)


def _shares(latest: LatestRounds, labels: tuple[str, ...], order: tuple[str, ...]) -> dict[str, float]:
    """Each arm's share of its weight: near-copies together weigh as much as one of them alone."""
    positions = {label: position for position, label in enumerate(labels)}
    rounds = [{vote.arm: vote.label for vote in round_.votes} for round_ in latest.rounds if round_.everyone]
    votes = [[positions.get(label_of.get(arm) or "", -1) for arm in order] for label_of in rounds]
    groups = near_copies_in(np.array(votes, dtype=np.int64).reshape(len(votes), len(order)))
    return {arm: 1.0 / groups.count(group) for arm, group in zip(order, groups, strict=True)}

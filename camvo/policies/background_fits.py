"""Fits of one question's kept rounds: what votes are worth, and when to stop asking.

A fit takes up to a second, so a server can run it in the background. :class:`FitData` is a value that no
later round changes. A plan uses the :class:`Fit` in its observation.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol

from camvo.joint.grades import learn_grades
from camvo.joint.joint_fit import JointFit, fit_joint
from camvo.joint.plans.agreement import AgreementStops, fit_agreement
from camvo.joint.votes_fit import fit_votes
from camvo.state.confidences import NO_COUNTS, ConfidenceCounts
from camvo.state.context_rounds import NO_CONTEXTS, LatestContexts
from camvo.state.kept_rounds import LatestRounds
from camvo.state.vote_patterns import PatternCounts

MOST_ROUNDS: Final = 5000
"""The largest number of kept rounds that a fit reads: the latest ones."""


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """The result of a fit. Hashed by identity.

    Attributes:
        joint: the model of votes and what follows from it.
        stops: when to stop for the label of all votes; ``None`` if no agreement is required.
    """

    joint: JointFit
    stops: AgreementStops | None = None

    @property
    def reads_context(self) -> bool:
        """Whether a plan with this fit reads the task's context."""
        return self.joint.reads_context


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
class JointFitData:
    """The data for a fit of the model of votes and its human terms.

    Attributes:
        evidence: the vote patterns of past rounds.
        latest: the latest rounds that are kept whole, those with a human label.
        labels: the label set.
        prices: (arm, its price in right labels), by name; all 0 if plans can hold all arms.
        confidences: how sure the arms said they were.
        contexts: the contexts of rounds that asked all arms.
        agreement: the required share of labels that equal those of all votes; ``None`` if none is required.
        shares: (arm, its share of the price of all), by name; only with an agreement.
    """

    evidence: PatternCounts
    latest: LatestRounds
    labels: tuple[str, ...]
    prices: tuple[tuple[str, float], ...]
    confidences: ConfidenceCounts = NO_COUNTS
    contexts: LatestContexts = NO_CONTEXTS
    agreement: float | None = None
    shares: tuple[tuple[str, float], ...] = ()

    @property
    def basis(self) -> Hashable:
        """The rounds, the confidences, and the contexts."""
        return self.evidence, self.latest, self.confidences, self.contexts

    @property
    def kind(self) -> Hashable:
        """The agreement, the label set, the arms, and whether there are human labels.

        A fit without human labels does not take the place of the first one with them, so these count at once.
        """
        return self.agreement, self.labels, frozenset(arm for arm, _ in self.prices), self.latest.labelled

    def compute(self) -> Fit:
        """Fit the model of votes, and find the stops if an agreement is required."""
        grades = learn_grades(self.confidences)
        joint = fit_joint(self.evidence, self.latest, self.labels, dict(self.prices), grades, self.contexts)
        if self.agreement is None:
            return Fit(joint)
        votes = fit_votes(self.evidence, joint.arms, len(self.labels))
        return Fit(joint, fit_agreement(joint, votes, dict(self.shares), self.agreement))

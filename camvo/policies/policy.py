"""The interface of every policy: which models to ask, how to decide, what to learn.

A policy holds parameters and no state. These four methods are called in turn for each task::

    plan         = policy.plan(observations, costs, conditions)   before any model is asked; frozen
    arms         = policy.ask(plan, votes)                        repeatedly, until it returns no arm
    decisions    = policy.decide(plan, votes)                     the label and its score, for each question
    contribution = policy.contribution(plan, q, votes, y)         what the state of question q learns from it

The last three also take how sure the models say they are of these votes
(:data:`camvo.typing.Confidences`). A policy may ignore it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.joint.agreement import AgreementStops
from camvo.joint.grades import Grades
from camvo.joint.joint_fit import JointFit
from camvo.joint.label_losses import NO_LOSSES, LabelLosses
from camvo.joint.ordered_fit import OrderedFit
from camvo.joint.places import SpanFit
from camvo.joint.votes_fit import VotesFit
from camvo.stages.stages import Exploration, Stages
from camvo.state.contribution import NO_COUNTS, ConfidenceCounts, Contribution, LatestRounds
from camvo.state.earlier import NOTHING_EARLIER, Earlier
from camvo.state.exploration import NO_CONTEXTS, NO_PATTERNS, LatestContexts, PatternCounts
from camvo.state.state import State
from camvo.subsets.confidence import Copula
from camvo.typing import NO_CONFIDENCES, Array, Confidences, Votes
from camvo.votes.aggregation import Aggregation, Decision
from camvo.votes.labels import LABEL_VOTE

MOST_ROUNDS: Final = 5000
"""The largest number of kept rounds that a fit reads: the latest ones."""


AnyFit: TypeAlias = JointFit | OrderedFit | SpanFit
"""What votes say: votes for labels, for ordered labels, or on spans."""


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """The result of a fit. Hashed by identity.

    Attributes:
        joint: the model of votes and what follows from it; of another kind where labels are ordered, and for
            spans.
        stops: when to stop for the label of all votes; ``None`` if no agreement is required.
    """

    joint: AnyFit
    stops: AgreementStops | None = None

    @property
    def reads_context(self) -> bool:
        """Whether a plan with this fit reads the task's context."""
        return self.joint.reads_context


class FitData(Hashable, Protocol):
    """The input of a fit: the rounds, and everything else that its result depends on."""

    @property
    def evidence(self) -> PatternCounts:
        """The vote patterns of past rounds."""
        ...

    @property
    def counted(self) -> int:
        """How many rounds and confidences it counts; more only once either has grown by a fifth."""
        ...

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
        losses: what missing each label loses; empty if all labels are worth the same.
        earlier: what earlier projects taught about the arms.
        explored: the vote patterns of rounds that asked all arms, from which to estimate the regret.
    """

    evidence: PatternCounts
    latest: LatestRounds
    labels: tuple[str, ...]
    prices: tuple[tuple[str, float], ...]
    confidences: ConfidenceCounts = NO_COUNTS
    contexts: LatestContexts = NO_CONTEXTS
    agreement: float | None = None
    shares: tuple[tuple[str, float], ...] = ()
    losses: LabelLosses = NO_LOSSES
    earlier: Earlier = NOTHING_EARLIER
    explored: PatternCounts = NO_PATTERNS

    @property
    def counted(self) -> int:
        """The rounds, and how often votes were compared that had a confidence."""
        return self.evidence.rounds + self.confidences.votes

    @property
    def basis(self) -> Hashable:
        """The rounds, the confidences, the contexts, and earlier projects."""
        return self.evidence, self.latest, self.confidences, self.contexts, self.earlier, self.explored

    @property
    def kind(self) -> Hashable:
        """The agreement, the label set with its losses, the arms, and whether there are human labels.

        A fit without human labels does not take the place of the first one with them, so these count at once.
        """
        arms = frozenset(arm for arm, _ in self.prices)
        return self.agreement, self.labels, self.losses, arms, bool(self.latest.rounds)

    def compute(self) -> Fit:
        """Fit the model of votes, and find the stops if an agreement is required."""
        grades = Grades.learnt(self.confidences)
        joint = JointFit.fit(
            self.evidence,
            self.latest,
            self.labels,
            dict(self.prices),
            grades,
            self.contexts,
            rare=self.agreement is None,
            losses=self.losses,
            earlier=self.earlier,
            explored=self.explored,
        )
        if self.agreement is None:
            return Fit(joint)
        votes = VotesFit.of(self.evidence, joint.arms, joint.labels, self.earlier)
        return Fit(joint, AgreementStops.fit(joint, votes, dict(self.shares), self.agreement))


UNREAD = 0.5
"""q of every arm where a policy does not read the linear models. Without spread, Est is μ."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The input of a policy for one question of one task.

    Attributes:
        state: what was learnt about the question.
        context: the embedding e_t, shape (d,), finite; zeros if it is unknown, for policies that do not read
            it (:meth:`camvo.policies.ensemble.Ensemble.linear`).
        labels: the label set in the order of the label config, or the items to rank; empty for a number.
        aggregation: how votes on the question become one answer.
        fit: the latest background fit of the policy's :meth:`~camvo.Policy.fit_data`. Without one, the policy
            computes the fit when it plans.
        task: a name of the task, from which exploration is drawn; empty to draw from the context.

    >>> import camvo
    >>> import numpy as np
    >>> observation = camvo.Observation(camvo.State(dimension=2), np.array([1.0, 0.0]), ("neg", "pos"))
    >>> camvo.Baseline().plan({"mood": observation}, {"small": 0.1, "large": 5.0}).subset
    ('large', 'small')
    """

    state: State
    context: Array
    labels: tuple[str, ...]
    aggregation: Aggregation = LABEL_VOTE
    fit: Fit | None = None
    task: str = ""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The exploration draw of a task whose first stage was asked earlier, as in a provider's batch.

    Attributes:
        exploration: its outcome.
        rate: the probability of asking all arms.
        first: the arms of the first stage, which were asked independently of the votes.
    """

    exploration: Exploration
    rate: float
    first: tuple[str, ...]

    @classmethod
    def of(cls, stages: Stages) -> Drawn:
        """The draw of a plan's stages."""
        return cls(stages.exploration, stages.propensity, stages.first)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Tasks that were planned and whose votes have not arrived yet.

    Attributes:
        rounds: how many.
        everyone: how many of them ask all arms.
    """

    rounds: int = 0
    everyone: int = 0


@dataclass(frozen=True, slots=True)
class Conditions:
    """The conditions under which one task is planned, apart from what has been learnt.

    Only policies that ask in stages read more than ``everyone``; baselines, which learn nothing from a round
    that asks everyone, read nothing.

    Attributes:
        everyone: whether all arms are asked, whatever they vote. The round then teaches as one that the
            policy has drawn to ask everyone.
        allowance: the average that tasks may cost, in prices of asking all arms; at least 0, infinite for no
            limit. A policy that promises an agreement keeps its promise whatever it costs.
        stages: how many stages are left; ``None`` for as many as there are arms. With 0, no arm is asked any
            more once one has voted.
        drawn: the task's exploration draw, if an earlier plan has made it.
        waiting: other tasks that wait for votes: they explore already, so this one need not.
        decided: whether the task is decided and further votes are planned. No draw asks all arms, and there
            is no first stage: the plan begins with the votes that are there.
        waits: slow arm → what the time is worth by which one more call to it delays other tasks, in the unit
            of prices; 0 while the arm has nothing to do. Nobody pays it, so it counts only where arms are
            chosen: it is no part of a plan's costs, of the worth of a right label, or of an allowance.
    """

    everyone: bool = False
    allowance: float = math.inf
    stages: int | None = None
    drawn: Drawn | None = None
    waiting: Waiting = Waiting()
    decided: bool = False
    waits: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.allowance >= 0.0:
            raise InvalidParameterError(f"an allowance must be at least 0, got {self.allowance}")
        for arm, wait in self.waits.items():
            if not 0.0 <= wait < math.inf:
                raise InvalidParameterError(f"the wait for {arm!r} must be finite and at least 0, got {wait}")


ORDINARY: Final = Conditions()
"""A task without special conditions."""


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """The arms' estimates on one question. Every array has shape (K,), in the order of the plan's arms.

    Attributes:
        labels: the label set.
        context: the embedding e_t, shape (d,).
        rewards: N, the number of rewards of each arm.
        agreement: μ = Σr / N, and 1 before the first reward (line 20).
        q: the linear estimate, unclipped (line 6).
        lower: L, the regularised lower bound on the probability of being right (line 9).
        weights: ω = μ·q, q clipped to [0, 1] (line 10).
        correctness: the probability of being right from which the posterior of a vote is computed.
        aggregation: how votes on the question become one answer.
        copula: the dependence of the arms' correctness; ``None`` if the policy does not need it.
        histories: arm → the number of the history behind its columns; 0 for arms that are absent.
        restarts: how many restarts the state had.
    """

    labels: tuple[str, ...]
    context: Array
    rewards: Array
    agreement: Array
    q: Array
    lower: Array
    weights: Array
    correctness: Array
    aggregation: Aggregation = LABEL_VOTE
    copula: Copula | None = None
    histories: Mapping[str, int] = field(default_factory=dict)
    restarts: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What a policy knew and decided before the first model was asked. Frozen.

    Attributes:
        arms: the K models that could be asked, in alphabetical order, so that their order in a
            configuration changes nothing.
        costs: the expected price of asking each of them, $, shape (K,).
        estimates: question → the arms' estimates.
        weights: question → the weights that the arms' votes will have, each of shape (K,).
        subset: the models to ask first, in the order of ``arms``.
        confidence: δ_A of the subset on its weakest question. ``None`` if no set reached δ, so that all arms
            are asked, or if the policy does not compute δ_A.
        complete: whether the search for the subset examined every set that it had to. If not, a cheaper
            subset may exist.
        propensity: the probability that each arm is asked independently of the votes, shape (K,).
        stages: the order in which arms are asked and when to stop; ``None`` if the policy does not ask in
            stages.

    >>> import camvo
    >>> question = camvo.Question(("neg", "pos"), prices={"small": 0.1, "large": 5.0}, dimension=2)
    >>> plan = question.task([1.0, 0.0]).plan
    >>> plan.arms, plan.costs.tolist(), plan.subset
    (('large', 'small'), [5.0, 0.1], ('large', 'small'))
    """

    arms: tuple[str, ...]
    costs: Array
    estimates: Mapping[str, Estimates]
    weights: Mapping[str, Array]
    subset: tuple[str, ...]
    confidence: float | None
    propensity: Array
    complete: bool = True
    stages: Stages | None = None

    def with_contexts(self, contexts: Mapping[str, Array]) -> Plan:
        """The same plan with contexts that are known only now: question → its context, shape (d,)."""
        estimates = {
            question: replace(columns, context=contexts[question])
            for question, columns in self.estimates.items()
        }
        return replace(self, estimates=estimates)

    def describe(self, question: str) -> dict[str, Any]:
        """The plan for one question as plain JSON, stored with the round. The context is stored apart.

        Numbers that a later human label may be learnt from are exact. Numbers that are only shown have six
        significant digits, because more would take most of the round's bytes.
        """
        estimates = self.estimates[question]
        columns = {
            "cost": _significant(self.costs),
            "propensity": self.propensity,
            "rewards": estimates.rewards,
            "agreement": estimates.agreement,
            "q": estimates.q,
            "lower": _significant(estimates.lower),
            "weight": self.weights[question],
            "correctness": _significant(estimates.correctness),
        }
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        arms = {arm: dict(zip(columns, row, strict=True)) for arm, row in zip(self.arms, rows, strict=True)}
        described: dict[str, Any] = {
            "labels": list(estimates.labels),
            "subset": list(self.subset),
            "confidence": self.confidence,
            "complete": self.complete,
            "arms": arms,
        }
        if estimates.histories:
            described["histories"] = dict(estimates.histories)
        if self.stages is not None:
            described |= self.stages.describe(question)
        return described


def _significant(values: Array) -> Array:
    """The values, shape (n,), each rounded to six significant digits."""
    return np.array([float(f"{value:.6g}") for value in values.tolist()])


class Policy(Protocol):
    """The interface of every policy; votes are arm → question → label (:data:`camvo.typing.Votes`).

    >>> import camvo
    >>> import numpy as np
    >>> policy: camvo.Policy = camvo.Joint()
    >>> state = camvo.State(dimension=2)
    >>> observations = {"mood": camvo.Observation(state, np.array([1.0, 0.0]), ("neg", "pos"))}
    >>> plan = policy.plan(observations, {"small": 0.1, "large": 5.0})
    >>> votes = {arm: {"mood": "pos"} for arm in policy.ask(plan, {})}
    >>> policy.ask(plan, votes), policy.decide(plan, votes)["mood"].label
    ((), 'pos')
    >>> state.add(policy.contribution(plan, "mood", votes, "pos"))
    """

    @property
    def spares(self) -> bool:
        """Whether a task may be decided without an arm that is slow, although the policy would ask it."""
        ...

    def linear(self, aggregation: Aggregation) -> bool:
        """Whether it reads the linear models of the context.

        If not, the state need not keep them, and only fits read the context (:attr:`.Fit.reads_context`).
        """
        ...

    def fit_data(self, observation: Observation, costs: Mapping[str, float]) -> FitData | None:
        """The data a background fit would use now, or ``None`` if no fit is needed."""
        ...

    def plan(
        self,
        observations: Mapping[str, Observation],
        costs: Mapping[str, float],
        conditions: Conditions = ORDINARY,
    ) -> Plan:
        """Plan a task from each question's observation, each arm's price in $, and the task's conditions."""
        ...

    def ask(self, plan: Plan, votes: Votes, *, confidences: Confidences = NO_CONFIDENCES) -> tuple[str, ...]:
        """The arms to ask now, given the votes so far; empty if the task can be decided."""
        ...

    def decide(
        self, plan: Plan, votes: Votes, *, confidences: Confidences = NO_CONFIDENCES
    ) -> dict[str, Decision]:
        """The decision on each question that has a vote."""
        ...

    def contribution(
        self,
        plan: Plan,
        question: str,
        votes: Votes,
        label: str,
        *,
        human: bool = False,
        confidences: Confidences = NO_CONFIDENCES,
    ) -> Contribution:
        """What the state of ``question`` learns if the label is ``label``, a human's or the voted one."""
        ...

"""The base class of all policies: estimate the arms, ask a fixed set, count votes and learn from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.numerics.small import within
from camvo.policies.parameters import EnsembleParameters, Parameter
from camvo.policies.policy import ORDINARY, UNREAD, Conditions, Estimates, FitData, Observation, Plan, Policy
from camvo.policies.teaching import TaughtRound
from camvo.stages.stages import uniform_draw
from camvo.state.arm import posterior
from camvo.state.contribution import Contribution
from camvo.state.state import check_contexts
from camvo.subsets.confidence import Copula
from camvo.typing import NO_CONFIDENCES, Array, Confidences, Votes
from camvo.votes.aggregation import Aggregation, Ballot, Decision


@dataclass(frozen=True, slots=True)
class Choice:
    """The arms to ask first.

    Attributes:
        arms: their positions, ascending.
        confidence: as in :class:`.Plan`.
        complete: as in :class:`.Plan`.
    """

    arms: Sequence[int]
    confidence: float | None = None
    complete: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class Situation:
    """All that a policy knows of a task when it chooses the arms to ask.

    Attributes:
        observations: question → its observation.
        costs: arm → the expected price of asking it, $.
        estimates: question → the arms' estimates.
        conditions: the task's conditions.
    """

    observations: Mapping[str, Observation]
    costs: Mapping[str, float]
    estimates: Mapping[str, Estimates]
    conditions: Conditions = ORDINARY

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms in alphabetical order."""
        return tuple(sorted(self.costs))

    @property
    def prices(self) -> Array:
        """The arms' prices, shape (K,)."""
        return np.array([self.costs[arm] for arm in self.arms], dtype=np.float64)

    @property
    def prices_with_waits(self) -> Array:
        """The arms' prices and what waiting for them is worth, shape (K,): what a choice goes by."""
        waits = self.conditions.waits
        return self.prices + np.array([waits.get(arm, 0.0) for arm in self.arms]) if waits else self.prices

    @property
    def rounds(self) -> int:
        """The fewest rounds that the state of any question has learnt from."""
        return min(observation.state.rounds for observation in self.observations.values())


@dataclass(frozen=True, kw_only=True)
class Ensemble(EnsembleParameters):
    """The base class of all policies: estimate the arms, ask a fixed set, count votes and learn from them.

    :meth:`plan` takes three steps: :meth:`estimate` every question, :meth:`choose` the arms to ask first, and
    :meth:`assemble` the plan.

    Attributes:
        alpha: α ≥ 0, the width of the confidence bound in standard deviations of the linear model.
        lambda_r: λ_R ≥ 0, the strength of the log-Laplace regularisation.
        estimator: how the Beta parameters of Est are estimated: ``"moments"`` (as in the paper's
            experiments) or ``"mle"`` (maximum likelihood). Appendix B has both.
    """

    @property
    def studies(self) -> bool:
        """Whether a student (:mod:`camvo.student`) votes too, unless it is turned off."""
        return False

    @property
    def spares(self) -> bool:
        """Whether a task may be decided without an arm that is slow, although the policy would ask it."""
        return False

    def linear(self, aggregation: Aggregation) -> bool:
        """Whether the policy reads the linear models of the context for a question that is so aggregated."""
        return True

    def fit_data(self, observation: Observation, costs: Mapping[str, float]) -> FitData | None:
        """``None``: the policy needs no background fit."""
        return None

    def plan(
        self,
        observations: Mapping[str, Observation],
        costs: Mapping[str, float],
        conditions: Conditions = ORDINARY,
    ) -> Plan:
        """Estimate every arm on every question and choose the subset to ask first.

        Args:
            observations: question → its observation, at least one.
            costs: arm → the expected price of asking it, $, at least one arm.
            conditions: the task's conditions.

        Raises:
            InvalidParameterError: there is no arm or no question, a context does not fit its state, or the
                policy cannot plan for these arms and prices.
        """
        if not costs or not observations:
            raise InvalidParameterError("a plan needs at least one model and one question")
        arms = tuple(sorted(costs))
        estimates = {
            question: self.estimate(observation, arms) for question, observation in observations.items()
        }
        situation = Situation(observations, costs, estimates, conditions)
        return self.assemble(situation, self.choose(situation))

    def estimate(self, observation: Observation, arms: Sequence[str]) -> Estimates:
        """Estimate every arm on one question.

        A policy that does not read the linear models takes every q for ½ with width 0, so that what is
        believed of an arm is its μ.
        """
        state = observation.state
        if self.linear(observation.aggregation):
            q, width = state.score(arms, observation.context)
        else:
            check_contexts([observation.context], state.dimension)
            q, width = np.full(len(arms), UNREAD), np.zeros(len(arms))
        return self.estimates([observation], arms, q[None], width[None])[0]

    def estimates(
        self, observations: Sequence[Observation], arms: Sequence[str], q: Array, width: Array
    ) -> list[Estimates]:
        """Turn the scores of arms on one question of several tasks into estimates (Algorithm 1, lines 8–10).

        Args:
            observations: the tasks, which share one state.
            arms: the names of the K arms.
            q: the linear estimate of each arm in each task, shape (n, K).
            width: its standard deviation, shape (n, K).
        """
        state = observations[0].state
        standings = state.standings(arms, self.estimator)
        n, mu, prior, *evidence = np.array([*zip(*standings, strict=True)])
        lower, believed = posterior(np.array((q - self.alpha * width, q)), prior, evidence)
        smoothing = self.lambda_r * math.log(state.rounds + 2)
        if smoothing > 0.0:
            lower = (lower * n + smoothing / 2.0) / (n + smoothing)
        guess = np.array([[each.aggregation.guess(each.labels)] for each in observations])
        correctness = (believed * n + 2.0 * (0.5 + 0.5 * guess)) / (n + 2.0)
        weights = mu * within(q, 0.0, 1.0)
        correlation = state.pairs.correlation(arms) if self.correlated else None
        return [
            Estimates(
                labels=each.labels,
                context=each.context,
                rewards=n,
                agreement=mu,
                q=q[task],
                lower=lower[task],
                weights=weights[task],
                correctness=correctness[task],
                aggregation=each.aggregation,
                copula=None
                if correlation is None
                else Copula.of_round(correlation, state.rounds, each.context),
                histories=state.histories.current_of(arms),
                restarts=state.drift.restarts,
            )
            for task, each in enumerate(observations)
        ]

    def choose(self, situation: Situation) -> Choice:
        """Choose the arms to ask first: all of them."""
        return Choice(range(len(situation.costs)))

    def assemble(self, situation: Situation, choice: Choice) -> Plan:
        """Make the plan that asks the chosen arms first."""
        arms, estimates = situation.arms, situation.estimates
        propensity = np.zeros(len(arms))
        for position in choice.arms:
            propensity[position] = 1.0
        return Plan(
            arms=arms,
            costs=situation.prices,
            estimates=estimates,
            weights={question: self._weights(columns) for question, columns in estimates.items()},
            subset=tuple([arms[position] for position in choice.arms]),
            confidence=choice.confidence,
            complete=choice.complete,
            propensity=propensity,
        )

    def ask(self, plan: Plan, votes: Votes, *, confidences: Confidences = NO_CONFIDENCES) -> tuple[str, ...]:
        """The arms of the plan's subset that have not been asked yet."""
        return tuple([arm for arm in plan.subset if arm not in votes])

    def decide(
        self, plan: Plan, votes: Votes, *, confidences: Confidences = NO_CONFIDENCES
    ) -> dict[str, Decision]:
        """Aggregate the votes on each question that has any (line 13)."""
        decisions = {}
        for question, estimates in plan.estimates.items():
            cast = {arm: answers[question] for arm, answers in votes.items() if question in answers}
            if not cast:
                continue
            columns = (plan.weights[question], estimates.lower, estimates.correctness)
            ballot = Ballot(cast, *[dict(zip(plan.arms, column.tolist(), strict=True)) for column in columns])
            label, posterior = estimates.aggregation.aggregate(ballot, estimates.labels)
            decisions[question] = Decision(label, posterior[label], posterior)
        return decisions

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
        """What the state of ``question`` learns if the label is ``label`` (:class:`.TaughtRound`)."""
        right = label if human else self._unchecked(plan, question, votes, label)
        return TaughtRound.planned(plan, question, votes, confidences).contribution(right, human=human)

    def _unchecked(self, plan: Plan, question: str, votes: Votes, label: str) -> str:
        """The label by which votes are judged without a human's: the one decided."""
        return label

    @property
    def correlated(self) -> bool:
        """Whether the policy needs the arms' copula."""
        return False

    def _weights(self, estimates: Estimates) -> Array:
        """The arms' weights in the vote, shape (K,)."""
        return estimates.weights


@dataclass(frozen=True, kw_only=True)
class Baseline(Ensemble):
    """Algorithm 2: ask every model, and weight its vote by how often it agreed with the label so far.

    The weight is ω_def = Σr / N, and 1 before an arm's first reward.

    >>> import camvo
    >>> prices = {"small": 0.1, "large": 5.0}
    >>> policy = camvo.Baseline()
    >>> question = camvo.Question(("neg", "pos"), prices=prices, dimension=2, policy=policy)
    >>> task = question.task([1.0, 0.0])
    >>> task.ask()
    ('large', 'small')
    >>> task.add({"large": "pos", "small": "pos"})
    >>> task.decide().label
    'pos'
    """

    def _weights(self, estimates: Estimates) -> Array:
        return estimates.agreement


@dataclass(frozen=True, kw_only=True)
class Majority(Ensemble):
    """Ask every model and count every vote the same.

    >>> import camvo
    >>> question = camvo.Question(
    ...     ("neg", "pos"), prices={"a": 1.0, "b": 1.0, "c": 9.0}, dimension=2, policy=camvo.Majority()
    ... )
    >>> task = question.task([1.0, 0.0])
    >>> task.add({"a": "neg", "b": "neg", "c": "pos"})
    >>> task.decide().label
    'neg'
    """

    def _weights(self, estimates: Estimates) -> Array:
        return np.ones_like(estimates.weights)


@dataclass(frozen=True, kw_only=True)
class Single(Ensemble):
    """Ask one model and take its label. It learns only from human labels.

    Attributes:
        model: the name of the model. Planning without it in the pool raises
            :class:`camvo.InvalidParameterError`.

    >>> import camvo
    >>> prices = {"small": 0.1, "large": 5.0}
    >>> policy = camvo.Single(model="small")
    >>> question = camvo.Question(("neg", "pos"), prices=prices, dimension=2, policy=policy)
    >>> question.task([1.0, 0.0]).ask()
    ('small',)
    """

    model: Annotated[str, Parameter(help="The model that single asks.", in_replay=False, per_project=False)]

    def choose(self, situation: Situation) -> Choice:
        """Choose the one model."""
        return _always((self.model,), situation.arms)


@dataclass(frozen=True, kw_only=True)
class Fixed(Baseline):
    """Ask the same models every time, with the weights of Algorithm 2.

    Attributes:
        models: the names of the models, at least one. Planning without one of them in the pool raises
            :class:`camvo.InvalidParameterError`.

    >>> import camvo
    >>> prices = {"small": 0.1, "large": 5.0}
    >>> policy = camvo.Fixed(models=("large",))
    >>> question = camvo.Question(("neg", "pos"), prices=prices, dimension=2, policy=policy)
    >>> question.task([1.0, 0.0]).ask()
    ('large',)
    """

    models: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.models:
            raise InvalidParameterError("models must name at least one model")

    def choose(self, situation: Situation) -> Choice:
        """Choose the same models every time."""
        return _always(self.models, situation.arms)


@dataclass(frozen=True, kw_only=True)
class Random(Baseline):
    """Ask models drawn at random, with the weights of Algorithm 2: a baseline for any budget.

    Each model is equally likely, so the expected cost is ``share`` of the price of asking all models. The
    draw is derived from the context and the number of rewards, so that a replay gives the same result again.

    Attributes:
        share: the share of the K models to ask, in (0, 1]. If ``share`` · K is not a whole number, it is
            rounded up or down at random so that the share holds on average. At least one model is asked.

    >>> import camvo
    >>> prices = {"small": 0.1, "large": 5.0}
    >>> policy = camvo.Random(share=0.5)
    >>> question = camvo.Question(("neg", "pos"), prices=prices, dimension=2, policy=policy)
    >>> [len(question.task([1.0, float(number)]).ask()) for number in range(4)]
    [1, 1, 1, 1]
    """

    share: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.share <= 1.0:
            raise InvalidParameterError(f"share must be in (0, 1], got {self.share}")

    def choose(self, situation: Situation) -> Choice:
        """Draw models at random."""
        arms, columns = situation.arms, next(iter(situation.estimates.values()))
        draw = uniform_draw((columns.context,), int(columns.rewards.sum()))
        rng = np.random.default_rng(int(2**53 * draw))
        size = max(1, int(self.share * len(arms) + rng.random()))
        return Choice(np.sort(rng.permutation(len(arms))[:size]).tolist())

    def assemble(self, situation: Situation, choice: Choice) -> Plan:
        """Make the plan; each arm's propensity is the probability that it is drawn."""
        plan = super().assemble(situation, choice)
        count = len(plan.arms)
        return replace(plan, propensity=np.full(count, max(self.share, 1.0 / count)))


def _always(models: tuple[str, ...], arms: tuple[str, ...]) -> Choice:
    for model in models:
        if model not in arms:
            raise InvalidParameterError(f"the model {model!r} is not in the pool: {', '.join(arms)}")
    return Choice([position for position, arm in enumerate(arms) if arm in models])


def has_student(policy: Policy) -> bool:
    """Whether a student votes in addition to the models, unless settings turn it off."""
    return isinstance(policy, Ensemble) and policy.studies

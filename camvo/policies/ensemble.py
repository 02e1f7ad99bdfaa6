"""What all policies share: estimating, asking a fixed set, counting votes and learning from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.policies.background_fits import Material
from camvo.policies.estimates import Estimates, Observation, estimate
from camvo.policies.plan import Plan
from camvo.state.beta_mixture import ESTIMATORS, EstimatorName
from camvo.state.contribution import Change, Contribution
from camvo.typing import Array, Votes
from camvo.votes.aggregation import Ballot
from camvo.votes.decision import Decision
from camvo.votes.labels import LABEL_VOTE


def lesson(
    context: Array,
    q: Mapping[str, float],
    votes: Mapping[str, str],
    label: str,
    *,
    human: bool,
    reward: Callable[[str, str], float] = LABEL_VOTE.reward,
) -> Contribution:
    """The contribution of one round: r_i = 1{y_i = label} for every arm that voted (lines 16–21).

    Fewer than two votes teach nothing unless ``label`` comes from a human: an arm alone always agrees with
    itself. The round is counted in t all the same.

    Args:
        context: e_t, shape (d,).
        q: arm → its estimate when the round was planned.
        votes: arm → label, on this question.
        label: the voted label, or the human's.
        human: whether ``label`` is a human's.
        reward: r_i from a vote and ``label``: the :meth:`reward` of the question's aggregation.
    """
    if len(votes) < 2 and not human:
        return Contribution(context, ())
    changes = [Change(arm, q[arm], None, reward(vote, label)) for arm, vote in sorted(votes.items())]
    return Contribution(context, tuple(changes))


@dataclass(frozen=True, slots=True)
class Choice:
    """Whom to ask first: positions of arms, ascending, with the plan's ``confidence`` and ``complete``."""

    arms: Sequence[int]
    confidence: float | None = None
    complete: bool = True


@dataclass(frozen=True, kw_only=True)
class Ensemble:
    """What all policies share: estimating, asking a fixed set, counting votes and learning from them.

    Attributes:
        alpha: α ≥ 0, the width of the confidence bound.
        lambda_r: λ_R ≥ 0, the strength of the log-Laplace regularisation.
        estimator: how the Beta parameters of Est are estimated, ``"moments"`` (as in the paper's
            experiments) or ``"mle"`` (maximum likelihood; both in Appendix B).
    """

    alpha: float = 0.25
    lambda_r: float = 1.0
    estimator: EstimatorName = "moments"

    def __post_init__(self) -> None:
        for name, value in (("α", self.alpha), ("λ_R", self.lambda_r)):
            if not (np.isfinite(value) and value >= 0.0):
                raise InvalidParameterError(f"{name} must be finite and not negative, got {value}")
        if self.estimator not in ESTIMATORS:
            raise InvalidParameterError(f'estimator is "moments" or "mle", got {self.estimator!r}')

    def material(self, seen: Observation, costs: Mapping[str, float]) -> Material | None:
        """What is to be studied apart from planning, because it takes long: nothing."""
        return None

    def plan(self, observations: Mapping[str, Observation], costs: Mapping[str, float]) -> Plan:
        """Estimate every arm on every question and choose the subset to ask first.

        Raises:
            InvalidParameterError: no arm, no question, or a context that does not fit its state.
        """
        return self.plan_window([observations], costs)[0]

    def plan_window(
        self, tasks: Sequence[Mapping[str, Observation]], costs: Mapping[str, float]
    ) -> list[Plan]:
        """The plans of several tasks with the same questions, states and prices, as one by one but quicker.

        Raises:
            InvalidParameterError: as :meth:`plan`, or tasks that differ in their questions or states.
        """
        if not costs or not tasks or not tasks[0]:
            raise InvalidParameterError("a plan needs at least one model and one question")
        questions = tuple(tasks[0])
        if any(tuple(task) != questions for task in tasks):
            raise InvalidParameterError("tasks that are planned together have the same questions")
        arms = tuple(sorted(costs))
        prices = np.array([costs[arm] for arm in arms], dtype=np.float64)
        columns = [
            estimate(
                [task[question] for task in tasks],
                arms,
                alpha=self.alpha,
                lambda_r=self.lambda_r,
                estimator=self.estimator,
                correlated=self._correlated,
            )
            for question in questions
        ]
        estimates = [dict(zip(questions, row, strict=True)) for row in zip(*columns, strict=True)]
        chosen = self._choose(arms, prices, estimates)
        return [
            self._plan(arms, prices, seen, choice) for seen, choice in zip(estimates, chosen, strict=True)
        ]

    def _plan(
        self, arms: tuple[str, ...], prices: Array, estimates: Mapping[str, Estimates], choice: Choice
    ) -> Plan:
        propensity = np.zeros(len(arms))
        for position in choice.arms:
            propensity[position] = 1.0
        return Plan(
            arms=arms,
            costs=prices,
            estimates=estimates,
            weights={question: self._weights(seen) for question, seen in estimates.items()},
            subset=tuple([arms[position] for position in choice.arms]),
            confidence=choice.confidence,
            complete=choice.complete,
            propensity=propensity,
        )

    def ask(self, plan: Plan, votes: Votes) -> tuple[str, ...]:
        """The arms of the plan's subset that were not asked yet."""
        return tuple([arm for arm in plan.subset if arm not in votes])

    def decide(self, plan: Plan, votes: Votes) -> dict[str, Decision]:
        """The answer of the question's aggregation, on each question that has a vote (line 13)."""
        decisions = {}
        for question, estimates in plan.estimates.items():
            cast = {arm: answers[question] for arm, answers in votes.items() if question in answers}
            if not cast:
                continue
            columns = (plan.weights[question], estimates.lower, estimates.correctness)
            ballot = Ballot(cast, *[dict(zip(plan.arms, column.tolist(), strict=True)) for column in columns])
            label, chances = estimates.aggregation.aggregate(ballot, estimates.labels)
            decisions[question] = Decision(label, chances[label], chances)
        return decisions

    def contribution(
        self, plan: Plan, question: str, votes: Votes, label: str, *, human: bool = False
    ) -> Contribution:
        """The :func:`lesson` of the round on ``question``, without arms asked because of the votes."""
        estimates = plan.estimates[question]
        teachers = votes.keys() if plan.stages is None else plan.stages.teachers(human=human)
        cast = {
            arm: answers[question]
            for arm, answers in votes.items()
            if question in answers and arm in teachers
        }
        return lesson(
            estimates.context,
            dict(zip(plan.arms, estimates.q.tolist(), strict=True)),
            cast,
            label,
            human=human,
            reward=estimates.aggregation.reward,
        )

    @property
    def _correlated(self) -> bool:
        """Whether the policy needs to know how the arms depend on each other."""
        return False

    def _choose(
        self, arms: tuple[str, ...], costs: Array, estimates: Sequence[Mapping[str, Estimates]]
    ) -> Sequence[Choice]:
        """Whom to ask first, for each task."""
        return [Choice(range(len(arms)))] * len(estimates)

    def _weights(self, estimates: Estimates) -> Array:
        """The arms' weights in the vote, shape (K,)."""
        return estimates.weights

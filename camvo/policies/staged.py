"""The base classes of policies that ask in stages: one exploration draw, and one use of fits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from camvo.errors import InvalidParameterError
from camvo.policies.background_fits import Fit, FitData, fitted
from camvo.policies.ensemble import Choice, Ensemble
from camvo.policies.estimates import Estimates, Observation
from camvo.policies.plan import Plan
from camvo.stages.exploration import uniform_draw
from camvo.stages.ordered_stages import OrderedStages
from camvo.stages.stages import QuestionStages, Stages, on_question
from camvo.student.taught_texts import STUDENT
from camvo.typing import NO_CONFIDENCES, Array, Confidences, Votes
from camvo.votes.aggregation import Aggregation
from camvo.votes.decision import Decision
from camvo.votes.labels import LABEL_VOTE


@dataclass(frozen=True, kw_only=True)
class Staged(Ensemble):
    """Ask in stages. A subclass defines its stages in :meth:`_staged`, and their class in ``_kind``.

    Attributes:
        everyone: whether all arms are asked, whatever they vote; see :meth:`asking_everyone`.
    """

    _kind: ClassVar[type[Stages[Any]]]

    everyone: bool = field(default=False, init=False)

    def asking_everyone(self) -> Self:
        """The same policy for a task about which all arms are to be asked, as by a draw."""
        policy = replace(self)
        object.__setattr__(policy, "everyone", True)
        return policy

    def linear(self, aggregation: Aggregation) -> bool:
        """Whether the linear models are read: not for labels, whose votes are weighted by other means."""
        return aggregation != LABEL_VOTE

    def assemble(
        self,
        observations: Mapping[str, Observation],
        costs: Mapping[str, float],
        estimates: Mapping[str, Estimates],
        choice: Choice,
    ) -> Plan:
        """Make the plan: draw for exploration, and freeze the weights, the order and the stops."""
        plan = super().assemble(observations, costs, estimates, choice)
        rounds = min(observation.state.rounds for observation in observations.values())
        draw = uniform_draw((observation.context for _, observation in sorted(observations.items())), rounds)
        stages, weights = self._staged(plan, observations, costs, draw)
        return plan.staged(stages, weights)

    def ask(self, plan: Plan, votes: Votes, *, confidences: Confidences = NO_CONFIDENCES) -> tuple[str, ...]:
        """The arms of the next stage; empty if every question can be decided."""
        return self._stages(plan).after(votes, confidences)

    def decide(
        self, plan: Plan, votes: Votes, *, confidences: Confidences = NO_CONFIDENCES
    ) -> dict[str, Decision]:
        """Decide by the weighted vote, corrected by what the policy has learnt of votes."""
        stages, decisions = self._stages(plan), super().decide(plan, votes)
        for question, decision in decisions.items():
            cast = {arm: answers.get(question) for arm, answers in votes.items()}
            labels = plan.estimates[question].labels
            sure = on_question(confidences, question)
            decisions[question] = stages.questions[question].decision(decision, cast, labels, sure)
        return decisions

    def _fit(self, observation: Observation, costs: Mapping[str, float]) -> Fit | None:
        """The fit in the observation, or one computed now; ``None`` if no fit is needed."""
        if observation.fit is not None:
            return observation.fit
        data: FitData | None = self.fit_data(observation, costs)
        return None if data is None else fitted(data)

    def _staged(
        self, plan: Plan, observations: Mapping[str, Observation], costs: Mapping[str, float], draw: float
    ) -> tuple[Stages[QuestionStages], Mapping[str, Array]]:
        """The stages of a task, and question → the weights that the votes will have, each of shape (K,).

        Args:
            plan: the plan so far, without stages.
            observations: question → its observation.
            costs: arm → the expected price of asking it, $.
            draw: the exploration draw, in [0, 1).
        """
        raise NotImplementedError

    def _stages(self, plan: Plan) -> Stages[QuestionStages]:
        if plan.stages is None:
            raise InvalidParameterError("this plan was made by a policy that does not ask in stages")
        if not isinstance(plan.stages, self._kind):
            raise InvalidParameterError("this plan was made by another policy")
        return plan.stages


@dataclass(frozen=True, kw_only=True)
class StagedInOrder(Staged):
    """Ask in stages, in an order that the votes do not change.

    Attributes:
        max_stages: the largest number of stages. 1 asks one set; K can ask the models one after another.
    """

    _kind = OrderedStages

    max_stages: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_stages < 1:
            raise InvalidParameterError(f"max_stages must be at least 1, got {self.max_stages}")

    def stages_of(self, costs: Mapping[str, float]) -> int:
        """The largest number of stages with these arms. The student answers at once, so it adds one."""
        return self.max_stages + (STUDENT in costs)

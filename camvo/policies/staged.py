"""Asking in stages: the exploration draw, and the use of fits and stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Self

from camvo.errors import InvalidParameterError
from camvo.policies.background_fits import Fit, FitData, fitted
from camvo.policies.ensemble import Choice, Ensemble
from camvo.policies.estimates import Estimates, Observation
from camvo.policies.plan import Plan
from camvo.stages.cast import on_question
from camvo.stages.exploration import Exploration, uniform_draw
from camvo.stages.stages import Stages
from camvo.typing import NO_CONFIDENCES, Confidences, Votes
from camvo.votes.aggregation import Aggregation
from camvo.votes.decision import Decision
from camvo.votes.labels import LABEL_VOTE


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
    """Tasks that were planned, and whose votes are not back yet.

    Attributes:
        rounds: how many.
        everyone: how many of them ask all arms.
    """

    rounds: int = 0
    everyone: int = 0


@dataclass(frozen=True, kw_only=True)
class Staged(Ensemble):
    """Ask in stages. A subclass defines its stages in :meth:`_staged`.

    Attributes:
        drawn: the exploration draw of a task that is planned anew between its stages; see :meth:`resumed`.
        waiting: other tasks that explore already; see :meth:`besides`.
        everyone: whether all arms are asked, whatever they vote; see :meth:`asking_everyone`.
    """

    drawn: Drawn | None = field(default=None, init=False, compare=False)
    waiting: Waiting = field(default=Waiting(), init=False, compare=False)

    everyone: bool = field(default=False, init=False, compare=False)

    def asking_everyone(self) -> Self:
        """The same policy for a task about which all arms are to be asked, as by a draw."""
        return self._with("everyone", True)

    def resumed(self, drawn: Drawn) -> Self:
        """The same policy for a task whose first stage was asked earlier: it is not drawn again.

        The later stages are then planned with what has been learnt meanwhile.
        """
        return self._with("drawn", drawn)

    def besides(self, waiting: Waiting) -> Self:
        """The same policy while other tasks wait for votes, so that they do not all explore at once."""
        return self._with("waiting", waiting)

    def in_stages(self, left: int) -> Self:
        """The same policy for a task with so many stages left."""
        return self

    def _with(self, name: str, value: object) -> Self:
        policy = replace(self)
        for kept in fields(self):
            if not kept.init:
                object.__setattr__(policy, kept.name, getattr(self, kept.name))
        object.__setattr__(policy, name, value)
        return policy

    def _explore(self, draw: float, rate: float) -> Drawn:
        """The task's own earlier draw, or a new one, whose first stage is not known yet."""
        if self.everyone:
            return Drawn("everyone", 1.0, ())
        return self.drawn or Drawn("everyone" if draw < rate else "nobody", rate, ())

    def linear(self, aggregation: Aggregation) -> bool:
        """Whether the linear models are read: not for labels, whose votes are weighted by other means."""
        return aggregation != LABEL_VOTE

    def reads_context(self, aggregation: Aggregation) -> bool:
        """Whether it reads the linear models of the context."""
        return self.linear(aggregation)

    def assemble(
        self,
        observations: Mapping[str, Observation],
        costs: Mapping[str, float],
        estimates: Mapping[str, Estimates],
        choice: Choice,
    ) -> Plan:
        """Make the plan: draw for exploration, and freeze the order and the stops."""
        plan = super().assemble(observations, costs, estimates, choice)
        rounds = min(observation.state.rounds for observation in observations.values())
        named = [observation for _, observation in sorted(observations.items())]
        draw = uniform_draw([observation.task or observation.context for observation in named], rounds)
        return plan.staged(self._staged(plan, observations, costs, draw))

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
    ) -> Stages:
        """The stages of a task.

        Args:
            plan: the plan so far, without stages.
            observations: question → its observation.
            costs: arm → the expected price of asking it, $.
            draw: the exploration draw, in [0, 1).
        """
        raise NotImplementedError

    @staticmethod
    def _stages(plan: Plan) -> Stages:
        if plan.stages is None:
            raise InvalidParameterError("this plan was made by a policy that does not ask in stages")
        return plan.stages

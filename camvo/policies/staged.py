"""What policies that ask in stages share: an order, an exploration draw, and one way to learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from camvo.errors import InvalidParameterError
from camvo.policies.background_fits import Fit, FitData, fitted
from camvo.policies.ensemble import Choice, Ensemble
from camvo.policies.estimates import Estimates, Observation
from camvo.policies.plan import Plan
from camvo.stages.exploration import uniform_draw
from camvo.stages.stages import Stages
from camvo.typing import Array, Votes
from camvo.votes.decision import Decision


@dataclass(frozen=True, kw_only=True)
class Staged(Ensemble):
    """Ask in stages. A policy says what its stages are (:meth:`_staged`); the rest is here.

    Attributes:
        max_stages: how often the policy may wait for models. 1 asks one set; K can ask one after another.
    """

    max_stages: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_stages < 1:
            raise InvalidParameterError(f"models are asked in at least one stage, got {self.max_stages}")

    def assemble(
        self,
        observations: Mapping[str, Observation],
        costs: Mapping[str, float],
        estimates: Mapping[str, Estimates],
        choice: Choice,
    ) -> Plan:
        """Freeze weights, order and stops, and draw for exploration. No model has voted yet."""
        plan = super().assemble(observations, costs, estimates, choice)
        rounds = min(observation.state.rounds for observation in observations.values())
        draw = uniform_draw((seen.context for _, seen in sorted(observations.items())), rounds)
        stages, weights = self._staged(plan, observations, costs, draw)
        chance = stages.propensity if isinstance(stages.propensity, float) else stages.propensity[0]
        return plan.staged(stages, weights, chance)

    def ask(self, plan: Plan, votes: Votes) -> tuple[str, ...]:
        """The next stage; none if every question is decided."""
        return self._stages(plan).after(votes)

    def decide(self, plan: Plan, votes: Votes) -> dict[str, Decision]:
        """The weighted vote, corrected by what human labels say as soon as there are any."""
        stages, decisions = self._stages(plan), super().decide(plan, votes)
        for question, decision in decisions.items():
            cast = {arm: answers.get(question) for arm, answers in votes.items()}
            labels = plan.estimates[question].labels
            decisions[question] = stages.questions[question].decision(decision, cast, labels)
        return decisions

    def _fit(self, observation: Observation, costs: Mapping[str, float]) -> Fit | None:
        """The fit that the observation brings, or one that is computed now; ``None`` if none is needed."""
        if observation.fit is not None:
            return observation.fit
        data: FitData | None = self.fit_data(observation, costs)
        return None if data is None else fitted(data)

    def _staged(
        self, plan: Plan, observations: Mapping[str, Observation], costs: Mapping[str, float], draw: float
    ) -> tuple[Stages, Mapping[str, Array]]:
        """The stages, and question → the weights that the votes will have, each of shape (K,)."""
        raise NotImplementedError

    @staticmethod
    def _stages(plan: Plan) -> Stages:
        if plan.stages is None:
            raise InvalidParameterError("the plan was made by a policy that does not ask in stages")
        return plan.stages

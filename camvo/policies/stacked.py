"""The stacked vote as a policy: human labels decide what votes are worth and when to stop asking."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.policies.background_fits import MOST_ROUNDS, StackedFitData
from camvo.policies.estimates import Estimates, Observation
from camvo.policies.plan import Plan
from camvo.policies.staged import Staged
from camvo.stages.asking_order import cheapest_first
from camvo.stages.exploration import explore
from camvo.stages.stack_stops import Stops
from camvo.stages.stages import Stages
from camvo.stages.worth_stages import WorthStages
from camvo.typing import Array
from camvo.votes.labels import LABEL_VOTE

_EXPLORATION: Final = 0.03
"""The probability of asking everyone after the first rounds."""


@dataclass(frozen=True, kw_only=True)
class Stacked(Staged):
    """Ask in stages, the cheapest model first, and let human labels say what the votes are worth.

    Everyone is asked in the first rounds, and later in 3% of the rounds, drawn at random. Those rounds teach
    the weights and the stops. Other rounds teach nothing unless a human labels them: models that are asked
    because others disagree look worse than they are.

    Attributes:
        worth: what one more right label is worth, in prices of asking everyone.
        max_stages: how often the policy may wait for models.
        first: how many rounds ask everyone before any stops early, and again when a model joins. Human
            labels teach most there.

    >>> import camvo
    >>> prices = {"small": 0.1, "large": 5.0}
    >>> policy = camvo.Stacked(first=200)
    >>> question = camvo.Question(("neg", "pos"), prices=prices, dimension=2, policy=policy)
    >>> question.task([1.0, 0.0]).ask()  # everyone, for the first 200 rounds
    ('small', 'large')
    """

    worth: float = 75.0
    first: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (np.isfinite(self.worth) and self.worth > 0.0):
            raise InvalidParameterError(f"a right label is worth something finite, got {self.worth}")
        if self.first < 0:
            raise InvalidParameterError(f"a number of rounds is not negative, got {self.first}")

    def fit_data(self, observation: Observation, costs: Mapping[str, float]) -> StackedFitData | None:
        """The rounds that say what votes are worth, and the prices that say when one more is worth asking."""
        if observation.aggregation != LABEL_VOTE:
            return None
        order, prices = cheapest_first(costs)
        latest = observation.state.kept_rounds.latest(MOST_ROUNDS)
        return StackedFitData(latest, observation.labels, order, prices, 1.0 / self.worth, self.max_stages)

    def _weights(self, estimates: Estimates) -> Array:
        return estimates.agreement

    def _staged(
        self, plan: Plan, observations: Mapping[str, Observation], costs: Mapping[str, float], draw: float
    ) -> tuple[Stages, Mapping[str, Array]]:
        order, _ = cheapest_first(costs)
        complete = [
            observation.state.kept_rounds.everyone_rounds(order)
            for observation in observations.values()
            if observation.aggregation == LABEL_VOTE
        ]
        chance = 1.0 if min(complete, default=0) < self.first else _EXPLORATION
        exploration = explore(draw, chance, chance)
        everyone = Stops((len(order),), (-math.inf,))
        questions, weights = {}, dict(plan.weights)
        for name, observation in observations.items():
            fit = self._fit(observation, costs)
            if fit is None or fit.stops is None:
                questions[name] = WorthStages(everyone, None, observation.labels, {})
                continue
            weights[name] = weights[name] * [fit.shares[arm] for arm in plan.arms]
            questions[name] = WorthStages(
                everyone if exploration == "everyone" else fit.stops,
                fit.stack,
                observation.labels,
                dict(zip(plan.arms, weights[name].tolist(), strict=True)),
            )
        return Stages(order, exploration, chance, len(order), questions), weights

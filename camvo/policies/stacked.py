"""The stacked vote as a policy: human labels teach what votes are worth and when to stop asking."""

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
from camvo.policies.staged import StagedInOrder
from camvo.stages.asking_order import cheapest_first
from camvo.stages.ordered_stages import OrderedStages
from camvo.stages.stack_stops import Stops
from camvo.stages.worth_stages import WorthStages
from camvo.typing import Array
from camvo.votes.labels import LABEL_VOTE

_EXPLORATION: Final = 0.03
"""The probability of asking all models after the first rounds."""


@dataclass(frozen=True, kw_only=True)
class Stacked(StagedInOrder):
    """Ask in stages, the cheapest model first, and learn from human labels what the votes are worth.

    The first rounds ask all models, and later 3% of the rounds do, drawn at random. Those rounds teach the
    weights and the stops. Other rounds teach nothing without a human label, because models that are asked
    only where others disagree look worse than they are.

    Attributes:
        worth: the worth of one more right label, in prices of asking all models; positive and finite.
        max_stages: the largest number of stages.
        first: how many rounds ask all models before any round stops early. It starts again when a model
            joins. Human labels teach most in these rounds.

    >>> import camvo
    >>> prices = {"small": 0.1, "large": 5.0}
    >>> policy = camvo.Stacked(first=200)
    >>> question = camvo.Question(("neg", "pos"), prices=prices, dimension=2, policy=policy)
    >>> question.task([1.0, 0.0]).ask()  # all models, for the first 200 rounds
    ('small', 'large')
    """

    worth: float = 75.0
    first: int = 200

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (np.isfinite(self.worth) and self.worth > 0.0):
            raise InvalidParameterError(f"worth must be positive and finite, got {self.worth}")
        if self.first < 0:
            raise InvalidParameterError(f"first must not be negative, got {self.first}")

    def fit_data(self, observation: Observation, costs: Mapping[str, float]) -> StackedFitData | None:
        """The rounds and prices for a fit of the stacked vote; ``None`` if the votes are not labels."""
        if observation.aggregation != LABEL_VOTE:
            return None
        order, prices = cheapest_first(costs)
        latest = observation.state.kept_rounds.latest(MOST_ROUNDS)
        return StackedFitData(
            latest,
            observation.labels,
            order,
            prices,
            1.0 / self.worth,
            self.stages_of(costs),
            observation.state.confidences.evidence,
        )

    def _weights(self, estimates: Estimates) -> Array:
        return estimates.agreement

    def _staged(
        self, plan: Plan, observations: Mapping[str, Observation], costs: Mapping[str, float], draw: float
    ) -> tuple[OrderedStages, Mapping[str, Array]]:
        order, _ = cheapest_first(costs)
        complete_rounds = [
            observation.state.kept_rounds.everyone_rounds(order)
            for observation in observations.values()
            if observation.aggregation == LABEL_VOTE
        ]
        complete = min(complete_rounds, default=0) + self.waiting.everyone
        rate = 1.0 if complete < self.first else _EXPLORATION
        drawn = self._explore(draw, rate, rate)
        exploration, (rate, _) = drawn.exploration, drawn.rates
        ask_all = Stops((len(order),), (-math.inf,))
        questions, weights = {}, dict(plan.weights)
        for name, observation in observations.items():
            fit = self._fit(observation, costs)
            if fit is None or fit.stops is None:
                questions[name] = WorthStages(ask_all, None, observation.labels, {})
                continue
            weights[name] = weights[name] * [fit.shares[arm] for arm in plan.arms]
            questions[name] = WorthStages(
                ask_all if exploration == "everyone" else fit.stops,
                fit.stack,
                observation.labels,
                dict(zip(plan.arms, weights[name].tolist(), strict=True)),
                fit.grades,
            )
        stages = OrderedStages(
            order=order, exploration=exploration, propensity=rate, questions=questions, moves=len(order)
        )
        return stages, weights

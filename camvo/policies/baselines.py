"""The policies that CaMVo is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.policies.ensemble import Choice, Ensemble
from camvo.policies.estimates import Estimates, Observation
from camvo.policies.plan import Plan
from camvo.stages.exploration import uniform_draw
from camvo.typing import Array


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

    model: str

    def choose(
        self, arms: tuple[str, ...], costs: Mapping[str, float], estimates: Mapping[str, Estimates]
    ) -> Choice:
        """Choose the one model."""
        return _always((self.model,), arms)


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

    def choose(
        self, arms: tuple[str, ...], costs: Mapping[str, float], estimates: Mapping[str, Estimates]
    ) -> Choice:
        """Choose the same models every time."""
        return _always(self.models, arms)


@dataclass(frozen=True, kw_only=True)
class Random(Baseline):
    """Ask models drawn at random, with the weights of Algorithm 2: what a budget buys without a policy.

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

    def choose(
        self, arms: tuple[str, ...], costs: Mapping[str, float], estimates: Mapping[str, Estimates]
    ) -> Choice:
        """Draw models at random."""
        columns = next(iter(estimates.values()))
        draw = uniform_draw((columns.context,), int(columns.rewards.sum()))
        rng = np.random.default_rng(int(2**53 * draw))
        size = max(1, int(self.share * len(arms) + rng.random()))
        return Choice(np.sort(rng.permutation(len(arms))[:size]).tolist())

    def assemble(
        self,
        observations: Mapping[str, Observation],
        costs: Mapping[str, float],
        estimates: Mapping[str, Estimates],
        choice: Choice,
    ) -> Plan:
        """Make the plan; each arm's propensity is the probability that it is drawn."""
        plan = super().assemble(observations, costs, estimates, choice)
        return replace(plan, propensity=np.full(len(costs), max(self.share, 1.0 / len(costs))))


def _always(models: tuple[str, ...], arms: tuple[str, ...]) -> Choice:
    for model in models:
        if model not in arms:
            raise InvalidParameterError(f"the model {model!r} is not in the pool: {', '.join(arms)}")
    return Choice([position for position, arm in enumerate(arms) if arm in models])

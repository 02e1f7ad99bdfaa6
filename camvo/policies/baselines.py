"""The policies that CaMVo is compared with, behind the same interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.policies.ensemble import Choice, Ensemble
from camvo.policies.estimates import Estimates
from camvo.policies.plan import Plan
from camvo.stages.stages import throw
from camvo.typing import Array


@dataclass(frozen=True, kw_only=True)
class Baseline(Ensemble):
    """Algorithm 2: ask every model, weigh its vote by how often it agreed with the label so far.

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
    """Ask every model; each vote counts the same.

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
    """Ask one model and take its word. It learns only where a human has answered.

    Attributes:
        model: the name of the model.

    >>> import camvo
    >>> prices = {"small": 0.1, "large": 5.0}
    >>> policy = camvo.Single(model="small")
    >>> question = camvo.Question(("neg", "pos"), prices=prices, dimension=2, policy=policy)
    >>> question.task([1.0, 0.0]).ask()
    ('small',)
    """

    model: str

    def _choose(
        self, arms: tuple[str, ...], costs: Array, estimates: Sequence[Mapping[str, Estimates]]
    ) -> Sequence[Choice]:
        return [_always((self.model,), arms)] * len(estimates)


@dataclass(frozen=True, kw_only=True)
class Fixed(Baseline):
    """Ask the same models every time, weighed as by Algorithm 2.

    Attributes:
        models: the names of the models, at least one.

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
            raise InvalidParameterError("a fixed subset needs at least one model")

    def _choose(
        self, arms: tuple[str, ...], costs: Array, estimates: Sequence[Mapping[str, Estimates]]
    ) -> Sequence[Choice]:
        return [_always(self.models, arms)] * len(estimates)


@dataclass(frozen=True, kw_only=True)
class Random(Baseline):
    """Ask models drawn by lot, weighed as by Algorithm 2: what money buys without thought.

    Each model is as likely as any other, so the expected cost is ``share`` of that of asking everyone. The
    lot is drawn from the context and from how many rewards there are, so that a replay can be repeated.

    Attributes:
        share: of the K models that are asked, in (0, 1]. Where it is no whole number of models, one more or
            one fewer are asked so that it holds on average; at least one is.

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
            raise InvalidParameterError(f"a share of the models is in (0, 1], got {self.share}")

    def _choose(
        self, arms: tuple[str, ...], costs: Array, estimates: Sequence[Mapping[str, Estimates]]
    ) -> Sequence[Choice]:
        return [self._drawn(len(arms), next(iter(seen.values()))) for seen in estimates]

    def _drawn(self, arms: int, seen: Estimates) -> Choice:
        rng = np.random.default_rng(int(2**53 * throw((seen.context,), int(seen.rewards.sum()))))
        size = max(1, int(self.share * arms + rng.random()))
        return Choice(np.sort(rng.permutation(arms)[:size]).tolist())

    def _plan(
        self, arms: tuple[str, ...], prices: Array, estimates: Mapping[str, Estimates], choice: Choice
    ) -> Plan:
        chance = max(self.share, 1.0 / len(arms))
        return replace(super()._plan(arms, prices, estimates, choice), propensity=np.full(len(arms), chance))


def _always(models: tuple[str, ...], arms: tuple[str, ...]) -> Choice:
    for model in models:
        if model not in arms:
            raise InvalidParameterError(f"the model {model!r} is not among {', '.join(arms)}")
    return Choice([position for position, arm in enumerate(arms) if arm in models])

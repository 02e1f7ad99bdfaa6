"""What kept rounds say about one question: what votes are worth, and when to stop asking.

A fit takes up to a second, so it can run in the background. :class:`FitData` is a value that no later round
changes. A plan takes the :class:`Fit` that its observation brings.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Protocol

import numpy as np

from camvo.stages.stack_stops import Stops, learn
from camvo.state.kept_rounds import LatestRounds
from camvo.weights.near_copies import near_copies_in
from camvo.weights.stacking import StackedVote
from camvo.weights.stacking_fit import ANCHORED, fit_stacked_vote

MOST_ROUNDS: Final = 5000
"""How many of the latest kept rounds a fit reads."""


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """What was found. Hashed by identity.

    Attributes:
        stack: what human labels say about votes.
        stops: where to pause and when to stop; ``None`` if the policy learns its stops otherwise.
        shares: arm → the part of its weight that it has beside its near-copies, in (0, 1].
    """

    stack: StackedVote
    stops: Stops | None = None
    shares: Mapping[str, float] = field(default_factory=dict)


class FitData(Hashable, Protocol):
    """What a fit is made from: the rounds, and whatever else its outcome depends on."""

    @property
    def basis(self) -> Hashable:
        """What the outcome changes with: while it is the same, a new fit would say nearly the same."""
        ...

    @property
    def kind(self) -> Hashable:
        """What the fit is about: a fit of another kind cannot be used in its place."""
        ...

    def compute(self) -> Fit:
        """The fit, computed anew; :func:`fitted` computes it once."""
        ...


@lru_cache(maxsize=32)
def fitted(data: FitData) -> Fit:
    """The fit of the data; the latest ones are kept, and computed once."""
    return data.compute()


@dataclass(frozen=True, slots=True)
class WeightsFitData:
    """What human labels say about the weights of votes, independently of the label voted for.

    Attributes:
        latest: the rounds.
        labels: the label set.
        weights: (arm, ω) as it would be without human labels; an arm without a weight has no vote.
    """

    latest: LatestRounds
    labels: tuple[str, ...]
    weights: tuple[tuple[str, float], ...]

    @property
    def basis(self) -> Hashable:
        """The rounds, and the weights without human labels."""
        return self.latest, frozenset(self.weights)

    @property
    def kind(self) -> Hashable:
        """The label set and the arms."""
        return self.labels, frozenset(arm for arm, _ in self.weights)

    def compute(self) -> Fit:
        """What speaks for a label."""
        weights = dict(self.weights)
        return Fit(
            fit_stacked_vote(
                [round_.weighted(weights) for round_ in self.latest.rounds], self.labels, ANCHORED
            )
        )


@dataclass(frozen=True, slots=True)
class StackedFitData:
    """What the stacked vote and its stops are learnt from.

    Attributes:
        latest: the rounds.
        labels: the label set.
        order: the arms, in the order of asking.
        prices: what asking each of them costs, as a share of asking all.
        price: λ, the probability of a right label that is worth asking everyone.
        max_stages: how often the policy may wait for models.
    """

    latest: LatestRounds
    labels: tuple[str, ...]
    order: tuple[str, ...]
    prices: tuple[float, ...]
    price: float
    max_stages: int

    @property
    def basis(self) -> Hashable:
        """The rounds."""
        return self.latest

    @property
    def kind(self) -> Hashable:
        """Everything but the rounds and the arms' prices: tasks of other lengths are stopped alike."""
        return self.labels, self.order, self.price, self.max_stages

    def compute(self) -> Fit:
        """The stacked vote and its stops."""
        stack = _stack(self.latest, self.labels)
        stops = learn(
            stack,
            self.latest.rounds,
            self.order,
            self.prices,
            self.labels,
            price=self.price,
            max_stages=self.max_stages,
        )
        return Fit(stack, stops, _shares(self.latest, self.labels, self.order))


@lru_cache(maxsize=16)
def _stack(latest: LatestRounds, labels: tuple[str, ...]) -> StackedVote:
    """Tasks of other lengths have other prices, but the same stacked vote."""
    return fit_stacked_vote(latest.rounds, labels)


def _shares(latest: LatestRounds, labels: tuple[str, ...], order: tuple[str, ...]) -> dict[str, float]:
    """Near-copies share a seat: together they weigh what one of them would."""
    positions = {label: position for position, label in enumerate(labels)}
    rounds = [{vote.arm: vote.label for vote in round_.votes} for round_ in latest.rounds if round_.everyone]
    votes = [[positions.get(votes.get(arm) or "", -1) for arm in order] for votes in rounds]
    seats = near_copies_in(np.array(votes, dtype=np.int64).reshape(len(votes), len(order)))
    return {arm: 1.0 / seats.count(seat) for arm, seat in zip(order, seats, strict=True)}

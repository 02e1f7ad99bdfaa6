"""What the rounds that are kept whole say about one question: what votes are worth, and when to stop asking.

It takes up to a second, so it can be worked out apart from planning: a :class:`Material` is a value that no
later round changes, and a plan takes the study of it that it is given.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Protocol, TypeAlias

import numpy as np

from camvo.stages.stack_stops import Stops, learn
from camvo.state.kept_rounds import Head
from camvo.weights.near_copies import near_copies_in
from camvo.weights.stacking import StackedVote
from camvo.weights.stacking_fit import ANCHORED, fit_stacked_vote


@dataclass(frozen=True, slots=True)
class StackedStudy:
    """What was found for the stacked vote.

    Attributes:
        stack: what decides.
        stops: where to pause and when to stop.
        shares: for each arm, the part of its weight that it has beside its near-copies, in (0, 1].
    """

    stack: StackedVote
    stops: Stops
    shares: Mapping[str, float]


MOST_ROWS: Final = 5000
"""The latest rounds that are kept whole at which a study looks."""

Study: TypeAlias = StackedVote | StackedStudy
"""What a policy's material was found to say; each policy knows its own kind."""


class Material(Protocol):
    """What a study is made of: the rounds, and whatever else its outcome hangs on."""

    @property
    def basis(self) -> Hashable:
        """What the outcome changes with: while it is the same, a new study would say nearly the same."""
        ...

    @property
    def kind(self) -> Hashable:
        """What a study is of: one of another kind is no use in its place."""
        ...

    def study(self) -> Study:
        """The study of it; the latest ones are kept, and made once."""
        ...


@dataclass(frozen=True, slots=True)
class WeightsMaterial:
    """What human labels say about the weights of a vote, whatever label it is for.

    Attributes:
        head: the rounds.
        labels: the label set.
        weights: arm → ω as it would be without human labels; an arm without a weight has no vote.
    """

    head: Head
    labels: tuple[str, ...]
    weights: tuple[tuple[str, float], ...]

    @property
    def basis(self) -> Hashable:
        """The rounds, and the weights without human labels."""
        return self.head, frozenset(self.weights)

    @property
    def kind(self) -> Hashable:
        """The label set and the arms."""
        return self.labels, frozenset(arm for arm, _ in self.weights)

    def study(self) -> StackedVote:
        """What speaks for a label."""
        return _weigh(self)


@dataclass(frozen=True, slots=True)
class StackedMaterial:
    """What the stacked vote and its stops are learnt from.

    Attributes:
        head: the rounds.
        labels: the label set.
        order: the arms in the order in which they are asked.
        prices: what asking each of them costs, of the cost of all.
        price: λ, the probability of a right label that is worth asking everyone.
        max_stages: how often models may be waited for.
    """

    head: Head
    labels: tuple[str, ...]
    order: tuple[str, ...]
    prices: tuple[float, ...]
    price: float
    max_stages: int

    @property
    def basis(self) -> Hashable:
        """The rounds."""
        return self.head

    @property
    def kind(self) -> Hashable:
        """All but the rounds and the prices of the arms: tasks of other lengths are stopped alike."""
        return self.labels, self.order, self.price, self.max_stages

    def study(self) -> StackedStudy:
        """The stacked vote and its stops."""
        return _study(self)


@lru_cache(maxsize=16)
def _weigh(material: WeightsMaterial) -> StackedVote:
    weights = dict(material.weights)
    rows = [row.weighted(weights) for row in material.head.rows]
    return fit_stacked_vote(rows, material.labels, ANCHORED)


@lru_cache(maxsize=16)
def _study(material: StackedMaterial) -> StackedStudy:
    head, labels, order = material.head, material.labels, material.order
    stack = _fit(head, labels)
    stops = learn(
        stack,
        head.rows,
        order,
        material.prices,
        labels,
        price=material.price,
        max_stages=material.max_stages,
    )
    return StackedStudy(stack, stops, _shares(head, labels, order))


@lru_cache(maxsize=16)
def _fit(head: Head, labels: tuple[str, ...]) -> StackedVote:
    return fit_stacked_vote(head.rows, labels)


def _shares(head: Head, labels: tuple[str, ...], order: tuple[str, ...]) -> dict[str, float]:
    """Near-copies share a seat: together they weigh what one of them would."""
    at = {label: position for position, label in enumerate(labels)}
    rounds = [{vote.arm: vote.label for vote in row.votes} for row in head.rows if row.everyone]
    votes = [[at.get(said.get(arm) or "", -1) for arm in order] for said in rounds]
    seats = near_copies_in(np.array(votes, dtype=np.int64).reshape(len(votes), len(order)))
    return {arm: 1.0 / seats.count(seat) for arm, seat in zip(order, seats, strict=True)}

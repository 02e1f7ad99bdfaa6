"""What the rounds that are kept whole say about one question: the stacked vote, and when to stop asking.

It takes up to a second, so it can be worked out apart from planning: :class:`Material` is a value that no
later round changes, and a plan takes the :class:`Study` that it is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from camvo.near_copies import near_copies_in
from camvo.rows import Head
from camvo.stack_stops import Stops, learn
from camvo.stacking import Stack, fit


@dataclass(frozen=True, slots=True)
class Study:
    """What was found.

    Attributes:
        stack: what decides.
        stops: where to pause and when to stop.
        shares: for each arm, the part of its weight that it has beside its near-copies, in (0, 1].
    """

    stack: Stack
    stops: Stops
    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Material:
    """What a study is made of.

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

    def study(self) -> Study:
        """The study of it; the latest ones are kept, and made once."""
        return _study(self)


@lru_cache(maxsize=16)
def _study(material: Material) -> Study:
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
    return Study(stack, stops, _shares(head, labels, order))


@lru_cache(maxsize=16)
def _fit(head: Head, labels: tuple[str, ...]) -> Stack:
    return fit(head.rows, labels)


def _shares(head: Head, labels: tuple[str, ...], order: tuple[str, ...]) -> dict[str, float]:
    """Near-copies share a seat: together they weigh what one of them would."""
    at = {label: position for position, label in enumerate(labels)}
    rounds = [{vote.arm: vote.label for vote in row.votes} for row in head.rows if row.everyone]
    votes = [[at.get(said.get(arm) or "", -1) for arm in order] for said in rounds]
    seats = near_copies_in(np.array(votes, dtype=np.int64).reshape(len(votes), len(order)))
    return {arm: 1.0 / seats.count(seat) for arm, seat in zip(order, seats, strict=True)}

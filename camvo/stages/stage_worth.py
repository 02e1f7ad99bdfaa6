"""Which arms to ask together where only a few stages are left, such as rounds of providers' batches.

:mod:`camvo.joint.plans.worth` asks one arm after another. With few stages, arms have to be asked at the
same time: every set of arms is weighed, by what the best plan for the remaining stages makes of its votes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from camvo.joint.beliefs import Beliefs
from camvo.joint.plans.worth import NEVER, RIGHT_LABELS, Stops, rounded
from camvo.numerics.tolerances import TIE
from camvo.typing import Array


@dataclass(frozen=True, slots=True, eq=False)
class _ArmStep:
    """Asking one arm at all nodes at which it has not voted.

    Attributes:
        nodes: the nodes, shape (n,).
        following: the node after each vote, shape (G, n).
        votes: the probability of each vote, shape (G, n), 0 if impossible.
    """

    nodes: NDArray[np.int64]
    following: NDArray[np.int64]
    votes: Array

    def expected(self, value: Array) -> Array:
        """The expected value after the vote, shape (N,); :data:`NEVER` where the arm has voted."""
        expected = np.full(len(value), NEVER)
        expected[self.nodes] = (self.votes * value[self.following]).sum(axis=0)
        return expected


@dataclass(frozen=True, slots=True, eq=False)
class StageWorth:
    """The best plan in stages for one list of prices.

    Attributes:
        steps: for each of the K arms, what asking it leads to.
        prices: the price of each arm in the unit of value, length K.
        stopping: the value of stopping at each node, shape (N,).
        later: the value of each node after the next stage, shape (N,).
        value: the value of each node before it, shape (N,).
        sets: the sets of arms.
        choice: the set to ask at each node, −1 to stop, shape (N,).
    """

    steps: tuple[_ArmStep, ...]
    prices: tuple[float, ...]
    stopping: Array
    later: Array
    value: Array
    sets: tuple[tuple[int, ...], ...]
    choice: NDArray[np.int64]

    def together(self, node: int, allowed: Sequence[int]) -> tuple[int, ...]:
        """The arms to ask now at a node; empty to stop.

        Args:
            node: the votes so far.
            allowed: the arms that may be asked; one that gave no vote is not asked again.
        """
        choice = int(self.choice[node])
        if choice < 0 or set(self.sets[choice]) <= set(allowed):
            return () if choice < 0 else self.sets[choice]
        best: tuple[int, ...] = ()
        stopping = float(self.stopping[node])
        for arms, values in _values_by_set(self.steps, self.prices, self.later, allowed):
            if values[node] > stopping + TIE:
                stopping, best = float(values[node]), arms
        return best


def plan_by_stages(
    beliefs: Beliefs, prices: Sequence[float], stages: int, stops: Stops = RIGHT_LABELS
) -> StageWorth:
    """Compute the best plan for so many stages, the next one included.

    Args:
        beliefs: the beliefs at the nodes of K arms.
        prices: the price of each arm in the unit of ``stops``, length K; rounded to steps of 5%, so that
            tasks of different lengths share a plan.
        stages: at least 1.
        stops: what stopping is worth.
    """
    return _plan(beliefs, rounded(tuple(prices)), stages, stops)


@lru_cache(maxsize=64)
def _plan(beliefs: Beliefs, prices: tuple[float, ...], stages: int, stops: Stops) -> StageWorth:
    voted = (beliefs.lattice.rows >= 0).any(axis=1)
    stopping = np.where(voted, stops.stopping(beliefs), NEVER)
    later = stopping if stages == 1 else _plan(beliefs, prices, stages - 1, stops).value
    steps, value = _arm_steps(beliefs), stopping.copy()
    choice = np.full(len(value), -1, dtype=np.int64)
    by_set = _values_by_set(steps, prices, later, range(len(prices)))
    for place, (_, asked) in enumerate(by_set):
        better = asked > value + TIE
        value[better], choice[better] = asked[better], place
    return StageWorth(steps, prices, stopping, later, value, tuple([arms for arms, _ in by_set]), choice)


def _values_by_set(
    steps: Sequence[_ArmStep], prices: Sequence[float], value: Array, arms: Sequence[int]
) -> list[tuple[tuple[int, ...], Array]]:
    """The value of asking each set of arms together at every node, less its price."""
    after: list[tuple[tuple[int, ...], Array, float]] = [((), value, 0.0)]
    for arm in arms:
        after += [
            ((*others, arm), steps[arm].expected(expected), paid + prices[arm])
            for others, expected, paid in after
        ]
    return [(others, expected - paid) for others, expected, paid in after[1:]]


@lru_cache(maxsize=16)
def _arm_steps(beliefs: Beliefs) -> tuple[_ArmStep, ...]:
    by_arm: dict[int, list[tuple[NDArray[np.int64], NDArray[np.int64], Array]]] = {}
    for level, level_votes in zip(beliefs.lattice.steps, beliefs.votes, strict=True):
        for step, votes in zip(level, level_votes, strict=True):
            by_arm.setdefault(step.arm, []).append((step.nodes, step.following, votes))
    return tuple(
        _ArmStep(
            np.concatenate([nodes for nodes, _, _ in by_arm[arm]]),
            np.concatenate([following for _, following, _ in by_arm[arm]], axis=1),
            np.concatenate([votes for _, _, votes in by_arm[arm]], axis=1),
        )
        for arm in sorted(by_arm)
    )

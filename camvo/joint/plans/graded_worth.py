"""Which arm to ask next where arms say how sure they are.

The plan of :mod:`camvo.joint.plans.worth` knows votes only. A vote's confidence tilts the odds of its label
on top of that. At each node the tilt is one number: how much the log-odds of the node's most probable label
have moved. The value of a node is computed for a row of tilts, and read between them. Asking an arm leads to
a node, and to a tilt for each grade of confidence that the arm may have, as likely as it was before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from camvo.joint.beliefs import Beliefs
from camvo.joint.lattice import Step
from camvo.joint.plans.worth import rounded
from camvo.numerics.tolerances import EPSILON, TIE
from camvo.typing import Array

TILTS: Final[Array] = np.asarray(np.linspace(-6.0, 6.0, 17), dtype=np.float64)
"""The tilts for which the value of a node is known, in nats."""

_PITCH: Final = float(TILTS[1] - TILTS[0])

ArmGrades = tuple[tuple[tuple[float, float, float], ...], ...]
"""One arm's grades for each number: (tilt of the vote's label, P(grade | right), P(grade | wrong)).

With two labels there is an entry for each label; else one entry serves all numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class GradedWorth:
    """The best plan for one list of prices, by node and tilt.

    Attributes:
        beliefs: what is believed at the N nodes by votes alone.
        grades: the grades of each of the K arms.
        asking: the value of asking each arm, in right labels, shape (K, T, N); −∞ for an arm that has voted.
        stopping: the value of stopping, shape (T, N); −∞ where nobody has voted.
    """

    beliefs: Beliefs
    grades: tuple[ArmGrades, ...]
    asking: Array
    stopping: Array
    _together: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict, repr=False)

    def at(self, node: int, tilt: float) -> tuple[float, list[float]]:
        """The value of stopping, and of asking each arm."""
        low, share = _between(np.array(tilt))
        below, above = (
            np.array([self.stopping[at, node], *self.asking[:, at, node]]) for at in (low, low + 1)
        )
        known = np.isfinite(below) & np.isfinite(above)
        between = below + share * np.where(known, above - np.where(known, below, 0.0), 0.0)
        stopping, *asking = np.where(known, between, -np.inf).tolist()
        return stopping, asking

    def together(self, node: int, tilt: float) -> tuple[int, ...]:
        """The arms to ask now: the best one, and those that are asked next whatever it says.

        Empty if stopping is better.
        """
        key = node, int(np.rint((np.clip(tilt, TILTS[0], TILTS[-1]) - TILTS[0]) / _PITCH))
        if key not in self._together:
            self._together[key] = tuple(self._asked_from(*key))
        return self._together[key]

    def _asked_from(self, node: int, tilt: int) -> list[int]:
        asked: list[int] = []
        nodes, tilts = np.array([node]), np.array([tilt])
        while len(nodes):
            values = self.asking[:, tilts, nodes]
            best = values.argmax(axis=0)
            further = values.max(axis=0) > self.stopping[tilts, nodes] + TIE
            wanted = np.unique(np.where(further, best, -1))
            if len(wanted) != 1 or wanted[0] < 0:
                break
            asked.append(int(wanted[0]))
            nodes, tilts = self._after(nodes, tilts, asked[-1])
        return asked

    def _after(
        self, nodes: NDArray[np.int64], tilts: NDArray[np.int64], arm: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        following = self.beliefs.lattice.after[arm][:, nodes]
        move = _Move.of(self.beliefs, arm, nodes, following)
        found = set()
        for grade in range(max(map(len, self.grades[arm]))):
            raised, _, _ = _grade(self.grades[arm], grade, len(following))
            tilted = move.tilt(np.asarray(TILTS[tilts][None]), raised[:, None])
            index = np.rint((np.clip(tilted, TILTS[0], TILTS[-1]) - TILTS[0]) / _PITCH).astype(np.int64)
            possible = following >= 0
            found |= set(zip(following[possible].tolist(), index[possible].tolist(), strict=True))
        pairs = np.array(sorted(found), dtype=np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]


def plan_by_graded_worth(
    beliefs: Beliefs, prices: tuple[float, ...], grades: tuple[ArmGrades, ...]
) -> GradedWorth:
    """Compute the best plan, for rounded prices: it takes far longer than one without confidences.

    Args:
        beliefs: the beliefs at the nodes of K arms by votes alone.
        prices: the price of each arm in right labels, length K.
        grades: the grades of each arm, length K. An arm without confidences has one grade without a tilt.
    """
    return _plan(beliefs, rounded(prices), grades)


@lru_cache(maxsize=64)
def _plan(beliefs: Beliefs, prices: tuple[float, ...], grades: tuple[ArmGrades, ...]) -> GradedWorth:
    """Compute the best plan, from the nodes where all arms have voted back to the node without votes."""
    lattice = beliefs.lattice
    nodes, arms = lattice.rows.shape
    stopping = np.where((lattice.rows >= 0).any(axis=1), _surest(beliefs.right), -np.inf)
    value = stopping.copy()
    asking = np.full((arms, len(TILTS), nodes), -np.inf)
    for level, level_votes in zip(lattice.steps, beliefs.votes, strict=True):
        for step, votes in zip(level, level_votes, strict=True):
            gained = _expected(beliefs, step, votes, grades[step.arm], value)
            asking[step.arm][:, step.nodes] = gained - prices[step.arm]
        at = np.unique(np.concatenate([step.nodes for step in level]))
        best = asking[:, :, at].max(axis=0)
        value[:, at] = np.where(best > value[:, at] + TIE, best, value[:, at])
    return GradedWorth(beliefs, grades, asking, stopping)


def _surest(right: Array) -> Array:
    """The probability of the most probable label at each tilt, shape (T, N)."""
    ordered = np.sort(right, axis=1)
    first, second = ordered[:, -1], ordered[:, -2] if right.shape[1] > 1 else 0.0 * ordered[:, -1]
    odds = np.exp(TILTS)[:, None]
    return np.asarray(np.maximum(odds * first, second) / (odds * first + 1.0 - first))


def _expected(beliefs: Beliefs, step: Step, votes: Array, grades: ArmGrades, value: Array) -> Array:
    """The expected value after asking an arm at some nodes, shape (T, n)."""
    following = np.maximum(step.following, 0)
    move = _Move.of(beliefs, step.arm, step.nodes, step.following)
    tilts: Array = TILTS[:, None, None]
    mass = 1.0 + move.lead * np.expm1(tilts)
    chance = votes * mass
    chance = chance / np.maximum(chance.sum(axis=1, keepdims=True), EPSILON)
    right = move.own * np.where(move.same, np.exp(tilts), 1.0) / mass
    total = np.zeros((len(TILTS), len(step.nodes)))
    known = np.where(np.isfinite(value), value, 0.0)
    for grade in range(max(map(len, grades))):
        raised, if_right, if_wrong = (part[:, None] for part in _grade(grades, grade, len(votes)))
        likely = right * if_right + (1.0 - right) * if_wrong
        low, share = _between(move.tilt(tilts, raised))
        reached = known[low, following] * (1.0 - share) + known[low + 1, following] * share
        total += (chance * likely * np.where(step.following >= 0, reached, 0.0)).sum(axis=1)
    return total


@dataclass(frozen=True, slots=True, eq=False)
class _Move:
    """What a vote of one arm changes at n nodes, for each of the G numbers it may name: shapes (G, n).

    Attributes:
        lead: afterwards, the probability of the label that was the most probable one before.
        own: afterwards, the probability of the vote's own label.
        new: the probability of the label that is the most probable one afterwards.
        same: whether the vote is for the label that was the most probable one before.
        stays: whether that label is the most probable one afterwards.
        leads: whether the vote's label is the most probable one afterwards.
    """

    lead: Array
    own: Array
    new: Array
    same: NDArray[np.bool_]
    stays: NDArray[np.bool_]
    leads: NDArray[np.bool_]

    @classmethod
    def of(cls, beliefs: Beliefs, arm: int, nodes: NDArray[np.int64], following: NDArray[np.int64]) -> _Move:
        lattice, right = beliefs.lattice, beliefs.right
        after = np.maximum(following, 0)
        before = right[nodes].argmax(axis=1)
        if lattice.named:
            known = np.full(len(nodes), True)
            lead = np.broadcast_to(before, following.shape)
            own = np.broadcast_to(np.arange(len(following))[:, None], following.shape)
        else:
            # Numbers may change with the new vote, so an arm that voted for the label stands for it.
            voters = lattice.rows[nodes] == before[:, None]
            known = voters.any(axis=1)
            lead = np.maximum(lattice.rows[after, voters.argmax(axis=1)], 0)
            own = np.maximum(lattice.rows[after, arm], 0)
        leader = right[after].argmax(axis=2)
        return cls(
            np.where(known, right[after, lead], 0.0),
            right[after, own],
            right[after, leader],
            known & (lead == own),
            known & (leader == lead),
            leader == own,
        )

    def tilt(self, tilts: Array, raised: Array) -> Array:
        """The tilt afterwards, from the tilt before and what the confidence adds to the vote's label."""
        both = np.where(self.same, np.expm1(tilts + raised), np.expm1(tilts))
        mass = 1.0 + self.lead * both + np.where(self.same, 0.0, self.own * np.expm1(raised))
        moved = np.where(self.stays, tilts, 0.0) + np.where(self.leads, raised, 0.0)
        top = np.clip(self.new, EPSILON, 1.0 - EPSILON)
        tilted = np.clip(top * np.exp(moved) / mass, EPSILON, 1.0 - EPSILON)
        return np.asarray(np.log(tilted / (1.0 - tilted)) - np.log(top / (1.0 - top)))


def _grade(grades: ArmGrades, grade: int, numbers: int) -> tuple[Array, Array, Array]:
    """One grade's tilt and probabilities for each number; probability 0 for a label without that grade."""
    by_number: Sequence[tuple[tuple[float, float, float], ...]] = (
        grades if len(grades) == numbers else grades[:1] * numbers
    )
    rows = [entry[grade] if grade < len(entry) else (0.0, 0.0, 0.0) for entry in by_number]
    tilts, if_right, if_wrong = np.array(rows).T
    return tilts, if_right, if_wrong


def _between(tilts: Array) -> tuple[NDArray[np.int64], Array]:
    """The position of the tilt below, and how far each tilt is on the way to the next, in [0, 1]."""
    at = (np.clip(tilts, TILTS[0], TILTS[-1]) - TILTS[0]) / _PITCH
    low = np.minimum(at.astype(np.int64), len(TILTS) - 2)
    return low, at - low

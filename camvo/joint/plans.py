"""Which arm to ask next, and when to stop: the best plan over the lattice, computed backwards.

Stopping at a node is worth the probability of its most probable label, or what other stops say
(:class:`Stops`). Asking an arm is worth the expected value of the node that its vote leads to, less its
price. Prices are converted by the worth of a right label. The plan considers every order of asking and every
vote that may follow. So it does not stop just because the next vote alone would change nothing, and it does
not ask expensive arms after cheap ones have settled the label.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from camvo.joint.beliefs import Beliefs, Misses
from camvo.joint.lattice import Step
from camvo.joint.votes import Rows, renumber
from camvo.numerics.small import EPSILON, TIE
from camvo.state.exploration import UNASKED
from camvo.typing import Array

_STEP: Final = 0.05
"""The steps of the logarithms of rounded prices."""

NEVER: Final = -1e9
"""The value of an impossible step. It is finite, so that its product with a probability of 0 is 0."""

_NOT_AGAIN: Final = 1e9
"""The price of an arm that was asked and gave no vote. It is finite, since prices may be rounded."""


def prices_without(
    silent: Collection[Hashable], arms: Iterable[Hashable], prices: Iterable[float]
) -> tuple[float, ...]:
    """The prices of arms, prohibitive for those that gave no vote: a plan must not count on their votes."""
    return tuple([_NOT_AGAIN if arm in silent else price for arm, price in zip(arms, prices, strict=True)])


_CAUTION_ROUNDS: Final = 200.0


def caution(everyone: float) -> float:
    """As how many right labels one counts in plans fitted to ``everyone`` rounds that asked all arms.

    It is 2 after 200 rounds, larger after fewer, and approaches 1 after many. A model fitted to few rounds
    has errors, and choosing its best plan favours errors that make it stop too early.
    """
    return 1.0 + _CAUTION_ROUNDS / max(everyone, 1.0)


class Stops(Hashable, Protocol):
    """What stopping is worth, in any unit of value. Hashable, because plans are cached."""

    def stopping(self, beliefs: Beliefs) -> Array:
        """The value of stopping at each node with a vote, shape (N,)."""
        ...

    def finishing(self, beliefs: Beliefs, prices: Sequence[float]) -> Array | None:
        """The value of asking all arms that are left, also those outside the lattice, shape (N,).

        ``None`` if that is never considered. ``prices`` are those of the lattice's arms, in the unit of
        value.
        """
        ...


class _RightLabels:
    """Stopping is worth the probability of the most probable label. The unit of value is a right label."""

    def stopping(self, beliefs: Beliefs) -> Array:
        """See :meth:`Stops.stopping`."""
        return beliefs.surest

    def finishing(self, beliefs: Beliefs, prices: Sequence[float]) -> Array | None:
        """``None``."""
        return None


RIGHT_LABELS: Final[Stops] = _RightLabels()


@dataclass(frozen=True, slots=True, eq=False)
class Worth:
    """The best plan for one list of prices.

    Attributes:
        beliefs: what is believed at the nodes.
        asking: the value of asking each arm at each node and of acting best from then on, shape (N, K); −∞
            for an arm that has voted.
        stopping: the value of stopping at each node, shape (N,); −∞ where nobody has voted.
        next_arm: the best arm to ask at each node, −1 to stop or to ask all that are left, shape (N,).
        finishing: the value of asking all arms that are left, shape (N,); ``None`` if it is not considered.
    """

    beliefs: Beliefs
    asking: Array
    stopping: Array
    next_arm: NDArray[np.int64]
    finishing: Array | None = None
    _together: dict[int, tuple[int, ...]] = field(default_factory=dict, repr=False)

    def at(self, node: int, tilt: float) -> tuple[float, list[float]]:
        """The value of stopping, and of asking each arm. Confidences, which tilt beliefs, are not known."""
        return float(self.stopping[node]), self.asking[node].tolist()

    def finishes(self, node: int, left: Sequence[int]) -> bool:
        """Whether all arms that are left are asked now, also those that the plan does not know.

        This is the case if asking one after another would cost as much. An arm that gave no vote is not left.
        """
        if self.finishing is None:
            return False
        other = max(self.stopping[node], self.asking[node][[*left]].max(initial=-np.inf))
        return bool(self.finishing[node] >= other - TIE)

    def together(self, node: int, tilt: float = 0.0) -> tuple[int, ...]:
        """The arms to ask now: the best one, and those that are asked next whatever it votes.

        Empty if stopping is better, or asking all that are left.
        """
        if node not in self._together:
            self._together[node] = tuple(self._asked_from(node))
        return self._together[node]

    def _asked_from(self, node: int) -> Iterator[int]:
        frontier = np.array([node])
        while True:  # each time round another arm has voted; after the last one nobody is asked
            wanted = np.unique(self.next_arm[frontier])
            if len(wanted) != 1 or wanted[0] < 0:
                return
            yield int(wanted[0])
            after = np.unique(self.beliefs.lattice.after[wanted[0]][:, frontier])
            frontier = after[after >= 0]


def rounded(prices: tuple[float, ...]) -> tuple[float, ...]:
    """Prices in steps of 5%, so that tasks of nearly the same length share a plan: plans are slow to make."""
    return tuple([math.exp(_STEP * round(math.log(price) / _STEP)) if price else 0.0 for price in prices])


_QUICK_NODES: Final = 5000
"""With more nodes, as with seven models and a student, a plan takes some 5 ms, and prices are rounded."""


def quick_prices(beliefs: Beliefs, prices: tuple[float, ...]) -> tuple[float, ...]:
    """The prices by which one task is planned: rounded where plans are slow to make."""
    return prices if len(beliefs.right) <= _QUICK_NODES else rounded(prices)


def plan_once(beliefs: Beliefs, prices: tuple[float, ...], stops: Stops = RIGHT_LABELS) -> Worth:
    """Compute the best plan, from the nodes where all arms have voted back to the node without votes.

    ``prices`` are those of the K arms, in the unit of ``stops``.
    """
    lattice = beliefs.lattice
    nodes, arms = lattice.rows.shape
    stopping = np.where((lattice.rows >= 0).any(axis=1), stops.stopping(beliefs), -np.inf)
    finishing = stops.finishing(beliefs, prices)
    value = stopping.copy() if finishing is None else np.maximum(stopping, finishing)
    asking = np.full((nodes, arms), -np.inf)
    next_arm = np.full(nodes, -1, dtype=np.int64)
    for at, level, level_votes in zip(lattice.levels, lattice.steps, beliefs.votes, strict=True):
        for step, votes in zip(level, level_votes, strict=True):
            # A vote that cannot follow has probability 0, whatever the value of the last node.
            asking[step.nodes, step.arm] = (votes * value[step.following]).sum(axis=0) - prices[step.arm]
        best = asking[at].argmax(axis=1)
        gained = asking[at, best]
        further = gained > value[at] + TIE
        next_arm[at] = np.where(further, best, -1)
        value[at] = np.where(further, gained, value[at])
    return Worth(beliefs, asking, stopping, next_arm, finishing)


plan_by_worth = lru_cache(maxsize=64)(plan_once)
"""The best plan, kept for further tasks."""


_BISECTION_STEP: Final = 1.25
_STEPS: Final = 48
"""Multipliers are powers of 1.25, up to 45,000: tasks of nearly the same allowance share one plan."""


def expected_along(plan: Worth, beliefs: Beliefs, asking: Sequence[float], stopping: Array) -> float:
    """What a task that follows a plan adds up to on average.

    The plan may be that of other beliefs with the same lattice. ``asking`` is what each of the K arms adds if
    it is asked, and ``stopping`` what the node adds at which the task stops, shape (N,).
    """
    total = stopping.copy()
    for level, level_votes in zip(beliefs.lattice.steps, beliefs.votes, strict=True):
        for step, votes in zip(level, level_votes, strict=True):
            asked = plan.next_arm[step.nodes] == step.arm
            after = np.where(step.following >= 0, total[step.following], 0.0)
            further = asking[step.arm] + (votes * after).sum(axis=0)
            total[step.nodes] = np.where(asked, further, total[step.nodes])
    return float(total[0])


def _expected_cost(beliefs: Beliefs, prices: tuple[float, ...], shares: tuple[float, ...]) -> float:
    """Compute what the best plan costs on average."""
    plan = plan_by_worth(beliefs, prices)
    return expected_along(plan, beliefs, shares, np.zeros(len(beliefs.lattice.rows)))


@dataclass(frozen=True, slots=True)
class Multipliers:
    """The least multiplier of prices that keeps to an allowance and the one before it, with what they cost.

    Both are the same if prices need no multiplier.
    """

    within: float
    cost: float
    beyond: float
    dearer: float

    @classmethod
    def around(cls, allowance: float, cost: Callable[[float], float], base: float, steps: int) -> Multipliers:
        """Find them among the powers of a base, by what a task costs on average at a multiplier."""

        def at(step: int) -> tuple[float, float]:
            return base**step, cost(base**step)

        if at(0)[1] <= allowance + TIE:
            return cls(*at(0), *at(0))
        low, high = 0, steps
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if at(middle)[1] <= allowance + TIE else (middle, high)
        return cls(*at(high), *at(low))

    def drawn(self, allowance: float, draw: float) -> float:
        """One of them by a draw from [0, 1), so that the allowance is used up on average."""
        more = self.dearer - self.cost
        return self.beyond if more > 0.0 and draw < (allowance - self.cost) / more else self.within


def shadow_price(
    beliefs: Beliefs,
    prices: tuple[float, ...],
    shares: tuple[float, ...],
    allowance: float,
    draw: float,
    *,
    waits: tuple[float, ...] = (),
) -> float:
    """Find the multiplier of the prices, at least 1, at which plans keep to the allowance on average.

    Between two multipliers the plan jumps, for example from one arm to two. A draw from [0, 1) then chooses
    one of the two plans, so that the allowance is used up. If no plan is cheap enough, the result is the
    largest multiplier. ``prices`` are in right labels; ``shares`` are what the arms cost, in the unit of
    ``allowance``. ``waits``, in right labels, are added to the multiplied prices: an allowance limits money.
    """
    waits = waits or (0.0,) * len(prices)
    return _around(beliefs, prices, shares, allowance, waits).drawn(allowance, draw)


@lru_cache(maxsize=256)
def _around(
    beliefs: Beliefs,
    prices: tuple[float, ...],
    shares: tuple[float, ...],
    allowance: float,
    waits: tuple[float, ...],
) -> Multipliers:
    """The multipliers around the allowance, which tasks of nearly the same one share."""

    def cost(multiplier: float) -> float:
        dearer = [price * multiplier + wait for price, wait in zip(prices, waits, strict=True)]
        return _expected_cost(beliefs, tuple(dearer), shares)

    return Multipliers.around(allowance, cost, _BISECTION_STEP, _STEPS)


_TILTS: Final[Array] = np.asarray(np.linspace(-6.0, 6.0, 17), dtype=np.float64)
"""The tilts for which the value of a node is known, in nats."""

_PITCH: Final = float(_TILTS[1] - _TILTS[0])

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
        key = node, int(np.rint((np.clip(tilt, _TILTS[0], _TILTS[-1]) - _TILTS[0]) / _PITCH))
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
            tilted = move.tilt(np.asarray(_TILTS[tilts][None]), raised[:, None])
            index = np.rint((np.clip(tilted, _TILTS[0], _TILTS[-1]) - _TILTS[0]) / _PITCH).astype(np.int64)
            possible = following >= 0
            found |= set(zip(following[possible].tolist(), index[possible].tolist(), strict=True))
        pairs = np.array(sorted(found), dtype=np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]


def plan_by_graded_worth(
    beliefs: Beliefs, prices: tuple[float, ...], grades: tuple[ArmGrades, ...]
) -> GradedWorth:
    """Compute the best plan, for rounded prices: it takes far longer than one without confidences."""
    return _plan(beliefs, rounded(prices), grades)


@lru_cache(maxsize=64)
def _plan(beliefs: Beliefs, prices: tuple[float, ...], grades: tuple[ArmGrades, ...]) -> GradedWorth:
    """Compute the best plan, from the nodes where all arms have voted back to the node without votes."""
    lattice = beliefs.lattice
    nodes, arms = lattice.rows.shape
    stopping = np.where((lattice.rows >= 0).any(axis=1), _surest(beliefs), -np.inf)
    value = stopping.copy()
    asking = np.full((arms, len(_TILTS), nodes), -np.inf)
    for level, level_votes in zip(lattice.steps, beliefs.votes, strict=True):
        for step, votes in zip(level, level_votes, strict=True):
            gained = _expected(beliefs, step, votes, grades[step.arm], value)
            asking[step.arm][:, step.nodes] = gained - prices[step.arm]
        at = np.unique(np.concatenate([step.nodes for step in level]))
        best = asking[:, :, at].max(axis=0)
        value[:, at] = np.where(best > value[:, at] + TIE, best, value[:, at])
    return GradedWorth(beliefs, grades, asking, stopping)


def _surest(beliefs: Beliefs) -> Array:
    """The value of the best label at each tilt of the most probable one, shape (T, N)."""
    right = beliefs.right
    if beliefs.misses is not None:
        return _least_missed(right, beliefs.misses)
    ordered = np.sort(right, axis=1)
    first, second = ordered[:, -1], ordered[:, -2] if right.shape[1] > 1 else 0.0 * ordered[:, -1]
    odds = np.exp(_TILTS)[:, None]
    return np.asarray(np.maximum(odds * first, second) / (odds * first + 1.0 - first))


def _least_missed(right: Array, misses: Misses) -> Array:
    """The same where labels are not worth the same: 1 − the least expected loss, shape (T, N)."""
    nodes, lead = np.arange(len(right)), right.argmax(axis=1)
    missed = misses.numbers * right
    leads = missed[nodes, lead]
    others = np.where(np.arange(right.shape[1]) == lead[:, None], 0.0, missed)
    odds = np.exp(_TILTS)[:, None]
    total = odds * leads + others.sum(axis=1) + misses.others
    best = np.maximum(odds * leads, np.maximum(others.max(axis=1), misses.most))
    return np.asarray(1.0 - (total - best) / (1.0 + right[nodes, lead] * np.expm1(_TILTS)[:, None]))


def _expected(beliefs: Beliefs, step: Step, votes: Array, grades: ArmGrades, value: Array) -> Array:
    """The expected value after asking an arm at some nodes, shape (T, n)."""
    following = np.maximum(step.following, 0)
    move = _Move.of(beliefs, step.arm, step.nodes, step.following)
    tilts: Array = _TILTS[:, None, None]
    mass = 1.0 + move.lead * np.expm1(tilts)
    chance = votes * mass
    chance = chance / np.maximum(chance.sum(axis=1, keepdims=True), EPSILON)
    right = move.own * np.where(move.same, np.exp(tilts), 1.0) / mass
    total = np.zeros((len(_TILTS), len(step.nodes)))
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
            # Numbers may change with the new vote, so an arm that voted for the label identifies it.
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
    at = (np.clip(tilts, _TILTS[0], _TILTS[-1]) - _TILTS[0]) / _PITCH
    low = np.minimum(at.astype(np.int64), len(_TILTS) - 2)
    return low, at - low


def walk(
    plan: Worth,
    votes: Rows,
    floor: float = -np.inf,
    without: Callable[[tuple[int, ...]], Worth] | None = None,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Follow a plan without confidences and about one question, as :func:`.next_arms` does.

    ``votes`` are vote rows, shape (n, K) in the order of the plan's arms. ``floor`` is what a task without
    any vote is worth, in the unit of the plan. ``without`` gives the plan for tasks in which the arms at some
    positions gave no vote; by default it is the same plan. The result is which arms are asked about each
    task, (n, K), and whether the plan ends by asking all arms, also those that it does not know, (n,).
    """
    asked = np.zeros(votes.shape, dtype=np.bool_)
    finished = np.zeros(len(votes), dtype=np.bool_)
    going: NDArray[np.int64] = np.arange(len(votes))
    while len(going):
        silent = (asked & (votes < 0))[going]
        kinds, kind = np.unique(silent, axis=0, return_inverse=True)
        goes_on = np.zeros(len(going), dtype=np.bool_)
        for number, out in enumerate(kinds):
            of_kind = kind.reshape(-1) == number
            current = without(tuple(np.flatnonzero(out).tolist())) if without and out.any() else plan
            goes_on[of_kind] = _walk_on(current, votes, floor, going[of_kind], asked, finished)
        going = going[goes_on]
    return asked, finished


def _walk_on(  # noqa: PLR0917 - the tasks, and what is known of them
    plan: Worth,
    votes: Rows,
    floor: float,
    going: NDArray[np.int64],
    asked: NDArray[np.bool_],
    finished: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Ask one more arm about the tasks ``going``, and write it down; which of them go on."""
    cast = np.where(asked[going], votes[going], UNASKED)
    nodes = plan.beliefs.lattice.find(cast if plan.beliefs.lattice.named else renumber(cast))
    values = np.where(asked[going], -np.inf, plan.asking[nodes])
    best = values.argmax(axis=1)
    gains = values[np.arange(len(going)), best]
    stopping = np.maximum(plan.stopping[nodes], floor)
    if plan.finishing is not None:
        finished[going] = plan.finishing[nodes] >= np.maximum(gains, stopping) - TIE
    further = np.asarray((gains > stopping + TIE) & ~finished[going])
    asked[going[further], best[further]] = True
    return further

"""When to stop asking: thresholds on the leader's margin, learnt from rounds that asked everyone.

Such a round shows what stopping after any of its stages would have cost: the probability that the stacked
vote of everybody gives to its own label, less what it gives to the leader of that stage. No ground truth is
needed. Going backwards from the last stage, each threshold is the one with the smallest sum of this regret
and of what asking on costs, given the thresholds after it; so a stage is asked for what all that may follow
it can still change, not for the next vote alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from camvo.numerics.tolerances import TIE
from camvo.state.kept_rounds import KeptRound
from camvo.typing import Array
from camvo.weights.stacking import StackedVote

_FEWEST: Final = 150
"""Rounds that asked everyone before any of them says when to stop."""

_ALL_WAYS: Final = 2
"""Pauses up to which all ways to place them are tried."""


@dataclass(frozen=True, slots=True)
class Stops:
    """Where to pause and when to stop there.

    Attributes:
        upto: how many arms of the order have been asked after each stage, ascending; the last is all.
        least: for each stage, the margin with which the leader is left alone; −∞ after the last.
        scores: for each stage but the last, (a, b): the probability that the leader is right is expected to
            be σ(a + b·margin) once everyone has voted.
    """

    upto: tuple[int, ...]
    least: tuple[float, ...]
    scores: tuple[tuple[float, float], ...] = ()

    def after(self, asked: int, margin: float) -> int:
        """How many arms of the order to have asked next; ``asked`` itself says stop."""
        for upto, least in zip(self.upto, self.least, strict=True):
            if asked < upto:
                return upto
            if asked == upto and margin >= least:
                return asked
        return asked

    def score(self, asked: int, margin: float) -> float | None:
        """The leader's score after one of the stages but the last; ``None`` where the stack knows it."""
        for upto, (a, b) in zip(self.upto, self.scores, strict=False):
            if asked == upto:
                return float(expit(a + b * margin))
        return None


def learn(
    stack: StackedVote,
    rows: Sequence[KeptRound],
    order: Sequence[str],
    shares: Sequence[float],
    labels: Sequence[str],
    *,
    price: float,
    max_stages: int,
) -> Stops:
    """The stages and thresholds that would have been best on these rounds.

    Args:
        stack: the vote that decides.
        rows: past rounds; only those that asked everyone, and every arm of ``order``, are looked at.
        order: the arms in the order in which they are asked.
        shares: what asking each of them costs, of the cost of all.
        labels: the label set.
        price: λ, the probability of a right label that is worth asking everyone.
        max_stages: the most stages.
    """
    everyone = Stops((len(order),), (-math.inf,))
    shown = [row for row in rows if row.everyone and row.arms.issuperset(order)]
    if len(shown) < _FEWEST or max_stages == 1:
        return everyone
    margins, chances = _seen(stack, shown, order, labels)
    regrets = chances[:, -1:] - chances
    spent = price * np.cumsum(shares)
    best, least_loss = everyone, float(spent[-1]) * len(shown)
    for pauses in range(1, min(max_stages, len(order))):
        for cut in _cuts(pauses, len(order) - 1, [upto - 1 for upto in best.upto[:-1]]):
            columns = [*cut, len(order) - 1]
            thresholds, loss = _backwards(margins[:, columns], regrets[:, columns] + spent[columns])
            if loss < least_loss - TIE:
                best, least_loss = Stops(tuple(at + 1 for at in columns), thresholds), loss
    early = [upto - 1 for upto in best.upto[:-1]]
    return replace(best, scores=tuple(_line(margins[:, at], chances[:, at]) for at in early))


def _cuts(pauses: int, places: int, before: Sequence[int]) -> Iterable[tuple[int, ...]]:
    """Where to pause: all ways to do so once or twice, then one more time than ``before``.

    Twenty models have half a million ways to pause ten times, which hardly differ.
    """
    if pauses <= _ALL_WAYS:
        return combinations(range(places), pauses)
    return (tuple(sorted((*before, place))) for place in range(places) if place not in before)


def _seen(
    stack: StackedVote, rows: Sequence[KeptRound], order: Sequence[str], labels: Sequence[str]
) -> tuple[Array, Array]:
    """After each arm of the order, the leader's margin and its chance given all votes, shape (n, K)."""
    margins, chances = np.full((len(rows), len(order)), -np.inf), np.zeros((len(rows), len(order)))
    for i, row in enumerate(rows):
        said = {vote.arm: vote.label if vote.label in labels else None for vote in row.votes}
        weights = {vote.arm: vote.weight for vote in row.votes}
        votes = {arm: said[arm] for arm in order}
        if not any(votes.values()):
            continue
        final = stack.probabilities(votes, weights, labels)
        for asked in range(1, len(order) + 1):
            so_far = {arm: votes[arm] for arm in order[:asked]}
            if any(so_far.values()):
                leader, margins[i, asked - 1] = stack.leader(so_far, weights, labels)
                chances[i, asked - 1] = final[leader]
    return margins, chances


def _line(margins: Array, chances: Array) -> tuple[float, float]:
    """(a, b) of a logistic regression of the chances on the margins, with a weak prior at (0, 1)."""
    there = np.isfinite(margins)
    x, y = margins[there], chances[there]

    def loss(line: Array) -> tuple[float, Array]:
        z, away = line[0] + line[1] * x, line - [0.0, 1.0]
        gap = expit(z) - y
        value = np.logaddexp(0.0, z).sum() - y @ z + 0.5 * away @ away
        return float(value), np.array([gap.sum(), gap @ x]) + away

    a, b = minimize(loss, [0.0, 1.0], jac=True, method="L-BFGS-B").x.tolist()
    return a, b


def _backwards(margins: Array, losses: Array) -> tuple[tuple[float, ...], float]:
    """The threshold of each stage and the sum of losses under them; rounds of equal margin stop together."""
    ahead = losses[:, -1].copy()
    thresholds = [-math.inf]
    for stage in reversed(range(margins.shape[1] - 1)):
        order = np.argsort(-margins[:, stage], kind="stable")
        seen = margins[order, stage]
        change = np.cumsum((losses[:, stage] - ahead)[order])
        inside = np.append(seen[1:] > seen[:-1] - 1e-9, False)
        change[inside] = np.inf
        cut = int(change.argmin())
        if change[cut] >= 0.0 or not np.isfinite(seen[cut]):
            thresholds.append(math.inf)
            continue
        thresholds.append(float(seen[cut]) - 1e-9)
        ahead[order[: cut + 1]] = losses[order[: cut + 1], stage]
    return tuple(reversed(thresholds)), float(ahead.sum())

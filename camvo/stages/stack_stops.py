"""When to stop asking: thresholds on the leader's margin, learnt from rounds that asked all arms.

Such a round shows the regret of stopping after each stage: the probability that the stacked vote of all arms
gives to its own label, minus the one that it gives to the leader of that stage. No ground truth is needed.

The thresholds are learnt backwards from the last stage. Each one minimises the sum of the regret and of the
price of asking on, given the thresholds after it. A stage is therefore judged by everything that may follow
it, not by the next vote alone.
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
from camvo.weights.grades import NO_GRADES, Grades
from camvo.weights.stacking import StackedVote

_MIN_ROUNDS: Final = 150
"""The fewest rounds that asked all arms from which stops are learnt."""

_EXHAUSTIVE_PAUSES: Final = 2
"""The largest number of pauses for which every placement is tried."""

_EQUAL_MARGINS: Final = 1e-9
"""Margins that differ by less than this are equal."""


@dataclass(frozen=True, slots=True)
class Stops:
    """The stages of one order, and the margin at which each of them stops.

    Attributes:
        upto: how many arms of the order have been asked after each stage, ascending; the last is K.
        least: for each stage, the smallest margin of the leader at which to stop; −∞ for the last.
        scores: for each stage but the last, (a, b): σ(a + b·margin) is the leader's expected probability
            given the votes of all arms.
    """

    upto: tuple[int, ...]
    least: tuple[float, ...]
    scores: tuple[tuple[float, float], ...] = ()

    def after(self, asked: int, margin: float) -> int:
        """How many arms of the order to have asked after the next stage; ``asked`` means stop.

        Args:
            asked: how many arms were asked so far.
            margin: the leader's margin in the stacked vote, in log-odds.
        """
        for upto, least in zip(self.upto, self.least, strict=True):
            if asked < upto:
                return upto
            if asked == upto and margin >= least:
                return asked
        return asked

    def score(self, asked: int, margin: float) -> float | None:
        """The leader's score if asking stopped after ``asked`` arms.

        ``None`` after the last stage, and for a number of arms at which no stage ends. There the score is the
        stacked vote's own probability.
        """
        for upto, (a, b) in zip(self.upto, self.scores, strict=False):
            if asked == upto:
                return float(expit(a + b * margin))
        return None


def learn_stops(
    stack: StackedVote,
    rounds: Sequence[KeptRound],
    order: Sequence[str],
    shares: Sequence[float],
    labels: Sequence[str],
    *,
    price: float,
    max_stages: int,
    grades: Grades = NO_GRADES,
) -> Stops:
    """Learn the stages and thresholds with the smallest loss on past rounds.

    Args:
        stack: the stacked vote, which decides.
        rounds: past rounds. Only those count that asked all arms, among them every arm of ``order``.
        order: the K arms, in the order of asking.
        shares: each arm's price as a share of the price of all, in the order of ``order``.
        labels: the label set.
        price: λ, the probability of a right label that is worth the price of asking all arms.
        max_stages: the largest number of stages.
        grades: what the arms' confidences are worth.

    Returns:
        A single stage that asks all arms if too few rounds count.
    """
    ask_all = Stops((len(order),), (-math.inf,))
    complete = [round_ for round_ in rounds if round_.everyone and round_.arms.issuperset(order)]
    if len(complete) < _MIN_ROUNDS or max_stages == 1:
        return ask_all
    margins, probabilities = _leaders(stack, complete, order, labels, grades)
    regrets = probabilities[:, -1:] - probabilities
    spent = price * np.cumsum(shares)
    best, least_loss = ask_all, float(spent[-1]) * len(complete)
    for pauses in range(1, min(max_stages, len(order))):
        for placement in _placements(pauses, len(order) - 1, [upto - 1 for upto in best.upto[:-1]]):
            columns = [*placement, len(order) - 1]
            thresholds, loss = _best_thresholds(margins[:, columns], regrets[:, columns] + spent[columns])
            if loss < least_loss - TIE:
                best, least_loss = Stops(tuple(column + 1 for column in columns), thresholds), loss
    early = [upto - 1 for upto in best.upto[:-1]]
    return replace(
        best, scores=tuple(_fit_score(margins[:, column], probabilities[:, column]) for column in early)
    )


def _placements(pauses: int, places: int, before: Sequence[int]) -> Iterable[tuple[int, ...]]:
    """The placements of ``pauses`` pauses to try: all of them if few, otherwise one more than ``before``.

    Twenty arms have nearly a hundred thousand placements of ten pauses, and their losses hardly differ.
    """
    if pauses <= _EXHAUSTIVE_PAUSES:
        return combinations(range(places), pauses)
    return (tuple(sorted((*before, place))) for place in range(places) if place not in before)


def _leaders(
    stack: StackedVote,
    rounds: Sequence[KeptRound],
    order: Sequence[str],
    labels: Sequence[str],
    grades: Grades,
) -> tuple[Array, Array]:
    """The leader's margin after each arm, and its probability given all votes, shape (n, K) each.

    Before the first vote of a round they are −∞ and 0.
    """
    shape = (len(rounds), len(order))
    margins, probabilities = np.full(shape, -np.inf), np.zeros(shape)
    for i, round_ in enumerate(rounds):
        label_of = {vote.arm: vote.label if vote.label in labels else None for vote in round_.votes}
        weights = {vote.arm: vote.weight for vote in round_.votes}
        log_ratios = {
            vote.arm: grades.log_ratio(vote.arm, vote.label, vote.confidence) for vote in round_.votes
        }
        votes = {arm: label_of[arm] for arm in order}
        if not any(votes.values()):
            continue
        final = stack.probabilities(votes, weights, labels, log_ratios)
        for asked in range(1, len(order) + 1):
            so_far = {arm: votes[arm] for arm in order[:asked]}
            if any(so_far.values()):
                leader, margins[i, asked - 1] = stack.leader(so_far, weights, labels, log_ratios)
                probabilities[i, asked - 1] = final[leader]
    return margins, probabilities


def _fit_score(margins: Array, probabilities: Array) -> tuple[float, float]:
    """(a, b) of a logistic regression of the probabilities on the margins, with a weak prior at (0, 1)."""
    voted = np.isfinite(margins)
    x, y = margins[voted], probabilities[voted]

    def loss(line: Array) -> tuple[float, Array]:
        z, from_prior = line[0] + line[1] * x, line - [0.0, 1.0]
        residual = expit(z) - y
        value = np.logaddexp(0.0, z).sum() - y @ z + 0.5 * from_prior @ from_prior
        return float(value), np.array([residual.sum(), residual @ x]) + from_prior

    a, b = minimize(loss, [0.0, 1.0], jac=True, method="L-BFGS-B").x.tolist()
    return a, b


def _best_thresholds(margins: Array, losses: Array) -> tuple[tuple[float, ...], float]:
    """The threshold of each stage and the sum of losses under them. Rounds of equal margin stop together.

    Args:
        margins: the leader's margin after each stage, shape (n, stages).
        losses: what stopping after each stage costs, regret and price together, shape (n, stages).
    """
    later_losses = losses[:, -1].copy()
    thresholds = [-math.inf]
    for stage in reversed(range(margins.shape[1] - 1)):
        by_margin = np.argsort(-margins[:, stage], kind="stable")
        descending = margins[by_margin, stage]
        change = np.cumsum((losses[:, stage] - later_losses)[by_margin])
        splits_equals = np.append(descending[1:] > descending[:-1] - _EQUAL_MARGINS, False)
        change[splits_equals] = np.inf
        cut = int(change.argmin())
        if change[cut] >= 0.0 or not np.isfinite(descending[cut]):
            thresholds.append(math.inf)
            continue
        thresholds.append(float(descending[cut]) - _EQUAL_MARGINS)
        stopped = by_margin[: cut + 1]
        later_losses[stopped] = losses[stopped, stage]
    return tuple(reversed(thresholds)), float(later_losses.sum())

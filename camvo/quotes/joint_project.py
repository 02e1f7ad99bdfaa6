"""A project of the joint policy, replayed with votes that are all known: thousands of tasks in a second.

It is :func:`camvo.replays.replay` where only the bill is wanted. Between two fits all tasks have the same
plan, so the plan is followed for each distinct row of votes. Contexts, confidences and human labels are left
out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from camvo.joint.joint_fit import JointFit
from camvo.joint.plans.allowance import shadow_price
from camvo.joint.vote_rows import Rows, VoteRows, renumber
from camvo.policies.joint import CAUTION_ROUNDS, FIRST, exploration_within
from camvo.quotes.known_votes import KnownVotes
from camvo.state.vote_patterns import UNASKED
from camvo.typing import Array

_GROWTH: Final = 1.4
"""The growth of the number of rounds after which the fit is renewed. The policy renews it at 1.2. Plans
change little from fit to fit, and this takes half the time."""

_LEAST: Final = 64
"""The fewest tasks between two fits: a busy server plans about as many at once."""

_LOOKS: Final = 40
"""How often a project looks at what is left of its money."""


@dataclass(slots=True)
class JointProject:
    """One replay of a project.

    Attributes:
        known: the rounds so far, all of which asked everyone.
        further: the votes of the tasks to come, as vote rows of the same arms, in their order, shape (n, K).
        worth: the policy's worth.
        rng: draws the rounds that ask everyone.
        aim: what the tasks to come may cost in all, in prices of asking everyone about one task.
        growth: of the number of rounds, after which the fit is renewed.
        asked: which arms each task asked, shape (n, K).
        explored: which tasks asked everyone by a draw, shape (n,).
        fit: the latest fit; ``None`` before the first.
    """

    known: KnownVotes
    further: Rows
    worth: float
    rng: np.random.Generator
    aim: float = math.inf
    growth: float = _GROWTH
    asked: NDArray[np.bool_] = field(init=False)
    explored: NDArray[np.bool_] = field(init=False)
    fit: JointFit | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.asked = np.zeros(self.further.shape, dtype=np.bool_)
        self.explored = np.zeros(len(self.further), dtype=np.bool_)

    def run(self) -> JointProject:
        """Go through all tasks."""
        tasks, fitted_at = 0, 0
        while tasks < len(self.further):
            rounds = len(self.known.rows) + tasks
            if self.fit is None or rounds >= max(fitted_at + _LEAST, int(fitted_at * self.growth)):
                self.fit, fitted_at = self.known.fit(self._seen(tasks), self.worth), rounds
            until = max(fitted_at + _LEAST, int(fitted_at * self.growth)) - len(self.known.rows)
            if math.isfinite(self.aim):
                until = min(until, tasks + max(_LEAST, len(self.further) // _LOOKS))
            self._block(slice(tasks, min(until, len(self.further))), self.fit)
            tasks = min(until, len(self.further))
        return self

    @property
    def share(self) -> float:
        """What a task costs on average, in prices of asking everyone."""
        return float((self.asked @ self.known.relative_prices).mean())

    def _block(self, block: slice, fit: JointFit) -> None:
        """Decide about tasks that share a fit."""
        everyone = len(self.known.rows) + int(self.explored[: block.start].sum())
        left = self.aim - float((self.asked[: block.start] @ self.known.relative_prices).sum())
        allowance = max(left, 0.0) / (len(self.further) - block.start)
        rate, allowance = exploration_within(_rate(everyone, block.stop - block.start), allowance)
        self.explored[block] = self.rng.random(block.stop - block.start) < rate
        self.asked[block] = self._planned(fit, self.further[block], everyone, allowance)
        self.asked[block][self.explored[block]] = True

    def _seen(self, tasks: int) -> VoteRows:
        """All votes so far, as the policy's fit reads them."""
        explored, further = self.explored[:tasks], self.further[:tasks]
        partial = np.where(self.asked[:tasks], further, UNASKED)[~explored]
        stopped = partial if len(self.known.labels) == 2 else renumber(partial)
        rows = np.concatenate([self.known.canonical, further[explored], stopped])
        everyone = np.arange(len(rows)) < len(rows) - len(stopped)
        unique, place = np.unique(rows, axis=0, return_inverse=True)
        counts = [
            np.bincount(place.reshape(-1), kind, len(unique)).astype(np.float64)
            for kind in (everyone, ~everyone)
        ]
        return VoteRows(unique, *counts)

    def _planned(self, fit: JointFit, rows: Rows, everyone: int, allowance: float) -> NDArray[np.bool_]:
        """Whom the plan asks about each row; under an allowance, two plans share the rows by a draw."""
        positions = [fit.arms.index(arm) for arm in fit.shortlist]
        caution = 1.0 + CAUTION_ROUNDS / max(everyone, 1)
        prices = self.known.shares[positions] / (self.worth * caution)
        asked = np.zeros(rows.shape, dtype=np.bool_)
        dearer: Array = np.ones(len(rows))
        if allowance < 1.0:
            draws = self.rng.random(len(rows))
            paid, asking = tuple(self.known.shares[positions].tolist()), tuple(prices.tolist())
            dearer = np.array(
                [shadow_price(fit.beliefs, asking, paid, allowance, draw) for draw in draws.tolist()]
            )
        for times in np.unique(dearer).tolist():
            some = dearer == times
            asked[some] = self.known.planned(fit, rows[some], self.worth * caution / times)
        return asked


def _rate(everyone: int, tasks: int) -> float:
    """The expected share of the next tasks that ask everyone by a draw, after so many rounds that did."""
    return min((math.sqrt(everyone**2 + FIRST * tasks) - everyone) / tasks, 1.0)

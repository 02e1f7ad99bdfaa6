"""The votes of rounds that asked everyone, and what other tasks of the project are probably like."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from camvo.errors import InvalidParameterError
from camvo.joint.joint_fit import JointFit, fit_label_free
from camvo.joint.lattice import most_arms
from camvo.joint.plans.plan_walk import walk
from camvo.joint.plans.worth import plan_by_worth
from camvo.joint.vote_rows import Rows, VoteRows, renumber
from camvo.joint.votes_fit import fit_vote_rows
from camvo.stages.asking_order import cheapest_first
from camvo.state.vote_patterns import SILENT
from camvo.typing import Array


@dataclass(frozen=True, eq=False)
class KnownVotes:
    """The votes of n tasks about which everyone was asked, on one question.

    Attributes:
        labels: the label set, sorted by name, M labels.
        arms: the arms, sorted by name, K arms.
        prices: the mean price of asking each arm, in any one unit, shape (K,).
        rows: the position of each vote among ``labels``, shape (n, K); −1 for an arm that gave none.

    Raises:
        InvalidParameterError: the shapes do not agree, or the names are not sorted.
    """

    labels: tuple[str, ...]
    arms: tuple[str, ...]
    prices: Array
    rows: Rows

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or self.rows.shape[1] != len(self.arms) or len(self.prices) != len(self.arms):
            raise InvalidParameterError(f"{len(self.arms)} arms do not fit votes of {self.rows.shape}")
        if sorted(self.arms) != list(self.arms) or sorted(self.labels) != list(self.labels):
            raise InvalidParameterError("labels and arms must be sorted by name")

    @cached_property
    def canonical(self) -> Rows:
        """The votes as vote rows: with more than two labels, numbered by first appearance."""
        return self.rows if len(self.labels) == 2 else renumber(self.rows)

    @cached_property
    def shares(self) -> Array:
        """Each arm's share of the price of all, as the policy rounds it, shape (K,)."""
        order, shares = cheapest_first(dict(zip(self.arms, self.prices.tolist(), strict=True)))
        by_arm = dict(zip(order, shares, strict=True))
        return np.array([by_arm[arm] for arm in self.arms])

    @cached_property
    def relative_prices(self) -> Array:
        """Each arm's share of the price of all, shape (K,)."""
        total = float(self.prices.sum())
        return self.prices / total if total > 0.0 else np.full(len(self.prices), 1.0 / len(self.prices))

    def fit(self, rows: VoteRows, worth: float) -> JointFit:
        """The joint policy's fit to some votes of these arms."""
        few = len(self.arms) <= most_arms(len(self.labels))
        prices = np.zeros(len(self.arms)) if few else self.shares / worth
        votes = fit_vote_rows(rows, len(self.labels))
        return fit_label_free(
            votes, self.labels, self.arms, dict(zip(self.arms, prices.tolist(), strict=True))
        )

    def planned(self, fit: JointFit, rows: Rows, worth: float) -> NDArray[np.bool_]:
        """Whom the plan of a fit asks about each task, shape (n, K), if no draw lets it ask everyone.

        Args:
            fit: the fit.
            rows: the votes, as vote rows, shape (n, K).
            worth: the worth of one more right label, in prices of asking everyone.
        """
        prices = self.shares[[fit.arms.index(arm) for arm in fit.shortlist]] / worth
        plan = plan_by_worth(fit.beliefs, tuple(prices.tolist()))
        unique, place = np.unique(rows, axis=0, return_inverse=True)
        positions = [fit.arms.index(arm) for arm in fit.shortlist]
        asked = np.zeros(unique.shape, dtype=np.bool_)
        asked[:, positions], _ = walk(plan, unique[:, positions], 1.0 / len(self.labels))
        # A task without any vote goes on to the cheapest arm; whoever is silent there is a rare case.
        asked[~(asked & (unique >= 0)).any(axis=1), int(self.shares.argmin())] = True
        return asked[place.reshape(-1)]

    def draw(self, count: int, worth: float, rng: np.random.Generator) -> Rows:
        """Draw the votes of further tasks, as vote rows, shape (count, K).

        The distribution is uncertain itself, so each call first draws one: these rounds with random weights
        (the Bayesian bootstrap, Rubin 1981). Rounds alone would repeat themselves, and a plan that was fitted
        to them would seem to know every task. So votes are drawn one after another from the beliefs that a
        fit forms of the weighted rounds, which blend the model of votes with the rounds that passed there.
        """
        weights = rng.dirichlet(np.ones(len(self.rows))) * len(self.rows)
        if len(self.arms) > most_arms(len(self.labels)):
            return self.canonical[rng.choice(len(self.rows), count, p=weights / weights.sum())]
        unique, place = np.unique(self.canonical, axis=0, return_inverse=True)
        counts = np.bincount(place.reshape(-1), weights, len(unique)).astype(np.float64)
        beliefs = self.fit(VoteRows(unique, counts, np.zeros(len(unique))), worth).beliefs
        lattice, nodes = beliefs.lattice, np.zeros(count, dtype=np.int64)
        for arm, (level, votes) in enumerate(
            zip(reversed(lattice.steps), reversed(beliefs.votes), strict=True)
        ):
            step, probabilities = level[arm], votes[arm]
            at = np.searchsorted(step.nodes, nodes)
            chances = probabilities[:, at].cumsum(axis=0)
            number = (rng.random(count) * chances[-1] >= chances).sum(axis=0)
            nodes = step.following[np.minimum(number, len(chances) - 1), at]
        drawn = lattice.rows[nodes].copy()
        silent = rng.random(drawn.shape) < (self.rows < 0).mean(axis=0)
        drawn[silent] = SILENT
        return drawn if lattice.named else renumber(drawn)

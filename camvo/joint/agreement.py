"""When to stop if a share of the labels must equal those of the votes of all arms.

The beliefs at each node of the lattice give the probability that its label equals that of all votes. A plan
weighs this probability against the prices of further votes, at a price for each label that differs. That
price is the lowest one at which the promise holds on held-out rounds that asked all arms. No ground truth is
needed. While there are too few such rounds, a plan stops only where no further vote can change the label.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from camvo.joint.beliefs import Beliefs
from camvo.joint.joint_fit import JointFit
from camvo.joint.lattice import Lattice, count_passing
from camvo.joint.plans import NEVER, plan_by_worth, walk
from camvo.joint.votes import Rows, renumber
from camvo.joint.votes_fit import VotesFit
from camvo.numerics.small import upper_bound
from camvo.state.exploration import UNASKED
from camvo.twins import asking_each
from camvo.typing import Array


@lru_cache(maxsize=16)
def kept_labels(beliefs: Beliefs) -> Array:
    """The probability, at each node, that its most probable label is that of all votes, shape (N,).

    Computed from the nodes where all arms have voted back to the node without votes, asking the missing arms
    in the order of their positions. The node without votes has no label, so its value is meaningless.
    """
    lattice = beliefs.lattice
    leads = beliefs.leads
    final = np.eye(lattice.numbers)[leads]
    voter = _first_voters(lattice)
    for nodes, level, level_votes in zip(lattice.levels, lattice.steps, beliefs.votes, strict=True):
        known = np.full(len(final), True)
        known[nodes] = False
        for step, votes in zip(level, level_votes, strict=True):
            unknown = ~known[step.nodes]
            at, after = step.nodes[unknown], np.maximum(step.following[:, unknown], 0)
            for number in range(lattice.numbers):
                final[at, number] = (
                    votes[:, unknown] * final[after, _renamed(lattice, voter, at, number, after)]
                ).sum(axis=0)
            known[at] = True
    return np.asarray(np.clip(final[np.arange(len(final)), leads], 0.0, 1.0), dtype=np.float64)


@lru_cache(maxsize=64)
def _certain_labels(beliefs: Beliefs, silent: tuple[int, ...] = ()) -> NDArray[np.bool_]:
    """Whether no further votes can change the most probable label of each node, shape (N,).

    Some arms may give no vote, so every set of further votes is considered. The arms at the positions
    ``silent`` were asked and gave none.
    """
    lattice = beliefs.lattice
    leads = beliefs.right.argmax(axis=1)
    stays = np.eye(lattice.numbers, dtype=np.bool_)[leads]
    voter = _first_voters(lattice)
    for step in [step for level in lattice.steps for step in level if step.arm not in silent]:
        possible, after = step.following >= 0, np.maximum(step.following, 0)
        for number in range(lattice.numbers):
            kept = stays[after, _renamed(lattice, voter, step.nodes, number, after)]
            stays[step.nodes, number] &= (kept | ~possible).all(axis=0)
    voted = (lattice.rows >= 0).any(axis=1)
    return np.asarray(stays[np.arange(len(leads)), leads] & voted)


def _first_voters(lattice: Lattice) -> NDArray[np.int64]:
    """The position of the first arm that voted for each number at each node, shape (N, G)."""
    return np.stack([(lattice.rows == number).argmax(axis=1) for number in range(lattice.numbers)], axis=1)


def _renamed(
    lattice: Lattice, voter: NDArray[np.int64], at: NDArray[np.int64], number: int, after: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The number, at the nodes ``after``, of the label that has ``number`` at the nodes ``at``.

    Numbers follow the arms' positions, so they change when an arm votes late. A number that no arm has voted
    for at a node gives any number there.
    """
    if lattice.named:
        return np.full(after.shape, number)
    return np.asarray(np.maximum(lattice.rows[after, voter[at, number]], 0), dtype=np.int64)


_CONFIDENCE: Final = 0.8
"""The confidence level of the bound on a plan's errors. A project follows dozens of plans one after another,
and its agreement is their mean. So a project keeps its promise more often than a single plan does
(``docs/agreement.md``)."""

_FOLDS: Final = 2
"""The plan of each price is fitted to all folds of the rounds but one, and tested on that one."""

_PRICES: Final = 1.5 * 1.3 ** np.arange(24)
"""The prices of an error to try, ascending, in prices of asking all arms."""

_PRIOR_ROUNDS: Final = 30.0
"""How many rounds the model of votes counts as at each node of a shortlist's lattice."""


def rounds_needed(agreement: float) -> int:
    """How many rounds that asked all arms prove an agreement if none of them contradicts it."""
    if agreement <= 0.0:
        return 1
    if agreement >= 1.0:
        return 2**62
    return math.ceil(math.log(1.0 - _CONFIDENCE) / math.log(agreement))


@dataclass(frozen=True, slots=True, eq=False)
class AgreementStops:
    """The value of stopping at each node of a lattice. Hashed by identity.

    Attributes:
        kept: the probability that the node's most probable label is that of all votes, shape (N,).
        agreement: the required share of labels that equal those of the votes of all arms.
        error_price: the price of an error, in prices of asking all arms; ``None`` if the plan stops only
            where the label is certain.
        error: the share of errors among rounds that the plan was not fitted to.
        others: the price of all arms outside the shortlist, as a share of the price of all; ``None`` if
            there are none.
        silent: the positions of the arms that were asked about the task and gave no vote, if labels are
            certain.
    """

    kept: Array
    agreement: float
    error_price: float | None = None
    error: float = 0.0
    others: float | None = None
    silent: tuple[int, ...] = ()

    @property
    def promised(self) -> float | None:
        """The largest share of labels that were to be others; ``None`` while labels are certain."""
        return None if self.error_price is None else 1.0 - self.agreement

    @property
    def nothing(self) -> float:
        """The value of a task without any vote, in the same unit."""
        return NEVER if self.error_price is None else 0.0

    def stopping(self, beliefs: Beliefs) -> Array:
        """The value of stopping at each node with a vote, in prices of asking all arms, shape (N,)."""
        if self.error_price is not None:
            return self.error_price * self.kept
        if self.others is not None:  # a label is certain once all arms have voted; no node includes them all
            return np.full(len(self.kept), NEVER)
        return np.where(_certain_labels(beliefs, self.silent), 0.0, NEVER)

    def without(self, silent: Sequence[int]) -> AgreementStops:
        """The stops for a task about which the arms at some positions gave no vote.

        The same if errors have a price: this was tested on plans for all arms.
        """
        if not silent or self.error_price is not None or self.others is not None:
            return self
        return _without(self, tuple(silent))

    def finishing(self, beliefs: Beliefs, prices: Sequence[float]) -> Array | None:
        """The value of asking all arms that have not voted, shape (N,); ``None`` if all are in the lattice.

        ``prices`` are the shares of the lattice's arms of the price of all.
        """
        if self.others is None:
            return None
        paid = (beliefs.lattice.rows < 0) @ np.array(prices) + self.others
        return np.asarray((self.error_price or 0.0) - paid, dtype=np.float64)

    def describe(self) -> dict[str, Any]:
        """The value as plain JSON, stored with a round's plan."""
        return {"error_price": self.error_price, "error": self.error}

    @classmethod
    def fit(
        cls, fit: JointFit, votes: VotesFit, shares: Mapping[str, float], agreement: float
    ) -> AgreementStops:
        """The cheapest stops whose labels equal those of all votes in a share ``agreement`` of the rounds.

        The same rounds cannot both choose a plan and judge it: the plan that looks best among many looks
        better than it is. So the plan of each price is fitted to one half of the rounds and tested on the
        other, both ways. The upper Clopper–Pearson bound on all errors has to fit the error budget
        1 − ``agreement``.

        Args:
            fit: what votes say, without confidences, contexts and a student.
            votes: the model of votes behind it.
            shares: arm → its share of the price of all arms.
            agreement: the required share, in [0, 1].
        """
        problem = _Problem(fit, votes, shares, agreement)
        price, error = problem.error_price()
        return replace(problem.stops(fit.beliefs, problem.counts), error_price=price, error=error)


@lru_cache(maxsize=64)
def _without(stops: AgreementStops, silent: tuple[int, ...]) -> AgreementStops:
    """Cached, because plans are cached by their stops."""
    return replace(stops, silent=silent)


class _Problem:
    """The rounds that asked all arms, and the labels that plans give them."""

    def __init__(self, fit: JointFit, votes: VotesFit, shares: Mapping[str, float], agreement: float) -> None:
        names, asks_each = np.array(fit.arms), asking_each(fit.arms)
        asked_all = [asks_each(names[row].tolist()) for row in votes.rows.rows != UNASKED]
        self._whole = whole = (votes.rows.counts > 0.0) & np.array(asked_all, dtype=np.bool_)
        self._fit, self._votes, self._agreement = fit, replace(votes, model=fit.model), agreement
        self._rows: Rows = votes.rows.rows[whole]
        self.counts: Array = votes.rows.counts[whole]
        self._positions = [fit.arms.index(arm) for arm in fit.shortlist]
        self._prices = tuple([shares[arm] for arm in fit.shortlist])
        complete = len(fit.shortlist) == len(fit.arms)
        self._others = None if complete else sum(shares.values()) - sum(self._prices)

    def error_price(self) -> tuple[float | None, float]:
        """The price of an error and the share of errors at it; ``None`` if the rounds do not suffice."""
        budget, rounds = 1.0 - self._agreement, float(self.counts.sum())
        if rounds < rounds_needed(self._agreement):
            return None, 0.0
        folds = []
        for held in _fold_counts(self._rows, self.counts, _FOLDS):
            beliefs = self._beliefs(self.counts - held)
            folds.append((beliefs, self.stops(beliefs, self.counts - held), held))
        best: tuple[float | None, float] = (None, 0.0)
        low, high = 0, len(_PRICES)
        while low < high:
            middle = (low + high) // 2
            price = float(_PRICES[middle])
            errors = sum(
                float(held @ self._wrong(beliefs, replace(stops, error_price=price)))
                for beliefs, stops, held in folds
            )
            if upper_bound(errors, rounds, _CONFIDENCE) <= budget:
                best, high = (price, errors / rounds), middle
            else:
                low = middle + 1
        return best

    def stops(self, beliefs: Beliefs, counts: Array) -> AgreementStops:
        """The stops without a price of an error, by ``counts`` rounds of each row."""
        kept = kept_labels(beliefs) if self._others is None else self._kept_by_all(beliefs, counts)
        return AgreementStops(kept, self._agreement, others=self._others)

    def _beliefs(self, counts: Array) -> Beliefs:
        """The beliefs of a fit to ``counts`` rounds of each row, with the model of votes of all rounds."""
        every = self._votes.rows.counts.copy()
        every[self._whole] = counts
        votes = replace(self._votes, rows=replace(self._votes.rows, counts=every))
        return votes.beliefs(self._positions, self._fit.human, self._fit.labels)

    def _wrong(self, beliefs: Beliefs, stops: AgreementStops) -> NDArray[np.bool_]:
        """For each row, whether the plan's label differs from that of the votes of all arms."""
        plan = plan_by_worth(beliefs, self._prices, stops)
        short = self._rows[:, self._positions]
        asked, finished = walk(plan, short)
        early = _leaders(beliefs, np.where(asked, short, UNASKED))
        return np.asarray((early != self._final(beliefs)) & ~finished)

    def _final(self, beliefs: Beliefs) -> NDArray[np.int64]:
        """The number of the label that the votes of all arms make most probable, in each row, shape (P,)."""
        if self._others is None:
            return _leaders(beliefs, self._rows)
        return np.asarray(self._fit.given_all(self._rows).argmax(axis=1), dtype=np.int64)

    def _kept_by_all(self, beliefs: Beliefs, counts: Array) -> Array:
        """How probably a node's label is that of all arms, where some are outside the lattice, shape (N,).

        The model only gives the probability that the label is right, which is lower. Rounds that passed
        through the node add direct evidence.
        """
        lattice, short = beliefs.lattice, self._rows[:, self._positions]
        rows = short if lattice.named else renumber(short)
        voted = (short == self._final(beliefs)[:, None])[:, :, None]
        same = (voted & (rows[:, :, None] == np.arange(lattice.numbers))).any(axis=1).astype(np.float64)
        seen, agreed = count_passing(lattice, rows, counts, same)
        leads = np.take_along_axis(agreed, beliefs.right.argmax(axis=1)[:, None], axis=1)[:, 0]
        return np.asarray((leads + _PRIOR_ROUNDS * beliefs.surest) / (seen + _PRIOR_ROUNDS), dtype=np.float64)


def _fold_counts(rows: Rows, counts: Array, folds: int) -> Array:
    """How many rounds of each vote row are in each fold, shape (F, P); ``counts`` are whole numbers, F ≤ 16.

    Only the counts of rows are kept, not the rounds, so a hash of the row and of j puts the j-th round with
    this row into its fold. Rounds with the same row are exchangeable. The folds are therefore distributed as
    if every round had been put into one at random. A later round never changes the fold of an earlier one.
    """
    columns = []
    for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
        stream = hashlib.shake_128(repr(row).encode()).digest(4 * int(count))
        columns.append(np.bincount(np.frombuffer(stream, dtype="<u4") % folds, minlength=folds))
    return np.array(columns, dtype=np.float64).reshape(len(columns), folds).T


def _leaders(beliefs: Beliefs, rows: Rows) -> NDArray[np.int64]:
    """The number that the most probable label has in each row, shape (P,); negative without votes."""
    lattice = beliefs.lattice
    canonical = rows if lattice.named else renumber(rows)
    leads = beliefs.right[lattice.find(canonical)].argmax(axis=1)
    if lattice.named:
        return np.asarray(np.where((rows >= 0).any(axis=1), leads, UNASKED), dtype=np.int64)
    voters = (canonical == leads[:, None]).argmax(axis=1)
    return np.asarray(np.take_along_axis(rows, voters[:, None], axis=1)[:, 0], dtype=np.int64)

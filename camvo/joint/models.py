"""The student as an arm of the model of votes: its vote counts, but it is no independent evidence.

The other arms taught the student, so its agreement with them is no evidence for them. The model of votes is
therefore fitted to the votes of the others alone. The accuracy of the student is then estimated from the
rounds that asked all others, given the labels that their votes make probable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

import numpy as np
from scipy.special import expit

from camvo.joint.lattice import Lattice
from camvo.joint.two_coins import Explained, TwoCoins, coins_by, fit_two_coins
from camvo.joint.votes import Rows, VoteRows, distinct
from camvo.numerics.small import within
from camvo.typing import Array

_KINDS: Final = 3
_STEPS: Final = 40
_KIND_PRIOR_ACCURACY, _KIND_PRIOR_ROUNDS = 0.7, 5.0
"""The prior of an arm's accuracy on items of one kind, before the pull."""

_PULL: Final = 200.0
"""How many rounds pull an arm's accuracy on one kind towards what the arm and the kind explain apart."""

_FIRST_SHARED: Final = 0.4
"""How often a wrong vote names the decoy, before it is fitted."""

_SUM_STEPS: Final = 6
_LEAST_WEIGHT: Final = 0.3
_KIND_ROUNDS: Final = 3.0
"""How many rounds of each kind the prior of the kinds' shares counts as."""

_LOWEST, _HIGHEST = 0.1, 0.995


@dataclass(frozen=True, slots=True, eq=False)
class Kinds:
    """A fitted model of the votes of K arms on M > 2 labels (M = 1 is allowed, and every vote is right).

    Attributes:
        accuracy: p, shape (K, D).
        shared: s, shape (D,).
        share: π, shape (D,); the easiest kind comes first.
        labels: M.
        temper: the exponent of each arm's likelihood, shape (K,).
    """

    accuracy: Array
    shared: Array
    share: Array
    labels: int
    temper: Array

    @property
    def agreement(self) -> Array:
        """How often each pair of arms is expected to agree, shape (K, K)."""
        right, wrong, others = self.accuracy, 1.0 - self.accuracy, max(self.labels - 1, 1)
        other = (1.0 - self.shared) / others
        on_same = (self.shared + other) ** 2 + (others - 1) * other**2
        return np.asarray((right * self.share) @ right.T + (wrong * self.share * on_same) @ wrong.T)

    @property
    def skill(self) -> Array:
        """The mean log-odds of each arm's vote against one other label, shape (K,)."""
        odds = np.log(self.accuracy * max(self.labels - 1, 1)) - np.log1p(-self.accuracy)
        return np.asarray(odds @ self.share, dtype=np.float64)

    def beliefs(self, rows: Rows) -> tuple[Array, Array]:
        """The probability of each number's label, shape (P, G), and the votes' log-probability, (P,)."""
        right, evidence = self._posterior(_Named.of(rows, self.labels, self.temper))
        return np.ascontiguousarray(right[:, :-1].sum(axis=0).T), evidence

    def explained(self, rows: Rows, accuracy: Array) -> Explained:
        """What votes say if arms have other accuracies on each row, shape (n, K, D), or on all, (K, D)."""
        named = _Named.of(rows, self.labels, self.temper)
        label, evidence = replace(self, accuracy=accuracy)._posterior(named)
        voted = label[:, np.maximum(rows, 0), np.arange(len(rows))[:, None]] * (rows >= 0)
        return Explained(label.sum(axis=1).T, np.moveaxis(voted, 0, 2), evidence)

    def beliefs_at(self, lattice: Lattice) -> tuple[Array, Array]:
        """:meth:`beliefs` of all nodes of a lattice."""
        right, evidence = self._posterior(_named_nodes(lattice, self.labels, tuple(self.temper.tolist())))
        return right[:, :-1].sum(axis=0).T, evidence

    def among(self, positions: Sequence[int]) -> Kinds:
        """The model of the votes of some arms."""
        return replace(self, accuracy=self.accuracy[[*positions]], temper=self.temper[[*positions]])

    def refitted(self, rows: Rows) -> Kinds:
        """The same kind of model, fitted to other rounds, shape (n, K)."""
        return _fit_kinds(*distinct(rows), self.labels, self.temper)

    def with_shares(self, mass: Array) -> Kinds:
        """The same model with the kinds' shares in rounds with these probabilities, shape (n, D)."""
        share = (mass.sum(axis=0) + _KIND_ROUNDS) / (len(mass) + _KIND_ROUNDS * len(self.share))
        return replace(self, share=share)

    def kinds_and_labels(self, rows: Rows) -> Array:
        """The probability of each number's label and kind, shape (P, G + 1, D); the last label is "none"."""
        return np.moveaxis(self._posterior(_Named.of(rows, self.labels, self.temper))[0], (0, 2), (2, 0))

    def _posterior(self, named: _Named) -> tuple[Array, Array]:
        """P(z, d), shape (D, G + 1, P), whose last z is "none"; and the votes' log-probability, (P,).

        Rows come last, because NumPy works fastest along the last axis.
        """
        terms = self._terms(named)
        right, sums = terms.right, terms.right.sum(axis=(0, 1))
        return right / sums, np.log(sums) + terms.highest

    def _posterior_with_decoys(self, named: _Named) -> tuple[Array, Array]:
        """P(z, d), as :meth:`_posterior`, and P(w, d), shape (D, G, P)."""
        terms = self._terms(named)
        sums = terms.right.sum(axis=(0, 1))
        drawn = terms.decoys * (terms.labels.sum(axis=1, keepdims=True) - terms.labels + terms.none[:, None])
        return terms.right / sums, drawn * terms.factor / sums

    def _terms(self, named: _Named) -> _Terms:
        others = max(self.labels - 1, 1)
        miss, chance = np.log1p(-self.accuracy), (1.0 - self.shared) / others
        stray = np.log(np.maximum(chance, 1e-12))
        lean = np.log(self.shared + chance) - stray
        for_z = named.added_up(np.log(self.accuracy) - miss - stray)  # 0 for a number that is not present
        top_z, top_w = np.maximum(for_z.max(axis=1), 0.0), lean[:, None] * named.heaviest
        labels = np.exp(for_z - top_z[:, None]) * named.share_z
        decoys = np.exp(lean[:, None, None] * named.lighter) * named.share_w
        none, no_w = np.exp(-top_z) * named.rest_z, np.exp(-top_w) / others
        total = decoys.sum(axis=1)
        scale = named.cast_up(miss + stray) + np.log(self.share)[:, None] + top_z + top_w
        highest = scale.max(axis=0)
        factor = np.exp(scale - highest)[:, None]
        right = np.empty((len(labels), labels.shape[1] + 1, labels.shape[2]))
        right[:, :-1] = labels * (total[:, None] - decoys + (no_w * named.rest_w)[:, None])
        right[:, -1] = none * (total + no_w * named.rest_without)
        right *= factor
        return _Terms(right, labels, decoys, none, factor, highest)


class _Terms(NamedTuple):
    """The joint probability of labels and kinds with the votes, in parts, as factors of exp(highest).

    Attributes:
        right: of z and d, shape (D, G + 1, P); the last z is "none".
        labels: the part of each z, shape (D, G, P).
        decoys: the part of each w, shape (D, G, P).
        none: the part of all z that nobody voted for, shape (D, P).
        factor: the part of each d, shape (D, 1, P).
        highest: shape (P,).
    """

    right: Array
    labels: Array
    decoys: Array
    none: Array
    factor: Array
    highest: Array


@dataclass(frozen=True, slots=True, eq=False)
class _Named:
    """Vote rows in the form that the likelihood needs.

    Attributes:
        votes: whether each arm voted for each number, times its temper, shape (K, G, P).
        cast: whether each arm voted, times its temper, shape (K, P).
        heaviest: the largest sum of the tempers of the arms that voted for a number, shape (P,).
        lighter: by how much each number's sum differs from it, 0 for one that the row does not have, (G, P).
        share_z: the prior of each number's label, 0 for a number that the row does not have, (G, P).
        share_w: the same as a decoy.
        rest_z: the prior of the labels without a number, shape (P,).
        rest_w: the number of these labels that can be decoys if a label with a number is right, shape (P,).
        rest_without: the same if none of those is right.
    """

    votes: Array
    cast: Array
    heaviest: Array
    lighter: Array
    share_z: Array
    share_w: Array
    rest_z: Array
    rest_w: Array
    rest_without: Array

    @classmethod
    def of(cls, rows: Rows, labels: int, temper: Array) -> _Named:
        numbers = np.arange(min(rows.shape[1], labels))
        columns = rows.T
        votes = (columns[:, None] == numbers[None, :, None]) * temper[:, None, None]
        present = numbers[:, None] < np.maximum(columns.max(axis=0, initial=-1) + 1, 0)
        weight, count = votes.sum(axis=0), present.sum(axis=0)
        heaviest = weight.max(axis=0, initial=0.0)
        single = labels == 1  # no other label exists then, and w has the one state "none"
        return cls(
            votes,
            (columns >= 0) * temper[:, None],
            heaviest,
            (weight - heaviest) * present,
            present / labels,
            present * (0.0 if single else 1.0 / (labels - 1)),
            (labels - count) / labels,
            np.maximum(labels - count, single).astype(np.float64),
            np.maximum(labels - 1 - count, single).astype(np.float64),
        )

    def added_up(self, terms: Array) -> Array:
        """The sum, (D, G, P), over the arms that voted for each number of terms (K, D), or (P, K, D)."""
        if terms.ndim == 2:
            arms, numbers, rows = self.votes.shape
            flat = terms.T @ self.votes.reshape(arms, numbers * rows)
            return np.asarray(flat.reshape(len(flat), numbers, rows))
        by_arm = np.ascontiguousarray(np.moveaxis(terms, 0, 2))
        return np.asarray(sum(by_arm[arm][:, None] * votes for arm, votes in enumerate(self.votes)))

    def cast_up(self, terms: Array) -> Array:
        """The sum of each kind's terms over the arms that voted, shape (D, P); terms as above."""
        if terms.ndim == 2:
            return np.asarray(terms.T @ self.cast)
        return np.asarray((np.moveaxis(terms, 0, 2) * self.cast[:, None]).sum(axis=0))


@lru_cache(maxsize=16)
def _named_nodes(lattice: Lattice, labels: int, temper: tuple[float, ...]) -> _Named:
    """The nodes of a lattice; cached, because every task whose skills depend on its context needs them."""
    return _Named.of(lattice.rows, labels, np.array(temper))


def _fit_kinds(rows: Rows, counts: Array, labels: int, temper: Array) -> Kinds:
    """Fit the model by EM to votes alone."""
    arms = rows.shape[1]
    named, voted = _Named.of(rows, labels, temper), (rows >= 0).astype(np.float64)
    numbers = np.arange(named.votes.shape[1])
    members = (rows.T[:, None] == numbers[None, :, None]).reshape(arms, numbers.size * len(rows))
    model = Kinds(
        np.tile(np.linspace(0.95, 0.45, _KINDS), (arms, 1)),
        np.full(_KINDS, _FIRST_SHARED),
        np.full(_KINDS, 1.0 / _KINDS),
        labels,
        temper,
    )
    for _ in range(_STEPS):
        right_label, decoy = model._posterior_with_decoys(named)
        kind = right_label.sum(axis=1).T
        right = members @ (right_label[:, :-1] * counts).reshape(_KINDS, members.shape[1]).T
        on_decoy = members @ (decoy * counts).reshape(_KINDS, members.shape[1]).T
        cast = voted.T @ (kind * counts[:, None])
        accuracy = _kind_accuracy(right, cast)
        share = (counts @ kind + _KIND_ROUNDS) / (counts.sum() + _KIND_ROUNDS * _KINDS)
        drawn = model.shared / (model.shared + (1.0 - model.shared) / max(labels - 1, 1))
        shared = (temper @ on_decoy * drawn + 2.0) / (temper @ (cast - right) + 5.0)
        easiest = np.argsort(-accuracy.mean(axis=0), kind="stable")
        model = Kinds(
            accuracy[:, easiest], within(shared, 0.001, 0.999)[easiest], share[easiest], labels, temper
        )
    return model


def _kind_accuracy(right: Array, cast: Array) -> Array:
    """Each arm's accuracy on each kind, pulled towards log-odds that are a sum of the arm's and the kind's.

    Arms that are better on easy items are also better on hard ones. Without the pull, even hundreds of rounds
    are too few to compare the arms' accuracies on rare kinds, and the fit often picks the wrong arm as best.
    """
    prior = _KIND_PRIOR_ROUNDS * _KIND_PRIOR_ACCURACY
    alone = within((right + prior) / (cast + _KIND_PRIOR_ROUNDS), _LOWEST, _HIGHEST)
    odds, weight = np.log(alone) - np.log1p(-alone), np.maximum(cast * alone * (1.0 - alone), _LEAST_WEIGHT)
    # Each step makes the sums those of the weighted means over kinds, then over arms: it is linear in the
    # kinds' terms.
    by_kind = weight / weight.sum(axis=1, keepdims=True)
    by_arm = weight / weight.sum(axis=0, keepdims=True)
    arms, kinds = (odds * by_kind).sum(axis=1), (odds * by_arm).sum(axis=0)
    first, turn = kinds - arms @ by_arm, by_kind.T @ by_arm
    before, of_kind = np.zeros_like(kinds), first
    for _ in range(_SUM_STEPS - 1):
        before, of_kind = of_kind, first + of_kind @ turn
    of_arm = arms - by_kind @ before
    pulled = (right + _PULL * expit(of_arm[:, None] + of_kind)) / (cast + _PULL)
    return within(pulled, _LOWEST, _HIGHEST)


def model_by(belief: Array, rows: Rows, counts: Array, labels: int, temper: Array) -> TwoCoins | Kinds:
    """The simplest model of the votes in which the numbers of each row have these probabilities, (P, G)."""
    if labels == 2:
        return coins_by(belief, rows, counts, temper)
    voted = rows >= 0
    hit = np.where(voted, np.take_along_axis(belief, np.maximum(rows, 0), axis=1), 0.0)
    prior = _KIND_PRIOR_ROUNDS * _KIND_PRIOR_ACCURACY
    accuracy = np.clip((counts @ hit + prior) / (counts @ voted + _KIND_PRIOR_ROUNDS), _LOWEST, _HIGHEST)
    return Kinds(accuracy[:, None], np.full(1, _FIRST_SHARED), np.ones(1), labels, temper)


class VoteModel(Protocol):
    """A fitted model of the votes of K arms."""

    @property
    def skill(self) -> Array:
        """The mean log-odds of each arm's vote, shape (K,)."""
        ...

    def beliefs(self, rows: Rows) -> tuple[Array, Array]:
        """What vote rows, shape (P, K), say about the label; arms without a vote are left out.

        Returns:
            The probability that each number's label is right, shape (P, G) for G = min(K, M) numbers, 0 for a
            number that the row does not have; and the log-probability of the votes, shape (P,).
        """
        ...


def fit_vote_model(rows: Rows, counts: Array, labels: int, temper: Array) -> TwoCoins | Kinds:
    """Fit the model of votes for M labels: two coins for two labels, kinds of items for more.

    With two labels, votes determine an accuracy for each label; how much items differ in difficulty is
    fitted later (:func:`.with_difficulty`), once no other reading of the votes is as likely.
    With more labels, an arm has too few votes for each label, but votes can distinguish kinds of items.

    Vote rows have shape (P, K); ``counts`` is the weight of each in rounds, and ``temper`` the exponent of
    each arm's likelihood, in (0, 1].
    """
    if labels == 2:
        return fit_two_coins(rows, counts, temper)
    return _fit_kinds(rows, counts, labels, temper)


_PRIOR_ACCURACY, _PRIOR_ROUNDS = 0.5, 20.0

MOST_OTHERS: Final = 7
"""The most arms that a plan asks in addition to the student; the limit keeps the lattice small."""


def with_taught_arm(model: VoteModel, votes: VoteRows, taught: int, temper: float) -> TwoCoins | Kinds:
    """The model of the others, extended by the taught arm's accuracy in rounds that asked all others."""
    counted = (votes.counts > 0.0) & (votes.rows[:, taught] >= 0)
    rows, counts = votes.rows[counted], votes.counts[counted]
    if isinstance(model, TwoCoins):
        right, _ = model.beliefs(np.delete(rows, taught, axis=1))
        said = rows[:, taught, None] == np.arange(2)
        accuracy = _accuracy(counts[:, None] * right * said, counts[:, None] * right)
    elif isinstance(model, Kinds):
        posterior = model.kinds_and_labels(np.delete(rows, taught, axis=1))
        number = np.minimum(rows[:, taught], posterior.shape[1] - 1)
        agreed = np.where(
            (rows[:, taught] < posterior.shape[1] - 1)[:, None], posterior[np.arange(len(rows)), number], 0.0
        )
        accuracy = _accuracy(counts[:, None] * agreed, counts[:, None] * posterior.sum(axis=1))
    else:
        raise TypeError(type(model).__name__)
    return replace(
        model,
        accuracy=np.insert(model.accuracy, taught, accuracy, axis=0),
        temper=np.insert(model.temper, taught, temper),
    )


def _accuracy(right: Array, cast: Array) -> Array:
    """Accuracies from the weights of right votes and of all votes, summed over rows, with a prior."""
    prior = _PRIOR_ROUNDS * _PRIOR_ACCURACY
    accuracy = (right.sum(axis=0) + prior) / (cast.sum(axis=0) + _PRIOR_ROUNDS)
    return np.asarray(np.clip(accuracy, _LOWEST, _HIGHEST), dtype=np.float64)

"""The model of votes on two labels: each arm has an accuracy for each, and items differ in difficulty."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

import numpy as np
from scipy.special import expit, log_ndtr, logit, ndtr, ndtri, softmax

from camvo.joint.lattice import Lattice
from camvo.joint.votes import Rows, agreement, closest_group, distinct, others_agree
from camvo.numerics.small import within
from camvo.typing import Array


@dataclass(frozen=True, slots=True, eq=False)
class Explained:
    """The E-step of n rounds with K arms, on items of C kinds (with two labels: of each label).

    Attributes:
        mass: the probability of each kind, shape (n, C).
        right: the same, and that the arm's vote is right, shape (n, K, C); 0 for an arm without a vote.
        evidence: the log-probability of the votes, shape (n,).
    """

    mass: Array
    right: Array
    evidence: Array


_COIN_PULL: Final = 100.0
_COIN_SPREAD: Final = 0.5
"""An arm's accuracy for one label is pulled towards its accuracy for both by 100 / (0.5² + b²) rounds, where
b is the difference of their log-odds. So most arms hardly lean, and some lean far: the prior is Student's t.
"""

_LOOSE_PULL: Final = 5.0
"""By how many rounds it is pulled in the estimate of b."""

_COIN_PRIOR_ACCURACY, _COIN_PRIOR_ROUNDS = 0.75, 20.0
"""The prior of an arm's accuracy for both labels."""

_SHARE_ROUNDS: Final = 10.0
"""How many rounds of each label the prior of the labels' shares counts as."""

_COIN_LOWEST, _COIN_HIGHEST = 0.05, 0.995
_LEAST_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class TwoCoins:
    """A fitted model of the votes of K arms on two labels.

    Attributes:
        accuracy: p, shape (K, 2).
        share: the share of items for which each label is right, shape (2,); or the probability of each
            label on each row, shape (P, 2).
        temper: the exponent of each arm's likelihood, shape (K,).
        difficulty: the part that the item has in whether a vote is right, in [0, 1); the rest is the arm's.
    """

    accuracy: Array
    share: Array
    temper: Array
    difficulty: float = 0.0

    @property
    def agreement(self) -> Array:
        """How often each pair of arms is expected to agree, shape (K, K)."""
        right, wrong = self.accuracy, 1.0 - self.accuracy
        return np.asarray((right * self.share) @ right.T + (wrong * self.share) @ wrong.T)

    @property
    def skill(self) -> Array:
        """The mean log-odds of each arm's vote, shape (K,)."""
        odds = np.log(self.accuracy) - np.log1p(-self.accuracy)
        return np.asarray(odds @ self.share, dtype=np.float64)

    def explained(self, rows: Rows, accuracy: Array) -> Explained:
        """What votes say if arms have other accuracies on each row, shape (n, K, 2), or on all, (K, 2)."""
        mass, evidence = replace(self, accuracy=accuracy).beliefs(rows)
        right = np.stack([(rows == label) * mass[:, label, None] for label in range(2)], axis=2)
        return Explained(mass, right, evidence)

    def beliefs_at(self, lattice: Lattice) -> tuple[Array, Array]:
        """:meth:`beliefs` of all nodes of a lattice."""
        return self.beliefs(lattice.rows)

    def among(self, positions: Sequence[int]) -> TwoCoins:
        """The model of the votes of some arms."""
        return replace(self, accuracy=self.accuracy[[*positions]], temper=self.temper[[*positions]])

    def refitted(self, rows: Rows) -> TwoCoins:
        """The same kind of model, fitted to other rounds, shape (n, K)."""
        patterns, counts = distinct(rows)
        model = fit_two_coins(patterns, counts, self.temper)
        if not self.difficulty:
            return model
        return _taught(replace(model, difficulty=self.difficulty), patterns, counts)

    def beliefs(self, rows: Rows) -> tuple[Array, Array]:
        """The probability of each label, shape (P, 2), and the log-probability of the votes, shape (P,)."""
        first, second = self._joint(rows, self._evidence)
        evidence = np.logaddexp(first, second)
        return np.exp(np.stack((first, second), axis=1) - evidence[:, None]), evidence

    def _joint(self, rows: Rows, evidence: Callable[[Array, Array, Array], Array]) -> list[Array]:
        """The log-probability of each label and the votes."""
        voted = [(rows == label) * self.temper for label in range(2)]
        return [
            np.log(self.share[..., label])
            + evidence(voted[label], voted[1 - label], self.accuracy[..., label])
            for label in range(2)
        ]

    def _evidence(self, right: Array, wrong: Array, accuracy: Array) -> Array:
        """The log-probability of right and wrong votes, each shape (P, K), shape (P,).

        The accuracy for the right label has shape (K,), or (P, K) where it is another one in each row.
        """
        if self.difficulty:
            logs = self._evidence_by_ease(right, wrong, accuracy) + _LOG_WEIGHT
            most = logs.max(axis=1)  # of SciPy's logsumexp, the checks take longer than the sum
            return np.asarray(most + np.log(np.exp(logs - most[:, None]).sum(axis=1)))
        add = _added_up_by_row if accuracy.ndim > 1 else np.matmul
        return np.asarray(add(right, np.log(accuracy)) + add(wrong, np.log1p(-accuracy)))

    def _evidence_by_ease(self, right: Array, wrong: Array, accuracy: Array) -> Array:
        """The same for each ease of the item, shape (P, Q)."""
        add = _added_up_by_row if accuracy.ndim > 1 else np.matmul
        level = _Ease.of(self.difficulty).level(ndtri(accuracy))
        return np.asarray(add(right, log_ndtr(level)) + add(wrong, log_ndtr(-level)))

    def likelier(self, rows: Rows, counts: Array) -> TwoCoins:
        """The model after one step of EM in which neither the labels nor the ease of the items are known."""
        logs = np.stack(self._joint(rows, self._evidence_by_ease), axis=1) + _LOG_WEIGHT
        weight = np.exp(logs - logs.max(axis=(1, 2), keepdims=True))
        weight *= counts[:, None, None] / weight.sum(axis=(1, 2), keepdims=True)
        right, wrong = _Votes.of(rows, self.temper).right_and_wrong(weight)
        accuracy = _accuracies(right, wrong, partial(_by_ease, _Ease.of(self.difficulty)))
        return replace(self, accuracy=accuracy, share=_shares(weight.sum(axis=(0, 2))))


_EASE, _WEIGHT = np.polynomial.hermite_e.hermegauss(9)
_LOG_WEIGHT: Final[Array] = np.log(_WEIGHT / _WEIGHT.sum())
"""Q points for the ease of an item, which is standard normal, and their weights."""


@dataclass(frozen=True, slots=True)
class _Ease:
    """What the ease of an item has to do with whether a vote is right.

    A vote is right where Φ⁻¹(accuracy) + √difficulty·ease + √(1 − difficulty)·noise is above 0.
    """

    shift: Array
    noise: float

    @classmethod
    def of(cls, difficulty: float) -> _Ease:
        return cls(np.sqrt(difficulty) * _EASE, float(np.sqrt(1.0 - difficulty)))

    def level(self, quantile: Array) -> Array:
        """Φ⁻¹ of the probability that a vote is right for each ease, shape (…) → (…, Q)."""
        return np.asarray((quantile[..., None] + self.shift) / self.noise)


def _added_up_by_row(voted: Array, terms: Array) -> Array:
    """The sum over arms of the terms of each row, shape (P, K, …), times the votes, (P, K)."""
    return np.asarray(np.einsum("pk,pk...->p...", voted, terms))


_STEPS: Final = 40
_FEWEST_ARMS: Final = 4
_WHOLE: Final = 2.0
"""As how many fits without an arm the fit with all of them counts."""

_STEPS_WITHOUT: Final = 10
_LEAST_LEAD: Final = 0.02
"""By how much a reading must raise the log-likelihood of a round to replace that of the majority."""


def fit_two_coins(rows: Rows, counts: Array, temper: Array) -> TwoCoins:
    """Fit the accuracies and the labels' shares by EM, from the majority's labels or those of a few arms.

    Where two good arms contradict many weak ones that err together, EM from the majority ends at the reading
    of the weak ones, though that of the good ones explains all votes better. Where the others agree well, the
    few are rather copies of one arm: their reading is also more likely by a model without copies.
    """
    model = _two_coins_from(range(rows.shape[1]), rows, counts, temper)
    same = agreement(rows, counts)
    group, _ = closest_group(same - model.agreement)
    if len(group) > 1 and not others_agree(same, group, 2):
        rival = _two_coins_from(group, rows, counts, temper)
        lead = float(counts @ (rival.beliefs(rows)[1] - model.beliefs(rows)[1]))
        if lead > _LEAST_LEAD * counts.sum():
            model = rival
    return _without_each(model, rows, counts)


_DIFFICULTIES: Final = np.linspace(0.0, 0.6, 7)
"""The values between which votes decide. Beyond them the ease of items and their labels may change roles."""

_FEWEST_ROUNDS: Final = 100
"""With fewer rounds, related arms and rival readings cannot be told from items that are hard for all arms."""

_TURNS, _STEPS_OF_TURN = 3, 5
_MOST_APART: Final = 0.1
"""A refit that labels a larger share of the rounds otherwise follows another reading, and is not taken."""


def with_difficulty(model: TwoCoins, rows: Rows, counts: Array) -> TwoCoins:
    """The model in which some items are harder than others for all arms, refitted from these accuracies.

    If errors were independent, a few votes that agree would settle nearly every item. Votes show that they
    do not: too many items have most arms on one side, and too many split them. The difficulty is its
    posterior mean, if all values up to the highest are equally probable before the votes.
    """
    if counts.sum() < _FEWEST_ROUNDS:
        return model
    first = replace(model, difficulty=likely_difficulty(model, rows, counts))
    refit = first
    for _ in range(_TURNS):
        refit = _taught(refit, rows, counts)
        refit = replace(refit, difficulty=likely_difficulty(refit, rows, counts))
    labels, otherwise = (each.beliefs(rows)[0].argmax(axis=1) for each in (model, refit))
    return refit if counts @ (labels != otherwise) <= _MOST_APART * counts.sum() else first


def likely_difficulty(model: TwoCoins, rows: Rows, counts: Array) -> float:
    """The posterior mean of the difficulty, given the accuracies."""
    likely = [counts @ replace(model, difficulty=float(each)).beliefs(rows)[1] for each in _DIFFICULTIES]
    return float(softmax(likely) @ _DIFFICULTIES)


def _taught(model: TwoCoins, rows: Rows, counts: Array) -> TwoCoins:
    """The model after some steps of EM with its difficulty."""
    for _ in range(_STEPS_OF_TURN):
        model = model.likelier(rows, counts)
    return model


def _without_each(model: TwoCoins, rows: Rows, counts: Array) -> TwoCoins:
    """The mean of a fit and of those that start from it and leave out one arm each.

    Few rounds determine the accuracies of few arms badly: one fit may take a middling arm for the best, only
    because another one errs with it.
    """
    arms = rows.shape[1]
    if arms < _FEWEST_ARMS:
        return model
    belief = model.beliefs(rows)[0]
    odds, fits, shares = _WHOLE * logit(model.accuracy), np.full((arms, 1), _WHOLE), []
    for left_out in range(arms):
        others = np.delete(np.arange(arms), left_out)
        votes = _Votes.of(rows[:, others], model.temper[others])
        fit = votes.coins_by(belief, counts)
        for _ in range(_STEPS_WITHOUT - 1):
            fit = votes.coins_by(votes.belief(fit), counts)
        odds[others] += logit(fit.accuracy)
        fits[others] += 1.0
        shares.append(fit.share)
    return replace(model, accuracy=expit(odds / fits), share=np.mean(shares, axis=0))


def _two_coins_from(arms: Sequence[int], rows: Rows, counts: Array, temper: Array) -> TwoCoins:
    """The same, from the labels of the majority of some arms."""
    among = rows[:, [*arms]]
    lead = (among == 1).sum(axis=1) - (among == 0).sum(axis=1)
    belief: Array = 0.5 + 0.3 * np.stack((-np.sign(lead), np.sign(lead)), axis=1)
    votes = _Votes.of(rows, temper)
    model = votes.coins_by(belief, counts)
    for _ in range(_STEPS - 1):
        model = votes.coins_by(votes.belief(model), counts)
    return model


def coins_by(belief: Array, rows: Rows, counts: Array, temper: Array) -> TwoCoins:
    """The accuracies and shares if each row's labels have these probabilities, shape (P, 2)."""
    return _Votes.of(rows, temper).coins_by(belief, counts)


@dataclass(frozen=True, slots=True, eq=False)
class _Votes:
    """Vote rows in the form that EM needs in each of its steps.

    Attributes:
        cast: whether each arm voted for the first and for the second label, shape (2K, P).
        weighed: the same times its temper, shape (P, 2K).
        temper: the exponent of each arm's likelihood, shape (K,).
    """

    cast: Array
    weighed: Array
    temper: Array

    @classmethod
    def of(cls, rows: Rows, temper: Array) -> _Votes:
        cast = np.concatenate([(rows == label).T for label in range(2)]).astype(np.float64)
        return cls(cast, np.ascontiguousarray(cast.T * np.concatenate((temper, temper))), temper)

    def belief(self, model: TwoCoins) -> Array:
        """The probability of each label, shape (P, 2), by a model in which all items are equally hard."""
        right, wrong = np.log(model.accuracy), np.log1p(-model.accuracy)
        log_odds = np.concatenate((wrong[:, 1] - right[:, 0], right[:, 1] - wrong[:, 0]))
        second = self.weighed @ log_odds + np.log(model.share[1] / model.share[0])
        return np.asarray(expit(np.stack((-second, second), axis=1)))

    def coins_by(self, belief: Array, counts: Array) -> TwoCoins:
        """See :func:`coins_by`."""
        weight = counts[:, None] * belief
        right, wrong = self.right_and_wrong(weight)
        return TwoCoins(_accuracies(right, wrong, _by_counts), _shares(weight.sum(axis=0)), self.temper)

    def right_and_wrong(self, weight: Array) -> tuple[Array, Array]:
        """The right and wrong votes of each arm for each label, by their weight, (P, 2, …) → (K, 2, …)."""
        flat = self.cast @ weight.reshape(len(weight), math.prod(weight.shape[1:]))
        first, second = flat.reshape(2, len(self.temper), *weight.shape[1:])
        right, wrong = np.empty_like(first), np.empty_like(first)
        right[:, 0], wrong[:, 0] = first[:, 0], second[:, 0]
        right[:, 1], wrong[:, 1] = second[:, 1], first[:, 1]
        return right, wrong


def _accuracies(right: Array, wrong: Array, likeliest: _Likeliest) -> Array:
    """The accuracies of the arms, shape (K, 2), by the right and the wrong votes for each label."""
    both = right.sum(axis=1, keepdims=True), wrong.sum(axis=1, keepdims=True)
    mean = likeliest(*both, _COIN_PRIOR_ACCURACY, _COIN_PRIOR_ROUNDS)
    odds = logit(within(likeliest(right, wrong, mean, _LOOSE_PULL), _COIN_LOWEST, _COIN_HIGHEST))
    pull = _COIN_PULL / (_COIN_SPREAD**2 + (odds[:, 1:] - odds[:, :1]) ** 2)
    return within(likeliest(right, wrong, mean, pull), _COIN_LOWEST, _COIN_HIGHEST)


def _shares(rounds: Array) -> Array:
    """The shares of the labels, shape (2,), by the rounds of each."""
    share = (rounds + _SHARE_ROUNDS) / (rounds.sum() + 2.0 * _SHARE_ROUNDS)
    share = within(share, _LEAST_SHARE, 1.0 - _LEAST_SHARE)
    return np.asarray(share / share.sum())


_Likeliest: TypeAlias = Callable[[Array, Array, Array | float, Array | float], Array]
"""The likeliest accuracies by right votes, wrong votes, and a prior mean that counts as so many rounds."""


def _by_counts(right: Array, wrong: Array, mean: Array | float, rounds: Array | float) -> Array:
    """The likeliest accuracies if all items are equally hard; votes have the shape of the result."""
    return np.asarray((right + rounds * mean) / (right + wrong + rounds))


_NEWTON_STEPS: Final = 12
_LONGEST_STEP: Final = 0.5
_CONVERGED: Final = 1e-6
_LOWEST_QUANTILE, _HIGHEST_QUANTILE = ndtri([_COIN_LOWEST, _COIN_HIGHEST])


def _by_ease(ease: _Ease, right: Array, wrong: Array, mean: Array | float, rounds: Array | float) -> Array:
    """The likeliest accuracies by votes for each ease of the item, shape (…, Q) → (…).

    The log-likelihood is concave in the accuracies' quantiles, so Newton's method finds its maximum.
    """
    quantile = np.broadcast_to(ndtri(mean), right.shape[:-1])
    for _ in range(_NEWTON_STEPS):
        slopes, curves = _derivatives(ease.level(quantile), right, wrong)
        of_prior = _derivatives(quantile, rounds * mean, rounds * (1.0 - mean))
        slope = slopes.sum(axis=-1) / ease.noise + of_prior[0]
        curve = curves.sum(axis=-1) / ease.noise**2 + of_prior[1]
        step = np.clip(slope / curve, -_LONGEST_STEP, _LONGEST_STEP)
        quantile = np.clip(quantile + step, _LOWEST_QUANTILE, _HIGHEST_QUANTILE)
        if np.abs(step).max() < _CONVERGED:
            break
    return np.asarray(ndtr(quantile))


def _derivatives(level: Array, right: Array | float, wrong: Array | float) -> tuple[Array, Array]:
    """The slope of right·log Φ(level) + wrong·log Φ(−level), and minus its second derivative."""
    density = -0.5 * level**2 - _LOG_ROOT_TAU
    ahead, behind = (np.exp(density - log_ndtr(side)) for side in (level, -level))
    return right * ahead - wrong * behind, right * ahead * (ahead + level) + wrong * behind * (behind - level)


_LOG_ROOT_TAU: Final = 0.5 * np.log(2.0 * np.pi)

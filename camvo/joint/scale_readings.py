"""Which of the ordered labels is right, given votes: a vote pulls the answer to its own place on the scale.

With d the distance from a vote to a label in steps, log P(label | votes) = −Σ_k w_k·d_k + terms. Without
human labels there are no terms and w_k follows from how far arm k usually is from the median of the others,
so the most probable label is nearly their weighted median. An arm's bias is not corrected then: where models
differ, votes do not show who is right, and on real ratings such corrections lose more than they gain. Only an
arm that clearly reads the scale backwards is turned round.

Human labels add an exponent, and where they prove it a correction of each w_k, a bias for each arm, one for
all arms, and a term for each label (a conditional logit). A vote that is missing counts as what the model of
votes expects it to be.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from camvo.joint.votes import Rows
from camvo.numerics.logit import ChoiceSets, NormalPrior, fit_proven_logit
from camvo.typing import Array

_TEMPER: Final = 0.3
"""The weight of a vote in units of one over its usual distance: arms err together, so each counts less."""

_PULL: Final = 60.0
"""How many rounds pull an arm's usual distance to the mean of all arms."""

_LEAST, _MOST_WEIGHT = 0.05, 3.0
_REVERSED: Final = 0.6
"""An arm reads the scale backwards if turning its votes round leaves less than this part of its distance."""

_ERRORS: Final = 2.0
"""By how many standard errors that must be so."""

_ALL, _ARM, _ALL_BIAS, _ARM_BIAS, _LABEL = 8.0, 16.0, 1.0, 4.0, 5.0
"""The precisions of the prior: of the exponent of the whole reading, around 1, and of each arm's deviation
from it; of the bias of all arms, and of each arm's; and of each label's term."""

_PROVEN: Final = 0.5
"""By how many standard errors all terms but the exponent must predict held-out labels better."""

_LEAST_EXPONENT: Final = 1.0 / 3.0


@dataclass(frozen=True, slots=True, eq=False)
class ScaleReadings:
    """How votes of K arms on M ordered labels are read.

    Attributes:
        places: the place of each vote of each arm on the scale, shape (K, M): its own, or the opposite one.
        weights: w, shape (K,).
        biases: what each arm's vote adds to the labels above it and takes from those below, shape (K,).
        labels: what is added to the log-probability of each label, shape (M,).
        exponent: the part of all that which human labels leave: votes are less sure than they seem.
        count: the number of human labels.
    """

    places: NDArray[np.int64]
    weights: Array
    biases: Array
    labels: Array
    exponent: float = 1.0
    count: int = 0

    @property
    def reversed(self) -> NDArray[np.bool_]:
        """Which arms read the scale backwards, shape (K,)."""
        return np.asarray(self.places[:, 0] > 0)

    def right(self, votes: Array) -> Array:
        """The probability of each label, shape (P, M), given that of each vote, shape (P, K, M)."""
        near, above = self._pulls(votes)
        logs = near @ self.weights + above @ self.biases + self.labels
        mass = np.exp(logs - logs.max(axis=1, keepdims=True))
        return np.asarray(mass / mass.sum(axis=1, keepdims=True), dtype=np.float64)

    def without_exponent(self, right: Array) -> Array:
        """Probabilities as plans of whom to ask use them.

        Arms make errors in common, which more votes do not reduce. So plans leave the exponent out, but for
        what is below a third.
        """
        sharp = right ** (1.0 / max(self.exponent, _LEAST_EXPONENT))
        return np.asarray(sharp / sharp.sum(axis=1, keepdims=True), dtype=np.float64)

    def _pulls(self, votes: Array) -> tuple[Array, Array]:
        """How near each label is to each vote, and on which side of it, shapes (P, M, K)."""
        apart = np.arange(len(self.labels)) - self.places[:, :, None]
        near = np.einsum("pkv,kvz->pzk", votes, -np.abs(apart))
        return near, np.einsum("pkv,kvz->pzk", votes, np.sign(apart))

    @classmethod
    def of_votes(cls, rows: Rows, counts: Array, labels: int) -> ScaleReadings:
        """The reading without human labels, from rounds that asked all arms: positions, shape (P, K)."""
        arms = rows.shape[1]
        places = np.tile(np.arange(labels), (arms, 1))
        far = np.full(arms, _unknown(labels))
        total = float(counts.sum())
        if total and arms > 1:
            for arm in range(arms):
                places[arm], far[arm] = _place(rows[:, arm], np.delete(rows, arm, axis=1), counts, labels)
        mean = max(float(far.mean()), _LEAST)
        usual = np.maximum((total * far + _PULL * mean) / (total + _PULL), _LEAST)
        weights = np.minimum(_TEMPER * mean / usual**2, _MOST_WEIGHT)
        return cls(places, weights, np.zeros(arms), np.zeros(labels))

    def taught(self, votes: Array, truth: NDArray[np.int64]) -> ScaleReadings:
        """The reading that human labels correct: by an exponent, and by terms if they prove these.

        Args:
            votes: the probability of each vote, shape (n, K, M).
            truth: the positions of the human labels, shape (n,).
        """
        rounds, arms, labels = votes.shape
        near, above = (pull * self.weights for pull in self._pulls(votes))
        alike = np.broadcast_to(np.eye(labels), (rounds, labels, labels))
        parts = (near.sum(axis=2, keepdims=True), near, above.sum(axis=2, keepdims=True), above, alike)
        sizes = (1, arms, 1, arms, labels)
        mean, precision = np.zeros(sum(sizes)), np.repeat((_ALL, _ARM, _ALL_BIAS, _ARM_BIAS, _LABEL), sizes)
        mean[0] = 1.0
        design = sparse.csr_matrix(np.concatenate(parts, axis=2).reshape(rounds * labels, -1))
        chosen = (np.arange(labels) == truth[:, None]).reshape(-1)
        choices = ChoiceSets(design, np.arange(rounds) * labels, chosen)
        terms = np.arange(len(mean)) > 0
        found = fit_proven_logit(choices, NormalPrior(mean, precision), terms, (1.0,), _PROVEN)
        exponent, by_arm, bias, biases, by_label = np.split(found, np.cumsum(sizes[:-1]))
        return replace(
            self,
            weights=self.weights * (exponent + by_arm),
            biases=self.weights * (bias + biases),
            labels=by_label,
            exponent=float(exponent[0]),
            count=rounds,
        )


def _unknown(labels: int) -> float:
    """The usual distance of an arm from the others before they have voted together."""
    return (labels - 1) / 6.0


def _place(votes: Rows, others: Rows, counts: Array, labels: int) -> tuple[NDArray[np.int64], float]:
    """The places of an arm's votes, shape (M,), and their mean distance from the median of the others."""
    forward = np.arange(labels)
    seen = (votes >= 0) & (others >= 0).any(axis=1) & (counts > 0.0)
    if not seen.any():
        return forward, _unknown(labels)
    weight, said = counts[seen] / counts[seen].sum(), votes[seen]
    median = np.nanmedian(np.where(others[seen] >= 0, others[seen], np.nan), axis=1)
    ahead, back = np.abs(said - median), np.abs(labels - 1 - said - median)
    gain = _REVERSED * ahead - back
    mean = float(weight @ gain)
    error = np.sqrt(float(weight @ (gain - mean) ** 2) / counts[seen].sum())
    if mean > _ERRORS * error:
        return forward[::-1], float(weight @ back)
    return forward, float(weight @ ahead)

"""Synthetic rounds with correlated errors (Appendix H, Algorithm 5).

The latent score of model i is z_i = θ_iᵀx + σε_i. The noise ε comes from the calibrated copula, and the
models share part of θ_i. Model i is right if z_i > Φ⁻¹(1 − μ_i).

The algorithm as printed does not reproduce the accuracies μ. The variance of z_i is ‖θ_i‖² + σ² instead of 1
(about 4.4 with d = 5, α = 0.1 and σ = ½), which pulls the accuracies towards ½. A model of accuracy 0.86 is
right in 70% to 74% of the rounds. The weighted vote of all seven models is right in 84% (mean of 20 seeds,
γ = 0); the paper's tables have 94%. ``standardised=True`` divides z_i by its standard deviation. The
accuracies are then μ, and the full vote is right in 95% of the rounds.

Neither variant reproduces the correlations C. The noise that carries them is 5% of the variance of z_i, and
the context adds θ_iᵀθ_j to the covariance. With γ = 0.8 the mean correlation is 0.07 (0.11 with α = 0.2, 0.3
with α = 0.4), so errors are correlated by α far more than by γ.
:attr:`CorrelatedRounds.expected_accuracy` and :attr:`CorrelatedRounds.expected_correlation` are the values
for the θ that was drawn, in closed form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from camvo.errors import InvalidParameterError
from camvo.numerics.correlation_matrices import root
from camvo.replays.bernoulli_copula import CopulaCalibration, attained_correlation, calibrate_copula
from camvo.replays.paper_models import PAPER_MODELS
from camvo.replays.synthetic import SyntheticModel
from camvo.replays.votes_table import VotesTable
from camvo.typing import Array


@dataclass(frozen=True, slots=True, eq=False)
class CorrelatedRounds:
    """A sample of n rounds of Algorithm 5.

    Attributes:
        models: name → target accuracy and price, K models.
        contexts: x, shape (n, d). They have no constant coordinate, so a linear model of the reward has no
            intercept unless the caller appends one.
        correct: r, whether each model is right, shape (n, K).
        theta: θ, the weights of the context, shape (K, d).
        sigma: σ, the scale of the noise.
        standardised: whether z was divided by its standard deviation.
        calibration: R, and the correlations that it would give without the context.
    """

    models: Mapping[str, SyntheticModel]
    contexts: Array
    correct: NDArray[np.bool_]
    theta: Array
    sigma: float
    standardised: bool
    calibration: CopulaCalibration

    @property
    def expected_accuracy(self) -> Array:
        """The probability that each model is right, over contexts and noise, shape (K,)."""
        if self.standardised:
            return _accuracies(self.models)
        deviation = np.sqrt(np.diag(self._covariance))
        return np.asarray(ndtr(ndtri(_accuracies(self.models)) / deviation), dtype=np.float64)

    @property
    def expected_correlation(self) -> Array:
        """The correlations of the models' correctness, over contexts and noise, shape (K, K)."""
        deviation = np.sqrt(np.diag(self._covariance))
        return attained_correlation(self.expected_accuracy, self._covariance / np.outer(deviation, deviation))

    @property
    def _covariance(self) -> Array:
        return self.theta @ self.theta.T + self.sigma**2 * self.calibration.latent

    def draw_votes_table(self, *, labels: tuple[str, ...] = ("yes", "no"), seed: int) -> VotesTable:
        """Draw the truth and the votes of the rounds, both uniform over the possible labels.

        The paper does not specify the vote of a model that is wrong. With two labels, the default, the
        weighted vote is right exactly if the right models outweigh the wrong ones, as in Lemma 1.

        Args:
            labels: the label set, at least two labels.
            seed: the seed of the truth and of the wrong votes.
        """
        rng = np.random.default_rng(seed)
        truth = rng.integers(len(labels), size=len(self.correct))
        other = (truth[:, None] + rng.integers(1, len(labels), size=self.correct.shape)) % len(labels)
        votes = np.where(self.correct, truth[:, None], other)
        prices = {name: model.price for name, model in self.models.items()}
        return VotesTable(labels, prices, self.contexts, votes.astype(np.int64), truth.astype(np.int64))


def draw_correlated_rounds(
    correlation: Array,
    *,
    rounds: int,
    seed: int,
    models: Mapping[str, SyntheticModel] = PAPER_MODELS,
    dimension: int = 5,
    alpha: float = 0.1,
    sigma: float = 0.5,
    standardised: bool = False,
) -> CorrelatedRounds:
    """Draw rounds by Algorithm 5.

    Two draws with the same seed have the same θ, x and independent noise, even if their correlations differ.

    Args:
        correlation: C, the target correlations of the models' correctness, shape (K, K).
        rounds: T, the number of rounds.
        seed: the seed of θ, x and the noise.
        models: K models with their mean accuracy μ and their price.
        dimension: d, the dimension of the contexts.
        alpha: α, the share of θ that is common to all models, in [0, 1]. It is not the α of the confidence
            bound.
        sigma: σ > 0, the scale of the latent noise.
        standardised: divide z by its standard deviation, so that the accuracies are μ. The paper does not.

    Raises:
        InvalidParameterError: α or σ is out of range, or C is no correlation matrix of K models.
    """
    if not 0.0 <= alpha <= 1.0 or not sigma > 0.0:
        raise InvalidParameterError(f"α must be in [0, 1] and σ above 0, got α = {alpha} and σ = {sigma}")
    mu = _accuracies(models)
    calibration = calibrate_copula(mu, correlation)
    rng = np.random.default_rng(seed)
    shared, own = rng.normal(size=dimension), rng.normal(size=(len(mu), dimension))
    theta = alpha * shared + (1.0 - alpha) * own
    contexts, noise = rng.normal(size=(rounds, dimension)), rng.normal(size=(rounds, len(mu)))
    z = contexts @ theta.T + sigma * noise @ root(calibration.latent)
    if standardised:
        z /= np.sqrt((theta**2).sum(axis=1) + sigma**2)
    return CorrelatedRounds(
        models, contexts, z > ndtri(1.0 - mu), theta, float(sigma), standardised, calibration
    )


def _accuracies(models: Mapping[str, SyntheticModel]) -> Array:
    return np.array([model.accuracy for model in models.values()])

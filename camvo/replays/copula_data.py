"""Synthetic rounds whose models err together (Appendix H, Algorithm 5).

The latent score of model i is z_i = θ_iᵀx + σε_i, with ε drawn from the calibrated copula and θ_i in part
shared; it is right where z_i > Φ⁻¹(1 − μ_i).

As printed this does not reproduce μ: the variance of z_i is ‖θ_i‖² + σ² instead of 1 (about 4.4 with d = 5,
α = 0.1 and σ = ½), so accuracies are drawn towards ½. Of .86 some .70 to .74 is left, and the weighted vote
of all seven is right in 84% of the rounds (mean of 20 seeds, γ = 0) where the paper's tables have 94%.
``standardised=True`` divides z_i by its standard deviation: it attains μ, and the full vote comes to 95%.

Neither attains C: the noise that carries it is 5% of the variance of z_i, and the context adds θ_iᵀθ_j to the
covariance. Asked for γ = 0.8, the correlations are 0.07 on average (0.11 with α = 0.2, 0.3 with α = 0.4): in
this model α correlates errors, and γ hardly. :attr:`CorrelatedRounds.expected_accuracy` and
:attr:`CorrelatedRounds.expected_correlation` say in closed form what a draw of θ attains.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from camvo.errors import InvalidParameterError
from camvo.numerics.correlation_matrices import root
from camvo.replays.bernoulli_copula import CopulaCalibration, attained_correlation, calibrate
from camvo.replays.paper_models import PAPER_MODELS
from camvo.replays.synthetic import SyntheticModel
from camvo.replays.votes_table import VotesTable
from camvo.typing import Array


@dataclass(frozen=True, slots=True, eq=False)
class CorrelatedRounds:
    """What Algorithm 5 draws.

    Attributes:
        models: name → accuracy asked for and price, K models.
        contexts: x, shape (n, d). There is no constant coordinate, so a linear model of the reward has no
            intercept; append one to give it one.
        correct: r, whether each model is right, shape (n, K).
        theta: θ, the weights of the context, shape (K, d).
        sigma: σ, the scale of the noise.
        standardised: whether z was divided by its standard deviation.
        calibration: R, with what it would attain without the context.
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
        """The probability of being right, over contexts and noise, shape (K,)."""
        if self.standardised:
            return _accuracies(self.models)
        deviation = np.sqrt(np.diag(self._covariance))
        return np.asarray(ndtr(ndtri(_accuracies(self.models)) / deviation), dtype=np.float64)

    @property
    def expected_correlation(self) -> Array:
        """The correlation of the models' being right, over contexts and noise, shape (K, K)."""
        deviation = np.sqrt(np.diag(self._covariance))
        return attained_correlation(self.expected_accuracy, self._covariance / np.outer(deviation, deviation))

    @property
    def _covariance(self) -> Array:
        return self.theta @ self.theta.T + self.sigma**2 * self.calibration.latent

    def votes_table(self, *, labels: tuple[str, ...] = ("yes", "no"), seed: int) -> VotesTable:
        """The rounds as votes: the truth is uniform, a wrong vote uniform over the other labels.

        The paper does not say what a wrong model answers. With two labels, the default, the vote is right
        whenever the right models outweigh the wrong ones, which is the event of Lemma 1.
        """
        rng = np.random.default_rng(seed)
        truth = rng.integers(len(labels), size=len(self.correct))
        other = (truth[:, None] + rng.integers(1, len(labels), size=self.correct.shape)) % len(labels)
        votes = np.where(self.correct, truth[:, None], other)
        prices = {name: model.price for name, model in self.models.items()}
        return VotesTable(labels, prices, self.contexts, votes.astype(np.int64), truth.astype(np.int64))


def correlated_rounds(
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
    """Algorithm 5. The same seed draws the same θ, x and independent noise whatever the correlation.

    Args:
        correlation: C, the correlations of being right that are asked for, shape (K, K).
        rounds: T.
        seed: the same seed gives the same rounds.
        models: K models with their mean accuracy μ and price.
        dimension: d.
        alpha: the share of θ that all models have in common, in [0, 1] (not the α of the confidence bound).
        sigma: σ > 0, the scale of the latent noise.
        standardised: divide z by its standard deviation, so that μ is attained (not in the paper).

    Raises:
        InvalidParameterError: α or σ out of range, or what :func:`camvo.replays.bernoulli_copula.calibrate`
        refuses.
    """
    if not 0.0 <= alpha <= 1.0 or not sigma > 0.0:
        raise InvalidParameterError(f"need α in [0, 1] and σ > 0, got {alpha} and {sigma}")
    mu = _accuracies(models)
    calibration = calibrate(mu, correlation)
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

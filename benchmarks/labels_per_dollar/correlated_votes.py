"""Votes of models that err together, drawn by Algorithm 5 of the paper (Appendix H)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, owens_t
from synthetic_votes import SyntheticModel

from camvo.errors import InvalidParameterError
from camvo.replays.replay import VotesTable
from camvo.subsets.confidence import nearest_psd, root
from camvo.typing import Array

_ROUNDING = 1e-12
"""Differences below this are rounding errors."""

_UNDERFLOW = 1e-150
"""Thresholds closer to 0 than this are treated as 0: their product would underflow and lose its sign."""


@dataclass(frozen=True, slots=True, eq=False)
class CopulaCalibration:
    """A Gaussian copula for K binary variables; every matrix has shape (K, K).

    Attributes:
        latent: R, the correlations of the latent normal variables; positive semi-definite.
        attained: the correlations of the binary variables, which are 1 where z > Φ⁻¹(1 − μ).
        clamped: whether the target of a pair was outside the limits set by the two means.
    """

    latent: Array
    attained: Array
    clamped: NDArray[np.bool_]


def bivariate_normal(h: float, k: float, rho: float) -> float:
    """Compute P(X ≤ h, Y ≤ k) for two standard normal variables with correlation ρ, by Owen's T (1956).

    Args:
        h: the first threshold.
        k: the second threshold.
        rho: ρ; values outside [−1, 1] count as −1 and 1.

    >>> round(bivariate_normal(0.0, 0.0, 0.5), 12)  # ¼ + asin(½)/2π
    0.333333333333
    """
    if rho >= 1.0:
        return float(ndtr(min(h, k)))
    if rho <= -1.0:
        return max(float(ndtr(h) - ndtr(-k)), 0.0)
    h, k = (0.0 if abs(threshold) < _UNDERFLOW else threshold for threshold in (h, k))
    if h == 0.0 and k == 0.0:
        return 0.25 + math.asin(rho) / (2.0 * math.pi)
    root = math.sqrt((1.0 - rho) * (1.0 + rho))
    halves = sum(
        0.5 * float(ndtr(first)) - float(owens_t(first, _slope(second - rho * first, first * root)))
        for first, second in ((h, k), (k, h))
    )
    opposite = h * k < 0.0 or (h * k == 0.0 and h + k < 0.0)
    return min(max(halves - 0.5 * opposite, 0.0), 1.0)


def binary_correlation(mu: float, other: float, rho: float) -> float:
    """Compute the correlation of two binary variables from that of their latent normal variables.

    Args:
        mu: the mean of the first variable, in (0, 1).
        other: the mean of the second variable, in (0, 1).
        rho: ρ, the latent correlation, in [−1, 1].
    """
    both = bivariate_normal(float(ndtri(mu)), float(ndtri(other)), rho)
    return (both - mu * other) / math.sqrt(mu * (1.0 - mu) * other * (1.0 - other))


def calibrate_copula(mu: Array, target: Array) -> CopulaCalibration:
    """Find the copula whose binary correlations match the targets (Appendix H, CalibrateCopula).

    Each pair is solved by itself. If the pairs together do not form a positive semi-definite matrix,
    :func:`nearest_psd` projects it, and ``attained`` then differs from the target.

    Args:
        mu: μ, the means, in (0, 1), shape (K,).
        target: C, the target correlations, symmetric with a diagonal of ones, shape (K, K).

    Raises:
        InvalidParameterError: a mean is not in (0, 1), the target is no correlation matrix, or the shapes
            differ.
    """
    _check(mu, target)
    latent, clamped = np.eye(len(mu)), np.zeros(target.shape, dtype=np.bool_)
    for i, j in zip(*np.triu_indices(len(mu), 1), strict=True):
        rho, unattainable = _latent_correlation(float(mu[i]), float(mu[j]), float(target[i, j]))
        latent[i, j] = latent[j, i] = rho
        clamped[i, j] = clamped[j, i] = unattainable
    latent = nearest_psd(latent)
    return CopulaCalibration(latent, attained_correlation(mu, latent), clamped)


def attained_correlation(mu: Array, latent: Array) -> Array:
    """Compute the correlations of binary variables from those of their latent normal variables.

    Args:
        mu: the means, in (0, 1), shape (K,).
        latent: R, the latent correlations, shape (K, K).

    Returns:
        The correlations, shape (K, K).
    """
    attained = np.eye(len(mu))
    for i, j in zip(*np.triu_indices(len(mu), 1), strict=True):
        attained[i, j] = attained[j, i] = binary_correlation(float(mu[i]), float(mu[j]), float(latent[i, j]))
    return attained


def _latent_correlation(mu: float, other: float, target: float) -> tuple[float, bool]:
    """Find ρ for one pair, and whether the target is unattainable, which clamps ρ to ±1."""
    least, most = binary_correlation(mu, other, -1.0), binary_correlation(mu, other, 1.0)
    if target >= most - _ROUNDING:
        return 1.0, target > most + _ROUNDING
    if target <= least + _ROUNDING:
        return -1.0, target < least - _ROUNDING
    return float(
        brentq(lambda rho: binary_correlation(mu, other, rho) - target, -1.0, 1.0, xtol=1e-13)
    ), False


def _slope(rise: float, run: float) -> float:
    return rise / run if run else math.copysign(math.inf, rise)


def _check(mu: Array, target: Array) -> None:
    if mu.ndim != 1 or target.shape != (len(mu), len(mu)):
        raise InvalidParameterError(
            f"K means need K×K correlations, got shapes {mu.shape} and {target.shape}"
        )
    if not np.all((mu > 0.0) & (mu < 1.0)):
        raise InvalidParameterError("means must lie strictly between 0 and 1")
    in_range = np.all(np.abs(target) <= 1.0) and np.all(np.diag(target) == 1.0)
    if not (in_range and np.allclose(target, target.T, rtol=0.0, atol=_ROUNDING)):
        raise InvalidParameterError("correlations must be symmetric, in [−1, 1], with a diagonal of ones")


PAPER_MODELS: Final[Mapping[str, SyntheticModel]] = MappingProxyType(
    {
        "llama-3.1-8b": SyntheticModel(0.6801, 0.05),
        "o1-mini": SyntheticModel(0.8482, 1.1),
        "llama-3.3-70b": SyntheticModel(0.8170, 0.59),
        "gpt-4o": SyntheticModel(0.8358, 2.5),
        "claude-3-7-sonnet": SyntheticModel(0.8565, 3.0),
        "o3-mini": SyntheticModel(0.8592, 1.1),
        "claude-3-5-haiku": SyntheticModel(0.6409, 0.8),
    }
)
"""The paper's models in the order of Appendix H: accuracy on MMLU, price in $ per million input tokens."""

_HETEROGENEOUS = (
    (1.000, 0.445, 0.147, 0.423, 0.211, 0.306, 0.320),
    (0.445, 1.000, 0.373, 0.448, 0.242, 0.420, 0.317),
    (0.147, 0.373, 1.000, 0.265, 0.172, 0.118, 0.142),
    (0.423, 0.448, 0.265, 1.000, 0.301, 0.436, 0.325),
    (0.211, 0.242, 0.172, 0.301, 1.000, 0.158, 0.180),
    (0.306, 0.420, 0.118, 0.436, 0.158, 1.000, 0.388),
    (0.320, 0.317, 0.142, 0.325, 0.180, 0.388, 1.000),
)


def equal_correlation(gamma: float, models: int = len(PAPER_MODELS)) -> Array:
    """Return the correlations of the first set-up of Appendix H: γ between any two models.

    Args:
        gamma: γ, in [−1, 1].
        models: K, the number of models.

    Returns:
        The correlation matrix, shape (K, K).
    """
    return np.where(np.eye(models, dtype=np.bool_), 1.0, gamma)


def heterogeneous_correlation() -> Array:
    """Return the correlations of the second set-up of Appendix H, for :data:`PAPER_MODELS`; shape (7, 7)."""
    return np.array(_HETEROGENEOUS)


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

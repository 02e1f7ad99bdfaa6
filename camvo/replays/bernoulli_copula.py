"""Calibrate a Gaussian copula to given correlations of binary variables (Appendix H, CalibrateCopula).

The means μ_i and μ_j of two binary variables limit their correlation, because the probability that both are
one lies between max(0, μ_i + μ_j − 1) and min(μ_i, μ_j). A target outside these limits is clamped, and the
result reports the correlations it attains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri, owens_t

from camvo.errors import InvalidParameterError
from camvo.numerics.correlation_matrices import nearest_psd
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

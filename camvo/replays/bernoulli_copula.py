"""Which normal correlations give binary variables the correlations asked for (Appendix H, CalibrateCopula).

Two binary variables of means μ_i and μ_j cannot have any correlation: the joint probability of two ones lies
between max(0, μ_i + μ_j − 1) and min(μ_i, μ_j). What is beyond is clamped, and what is attained is reported.
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
_NOTHING = 1e-150
"""Nearer to 0 than this, the product of two thresholds would underflow and lose its sign."""


@dataclass(frozen=True, slots=True, eq=False)
class CopulaCalibration:
    """A Gaussian copula for correlated correctness; every matrix has shape (K, K).

    Attributes:
        latent: R, the correlations of the normal variables, positive semi-definite.
        attained: the correlations that thresholding them at Φ⁻¹(1 − μ) gives.
        clamped: where the correlation asked for is beyond what two binary variables of these means can have.
    """

    latent: Array
    attained: Array
    clamped: NDArray[np.bool_]


def bivariate_normal(h: float, k: float, rho: float) -> float:
    """P(X ≤ h, Y ≤ k) of two standard normal variables with correlation ρ in [−1, 1], by Owen's T.

    >>> round(bivariate_normal(0.0, 0.0, 0.5), 12)  # ¼ + asin(½)/2π
    0.333333333333
    """
    if rho >= 1.0:
        return float(ndtr(min(h, k)))
    if rho <= -1.0:
        return max(float(ndtr(h) - ndtr(-k)), 0.0)
    h, k = (0.0 if abs(threshold) < _NOTHING else threshold for threshold in (h, k))
    if h == 0.0 and k == 0.0:
        return 0.25 + math.asin(rho) / (2.0 * math.pi)
    root = math.sqrt((1.0 - rho) * (1.0 + rho))
    halves = sum(
        0.5 * float(ndtr(one)) - float(owens_t(one, _slope(other - rho * one, one * root)))
        for one, other in ((h, k), (k, h))
    )
    apart = h * k < 0.0 or (h * k == 0.0 and h + k < 0.0)
    return min(max(halves - 0.5 * apart, 0.0), 1.0)


def binary_correlation(mu: float, other: float, rho: float) -> float:
    """The correlation of two binary variables of means μ whose latent variables have correlation ρ."""
    both = bivariate_normal(float(ndtri(mu)), float(ndtri(other)), rho)
    return (both - mu * other) / math.sqrt(mu * (1.0 - mu) * other * (1.0 - other))


def calibrate(mu: Array, target: Array) -> CopulaCalibration:
    """The copula whose binary correlations come closest to those asked for (Appendix H).

    Each pair is solved on its own; where the pairs together are no correlation matrix, the latent one is
    projected onto :func:`nearest_psd`, and ``attained`` differs from the target there as well.

    Args:
        mu: μ, the means, in (0, 1), shape (K,).
        target: C, the correlations asked for, symmetric with a diagonal of ones, shape (K, K).

    Raises:
        InvalidParameterError: means or correlations that are none, or shapes that do not fit.
    """
    _check(mu, target)
    latent, clamped = np.eye(len(mu)), np.zeros(target.shape, dtype=np.bool_)
    for i, j in zip(*np.triu_indices(len(mu), 1), strict=True):
        rho, beyond = _latent(float(mu[i]), float(mu[j]), float(target[i, j]))
        latent[i, j] = latent[j, i] = rho
        clamped[i, j] = clamped[j, i] = beyond
    latent = nearest_psd(latent)
    return CopulaCalibration(latent, attained_correlation(mu, latent), clamped)


def attained_correlation(mu: Array, latent: Array) -> Array:
    """The binary correlations that a latent correlation matrix gives; shape (K, K)."""
    attained = np.eye(len(mu))
    for i, j in zip(*np.triu_indices(len(mu), 1), strict=True):
        attained[i, j] = attained[j, i] = binary_correlation(float(mu[i]), float(mu[j]), float(latent[i, j]))
    return attained


def _latent(mu: float, other: float, target: float) -> tuple[float, bool]:
    """ρ for one pair, and whether the target is beyond what ρ = ±1 gives."""
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
        raise InvalidParameterError(f"means {mu.shape} and correlations {target.shape} do not fit")
    if not np.all((mu > 0.0) & (mu < 1.0)):
        raise InvalidParameterError("means must lie strictly between 0 and 1")
    proper = np.all(np.abs(target) <= 1.0) and np.all(np.diag(target) == 1.0)
    if not (proper and np.allclose(target, target.T, rtol=0.0, atol=_ROUNDING)):
        raise InvalidParameterError("correlations must be symmetric, in [−1, 1], with a diagonal of ones")

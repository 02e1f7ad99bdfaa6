"""Repairing and factoring matrices that should be correlation matrices."""

from __future__ import annotations

import numpy as np

from camvo.typing import Array

_ROUNDS, _CONVERGED = 100, 1e-10
"""The most alternating projections, and the step size at which they end."""


def nearest_psd(correlation: Array) -> Array:
    """The nearest correlation matrix in the Frobenius norm (MakePSD of Algorithm 4), shape (K, K).

    Higham's alternating projections (2002) with Dykstra's correction converge to the nearest matrix. Cutting
    off negative eigenvalues and rescaling alone would be quicker, but it ends further away and changes every
    correlation when a single pair is off. The same cut is the last step here, so the result is positive
    semi-definite with unit diagonal even if the projections are stopped early. A matrix that is a
    correlation matrix already is returned unchanged.
    """
    if np.linalg.eigvalsh(correlation).min(initial=1.0) >= 0.0:
        return correlation
    nearest, correction = correlation, np.zeros_like(correlation)
    for _ in range(_ROUNDS):
        shifted = nearest - correction
        positive = _positive_part(shifted)
        correction = positive - shifted
        before, nearest = nearest, positive.copy()
        np.fill_diagonal(nearest, 1.0)
        if np.abs(nearest - before).max() < _CONVERGED:
            break
    positive = _positive_part(nearest)
    scale = np.sqrt(np.maximum(np.diag(positive), np.finfo(np.float64).tiny))
    scaled = positive / np.outer(scale, scale)
    np.fill_diagonal(scaled, 1.0)
    return np.asarray((scaled + scaled.T) / 2.0, dtype=np.float64)


def root(correlation: Array) -> Array:
    """The unique symmetric square root of a positive semi-definite matrix, shape (K, K)."""
    values, vectors = np.linalg.eigh(correlation)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T, dtype=np.float64)


def _positive_part(matrix: Array) -> Array:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T, dtype=np.float64)

"""LinUCB for one arm (Algorithm 1, lines 2, 6, 7, 18; Li et al. 2010), on A⁻¹ kept in place.

A itself is never formed. One triangle of A⁻¹ is maintained by BLAS (Sherman–Morrison for one context,
Woodbury for several), which at d = 384 costs microseconds where an inversion costs milliseconds. The array
must be Fortran-ordered float64: BLAS would silently work on a copy of anything else.

Several contexts come as the columns of a Fortran-ordered (d, m) array. Scoring and learning both begin with
A⁻¹e, so :func:`solve` is a step of its own: what was scored need not be solved again to be learnt.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import dsymm, dsymv, dsyr, dsyrk, dtrsm
from scipy.linalg.lapack import dpotrf

from camvo.errors import InvalidParameterError
from camvo.typing import Array


def fresh_inverse(dimension: int, lambda_l: float) -> Array:
    """A⁻¹ of an arm without history, (λ_L·I)⁻¹: shape (d, d), Fortran order."""
    inverse: Array = np.zeros((dimension, dimension), order="F")
    np.fill_diagonal(inverse, 1.0 / lambda_l)
    return inverse


def solve(inverse: Array, contexts: Array) -> Array:
    """A⁻¹e of every context: shape (d, m), as the contexts have it. Only the upper triangle is read."""
    if contexts.shape[1] == 1:
        single: Array = dsymv(1.0, inverse, contexts[:, 0])
        return single[:, None]
    several: Array = dsymm(1.0, inverse, contexts)
    return several


def score(solved: Array, b: Array, contexts: Array) -> tuple[Array, Array]:
    """The estimates q = eᵀA⁻¹b and the squared widths eᵀA⁻¹e of one arm (lines 6–7, before α), (m,) each.

    Args:
        solved: A⁻¹e of every context, shape (d, m).
        b: shape (d,).
        contexts: the embeddings e, shape (d, m).
    """
    if contexts.shape[1] == 1:
        single = solved[:, 0]
        return b.dot(single), contexts[:, 0].dot(single)
    return b.dot(solved), np.einsum("dm,dm->m", solved, contexts)


def update_inverse(inverse: Array, contexts: Array, solved: Array, sign: int) -> None:
    """Turn A⁻¹ into (A ± Σ eeᵀ)⁻¹ in place (line 18): ``sign`` +1 adds the contexts, −1 withdraws them.

    Args:
        inverse: A⁻¹, shape (d, d).
        contexts: shape (d, m).
        solved: :func:`solve` of the contexts and this very A⁻¹, shape (d, m).
        sign: +1 or −1.

    Raises:
        InvalidParameterError: the array is not one that BLAS updates in place, or the contexts to be
            withdrawn were never added (A would not stay positive definite).
    """
    if not (inverse.flags.f_contiguous and inverse.dtype == np.float64):
        raise InvalidParameterError("A⁻¹ must be a Fortran-ordered float64 array to be updated in place")
    if contexts.shape[1] == 1:
        denominator = 1.0 + sign * float(solved[:, 0] @ contexts[:, 0])
        if denominator <= 0.0:
            raise InvalidParameterError(_NEVER_ADDED)
        dsyr(-sign / denominator, solved[:, 0], a=inverse, overwrite_a=1)
        return
    capacitance = sign * (contexts.T @ solved)
    capacitance.flat[:: len(capacitance) + 1] += 1.0
    root, failed = dpotrf(capacitance, lower=0)
    if failed:
        raise InvalidParameterError(_NEVER_ADDED)
    halves = dtrsm(1.0, root, solved, side=1, lower=0)
    dsyrk(-float(sign), halves, beta=1.0, c=inverse, overwrite_c=1)


_NEVER_ADDED = "withdrawing a context that was never added would make A indefinite"


def full_inverse(inverse: Array) -> Array:
    """A⁻¹ with both triangles, as a copy: for tests, reports and anything that is not BLAS."""
    upper = np.triu(inverse)
    return upper + np.triu(inverse, 1).T

"""LinUCB for one arm (Algorithm 1, lines 2, 6, 7, 18; Li et al. 2010), on A⁻¹ kept in place.

A itself is never formed. One triangle of A⁻¹ is maintained by BLAS (``dsymv`` to read, ``dsyr`` to update,
Sherman–Morrison), which at d = 384 costs microseconds where an inversion costs milliseconds. The array must
be Fortran-ordered float64: BLAS would silently work on a copy of anything else.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg.blas import dsymv, dsyr

from camvo.errors import InvalidParameterError
from camvo.typing import Array


def fresh_inverse(dimension: int, lambda_l: float) -> Array:
    """A⁻¹ of an arm without history, (λ_L·I)⁻¹: shape (d, d), Fortran order."""
    inverse: Array = np.zeros((dimension, dimension), order="F")
    np.fill_diagonal(inverse, 1.0 / lambda_l)
    return inverse


def score(inverse: Array, b: Array, context: Array) -> tuple[float, float]:
    """The estimate q = eᵀA⁻¹b and the width √(eᵀA⁻¹e) of one arm (lines 6–7, before α).

    Args:
        inverse: A⁻¹, shape (d, d); only its upper triangle is read.
        b: shape (d,).
        context: the embedding e, shape (d,).
    """
    solved = dsymv(1.0, inverse, context)
    return float(solved @ b), math.sqrt(max(float(solved @ context), 0.0))


def update_inverse(inverse: Array, context: Array, sign: int) -> None:
    """Turn A⁻¹ into (A ± eeᵀ)⁻¹ in place (line 18): ``sign`` +1 adds a context, −1 withdraws one.

    Raises:
        InvalidParameterError: the array is not one that BLAS updates in place, or the context to be
            withdrawn was never added (A would not stay positive definite).
    """
    if not (inverse.flags.f_contiguous and inverse.dtype == np.float64):
        raise InvalidParameterError("A⁻¹ must be a Fortran-ordered float64 array to be updated in place")
    solved = dsymv(1.0, inverse, context)
    denominator = 1.0 + sign * float(solved @ context)
    if denominator <= 0.0:
        raise InvalidParameterError("withdrawing a context that was never added would make A indefinite")
    dsyr(-sign / denominator, solved, a=inverse, overwrite_a=1)


def full_inverse(inverse: Array) -> Array:
    """A⁻¹ with both triangles, as a copy: for tests, reports and anything that is not BLAS."""
    upper = np.triu(inverse)
    return upper + np.triu(inverse, 1).T

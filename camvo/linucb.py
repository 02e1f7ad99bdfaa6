"""LinUCB for one arm (Algorithm 1, lines 2, 6, 7, 18; Li et al. 2010), on A⁻¹ kept in place.

A itself is never formed. The lower triangle of A⁻¹ is maintained by BLAS (Sherman–Morrison for one context,
Woodbury for several), which at d = 384 costs microseconds where an inversion costs milliseconds. The array
must be Fortran-ordered float64: BLAS would silently work on a copy of anything else.

Contexts and what is solved from them are the rows of C-ordered arrays, which BLAS reads as columns. Scoring
and learning both begin with A⁻¹e: what was scored need not be solved again to be learnt.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import daxpy, dsymm, dsymv, dsyr, dsyrk, dtrsm
from scipy.linalg.lapack import dpotrf

from camvo.errors import InvalidParameterError
from camvo.typing import Array


def fresh_inverse(dimension: int, lambda_l: float) -> Array:
    """A⁻¹ of an arm without history, (λ_L·I)⁻¹: shape (d, d), Fortran order."""
    inverse: Array = np.zeros((dimension, dimension), order="F")
    np.fill_diagonal(inverse, 1.0 / lambda_l)
    return inverse


def solve(inverse: Array, contexts: Array, out: Array) -> None:
    """A⁻¹e of every context, written into ``out``.

    Args:
        inverse: A⁻¹, shape (d, d).
        contexts: the embeddings e, shape (m, d).
        out: shape (m, d), C order.
    """
    if len(contexts) == 1:
        out[0] = dsymv(1.0, inverse, contexts[0], lower=1)
    else:
        dsymm(1.0, inverse, contexts.T, c=out.T, overwrite_c=1, lower=1)


def score(solved: Array, b: Array, contexts: Array) -> Array:
    """The estimates q = eᵀA⁻¹b and the squared widths eᵀA⁻¹e of K arms (lines 6–7, before α), (K, 2, m).

    Args:
        solved: A⁻¹e of every arm and context, shape (K, m, d).
        b: of every arm, shape (K, d).
        contexts: the embeddings e, shape (m, d).
    """
    found = np.empty((len(solved), 2, len(contexts)))
    np.vecdot(solved, b[:, None], out=found[:, 0])
    np.vecdot(solved, contexts, out=found[:, 1])
    return found


def add_reward(b: Array, context: Array, reward: float) -> None:
    """Add r·e to b, shape (d,), in place (line 19)."""
    daxpy(context, b, a=reward)


def update_inverse(inverse: Array, contexts: Array, solved: Array, sign: int) -> None:
    """Turn A⁻¹ into (A ± Σ eeᵀ)⁻¹ in place (line 18): ``sign`` +1 adds the contexts, −1 withdraws them.

    Args:
        inverse: A⁻¹, shape (d, d).
        contexts: shape (m, d).
        solved: :func:`solve` of the contexts and this very A⁻¹, shape (m, d).
        sign: +1 or −1.

    Raises:
        InvalidParameterError: the array is not one that BLAS updates in place, or the contexts to be
            withdrawn were never added (A would not stay positive definite).
    """
    if not (inverse.flags.f_contiguous and inverse.dtype == np.float64):
        raise InvalidParameterError("A⁻¹ must be a Fortran-ordered float64 array to be updated in place")
    if len(contexts) == 1:
        vector = solved[0]
        denominator = 1.0 + sign * vector.dot(contexts[0])
        if denominator <= 0.0:
            raise InvalidParameterError(_NEVER_ADDED)
        dsyr(-sign / denominator, vector, a=inverse, overwrite_a=1, lower=1)
        return
    capacitance = sign * (contexts @ solved.T)
    capacitance.flat[:: len(capacitance) + 1] += 1.0
    root, failed = dpotrf(capacitance, lower=0)
    if failed:
        raise InvalidParameterError(_NEVER_ADDED)
    halves = dtrsm(1.0, root, solved.T, side=1, lower=0)
    dsyrk(-float(sign), halves, beta=1.0, c=inverse, overwrite_c=1, lower=1)


_NEVER_ADDED = "withdrawing a context that was never added would make A indefinite"


def full_inverse(inverse: Array) -> Array:
    """A⁻¹ with both triangles, as a copy: for tests, reports and anything that is not BLAS."""
    return np.tril(inverse) + np.tril(inverse, -1).T

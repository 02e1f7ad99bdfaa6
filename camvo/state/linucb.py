"""LinUCB (Algorithm 1, lines 2, 6, 7 and 18; Li et al. 2010), on A⁻¹ kept up to date in place.

A itself is never formed. Sherman–Morrison's formula for one context and Woodbury's for several subtract
products uuᵀ from A⁻¹. While the vectors u are few, they are kept as they are: an expensive model that is
seldom asked takes a fraction of the time to score, and a young project a fraction of the memory. When they
are many, BLAS maintains the lower triangle of a matrix. At d = 384 that takes microseconds where an inversion
takes milliseconds.

Contexts e and solutions A⁻¹e are the rows of C-ordered arrays, which BLAS reads as columns.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg.blas import dgemm, dsymm, dsymv, dsyr, dsyrk, dtrsm
from scipy.linalg.lapack import dpotrf

from camvo.errors import InvalidParameterError
from camvo.typing import Array

_FEW = 4
"""Up to d/4 vectors are few: solving with them takes at most half the operations of solving with a matrix."""


class Inverse:
    """A⁻¹ = (λ_L·I + Σ eeᵀ)⁻¹ over the contexts e that an arm has learnt.

    Args:
        dimension: d.
        lambda_l: λ_L > 0.
    """

    __slots__ = ("_count", "_matrix", "_scale", "_signs", "_vectors")

    def __init__(self, dimension: int, lambda_l: float) -> None:
        self._scale = 1.0 / lambda_l
        self._vectors: Array = np.empty((dimension // _FEW, dimension))
        self._signs: Array = np.empty(dimension // _FEW)
        self._count = 0
        self._matrix: Array | None = None  # in Fortran order; BLAS would silently work on a copy otherwise

    def solve(self, contexts: Array, out: Array) -> None:
        """A⁻¹e of every context, written into ``out``.

        Args:
            contexts: the embeddings e, shape (m, d).
            out: shape (m, d), C order.
        """
        if self._matrix is None:
            vectors, signs = self._vectors[: self._count], self._signs[: self._count]
            np.multiply(contexts, self._scale, out=out)
            if self._count:
                shares = contexts @ vectors.T * signs
                dgemm(1.0, vectors.T, shares.T, beta=1.0, c=out.T, overwrite_c=1)
        elif len(contexts) == 1:
            out[0] = dsymv(1.0, self._matrix, contexts[0], lower=1)
        else:
            dsymm(1.0, self._matrix, contexts.T, c=out.T, overwrite_c=1, lower=1)

    def update(self, contexts: Array, solved: Array, sign: int) -> None:
        """Turn A⁻¹ into (A ± Σ eeᵀ)⁻¹: ``sign`` +1 adds the contexts, −1 withdraws them.

        Args:
            contexts: shape (m, d).
            solved: :meth:`solve` of the contexts with the present A⁻¹, shape (m, d); may be overwritten.
            sign: +1 or −1.

        Raises:
            InvalidParameterError: a withdrawn context was never added (A would not stay positive definite).
                A⁻¹ is left as it was.
        """
        if len(contexts) == 1:
            pivot = 1.0 + sign * float(solved[0].dot(contexts[0]))
            if pivot <= 0.0:
                raise InvalidParameterError(_NEVER_ADDED)
            self._add(solved / math.sqrt(pivot), -sign)
            return
        capacitance = sign * (contexts @ solved.T)
        capacitance.flat[:: len(capacitance) + 1] += 1.0
        root, failed = dpotrf(capacitance, lower=0)
        if failed:
            raise InvalidParameterError(_NEVER_ADDED)
        self._add(dtrsm(1.0, root, solved.T, side=1, lower=0, overwrite_b=1).T, -sign)

    def full(self) -> Array:
        """A⁻¹ as a matrix with both triangles, shape (d, d): a copy."""
        lower = self._dense() if self._matrix is None else self._matrix
        return np.tril(lower) + np.tril(lower, -1).T

    def to_arrays(self) -> tuple[Array, Array]:
        """For a snapshot: the vectors u, shape (n, d), and their signs (n,), or the matrix (d, d) alone."""
        if self._matrix is not None:
            return self._matrix, self._signs
        return self._vectors[: self._count], self._signs[: self._count]

    @classmethod
    def from_arrays(cls, kept: Array, signs: Array, lambda_l: float) -> Inverse:
        """Inverse of :meth:`to_arrays`."""
        inverse = cls(kept.shape[1], lambda_l)
        if len(kept) == kept.shape[1]:
            inverse._become(np.array(kept, dtype=np.float64, order="F"))
        else:
            inverse._keep(kept, signs)
        return inverse

    def _add(self, vectors: Array, sign: int) -> None:
        """Add ± Σ uuᵀ for the rows u."""
        if self._matrix is None and self._count + len(vectors) <= len(self._vectors):
            self._keep(vectors, np.array(sign))
            return
        if self._matrix is None:
            self._become(self._dense())
        if len(vectors) == 1:
            dsyr(sign, vectors[0], a=self._matrix, overwrite_a=1, lower=1)
        else:
            dsyrk(sign, vectors.T, beta=1.0, c=self._matrix, overwrite_c=1, lower=1)

    def _keep(self, vectors: Array, signs: Array) -> None:
        end = self._count + len(vectors)
        self._vectors[self._count : end] = vectors
        self._signs[self._count : end] = signs
        self._count = end

    def _become(self, matrix: Array) -> None:
        self._matrix, self._count = matrix, 0
        # Copies, since a view would keep the whole array in memory.
        self._vectors, self._signs = self._vectors[:0].copy(), self._signs[:0].copy()

    def _dense(self) -> Array:
        vectors, signs = self._vectors[: self._count], self._signs[: self._count]
        matrix = np.asfortranarray((vectors.T * signs) @ vectors)
        matrix.flat[:: len(matrix) + 1] += self._scale
        return matrix


_NEVER_ADDED = "withdrawing a context that was never added would make A indefinite"


def score(solved: Array, b: Array, contexts: Array) -> Array:
    """The estimates q = eᵀA⁻¹b and the squared widths eᵀA⁻¹e of K arms (lines 6–7, before α), (K, 2, m).

    Args:
        solved: A⁻¹e of every arm and context, shape (K, m, d).
        b: of every arm, shape (K, d).
        contexts: the embeddings e, shape (m, d).
    """
    estimates = np.empty((len(solved), 2, len(contexts)))
    np.vecdot(solved, b[:, None], out=estimates[:, 0])
    np.vecdot(solved, contexts, out=estimates[:, 1])
    return estimates

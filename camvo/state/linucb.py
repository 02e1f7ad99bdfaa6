"""LinUCB (Algorithm 1, lines 2, 6, 7 and 18; Li et al. 2010), on A⁻¹ kept up to date in place.

A itself is never formed. An update subtracts products uuᵀ from A⁻¹, by the Sherman–Morrison formula for one
context and by Woodbury's for several. A⁻¹ has one of two forms:

- Up to d/4 vectors u are stored as they are. Scoring an expensive model that is seldom asked then takes a
  fraction of the time, and a young project takes a fraction of the memory.
- Beyond that, BLAS maintains the lower triangle of a matrix. At d = 384 an update takes microseconds, where
  an inversion takes milliseconds.

Contexts e and solutions A⁻¹e are the rows of C-ordered arrays, which BLAS reads as columns.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg.blas import dgemm, dsymm, dsymv, dsyr, dsyrk, dtrsm
from scipy.linalg.lapack import dpotrf

from camvo.errors import InvalidParameterError
from camvo.typing import Array

_VECTORS_DIVISOR = 4
"""Up to d/4 vectors are stored. Solving with them takes at most half the operations of a matrix."""


class Inverse:
    """A⁻¹ = (λ_L·I + Σ eeᵀ)⁻¹ over the contexts e of an arm's rewards.

    Args:
        dimension: d.
        lambda_l: λ_L > 0.
    """

    __slots__ = ("_count", "_matrix", "_scale", "_signs", "_vectors")

    def __init__(self, dimension: int, lambda_l: float) -> None:
        self._scale = 1.0 / lambda_l
        self._vectors: Array = np.empty((dimension // _VECTORS_DIVISOR, dimension))
        self._signs: Array = np.empty(dimension // _VECTORS_DIVISOR)
        self._count = 0
        self._matrix: Array | None = None  # in Fortran order; BLAS would silently work on a copy otherwise

    def solve(self, contexts: Array, out: Array) -> None:
        """Compute A⁻¹e for every context.

        Args:
            contexts: the embeddings e, shape (m, d).
            out: the results are written here, shape (m, d), C order.
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
            solved: the result of :meth:`solve` for the contexts, shape (m, d). It may be overwritten.
            sign: +1 or −1.

        Raises:
            InvalidParameterError: a withdrawn context was never added, so that A would not stay positive
                definite. A⁻¹ is unchanged.
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
        """A copy of A⁻¹ as a full matrix, shape (d, d)."""
        lower = self._dense() if self._matrix is None else self._matrix
        return np.tril(lower) + np.tril(lower, -1).T

    def to_arrays(self) -> tuple[Array, Array]:
        """A⁻¹ as two arrays, for a snapshot.

        Returns:
            The vectors u, shape (n, d), and their signs, shape (n,), with n < d. In matrix form, the lower
            triangle, shape (d, d), and an empty array.
        """
        if self._matrix is not None:
            return self._matrix, self._signs
        return self._vectors[: self._count], self._signs[: self._count]

    @classmethod
    def from_arrays(cls, stored: Array, signs: Array, lambda_l: float) -> Inverse:
        """Inverse of :meth:`to_arrays`."""
        inverse = cls(stored.shape[1], lambda_l)
        if len(stored) == stored.shape[1]:
            inverse._use_matrix(np.array(stored, dtype=np.float64, order="F"))
        else:
            inverse._append(stored, signs)
        return inverse

    def with_ridge(self, before: float, after: float) -> Inverse:
        """The same contexts with another ridge strength: A⁻¹ of λ ``before`` becomes that of λ ``after``."""
        full = np.linalg.inv(self.full())
        full.flat[:: len(full) + 1] += after - before
        return Inverse.from_arrays(np.linalg.inv(full), self._signs[:0], after)

    def _add(self, vectors: Array, sign: int) -> None:
        """Add ± Σ uuᵀ to A⁻¹, over the rows u of ``vectors``."""
        if self._matrix is None and self._count + len(vectors) <= len(self._vectors):
            self._append(vectors, np.array(sign))
            return
        if self._matrix is None:
            self._use_matrix(self._dense())
        if len(vectors) == 1:
            dsyr(sign, vectors[0], a=self._matrix, overwrite_a=1, lower=1)
        else:
            dsyrk(sign, vectors.T, beta=1.0, c=self._matrix, overwrite_c=1, lower=1)

    def _append(self, vectors: Array, signs: Array) -> None:
        end = self._count + len(vectors)
        self._vectors[self._count : end] = vectors
        self._signs[self._count : end] = signs
        self._count = end

    def _use_matrix(self, matrix: Array) -> None:
        self._matrix, self._count = matrix, 0
        # Copies, since a view would keep the whole array in memory.
        self._vectors, self._signs = self._vectors[:0].copy(), self._signs[:0].copy()

    def _dense(self) -> Array:
        vectors, signs = self._vectors[: self._count], self._signs[: self._count]
        matrix = np.asfortranarray((vectors.T * signs) @ vectors)
        matrix.flat[:: len(matrix) + 1] += self._scale
        return matrix


_NEVER_ADDED = "cannot withdraw a context that was never added: A would become indefinite"


def score(solved: Array, b: Array, contexts: Array) -> Array:
    """Compute the estimates q = eᵀA⁻¹b and the squared widths eᵀA⁻¹e of K arms (lines 6–7, before α).

    Args:
        solved: A⁻¹e of every arm and context, shape (K, m, d).
        b: LinUCB's b of every arm, shape (K, d).
        contexts: the embeddings e, shape (m, d).

    Returns:
        For each arm, the estimates and the squared widths, shape (K, 2, m).
    """
    estimates = np.empty((len(solved), 2, len(contexts)))
    np.vecdot(solved, b[:, None], out=estimates[:, 0])
    np.vecdot(solved, contexts, out=estimates[:, 1])
    return estimates

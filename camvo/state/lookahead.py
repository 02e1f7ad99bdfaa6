"""Contexts that are to be scored, as an arm sees them while it learns from some of them.

LinUCB reads A⁻¹ at the contexts that it scores and nowhere else. What a round teaches changes the m×m matrix
of their eᵢᵀA⁻¹eⱼ by a rank of one, as it does A⁻¹ itself, which is (d/m)² times as large. So A⁻¹ may wait,
and b with it, until the contexts are behind, and then takes all that was learnt from them in one product of
matrices. What is scored in between is what it would be had A⁻¹ been updated after each round, but for
rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from scipy.linalg.blas import dger

from camvo.errors import InvalidParameterError
from camvo.state.linucb import Inverse
from camvo.typing import Array


class Lookahead:
    """The m contexts themselves. One is known again by being the same object, which costs nothing to see.

    So whoever gives a context does not change it as long as it may be scored or learnt.

    Attributes:
        contexts: the embeddings, shape (m, d).

    Raises:
        InvalidParameterError: a context is not of shape (dimension,) or not finite.
    """

    def __init__(self, contexts: Sequence[Array], dimension: int) -> None:
        rows = np.array(contexts, dtype=np.float64)
        if rows.shape != (len(contexts), dimension):
            raise InvalidParameterError(
                f"contexts of shape {contexts[0].shape}, the state has d = {dimension}"
            )
        if not np.isfinite(rows).all():
            raise InvalidParameterError("the context holds NaN or infinity; learnt, it would spoil the state")
        self.contexts = rows
        self._given = tuple(contexts)  # kept, or another object could get the id of one
        self._rows = {id(context): row for row, context in enumerate(contexts)}

    def rows(self, contexts: Sequence[Array]) -> list[int] | None:
        """Where these contexts are among the m; ``None`` where one is not."""
        try:
            return [self._rows[id(context)] for context in contexts]
        except KeyError:
            return None

    def span(self, contexts: Sequence[Array]) -> slice | None:
        """The rows of these contexts, if they follow one another; otherwise ``None``."""
        rows = self.rows(contexts)
        return _span(rows) if rows else None


Update: TypeAlias = tuple[Array, bool, float]
"""A context e, whether A becomes A + eeᵀ, and the s of what b becomes, b + s·e."""


class View:
    """What one arm says of the contexts ahead, and what it has learnt from them.

    Args:
        ahead: the m contexts.
        solved: A⁻¹e of each, shape (m, d).
        estimates: eᵀA⁻¹b and eᵀA⁻¹e of each, shape (2, m).
    """

    __slots__ = ("_estimates", "_gram", "_learnt", "_refreshed", "_solved", "ahead")

    def __init__(self, ahead: Lookahead, solved: Array, estimates: Array) -> None:
        self.ahead = ahead
        self._solved = solved
        self._estimates = estimates
        self._gram: Array | None = None
        self._learnt: list[tuple[int, bool, float]] = []
        self._refreshed = 0

    def learn(self, updates: Sequence[Update]) -> bool:
        """Take in what was learnt from contexts ahead; false, and nothing is done, where one is another."""
        rows = self.ahead.rows([context for context, _, _ in updates])
        if rows is None:
            return False
        self._learnt.extend(
            [(row, grows, shift) for row, (_, grows, shift) in zip(rows, updates, strict=True)]
        )
        return True

    def estimates(self) -> Array:
        """eᵀA⁻¹b and eᵀA⁻¹e of each context after all that was learnt, shape (2, m)."""
        if self._refreshed < len(self._learnt):
            self._refresh()
        return self._estimates

    def _refresh(self) -> None:
        if self._gram is None:
            self._gram = self.ahead.contexts @ self._solved.T
        gram, (q, squares) = self._gram, self._estimates
        for row, grows, shift in self._learnt[self._refreshed :]:
            column, surprise = gram[row], shift
            if grows:
                scale = 1.0 / math.sqrt(1.0 + max(column.item(row), 0.0))
                column, surprise = column * scale, (shift - q.item(row)) * scale
                dger(-1.0, column, column, a=gram.T, overwrite_a=1)
            q += column * surprise
        squares[:] = gram.diagonal()
        self._refreshed = len(self._learnt)

    def settle(self, inverse: Inverse, b: Array) -> None:
        """Bring A⁻¹ and b, as they were when the contexts were first seen, up to date in place."""
        contexts = self.ahead.contexts
        if grown := [row for row, grows, _ in self._learnt if grows]:
            rows = _span(grown) or grown
            inverse.update(contexts[rows], self._solved[rows], +1)
        if self._learnt:
            taught = [row for row, _, _ in self._learnt]
            b += np.array([shift for _, _, shift in self._learnt]) @ contexts[_span(taught) or taught]


def _span(rows: list[int]) -> slice | None:
    """Rows that follow one another as a slice, which copies nothing; otherwise ``None``."""
    first, end = rows[0], rows[0] + len(rows)
    return slice(first, end) if rows == [*range(first, end)] else None

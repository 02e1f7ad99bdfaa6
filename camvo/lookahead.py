"""Contexts that are to be scored, as an arm sees them while it learns from some of them.

LinUCB reads A⁻¹ at the contexts that it scores and nowhere else. What a round teaches changes the m×m matrix
of their eᵢᵀA⁻¹eⱼ by a rank of one, as it does A⁻¹ itself, which is (d/m)² times as large. So A⁻¹ may wait
until the contexts are behind, and then takes all that was learnt from them in one product of matrices. What
is scored in between is what it would be had A⁻¹ been updated after each round, but for rounding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dger

from camvo import linucb
from camvo.errors import InvalidParameterError
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
        if not rows or rows != [*range(rows[0], rows[0] + len(rows))]:
            return None
        return slice(rows[0], rows[0] + len(rows))


class Update(NamedTuple):
    """What one change does to an arm: whether A becomes A + eeᵀ, and b becomes b + ``shift``·e."""

    context: Array
    grows: bool
    shift: float


class View:
    """What one arm says of the contexts ahead.

    Args:
        ahead: the m contexts.
        solved: A⁻¹e of each, shape (m, d).
        estimates: eᵀA⁻¹b and eᵀA⁻¹e of each, shape (2, m).
    """

    __slots__ = ("_estimates", "_gram", "_learnt", "_solved", "_waiting", "ahead")

    def __init__(self, ahead: Lookahead, solved: Array, estimates: Array) -> None:
        self.ahead = ahead
        self._solved = solved
        self._estimates = estimates
        self._gram: Array | None = None
        self._learnt: list[int] = []
        self._waiting: list[tuple[int, Update]] = []

    def learn(self, updates: Sequence[Update]) -> bool:
        """Take in what was learnt from contexts ahead; false, and nothing is done, where one is another."""
        rows = self.ahead.rows([update.context for update in updates])
        if rows is None:
            return False
        for row, update in zip(rows, updates, strict=True):
            self._waiting.append((row, update))
            if update.grows:
                self._learnt.append(row)
        return True

    def estimates(self) -> Array:
        """eᵀA⁻¹b and eᵀA⁻¹e of each context after all that was learnt, shape (2, m)."""
        if self._waiting:
            self._refresh()
        return self._estimates

    def _refresh(self) -> None:
        if self._gram is None:
            self._gram = self.ahead.contexts @ self._solved.T
        q, squares = self._estimates
        for row, update in self._waiting:
            column, surprise = self._gram[row], update.shift
            if update.grows:
                column = column / (1.0 + column[row])
                surprise -= q[row]
                dger(-1.0, column, self._gram[row].copy(), a=self._gram.T, overwrite_a=1)
            q += column * surprise
        squares[:] = self._gram.diagonal()
        self._waiting.clear()

    def settle(self, inverse: Array) -> None:
        """Bring A⁻¹, as it was when the contexts were first seen, up to date in place."""
        if self._learnt:
            linucb.update_inverse(inverse, self.ahead.contexts[self._learnt], self._solved[self._learnt], +1)

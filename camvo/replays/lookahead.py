"""A state that knows which contexts are coming, so that a replay scores and learns at a fraction of the cost.

LinUCB reads A⁻¹ only at the contexts that it scores. A round changes the m×m matrix of eᵢᵀA⁻¹eⱼ over the m
announced contexts by a rank of one, as it changes A⁻¹ itself, which is (d/m)² times as large. A⁻¹ and b can
therefore wait until the announced contexts are done, and then take everything that was learnt from them in
one product of matrices. Scores in between equal those of a state that updates A⁻¹ after every round, apart
from rounding. A server cannot do this: it does not know which tasks will come.

Announced contexts are matched by identity; callers must not mutate them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.linalg.blas import dger

from camvo.state.arm import Arm, Update
from camvo.state.beta_mixture import BetaSums
from camvo.state.linucb import Inverse, score
from camvo.state.state import State, check_contexts
from camvo.typing import Array


class Announced:
    """The m contexts that are coming.

    Attributes:
        contexts: the embeddings, shape (m, d).

    Raises:
        InvalidParameterError: a context is not of shape (dimension,) or not finite.
    """

    def __init__(self, contexts: Sequence[Array], dimension: int) -> None:
        self.contexts = check_contexts(contexts, dimension)
        self._objects = tuple(contexts)  # kept alive, or another object could get the id of one of them
        self._rows = {id(context): row for row, context in enumerate(contexts)}

    def rows(self, contexts: Sequence[Array]) -> list[int] | None:
        """The rows of these contexts among the m, or ``None`` if one of them was not announced."""
        try:
            return [self._rows[id(context)] for context in contexts]
        except KeyError:
            return None

    def span(self, contexts: Sequence[Array]) -> slice | None:
        """The rows of these contexts, or ``None`` if they do not follow one another."""
        rows = self.rows(contexts)
        return _span(rows) if rows else None


class View:
    """One arm's estimates for the announced contexts, and what the arm has learnt from them since.

    Args:
        announced: the m contexts.
        solved: A⁻¹e of each, shape (m, d).
        estimates: eᵀA⁻¹b and eᵀA⁻¹e of each, shape (2, m).
    """

    __slots__ = ("_estimates", "_gram", "_learnt", "_refreshed", "_solved", "announced")

    def __init__(self, announced: Announced, solved: Array, estimates: Array) -> None:
        self.announced = announced
        self._solved = solved
        self._estimates = estimates
        self._gram: Array | None = None
        self._learnt: list[tuple[int, bool, float]] = []
        self._refreshed = 0

    def learn(self, updates: Sequence[Update]) -> bool:
        """Take in what was learnt from announced contexts; false, without effect, if one is another."""
        rows = self.announced.rows([context for context, _, _ in updates])
        if rows is None:
            return False
        self._learnt.extend(
            [(row, grows, shift) for row, (_, grows, shift) in zip(rows, updates, strict=True)]
        )
        return True

    def estimates(self) -> Array:
        """eᵀA⁻¹b and eᵀA⁻¹e of each context after everything that was learnt, shape (2, m)."""
        if self._refreshed < len(self._learnt):
            self._refresh()
        return self._estimates

    def _refresh(self) -> None:
        if self._gram is None:
            self._gram = self.announced.contexts @ self._solved.T
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
        """Bring A⁻¹ and b, as they were when the contexts were announced, up to date in place."""
        contexts = self.announced.contexts
        if grown := [row for row, grows, _ in self._learnt if grows]:
            rows = _span(grown) or grown
            inverse.update(contexts[rows], self._solved[rows], +1)
        if self._learnt:
            taught = [row for row, _, _ in self._learnt]
            b += np.array([shift for _, _, shift in self._learnt]) @ contexts[_span(taught) or taught]


class LookaheadArm(Arm):
    """An arm whose A⁻¹ and b wait while announced contexts are scored and learnt from."""

    __slots__ = ("view",)

    def __init__(
        self,
        inverse: Inverse,
        b: Array,
        rewards: int = 0,
        reward_sum: float = 0.0,
        mixture: BetaSums | None = None,
    ) -> None:
        super().__init__(inverse, b, rewards, reward_sum, mixture)
        self.view: View | None = None

    @property
    def inverse(self) -> Inverse:
        """LinUCB's A⁻¹, up to date."""
        self._settle()
        return self._inverse

    @property
    def b(self) -> Array:
        """LinUCB's b, shape (d,), up to date."""
        self._settle()
        return self._b

    def _learn_contexts(self, updates: Sequence[Update], withdrawn: Sequence[Array]) -> None:
        if withdrawn or self.view is None or not self.view.learn(updates):
            self._settle()
            super()._learn_contexts(updates, withdrawn)

    def _settle(self) -> None:
        if self.view is not None:
            self.view.settle(self._inverse, self._b)
            self.view = None


class LookaheadState(State):
    """A :class:`State` that can be told which contexts are coming. It learns the same as any other."""

    def __init__(self, dimension: int, lambda_l: float = 1.0) -> None:
        super().__init__(dimension, lambda_l)
        self._announced: Announced | None = None

    def announce(self, contexts: Sequence[Array]) -> None:
        """Announce contexts that will be scored and learnt from one after the other.

        K·m·d numbers are held until others are scored.

        Args:
            contexts: m embeddings of shape (d,), all finite; to be scored as the same objects, unchanged.

        Raises:
            InvalidParameterError: a context does not fit the state or is not finite.
        """
        self._announced = Announced(contexts, self.dimension)

    def score(self, arms: Sequence[str], context: Array) -> tuple[Array, Array]:
        """As :meth:`State.score`; contexts that were announced cost a fraction."""
        q, widths = self.score_window(arms, [context])
        return q[0], widths[0]

    def score_window(self, arms: Sequence[str], contexts: Sequence[Array]) -> tuple[Array, Array]:
        """:meth:`score` of several contexts at once, shape (m, K) each."""
        announced = self._announced
        span = None if announced is None else announced.span(contexts)
        if announced is None or span is None:
            self._announced = announced = Announced(contexts, self.dimension)
            span = slice(None)
        scored = self._rewarded(arms)
        views = _views(announced, [arm for arm in scored.values() if isinstance(arm, LookaheadArm)])
        estimates = np.zeros((len(arms), 2, len(contexts)))
        for position, view in zip(scored, views, strict=True):
            estimates[position] = view.estimates()[:, span]
        q, squares = estimates.transpose(1, 2, 0)
        return q, np.sqrt(np.maximum(squares, 0.0))

    _arm = LookaheadArm


def _views(announced: Announced, arms: Sequence[LookaheadArm]) -> list[View]:
    """Every arm's view of the announced contexts; the views that are missing are made together."""
    unseen = [arm for arm in arms if arm.view is None or arm.view.announced is not announced]
    if unseen:
        solved = np.empty((len(unseen), *announced.contexts.shape))
        for arm, vectors in zip(unseen, solved, strict=True):
            arm.inverse.solve(announced.contexts, vectors)
        scored = score(solved, np.array([arm.b for arm in unseen]), announced.contexts)
        for position, arm in enumerate(unseen):
            arm.view = View(announced, solved[position], scored[position])
    return [arm.view for arm in arms if arm.view is not None]


def _span(rows: list[int]) -> slice | None:
    """Rows that follow one another as a slice, which copies nothing; otherwise ``None``."""
    first, end = rows[0], rows[0] + len(rows)
    return slice(first, end) if rows == [*range(first, end)] else None

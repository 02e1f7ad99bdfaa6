"""What is known of one model on one question: the sums that rewards add to and are taken out of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from camvo import linucb
from camvo.beta_mixture import NO_EVIDENCE, BetaSums, EstimatorName, clip
from camvo.contribution import Change
from camvo.typing import Array

Standing: TypeAlias = tuple[float, float, float, float, float, float]
"""N, μ in a weight (1 before the first reward), μ in Est (½ before it), and the mixture's evidence."""

NEWCOMER: Standing = (0.0, 1.0, 0.5, *NO_EVIDENCE)


class Arm:
    """The sums of one model.

    The update of A⁻¹ with one context that has just been scored waits until A⁻¹ is read again. That is when
    the next task is scored, and the matrix then comes into the processor's cache once instead of twice.

    Attributes:
        b: b of LinUCB, shape (d,).
        rewards: N.
        reward_sum: Σr.
        mixture: the Beta mixture's sums.
    """

    __slots__ = ("_inverse", "_waiting", "b", "mixture", "reward_sum", "rewards")

    def __init__(
        self,
        inverse: Array,
        b: Array,
        rewards: int = 0,
        reward_sum: float = 0.0,
        mixture: BetaSums | None = None,
    ) -> None:
        self._inverse = inverse
        self._waiting: tuple[Array, Array] | None = None
        self.b = b
        self.rewards = rewards
        self.reward_sum = reward_sum
        self.mixture = BetaSums() if mixture is None else mixture

    @classmethod
    def fresh(cls, dimension: int, lambda_l: float) -> Arm:
        """An arm without history: A = λ_L·I, b = 0 (Algorithm 1, line 2)."""
        return cls(linucb.fresh_inverse(dimension, lambda_l), np.zeros(dimension))

    @property
    def inverse(self) -> Array:
        """A⁻¹ of LinUCB, shape (d, d); of it, the lower triangle (:mod:`camvo.linucb`)."""
        if self._waiting is not None:
            linucb.update_inverse(self._inverse, *self._waiting, +1)
            self._waiting = None
        return self._inverse

    @property
    def mu(self) -> float | None:
        """μ = Σr / N, ``None`` before the first reward (Algorithm 1, line 20)."""
        return self.reward_sum / self.rewards if self.rewards else None

    def standing(self, estimator: EstimatorName) -> Standing:
        """What is known of the arm whatever the context."""
        mu = self.mu
        if mu is None:
            return NEWCOMER
        return float(self.rewards), mu, clip(mu), *self.mixture.evidence(estimator)

    def learn(self, name: str, lessons: Sequence[tuple[Array, Change]], solved: Solved) -> None:
        """Apply changes (Algorithm 1, lines 17–21); a reward that is replaced leaves A as it is."""
        added: list[Array] = []
        withdrawn: list[Array] = []
        for context, change in lessons:
            gained, lost = change.added, change.removed
            if lost is not None:
                self.rewards -= 1
                self.mixture.add(change.q, lost, -1)
            if gained is not None:
                self.rewards += 1
                self.mixture.add(change.q, gained, +1)
                if lost is None:
                    added.append(context)
            elif lost is not None:
                withdrawn.append(context)
            delta = (gained or 0.0) - (lost or 0.0)
            if delta:
                self.reward_sum += delta
                linucb.add_reward(self.b, context, delta)
        if added:
            self._add(added, solved.of(name, added))
        if withdrawn:
            rows = np.array(withdrawn)
            linucb.update_inverse(self.inverse, rows, self._solve(rows), -1)

    def _add(self, contexts: Sequence[Array], solved: Array | None) -> None:
        """Line 18 of Algorithm 1; ``solved`` is A⁻¹e of the contexts, shape (m, d), where it is known."""
        rows = np.array(contexts)
        if solved is not None and len(rows) == 1:
            self._waiting = rows, solved
        else:
            linucb.update_inverse(self.inverse, rows, self._solve(rows) if solved is None else solved, +1)

    def _solve(self, contexts: Array) -> Array:
        solved = np.empty_like(contexts)
        linucb.solve(self.inverse, contexts, solved)
        return solved


class Solved:
    """A⁻¹e of the arms for the contexts that were scored last: ``vectors`` are arm → (m, d).

    A context is known by being the same object, which costs nothing to see.
    """

    def __init__(self, contexts: Sequence[Array] = ()) -> None:
        self.vectors: dict[str, Array] = {}
        self._contexts = contexts
        self._rows = {id(context): row for row, context in enumerate(contexts)}

    def of(self, arm: str, contexts: Sequence[Array]) -> Array | None:
        """The rows of these contexts, shape (n, d); ``None`` where one was not scored."""
        try:
            return self.vectors[arm].take([self._rows[id(context)] for context in contexts], axis=0)
        except KeyError:
            return None

"""The sums of one model on one question, to which rewards are added and from which they are withdrawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.numerics.tolerances import clip
from camvo.state.beta_mixture import NO_EVIDENCE, BetaSums, EstimatorName
from camvo.state.contribution import Change
from camvo.state.linucb import Inverse
from camvo.typing import Array

Standing: TypeAlias = tuple[float, float, float, float, float, float]
"""What is known of an arm whatever the context.

N, μ as it counts in a weight (1 before the first reward), μ as the prior of Est (½ before it), and the three
coefficients of the Beta mixture's evidence.
"""

NEWCOMER: Standing = (0.0, 1.0, 0.5, *NO_EVIDENCE)
"""The standing of an arm without rewards."""

NOT_LINEAR = "the state keeps no linear models of the context; make it with linear=True"
"""What reading A⁻¹ or b of such a state is answered with."""

Update: TypeAlias = tuple[Array, bool, float]
"""A context e of shape (d,), whether A becomes A + eeᵀ, and the factor s by which b becomes b + s·e."""


class Arm:
    """The sums of one model on one question.

    Attributes:
        inverse: LinUCB's A⁻¹.
        b: LinUCB's b, shape (d,).
        linear: whether the arm has A⁻¹ and b at all.
        rewards: N, the number of rewards.
        reward_sum: Σr.
        mixture: the sums of the Beta mixture.
    """

    __slots__ = ("_b", "_inverse", "mixture", "reward_sum", "rewards")

    def __init__(
        self,
        inverse: Inverse | None,
        b: Array | None,
        rewards: int = 0,
        reward_sum: float = 0.0,
        mixture: BetaSums | None = None,
    ) -> None:
        self._inverse = inverse
        self._b = b
        self.rewards = rewards
        self.reward_sum = reward_sum
        self.mixture = BetaSums() if mixture is None else mixture

    @property
    def inverse(self) -> Inverse:
        """LinUCB's A⁻¹."""
        if self._inverse is None:
            raise InvalidParameterError(NOT_LINEAR)
        return self._inverse

    @property
    def b(self) -> Array:
        """LinUCB's b, shape (d,)."""
        if self._b is None:
            raise InvalidParameterError(NOT_LINEAR)
        return self._b

    @property
    def linear(self) -> bool:
        """Whether the arm has A⁻¹ and b; without them it learns nothing from contexts."""
        return self._inverse is not None

    @property
    def mu(self) -> float | None:
        """μ = Σr / N, or ``None`` before the first reward (Algorithm 1, line 20)."""
        return self.reward_sum / self.rewards if self.rewards else None

    def standing(self, estimator: EstimatorName) -> Standing:
        """The arm's standing: what is known of it whatever the context."""
        mu = self.mu
        if mu is None:
            return NEWCOMER
        return float(self.rewards), mu, clip(mu), *self.mixture.evidence(estimator)

    def learn(self, lessons: Sequence[tuple[Array, Change]]) -> None:
        """Apply changes (Algorithm 1, lines 17–21). A reward that replaces another leaves A unchanged.

        Args:
            lessons: (context of shape (d,), change), at least one.

        Raises:
            InvalidParameterError: a withdrawn context was never added.
        """
        updates: list[Update] = []
        withdrawn: list[Array] = []
        for context, change in lessons:
            added, removed = change.added, change.removed
            if removed is not None:
                self.rewards -= 1
                self.mixture.add(change.q, removed, -1)
            if added is not None:
                self.rewards += 1
                self.mixture.add(change.q, added, +1)
            elif removed is not None:
                withdrawn.append(context)
            shift = (added or 0.0) - (removed or 0.0)
            self.reward_sum += shift
            updates.append((context, added is not None and removed is None, shift))
        self._learn_contexts(updates, withdrawn)

    def _learn_contexts(self, updates: Sequence[Update], withdrawn: Sequence[Array]) -> None:
        """Update A⁻¹ and b for all changes at once (line 18), and reverse it for withdrawn contexts."""
        if self._inverse is None or self._b is None:
            return
        _add_contexts(self._inverse, [context for context, grows, _ in updates if grows], +1)
        _add_contexts(self._inverse, withdrawn, -1)
        contexts, _, shifts = zip(*updates, strict=True)
        self._b += np.array(shifts) @ np.array(contexts)


def _add_contexts(inverse: Inverse, contexts: Sequence[Array], sign: int) -> None:
    if contexts:
        rows = np.array(contexts, dtype=np.float64)
        solved = np.empty_like(rows)
        inverse.solve(rows, solved)
        inverse.update(rows, solved, sign)

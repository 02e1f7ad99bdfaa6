"""What is known of one model on one question: the sums that rewards add to and are taken out of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from camvo.numerics.tolerances import clip
from camvo.state.beta_mixture import NO_EVIDENCE, BetaSums, EstimatorName
from camvo.state.contribution import Change
from camvo.state.linucb import Inverse, score
from camvo.state.lookahead import Lookahead, Update, View
from camvo.typing import Array

Standing: TypeAlias = tuple[float, float, float, float, float, float]
"""N, μ in a weight (1 before the first reward), μ in Est (½ before it), and the mixture's evidence."""

NEWCOMER: Standing = (0.0, 1.0, 0.5, *NO_EVIDENCE)


class Arm:
    """The sums of one model.

    What is learnt from a context that is being looked at waits until A⁻¹ or b is read again
    (:mod:`camvo.state.lookahead`). That is when other contexts are scored, and the matrix then comes into the
    processor's cache once instead of twice.

    Attributes:
        rewards: N.
        reward_sum: Σr.
        mixture: the Beta mixture's sums.
    """

    __slots__ = ("_b", "_inverse", "mixture", "reward_sum", "rewards", "view")

    def __init__(
        self,
        inverse: Inverse,
        b: Array,
        rewards: int = 0,
        reward_sum: float = 0.0,
        mixture: BetaSums | None = None,
    ) -> None:
        self._inverse = inverse
        self.view: View | None = None
        self._b = b
        self.rewards = rewards
        self.reward_sum = reward_sum
        self.mixture = BetaSums() if mixture is None else mixture

    @classmethod
    def fresh(cls, dimension: int, lambda_l: float) -> Arm:
        """An arm without history: A = λ_L·I, b = 0 (Algorithm 1, line 2)."""
        return cls(Inverse(dimension, lambda_l), np.zeros(dimension))

    @property
    def inverse(self) -> Inverse:
        """LinUCB's A⁻¹."""
        self._settle()
        return self._inverse

    @property
    def b(self) -> Array:
        """LinUCB's b, shape (d,)."""
        self._settle()
        return self._b

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

    def learn(self, lessons: Sequence[tuple[Array, Change]]) -> None:
        """Apply changes (Algorithm 1, lines 17–21); a reward that is replaced leaves A as it is."""
        updates: list[Update] = []
        withdrawn: list[Array] = []
        for context, change in lessons:
            gained, lost = change.added, change.removed
            if lost is not None:
                self.rewards -= 1
                self.mixture.add(change.q, lost, -1)
            if gained is not None:
                self.rewards += 1
                self.mixture.add(change.q, gained, +1)
            elif lost is not None:
                withdrawn.append(context)
            shift = (gained or 0.0) - (lost or 0.0)
            self.reward_sum += shift
            updates.append((context, gained is not None and lost is None, shift))
        if withdrawn or self.view is None or not self.view.learn(updates):
            self._settle()
            self._grow([context for context, grows, _ in updates if grows], +1)
            self._grow(withdrawn, -1)
            contexts, _, shifts = zip(*updates, strict=True)
            self._b += np.array(shifts) @ np.array(contexts)

    def _settle(self) -> None:
        """Bring A⁻¹ and b up to date with what was learnt while contexts were looked at."""
        if self.view is not None:
            self.view.settle(self._inverse, self._b)
            self.view = None

    def _grow(self, contexts: Sequence[Array], sign: int) -> None:
        """Line 18 of Algorithm 1, or its opposite, at once."""
        if contexts:
            rows = np.array(contexts, dtype=np.float64)
            solved = np.empty_like(rows)
            self._inverse.solve(rows, solved)
            self._inverse.update(rows, solved, sign)


def look(ahead: Lookahead, arms: Sequence[Arm]) -> list[View]:
    """What every one of the arms says of the contexts ahead."""
    unseen = [arm for arm in arms if arm.view is None or arm.view.ahead is not ahead]
    if unseen:
        solved = np.empty((len(unseen), *ahead.contexts.shape))
        for arm, vectors in zip(unseen, solved, strict=True):
            arm.inverse.solve(ahead.contexts, vectors)
        scored = score(solved, np.array([arm.b for arm in unseen]), ahead.contexts)
        for position, arm in enumerate(unseen):
            arm.view = View(ahead, solved[position], scored[position])
    return [arm.view for arm in arms if arm.view is not None]

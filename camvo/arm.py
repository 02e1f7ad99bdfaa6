"""What is known of one model on one question: the sums that rewards add to and are taken out of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from camvo import linucb
from camvo.beta_mixture import NO_EVIDENCE, BetaSums, EstimatorName, clip
from camvo.contribution import Change
from camvo.lookahead import Lookahead, Update, View
from camvo.typing import Array

Standing: TypeAlias = tuple[float, float, float, float, float, float]
"""N, μ in a weight (1 before the first reward), μ in Est (½ before it), and the mixture's evidence."""

NEWCOMER: Standing = (0.0, 1.0, 0.5, *NO_EVIDENCE)


class Arm:
    """The sums of one model.

    What is learnt from a context that is being looked at waits until A⁻¹ is read again
    (:mod:`camvo.lookahead`). That is when other contexts are scored, and the matrix then comes into the
    processor's cache once instead of twice.

    Attributes:
        b: b of LinUCB, shape (d,).
        rewards: N.
        reward_sum: Σr.
        mixture: the Beta mixture's sums.
    """

    __slots__ = ("_inverse", "b", "mixture", "reward_sum", "rewards", "view")

    def __init__(
        self,
        inverse: Array,
        b: Array,
        rewards: int = 0,
        reward_sum: float = 0.0,
        mixture: BetaSums | None = None,
    ) -> None:
        self._inverse = inverse
        self.view: View | None = None
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
        if self.view is not None:
            self.view.settle(self._inverse)
            self.view = None
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
            updates.append(Update(context, gained is not None and lost is None, shift))
            if shift:
                self.reward_sum += shift
                linucb.add_reward(self.b, context, shift)
        if withdrawn or self.view is None or not self.view.learn(updates):
            self._update([update.context for update in updates if update.grows], +1)
            self._update(withdrawn, -1)

    def _update(self, contexts: Sequence[Array], sign: int) -> None:
        """Line 18 of Algorithm 1, or its opposite, at once."""
        inverse = self.inverse
        if contexts:
            rows = np.array(contexts)
            solved = np.empty_like(rows)
            linucb.solve(inverse, rows, solved)
            linucb.update_inverse(inverse, rows, solved, sign)


def look(ahead: Lookahead, arms: Sequence[Arm]) -> list[View]:
    """What every one of the arms says of the contexts ahead."""
    unseen = [arm for arm in arms if arm.view is None or arm.view.ahead is not ahead]
    if unseen:
        solved = np.empty((len(unseen), *ahead.contexts.shape))
        for arm, vectors in zip(unseen, solved, strict=True):
            linucb.solve(arm.inverse, ahead.contexts, vectors)
        scored = linucb.score(solved, np.array([arm.b for arm in unseen]), ahead.contexts)
        for position, arm in enumerate(unseen):
            arm.view = View(ahead, solved[position], scored[position])
    return [arm.view for arm in arms if arm.view is not None]

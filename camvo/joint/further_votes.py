"""What further votes on a decided item are worth: the most right labels that they can gain for their price.

Further votes pay as long as a right label costs less than it is worth. The *break-even* of an item is the
price of a right label at which the best plan would stop. Items with the highest break-even per dollar come
first. The break-even considers several votes together, because one vote alone may change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from camvo.joint.joint_fit import JointFit, best_plan
from camvo.joint.plans import GradedWorth, Worth
from camvo.numerics.small import TIE
from camvo.typing import Array

_STEP: Final = 1.25
_STEPS: Final = 64
"""Break-evens are powers of 1.25, from about 4 right labels for each asking of everyone down to one in
400,000."""

_MOST: Final = 4.0

_NEVER: Final = 1e9
"""The price, in right labels, of an arm that was asked and gave no vote: it is not asked again."""


@dataclass(frozen=True, slots=True)
class FurtherValue:
    """The best use of further votes on one item.

    Attributes:
        break_even: the highest gain that can be required of asking everyone once, in right labels, so that
            further votes still pay; 0 if they gain nothing.
        arms: whom to ask first, at this price.
    """

    break_even: float = 0.0
    arms: tuple[str, ...] = ()


NOTHING: Final = FurtherValue()


@dataclass(frozen=True, slots=True)
class FurtherVotes:
    """The further votes on items of one question.

    Attributes:
        fit: what votes say.
        shares: arm → its share of the price of asking all arms.
    """

    fit: JointFit
    shares: Mapping[str, float]
    _plans: dict[tuple[object, ...], Worth | GradedWorth] = field(default_factory=dict, repr=False)

    def on(self, context: Array, votes: Mapping[str, str | None], sure: Mapping[str, float]) -> FurtherValue:
        """Find the best use of further votes.

        Args:
            context: the item's context, shape (d,).
            votes: arm → its vote, ``None`` for an arm that was asked and gave none.
            sure: arm → how sure it said it was, in [0, 1], for arms that said so.
        """
        fit = self.fit.after_reply(votes, sure)
        own = fit.at(context, self.shares)
        failed = frozenset(arm for arm, vote in votes.items() if vote is None)
        if all(arm in votes for arm in own.shortlist):
            return NOTHING
        node, tilt = own.node(votes), own.tilt(votes, sure)
        shared = own is fit

        def asked(step: int) -> tuple[str, ...]:
            worth = self._plan(own, failed, step, shared=shared)
            stopping, asking = worth.at(node, tilt)
            if max(asking) <= max(stopping, 1.0 / len(own.labels)) + TIE:
                return ()
            return tuple([own.shortlist[arm] for arm in worth.together(node, tilt)])

        low, high = 0, _STEPS  # further votes do not pay at ``low``, and do at ``high``
        arms: tuple[str, ...] = ()
        while high - low > 1:
            middle = (low + high) // 2
            if wanted := asked(middle):
                high, arms = middle, wanted
            else:
                low = middle
        return FurtherValue(_MOST * _STEP**-high, arms) if arms else NOTHING

    def _plan(self, fit: JointFit, failed: frozenset[str], step: int, *, shared: bool) -> Worth | GradedWorth:
        """The best plan if asking everyone has to gain ``_MOST · _STEP^−step`` right labels.

        Args:
            fit: the item's fit.
            failed: the arms that are not asked again.
            step: the step.
            shared: whether other items have the same fit.
        """
        key = (fit.beliefs, failed, step)
        if shared and key in self._plans:
            return self._plans[key]
        rate = _MOST * _STEP**-step
        prices = tuple([_NEVER if arm in failed else rate * self.shares[arm] for arm in fit.shortlist])
        plan = best_plan(fit, prices)
        if shared:
            self._plans[key] = plan
        return plan

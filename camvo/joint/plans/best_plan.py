"""The best plan for a fit: it knows confidences where arms have some."""

from __future__ import annotations

from typing import Final

from camvo.joint.joint_fit import JointFit
from camvo.joint.plans.graded_worth import GradedWorth, plan_by_graded_worth
from camvo.joint.plans.worth import Worth, plan_by_worth, rounded

_QUICK_NODES: Final = 5000
"""With more nodes, as with seven models and a student, a plan takes some 5 ms, and prices are rounded."""


def best_plan(fit: JointFit, prices: tuple[float, ...]) -> Worth | GradedWorth:
    """The best plan of whom to ask next, and when to stop.

    Args:
        fit: what votes say.
        prices: the price of each arm of the shortlist, in right labels.
    """
    if not fit.sure.grades.arms:
        quick = len(fit.beliefs.right) <= _QUICK_NODES
        return plan_by_worth(fit.beliefs, prices if quick else rounded(prices))
    named = sorted(fit.labels) if len(fit.labels) == 2 else []
    return plan_by_graded_worth(fit.beliefs, prices, fit.sure.by_arm(fit.shortlist, named))

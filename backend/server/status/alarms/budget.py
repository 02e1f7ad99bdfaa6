"""Budgets that are nearly or fully spent."""

from __future__ import annotations

from backend.server.status.formats import of
from backend.server.status.report import Alert, Budget

_NEARLY_SPENT = 0.1
"""A budget is reported once no more than this share of it is left."""

_SPENT = 0.01
"""It counts as spent once no more than this share is left: a call reserves the most that it can cost."""


def budget_alerts(whose: str, budget: Budget, fix: str) -> list[Alert]:
    """The alarm about one budget.

    Args:
        whose: ``day's`` or ``project's``.
        budget: the money.
        fix: what to do.
    """
    limit, left = budget.limit_usd, budget.left_usd
    if limit is None or left is None or left > _NEARLY_SPENT * limit:
        return []
    if left <= _SPENT * limit:
        message = f"The {whose} budget of ${limit:.6g} is spent. Tasks get no prediction"
        return [Alert("budget_spent", message, fix, subject=whose)]
    message = (
        f"Only ${left:.2g} of the {whose} budget of ${limit:.6g} is unreserved. Tasks whose calls could cost "
        "more get no prediction"
    )
    return [Alert("budget_nearly_spent", message, fix, subject=whose)]


def refused_alerts(refused: int, command: str) -> list[Alert]:
    """The alarm about tasks that the budget left without a label, though some of it may be left.

    Args:
        refused: the number of such tasks.
        command: the command that asks about them again.
    """
    if not refused:
        return []
    message = (
        f"The budget left {of(refused, 'task')} without a label, since calls could cost more than it had left"
    )
    fix = f"raise budget in camvo.yaml, or wait for the next UTC day; then run {command}"
    return [Alert("budget_refused", message, fix)]

"""What the alarms about budgets say of money that is spent, reserved, or not wanted."""

from __future__ import annotations

import pytest

from backend.server.status.alarms import server_alerts
from backend.server.status.formats import amount
from backend.server.status.report import Budget


def said(limit: float, spent: float, reserved: float = 0.0) -> list[tuple[str, str]]:
    """The codes and messages about a budget."""
    left = max(limit - spent - reserved, 0.0)
    return [
        (alert.code, alert.message)
        for alert in server_alerts(None, Budget(limit, spent, reserved, left), 0.0)
    ]


@pytest.mark.parametrize(("spent", "reserved"), [(5.0, 0.0), (4.97, 0.03)])
def test_a_budget_that_is_spent_is_said_to_be(spent: float, reserved: float) -> None:
    assert said(5.0, spent, reserved) == [
        ("budget_spent", "The day's budget of $5 is spent. Tasks get no prediction")
    ]


def test_money_that_calls_under_way_hold_is_not_said_to_be_spent() -> None:
    [(code, message)] = said(5.0, 2.0, 3.0)
    assert code == "budget_spent"
    assert "$2 is spent, and $3 is reserved for calls under way" in message


def test_hundreds_of_dollars_are_written_out() -> None:
    [(_, waiting)] = said(1500.0, 1234.5, 265.5)
    assert "$1,234.50 is spent, and $265.50 is reserved" in waiting
    [(_, left)] = said(1500.0, 1377.0)
    assert left.startswith("Only $123 of the day's budget of $1500 is unreserved")


@pytest.mark.parametrize(
    ("usd", "written"),
    [
        (0.0, "$0"),
        (0.000056, "$0.000056"),
        (0.0102, "$0.01"),
        (0.5, "$0.5"),
        (7.0, "$7"),
        (12345.6, "$12,345.60"),
    ],
)
def test_no_sum_is_written_with_an_exponent(usd: float, written: str) -> None:
    assert amount(usd) == written


def test_a_budget_of_nothing_is_no_alarm_where_nothing_costs_anything() -> None:
    assert said(0.0, 0.0) == []

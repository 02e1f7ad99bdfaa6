from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ledger_workers import Together, reserve_until_exhausted
from sqlalchemy import Connection, text

from backend.errors import BudgetExhaustedError, LedgerError, Usage
from backend.ledger import Ledger, money
from backend.ledger.money import _ModelUsage, day_of, from_picodollars, to_picodollars, usage_by_model
from camvo.errors import InvalidParameterError

DAY = 86_400.0
NOON = 12 * 3_600.0

_projects = itertools.count(1)


class Spending(NamedTuple):
    """What one project has spent and reserved in all, and what every project has spent on a day, in $."""

    total_usd: float
    today_usd: float
    reserved_usd: float


class Clock:
    """The ledger's clock, in the hands of a test."""

    now = NOON


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(money, "now", lambda _: clock.now)
    return clock


def reserve(connection: Connection, usd: float, **changes: Any) -> int:
    arguments: dict[str, Any] = {
        "project": "1.1",
        "task": 4,
        "model": "small",
        "key": "key",
        "project_usd": None,
        "day_usd": None,
        "counted_tokens": 100,
        "seconds": 60.0,
    }
    wanted = money.Reservation(usd=usd, **(arguments | changes))
    return money.reserve_each(connection, [wanted])[wanted.key]


def settle(connection: Connection, call: int, usd: float, *, error_code: str | None = None) -> bool:
    cost = money.CallCost(call, Usage(110, 7, usd), error_code, 0.5)
    return bool(money.settle_each(connection, [cost]))


def spent(connection: Connection, *, now: float = NOON) -> Spending:
    total = money.balance(connection, "1.1", money.TOTAL)
    today = money.balance(connection, money.EVERY_PROJECT, day_of(now))
    return Spending(*map(from_picodollars, (total.spent, today.spent, total.reserved)))


def test_reserved_money_is_not_spent_yet(ledger: Ledger) -> None:
    with ledger.write() as connection:
        reserve(connection, 0.25)
        assert spent(connection) == Spending(0.0, 0.0, 0.25)


def test_settling_books_the_actual_cost(ledger: Ledger) -> None:
    with ledger.write() as connection:
        assert settle(connection, reserve(connection, 0.25), 0.1)
        assert spent(connection) == Spending(0.1, 0.1, 0.0)


def test_settling_twice_changes_nothing(ledger: Ledger) -> None:
    with ledger.write() as connection:
        call = reserve(connection, 0.25)
        settle(connection, call, 0.1)
        assert not settle(connection, call, 0.2)
        assert spent(connection) == Spending(0.1, 0.1, 0.0)


def test_settling_an_unknown_call_is_an_error(ledger: Ledger) -> None:
    with ledger.write() as connection, pytest.raises(LedgerError, match="no call 99"):
        settle(connection, 99, 0.1)


def test_an_expired_reservation_counts_in_full_if_its_model_never_answered(
    ledger: Ledger, clock: Clock
) -> None:
    with ledger.write() as connection:
        reserve(connection, 0.25, seconds=60.0)
        reserve(connection, 0.5, seconds=61.0)
        clock.now = NOON + 60.0
        assert money.expire(connection) == 1
        assert spent(connection) == Spending(0.25, 0.25, 0.5)


def test_expiring_twice_and_expiring_settled_calls_changes_nothing(ledger: Ledger, clock: Clock) -> None:
    with ledger.write() as connection:
        reserve(connection, 0.25)
        settle(connection, reserve(connection, 0.5), 0.125)
        clock.now = NOON + DAY
        assert [money.expire(connection) for _ in range(2)] == [1, 0]
        assert spent(connection) == Spending(0.1875, 0.1875, 0.0)


def test_a_lost_call_counts_as_calls_of_its_model_usually_cost(ledger: Ledger) -> None:
    with ledger.write() as connection:
        for usd in (0.02, 0.06):
            settle(connection, reserve(connection, 0.4), usd)
        settle(connection, reserve(connection, 0.4), 0.4, error_code="model_refused")
        settle(connection, reserve(connection, 0.4, model="large"), 0.4)
        before = spent(connection).total_usd
        assert money.lose(connection, [reserve(connection, 0.8), 99]) == 1
        assert spent(connection).total_usd - before == pytest.approx(0.08)
        assert spent(connection).reserved_usd == 0.0


def test_a_lost_call_never_counts_with_more_than_its_reservation(ledger: Ledger) -> None:
    with ledger.write() as connection:
        settle(connection, reserve(connection, 0.25), 0.5)
        money.lose(connection, [reserve(connection, 0.25)])
        assert spent(connection) == Spending(0.75, 0.75, 0.0)


def test_a_lost_call_can_still_be_settled(ledger: Ledger, clock: Clock) -> None:
    with ledger.write() as connection:
        call = reserve(connection, 0.25)
        clock.now = NOON + DAY
        money.expire(connection)
        assert settle(connection, call, 0.1)
        assert spent(connection) == Spending(0.1, 0.1, 0.0)


def test_a_call_is_booked_on_the_utc_day_it_was_reserved_on(ledger: Ledger, clock: Clock) -> None:
    with ledger.write() as connection:
        clock.now = DAY - 1
        before_midnight = reserve(connection, 0.25)
        clock.now = DAY
        after_midnight = reserve(connection, 0.25)
        settle(connection, before_midnight, 0.1)
        settle(connection, after_midnight, 0.2)
        assert spent(connection, now=DAY - 1).today_usd == 0.1
        assert spent(connection, now=DAY) == Spending(0.3, 0.2, 0.0)


def test_calls_may_use_the_budget_exactly_and_no_more(ledger: Ledger) -> None:
    with ledger.write() as connection:
        for _ in range(3):
            settle(connection, reserve(connection, 0.1, project_usd=0.3), 0.1)
        with pytest.raises(BudgetExhaustedError):
            reserve(connection, 1e-12, project_usd=0.3)
        assert spent(connection) == Spending(0.3, 0.3, 0.0)


def test_reserved_money_counts_against_the_budget(ledger: Ledger) -> None:
    with ledger.write() as connection:
        reserve(connection, 0.2, project_usd=0.3)
        with pytest.raises(BudgetExhaustedError):
            reserve(connection, 0.2, project_usd=0.3)


def test_an_exhausted_day_ends_at_midnight(ledger: Ledger, clock: Clock) -> None:
    with ledger.write() as connection:
        settle(connection, reserve(connection, 1.0, day_usd=1.0), 1.0)
        clock.now = DAY - 1
        with pytest.raises(BudgetExhaustedError):
            reserve(connection, 0.5, day_usd=1.0)
        clock.now = DAY
        reserve(connection, 0.5, day_usd=1.0)


def test_projects_have_budgets_of_their_own(ledger: Ledger) -> None:
    with ledger.write() as connection:
        reserve(connection, 1.0, project_usd=1.0)
        reserve(connection, 1.0, project_usd=1.0, project="2.1")


def test_all_projects_share_the_daily_budget(ledger: Ledger) -> None:
    with ledger.write() as connection:
        reserve(connection, 0.75, day_usd=1.0)
        with pytest.raises(BudgetExhaustedError):
            reserve(connection, 0.75, day_usd=1.0, project="2.1")


def test_a_refused_reservation_changes_nothing(ledger: Ledger) -> None:
    with ledger.write() as connection:
        with pytest.raises(BudgetExhaustedError):
            reserve(connection, 0.5, project_usd=1.0, day_usd=0.1)
        assert spent(connection) == Spending(0.0, 0.0, 0.0)
        assert connection.execute(text("SELECT count(*) FROM calls")).scalar_one() == 0


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ("project_usd", ["project 1.1", "project's budget of $1", "$0.25 is spent", "cost $0.4"]),
        ("day_usd", ["every project", "day's budget of $1", "wait for the next UTC day"]),
    ],
)
def test_a_refusal_names_the_budget_and_what_to_change(ledger: Ledger, budget: str, words: list[str]) -> None:
    with ledger.write() as connection:
        settle(connection, reserve(connection, 0.25), 0.25)
        reserve(connection, 0.5)
        with pytest.raises(BudgetExhaustedError) as caught:
            reserve(connection, 0.4, **{budget: 1.0})
    for word in [*words, f"budget.{budget} in camvo.yaml"]:
        assert word in str(caught.value)


@pytest.mark.parametrize("usd", [-0.01, float("nan"), float("inf"), 2e6])
def test_an_invalid_amount_is_refused(ledger: Ledger, usd: float) -> None:
    with ledger.write() as connection, pytest.raises(InvalidParameterError):
        reserve(connection, usd)


def test_processes_that_reserve_at_once_never_exceed_the_budget(ledger: Ledger, ledger_url: str) -> None:
    arguments = (ledger_url, 0.03, 1.0)
    assert Together(reserve_until_exhausted, arguments, arguments).succeeded()
    with ledger.read() as connection:
        assert spent(connection) == Spending(0.0, 0.0, 0.99)


def test_usage_sums_the_tokens_of_answers_also_of_refusals(ledger: Ledger, clock: Clock) -> None:
    with ledger.write() as connection:
        for _ in range(2):
            settle(connection, reserve(connection, 0.5, counted_tokens=100), 0.25)
        settle(connection, reserve(connection, 0.5), 0.125, error_code="model_refused")
        reserve(connection, 0.5, seconds=1.0)
        clock.now = NOON + 1.0
        money.expire(connection)
        reserve(connection, 0.5)
        settle(connection, reserve(connection, 0.5, model="large", project="2.1"), 0.5)
        usage = usage_by_model(connection, {"small": 256, "large": 256}, max_factor=50)
    assert usage["large"] == _ModelUsage(1, 100, 110, 7, tasks=1, cached_tokens=0)
    assert usage["small"] == _ModelUsage(3, 300, input_tokens=330, output_tokens=21, tasks=3, cached_tokens=0)


def test_a_call_without_an_answer_measures_nothing(ledger: Ledger) -> None:
    with ledger.write() as connection:
        failed = reserve(connection, 0.5)
        money.settle_each(connection, [money.CallCost(failed, Usage(0, 0, 0.1), "model_timeout", 1.0)])
        assert usage_by_model(connection, {"small": 256}, max_factor=50) == {}


def test_an_absurd_usage_of_a_past_call_counts_as_what_the_call_could_take(ledger: Ledger) -> None:
    with ledger.write() as connection:
        settle(connection, reserve(connection, 0.5, counted_tokens=100), 0.25)
        settle(connection, reserve(connection, 0.5, model="large"), 0.5)
        absurd = reserve(connection, 0.5, counted_tokens=100)
        money.settle_each(connection, [money.CallCost(absurd, Usage(10**15, 10**18, 0.5), None, 1.0)])
        usage = usage_by_model(connection, {"small": 256}, max_factor=50)
    assert usage == {"small": _ModelUsage(2, 200, 110 + 5000, 7 + 256, tasks=2, cached_tokens=0)}


def test_there_is_no_usage_before_the_first_call(ledger: Ledger) -> None:
    with ledger.read() as connection:
        assert usage_by_model(connection, {"small": 256}, max_factor=50) == {}


prices = st.floats(min_value=0, max_value=1000, allow_subnormal=False)


@given(st.floats(min_value=0, max_value=1e6))
def test_a_price_is_rounded_to_the_nearest_picodollar(usd: float) -> None:
    assert abs(Fraction(to_picodollars(usd), 10**12) - Fraction(repr(usd))) <= Fraction(1, 2 * 10**12)


@given(st.integers(min_value=0, max_value=10**15))
def test_picodollars_up_to_a_thousand_dollars_survive_conversion_to_float(picodollars: int) -> None:
    assert to_picodollars(from_picodollars(picodollars)) == picodollars


@given(st.lists(st.tuples(prices, prices, st.sampled_from(["settle", "lose", "wait"])), max_size=8))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_accounts_are_the_exact_sums_of_the_calls(
    sqlite_ledger: Ledger, clock: Clock, calls: list[tuple[float, float, str]]
) -> None:
    number = next(_projects)
    project, noon = f"{number}.1", NOON + number * 86_400
    expected: Counter[str] = Counter()
    with sqlite_ledger.write() as connection:
        for reserved, cost, outcome in calls:
            seconds = 1.0 if outcome == "lose" else 1000.0
            clock.now = noon
            model = "dear" if outcome == "lose" else "small"
            call = reserve(connection, reserved, project=project, seconds=seconds, model=model)
            if outcome == "settle":
                settle(connection, call, cost)
            clock.now = noon + 1.0
            money.expire(connection)
            exact = Fraction(repr(cost if outcome == "settle" else reserved)) * 10**12
            expected["reserved" if outcome == "wait" else "spent"] += round(exact)
        for owner, scope in ((project, "total"), ("*", day_of(noon))):
            query = text("SELECT spent, reserved FROM accounts WHERE project = :project AND scope = :scope")
            row = connection.execute(query, {"project": owner, "scope": scope}).one_or_none()
            assert (row or (0, 0)) == (expected["spent"], expected["reserved"])

"""The controller of rates: what it keeps to whatever is reported, and what single reports lead to."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from backend.models.rates.answers import Allowance, Lease, RateReport
from backend.models.rates.controller import _RateController

NOW = 1_000_000.0

reports = st.builds(
    RateReport,
    owner=st.sampled_from("abc"),
    wanted=st.integers(0, 400),
    wanted_tokens=st.floats(0, 1e6),
    sent=st.integers(0, 400),
    sent_tokens=st.floats(0, 1e6),
    unused=st.integers(0, 400),
    unused_tokens=st.floats(-1e6, 1e6),
    refused=st.integers(0, 50),
    refused_tokens=st.floats(0, 1e6),
    refused_epoch=st.integers(-1, 20),
    cause=st.sampled_from(["requests", "tokens"]),
    wait=st.floats(0, 100),
    allowances=st.dictionaries(
        st.sampled_from(["requests", "tokens"]),
        st.builds(
            Allowance,
            limit=st.none() | st.floats(0, 1e6),
            remaining=st.none() | st.floats(0, 1e6),
            reset=st.none() | st.floats(0, 1e5),
        ),
    ),
)


def refusal(lease: Lease, **fields: object) -> RateReport:
    """A process that wants to go on after one refusal."""
    return RateReport("a", wanted=100, refused=1, refused_epoch=lease.epoch, **fields)  # type: ignore[arg-type]


def used_for(seconds: int, per_second: int, *, start: float = NOW) -> tuple[_RateController, Lease]:
    """A controller that knows no limit, after some seconds of accepted calls."""
    controller = _RateController(None, None)
    lease = Lease()
    for second in range(seconds):
        lease = controller.exchange(start + second, RateReport("a", wanted=1, sent=per_second))
    return controller, lease


@given(st.lists(st.tuples(st.floats(-2, 90), reports), max_size=40), st.none() | st.integers(1, 500))
@settings(max_examples=60, phases=[Phase.explicit, Phase.generate])  # shrinking takes minutes
def test_any_reports_lead_to_a_lease_that_can_be_stored(
    steps: list[tuple[float, RateReport]], rpm: int | None
) -> None:
    now, controller = NOW, _RateController(rpm, None)
    for seconds, report in steps:
        now += seconds
        stored = json.loads(json.dumps(controller.dump(), allow_nan=False))
        lease = controller.exchange(now, report)
        assert _RateController(rpm, None, state=stored).exchange(now, report) == lease
        assert lease.hold >= 0.0
        assert lease.calls is None or 0 <= lease.calls <= report.wanted
        if rpm is not None:
            assert lease.rate is not None
            assert 0.0 < lease.rate <= rpm


@given(
    st.integers(1, 50),
    st.lists(st.tuples(st.floats(0, 20), st.integers(0, 60), st.floats(0, 1)), min_size=1, max_size=60),
)
@settings(max_examples=100)
def test_no_minute_holds_more_calls_than_the_settings_allow(
    rpm: int, steps: list[tuple[float, int, float]]
) -> None:
    controller, now, unused = _RateController(rpm, None), NOW, 0
    sent: list[tuple[float, int]] = []
    for seconds, wanted, share in steps:
        now += seconds
        lease = controller.exchange(now, RateReport("a", wanted=wanted, unused=unused))
        assert lease.calls is not None
        used = round(share * lease.calls)
        unused = lease.calls - used
        sent.append((now, used))
    for start, _ in sent:
        assert sum(count for at, count in sent if start <= at < start + 60.0) <= rpm


def test_nothing_is_limited_before_a_refusal() -> None:
    controller, lease = used_for(30, 50)
    assert lease.calls is None
    assert lease.rate is None
    assert controller.exchange(NOW + 31, RateReport("b", wanted=5000)).calls is None


def test_a_refusal_leads_to_95_percent_of_what_was_accepted_in_a_minute() -> None:
    controller, lease = used_for(120, 10)
    lease = controller.exchange(NOW + 120, refusal(lease))
    assert lease.rate == pytest.approx(0.95 * 600, rel=0.02)


def test_a_refusal_right_after_a_pause_is_not_taken_for_an_outage() -> None:
    controller, lease = used_for(120, 10)
    lease = controller.exchange(NOW + 126, refusal(lease, sent=5))
    assert lease.rate is not None
    assert lease.rate >= 0.8 * 600


def test_refusals_of_calls_that_were_sent_before_the_last_one_teach_nothing() -> None:
    controller, before = used_for(120, 10)
    after = controller.exchange(NOW + 120, refusal(before))
    again = controller.exchange(NOW + 120.5, refusal(before))
    assert (again.rate, again.epoch) == (after.rate, after.epoch)


def test_the_rate_grows_by_1_percent_in_a_minute_in_which_it_is_used_and_only_then() -> None:
    controller, lease = used_for(120, 10)
    first = controller.exchange(NOW + 120, refusal(lease)).rate
    assert first is not None
    for second in range(121, 182):
        lease = controller.exchange(NOW + second, RateReport("a", wanted=100))
    assert lease.rate == pytest.approx(1.04 * first)  # the first minute searches: the rate was never learnt
    for second in range(182, 400):
        lease = controller.exchange(NOW + second, RateReport("a", wanted=1 if second % 20 == 0 else 0))
    assert lease.rate == pytest.approx(1.04 * first)


def test_retry_after_from_one_process_holds_all_back() -> None:
    controller, lease = used_for(10, 5)
    controller.exchange(NOW + 10, refusal(lease, wait=30.0))
    other = controller.exchange(NOW + 20, RateReport("b", wanted=5))
    assert (other.calls, other.hold) == (0, pytest.approx(20.0))
    assert controller.exchange(NOW + 40.1, RateReport("b", wanted=5)).hold == 0.0


def test_after_refusals_in_a_row_one_call_tries_before_the_others() -> None:
    controller, lease = used_for(120, 10)
    lease = controller.exchange(NOW + 120, refusal(lease))
    lease = controller.exchange(NOW + 121, refusal(lease))
    assert lease.hold > 0.0
    tries = [controller.exchange(NOW + 122.1 + k / 4, RateReport("ab"[k % 2], wanted=50)) for k in range(4)]
    assert [lease.calls for lease in tries] == [1, 0, 0, 0]
    later = [controller.exchange(NOW + 125 + k, RateReport("a", wanted=50)) for k in range(3)]
    assert all(lease.calls and lease.calls > 1 for lease in later)


def test_the_limit_in_headers_is_taken_over_and_followed() -> None:
    controller = _RateController(None, None)
    headers = {"requests": Allowance(limit=600, remaining=599, reset=0.1)}
    assert controller.exchange(NOW, RateReport("a", wanted=1, allowances=headers)).rate == 600  # type: ignore[arg-type]
    headers = {"requests": Allowance(limit=200, remaining=100, reset=30.0)}
    assert controller.exchange(NOW + 1, RateReport("a", wanted=1, allowances=headers)).rate == 200  # type: ignore[arg-type]


def test_a_limit_per_day_in_headers_is_not_taken_for_one_per_minute() -> None:
    controller = _RateController(None, None)
    headers = {"requests": Allowance(limit=1000, remaining=900, reset=8640.0)}
    assert controller.exchange(NOW, RateReport("a", wanted=1, allowances=headers)).rate is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reset", "hold"),
    [
        pytest.param(20.0, 20.0, id="fixed window"),
        pytest.param(60.0, 0.1, id="bucket that is full in a minute"),
    ],
)
def test_nothing_is_sent_while_nothing_remains(reset: float, hold: float) -> None:
    controller = _RateController(None, None)
    headers = {"requests": Allowance(limit=600, remaining=0, reset=reset)}
    lease = controller.exchange(NOW, RateReport("a", wanted=9, allowances=headers))  # type: ignore[arg-type]
    assert (lease.calls, lease.hold) == (0, pytest.approx(hold))


def test_no_more_than_what_remains_is_sent() -> None:
    controller = _RateController(600, None)
    controller.exchange(NOW, RateReport("a", wanted=1))
    headers = {"requests": Allowance(limit=600, remaining=3, reset=30.0)}
    lease = controller.exchange(NOW + 1, RateReport("b", wanted=100, allowances=headers))  # type: ignore[arg-type]
    assert lease.calls == 3


def test_calls_are_shared_by_demand() -> None:
    controller, lease = used_for(120, 10)
    controller.exchange(NOW + 120, refusal(lease))
    got = {"a": 0, "b": 0}
    for step in range(60):
        for owner, wanted in (("a", 900), ("b", 100)):
            lease = controller.exchange(NOW + 121 + step, RateReport(owner, wanted=wanted))
            got[owner] += lease.calls or 0
    assert sum(got.values()) == pytest.approx(570, rel=0.05)
    assert 20 <= got["b"] <= 200


def test_a_refusal_for_tokens_limits_tokens_alone() -> None:
    controller = _RateController(None, None)
    lease = Lease()
    for second in range(120):
        lease = controller.exchange(NOW + second, RateReport("a", wanted=1, sent=10, sent_tokens=1000))
    lease = controller.exchange(NOW + 120, refusal(lease, cause="tokens", wanted_tokens=10_000.0))
    assert (lease.rate, lease.limits_tokens) == (None, True)
    assert controller.quotas["tokens"].rate == pytest.approx(0.95 * 60_000, rel=0.02)
    tokens = 0.0
    for second in range(121, 181):
        tokens += controller.exchange(
            NOW + second, RateReport("a", wanted=100, wanted_tokens=10_000.0)
        ).tokens
    assert tokens == pytest.approx(0.95 * 60_000, rel=0.06)


def test_a_call_longer_than_all_tokens_of_a_minute_is_leased_alone() -> None:
    controller = _RateController(None, 1000)
    sizes: list[Callable[[], Lease]] = [
        lambda: controller.exchange(NOW, RateReport("a", wanted=2, wanted_tokens=10_000.0)),
        lambda: controller.exchange(NOW + 30, RateReport("a", wanted=2, wanted_tokens=10_000.0)),
        lambda: controller.exchange(NOW + 62, RateReport("a", wanted=2, wanted_tokens=10_000.0)),
    ]
    assert [lease().calls for lease in sizes] == [1, 0, 1]

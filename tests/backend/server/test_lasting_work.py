"""Work that outlasts a request: the next request gets its result, and nothing waits for ever."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from backend.server.runtime import _KEPT, _LastingWork


class Started:
    """Counts how often work was started, and holds its future."""

    def __init__(self) -> None:
        self.futures: list[Future[str]] = []

    def __call__(self) -> Future[str]:
        self.futures.append(Future())
        return self.futures[-1]


def late(work: _LastingWork[str], asked: str, start: Started) -> None:
    with pytest.raises(TimeoutError):
        work.result(asked, start)


def test_the_same_request_gets_the_result_of_work_that_outlasted_the_first() -> None:
    work, start = _LastingWork[str](0.0), Started()
    late(work, "quote", start)
    start.futures[0].set_result("$5")
    assert work.result("quote", start) == "$5"
    assert (len(start.futures), len(work)) == (1, 0)


def test_another_request_is_other_work() -> None:
    work, start = _LastingWork[str](0.0), Started()
    late(work, "quote of 1", start)
    late(work, "quote of 2", start)
    assert len(start.futures) == 2


def test_a_result_whose_client_went_away_is_dropped() -> None:
    now = [0.0]
    work, start = _LastingWork[str](0.0, lambda: now[0]), Started()
    late(work, "abandoned", start)
    start.futures[0].set_result("$5")
    now[0] = _KEPT + 1.0
    late(work, "another", start)
    assert len(work) == 1


def test_work_under_way_is_never_dropped() -> None:
    now = [0.0]
    work, start = _LastingWork[str](0.0, lambda: now[0]), Started()
    late(work, "slow", start)
    now[0] = 100.0 * _KEPT
    late(work, "slow", start)
    assert len(start.futures) == 1


def test_an_error_ends_the_work_and_the_next_request_begins_anew() -> None:
    work, start = _LastingWork[str](0.0), Started()
    late(work, "quote", start)
    start.futures[0].set_exception(ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        work.result("quote", start)
    late(work, "quote", start)
    assert len(start.futures) == 2

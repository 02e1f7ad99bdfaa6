"""Outages of a model in simulated time: who waits, who tries, when, and for how long."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from virtual_time import run_in_virtual_time

from backend.errors import (
    KeyRejectedError,
    ModelError,
    ModelTimeoutError,
    RateLimitedError,
    StoppingError,
    UnavailableError,
)
from backend.models.failures import FAILURES, Outage, Tries

HOUR = 3600.0


def now() -> float:
    return asyncio.get_running_loop().time()


def down(certain: bool = False) -> UnavailableError:
    error = UnavailableError("is down", where="model red")
    error.reason, error.certain = "HTTP 503", certain
    return error


def outage_of(failures: int = FAILURES) -> Outage:
    outage = Outage("red", now)
    for _ in range(failures):
        outage.failed(down(), probe=False)
    return outage


async def call(
    outage: Outage, fails: Callable[[], ModelError | None], sent: list[float], seconds: float = 0.1
) -> str:
    """One call that waits for outages, as the pool makes it; what it sent, and how it ended."""
    tries = Tries(outage, 12 * HOUR, 2, lambda: False, now() + 24 * HOUR)
    try:
        while True:
            async with tries.turn() as turn:
                assert turn is not None
                turn.sent = True
                sent.append(now())
                await asyncio.sleep(seconds)
                if (error := fails()) is None:
                    outage.answered()
                    return "answered"
                outage.failed(error, probe=turn.probe)
            await tries.pause(error, turn)
    except ModelError as failure:
        return failure.code


def run(main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return run_in_virtual_time(main())


def test_a_few_failures_in_a_row_are_no_outage() -> None:
    async def main() -> bool:
        return outage_of(FAILURES - 1).down

    assert not run(main)


@pytest.mark.parametrize("error", [KeyRejectedError("no"), RateLimitedError("slowly")])
def test_a_rejection_and_a_request_for_patience_are_no_outage(error: ModelError) -> None:
    async def main() -> bool:
        outage = Outage("red", now)
        for _ in range(9):
            outage.failed(error, probe=False)
        return outage.down

    assert not run(main)


def test_one_call_at_a_time_tries_and_the_pauses_grow_to_a_minute() -> None:
    async def main() -> list[float]:
        outage, sent, began = outage_of(), list[float](), now()

        def fails() -> ModelError | None:
            return down(certain=True) if now() - began < HOUR / 2 else None

        ended = await asyncio.gather(*(call(outage, fails, sent) for _ in range(40)))
        assert set(ended) == {"answered"}
        return [at - began for at in sent]

    sent = run(main)
    probes = [at for at in sent if at < HOUR / 2]
    pauses = [later - earlier for earlier, later in itertools.pairwise(probes)]
    assert probes[0] == pytest.approx(2.0)
    assert pauses[:5] == pytest.approx([4.1, 8.1, 16.1, 32.1, 60.1])
    assert max(pauses) == pytest.approx(60.1)
    assert len(sent) == len(probes) + 40


def test_when_the_model_is_back_all_calls_are_sent_at_once() -> None:
    async def main() -> list[float]:
        outage, sent = outage_of(), list[float]()
        await asyncio.gather(*(call(outage, lambda: None, sent) for _ in range(5)))
        return sent

    first, *others = run(main)
    assert others == pytest.approx([first + 0.1] * 4)


def test_an_outage_is_given_up_when_it_outlasts_the_patience() -> None:
    async def main() -> tuple[str, float]:
        outage, began = outage_of(), now()
        code = await call(outage, lambda: down(certain=True), [])
        return code, now() - began

    code, seconds = run(main)
    assert code == "model_unavailable"
    assert seconds == pytest.approx(12 * HOUR, abs=61.0)


def test_probes_that_time_out_are_paid_for_a_bounded_number_of_times() -> None:
    async def main() -> tuple[int, bool]:
        outage, sent = outage_of(), list[float]()
        calls = (call(outage, lambda: ModelTimeoutError("gave no answer in time"), sent) for _ in range(40))
        await asyncio.gather(*calls)
        return len(sent), outage.hopeless(12 * HOUR)

    assert run(main) == (8, True)


def test_calls_wait_for_a_model_that_hangs_for_ever_less_than_a_quarter_of_an_hour() -> None:
    async def main() -> float:
        outage, began = outage_of(), now()

        def hangs() -> ModelError:
            return ModelTimeoutError("gave no answer in time")

        await asyncio.gather(*(call(outage, hangs, [], seconds=30.0) for _ in range(40)))
        return now() - began

    assert run(main) < HOUR / 4


def test_a_single_prompt_times_out_five_times_at_most() -> None:
    async def main() -> int:
        sent: list[float] = []
        await call(outage_of(), lambda: ModelTimeoutError("gave no answer in time"), sent)
        return len(sent)

    assert run(main) == 5


def broke_off() -> ModelError:
    """A call whose answer the provider may bill."""
    error = down()
    error.billable = True
    return error


@pytest.mark.parametrize(
    ("error", "most"), [(down(), 8), (broke_off(), 3), (ModelTimeoutError("gave no answer"), 3)]
)
def test_a_text_that_fails_while_others_are_answered_is_given_up_soon(error: ModelError, most: int) -> None:
    async def main() -> tuple[int, float]:
        outage, sent, began = Outage("red", now), list[float](), now()

        def fails() -> ModelError:
            outage.answered()  # of another text
            return error

        await call(outage, fails, sent)
        return len(sent), now() - began

    sent, seconds = run(main)
    assert sent == most
    assert seconds < HOUR / 10


def test_a_text_that_fails_alone_does_not_hold_a_job_for_hours() -> None:
    async def main() -> float:
        began = now()
        await call(Outage("red", now), down, [])
        return now() - began

    assert run(main) < HOUR


def test_a_call_that_waits_ends_at_once_when_the_process_stops() -> None:
    async def main() -> tuple[list[Any], float]:
        outage = outage_of()
        began = now()
        waiting = [asyncio.create_task(call(outage, lambda: None, [])) for _ in range(3)]
        await asyncio.sleep(0.5)
        outage.refuse_waiting(lambda: StoppingError("the server stops"))
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        return ended, now() - began

    ended, seconds = run(main)
    assert all(isinstance(error, StoppingError) for error in ended)
    assert seconds == pytest.approx(0.5)


def test_a_probe_that_is_cancelled_lets_the_next_call_try() -> None:
    async def main() -> str:
        outage = outage_of()
        never = asyncio.Event()

        async def hangs() -> None:
            async with outage.turn(HOUR) as turn:
                assert turn.probe
                await never.wait()

        probe = asyncio.create_task(hangs())
        other = asyncio.create_task(call(outage, lambda: None, []))
        await asyncio.sleep(3.0)
        probe.cancel()
        return await other

    assert run(main) == "answered"


def test_it_says_what_is_waited_for() -> None:
    async def main() -> str:
        return str(outage_of().wait)

    said = run(main)
    assert said.startswith("waiting for red (HTTP 503) since ")
    assert said.endswith(", next probe in 2 s")

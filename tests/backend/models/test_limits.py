"""The pool under load and after failures: concurrency, rate limits, timeouts, rest, cancellation."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from backend.errors import (
    BadAnswerError,
    KeyRejectedError,
    ModelError,
    ModelTimeoutError,
    RateLimitedError,
    UnavailableError,
)
from backend.models import Pool
from backend.models.failures import CircuitBreaker
from backend.models.model import litellm
from backend.models.prices import Used
from backend.models.rates.controller import ProcessRates
from backend.settings import ModelSettings
from backend.testing import OpenAIServer, Reply

MESSAGES = [{"role": "system", "content": "Label it."}, {"role": "user", "content": "A text."}]


class Clock:
    """Monotonic seconds, advanced by the test."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(lambda body: Reply.says("A")) as running:
        yield running


def pool_of(
    server: OpenAIServer, *, clock: Any = time.monotonic, rates: ProcessRates | None = None, **fields: Any
) -> Pool:
    entry = {
        "name": "test",
        "model": "openai/test",
        "input_price": 1,
        "output_price": 1,
        "api_base": server.url,
    }
    model = ModelSettings.model_validate(entry | fields)
    return Pool([model], keys={"test": "k"}, rates=rates, clock=clock)


async def attempt(pool: Pool, patience: float = 10.0, *, hurried: bool = False) -> str:
    return (await pool["test"].attempt(MESSAGES, None, patience, hurried=hurried)).content


async def outcome(pool: Pool, patience: float = 10.0, *, hurried: bool = False) -> str:
    """Return the content, or the code of the error."""
    try:
        return await attempt(pool, patience, hurried=hurried)
    except ModelError as error:
        return error.code


def test_no_more_calls_are_in_flight_than_allowed(server: OpenAIServer) -> None:
    gate = threading.Event()
    server.script = lambda body: Reply.says("A").held_until(gate)
    pool = pool_of(server, max_concurrency=3)

    async def main() -> list[str]:
        tasks = [asyncio.create_task(attempt(pool)) for _ in range(9)]
        assert await asyncio.to_thread(server.wait_for, 3)
        gate.set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(main()) == ["A"] * 9
    assert server.most_at_once == 3


@pytest.mark.parametrize(("own", "patience"), [(0.3, 3e6), (3e6, 0.3)], ids=["the model's", "the caller's"])
def test_the_shorter_timeout_ends_a_call_to_a_server_that_hangs(
    server: OpenAIServer, own: float, patience: float
) -> None:
    server.script = lambda body: Reply.says("A").held_until(threading.Event())
    pool = pool_of(server, timeout=own)
    asyncio.run(outcome(pool_of(server, timeout=0.1), 0.01))  # litellm's first call takes longer than others
    assert asyncio.run(outcome(pool, patience, hurried=True)) == "model_timeout"


def test_a_timeout_is_one_request(server: OpenAIServer) -> None:
    server.script = lambda body: Reply.says("A")
    asyncio.run(attempt(pool_of(server)))  # litellm's first call takes longer than others
    server.script = lambda body: Reply.says("A").held_until(threading.Event())
    assert asyncio.run(outcome(pool_of(server, timeout=1.0))) == "model_timeout"
    assert server.count() == 2


def test_no_time_left_is_a_timeout_without_a_request_and_not_the_model_s_fault(server: OpenAIServer) -> None:
    pool = pool_of(server)
    assert [asyncio.run(outcome(pool, 0.0)) for _ in range(6)] == ["model_timeout"] * 6
    assert server.count() == 0
    assert not pool["test"].resting


def test_the_timeout_holds_for_a_provider_that_does_not_know_of_it() -> None:
    module = litellm()

    class Slow(module.CustomLLM):  # type: ignore[name-defined,misc]
        async def acompletion(self, *args: Any, **kwargs: Any) -> Any:
            await asyncio.Event().wait()

    module.custom_provider_map.append({"provider": "slow", "custom_handler": Slow()})
    module.utils.custom_llm_setup()
    pool = Pool([ModelSettings(name="test", model="slow/one", input_price=0, output_price=0, timeout=0.2)])
    assert asyncio.run(outcome(pool, 3e6)) == "model_timeout"


def test_waiting_for_a_slot_counts_against_the_time(server: OpenAIServer) -> None:
    server.script = lambda body: Reply.says("A").held_until(threading.Event())
    pool = pool_of(server, max_concurrency=1)

    async def main() -> None:
        first = asyncio.create_task(attempt(pool))
        assert await asyncio.to_thread(server.wait_for, 1)
        with pytest.raises(ModelTimeoutError, match="no room"):
            await attempt(pool, 0.1)
        first.cancel()

    asyncio.run(main())
    assert server.count() == 1


def test_a_cancelled_call_frees_its_slot(server: OpenAIServer) -> None:
    server.script = lambda body: Reply.says("A").held_until(threading.Event())
    pool = pool_of(server, max_concurrency=1)

    async def main() -> str:
        task = asyncio.create_task(attempt(pool))
        assert await asyncio.to_thread(server.wait_for, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        server.script = lambda body: Reply.says("B")
        return await attempt(pool, 5.0)

    assert asyncio.run(main()) == "B"


def scripted(status: int, **headers: str) -> Callable[[dict[str, Any]], Reply]:
    return lambda body: Reply.says("A") if status == 200 else Reply.fails(status, **headers)


# -- limits per minute


def test_the_third_request_of_a_minute_waits_when_two_are_allowed(server: OpenAIServer) -> None:
    clock = Clock()
    pool = pool_of(server, rpm=2, clock=clock)

    async def main() -> list[str]:
        outcomes = [await outcome(pool, 5.0) for _ in range(2)]
        outcomes.append(await outcome(pool, 0.1))
        clock.now += 62.0  # a leased call may be sent a second late
        return [*outcomes, await outcome(pool, 5.0)]

    assert asyncio.run(main()) == ["A", "A", "model_timeout", "A"]
    assert server.count() == 3


def test_the_limit_is_shared_by_the_processes(server: OpenAIServer) -> None:
    rates = ProcessRates(Clock())
    pools = [pool_of(server, rpm=2, rates=rates) for _ in range(3)]

    async def main() -> list[str]:
        return await asyncio.gather(*(outcome(pool, 2.5) for pool in pools))

    assert sorted(asyncio.run(main())) == ["A", "A", "model_timeout"]
    assert server.count() == 2


def test_tokens_per_minute_count_what_the_answer_turned_out_to_be(server: OpenAIServer) -> None:
    clock = Clock()
    server.script = lambda body: Reply.says("A", usage=(15, 15))
    pool = pool_of(server, tpm=30, max_tokens=15, clock=clock)
    pool["test"].model.meter.observe(Used(1, 1, 1))

    async def main() -> list[str]:
        outcomes = [await outcome(pool, patience) for patience in (10.0, 1.5)]
        clock.now += 62.0
        return [*outcomes, await outcome(pool, 5.0)]

    assert asyncio.run(main()) == ["A", "model_timeout", "A"]


def test_a_prompt_longer_than_the_limit_waits_for_an_empty_minute_and_goes(server: OpenAIServer) -> None:
    assert asyncio.run(outcome(pool_of(server, tpm=1, clock=Clock()), 5.0)) == "A"


# -- rest


def test_five_failures_in_a_row_bring_a_minute_of_rest(server: OpenAIServer) -> None:
    clock = Clock()
    server.script = lambda body: Reply.fails(500)
    pool = pool_of(server, clock=clock)
    resting = []
    for _ in range(5):
        asyncio.run(outcome(pool))
        resting.append(pool["test"].resting)
    assert resting == [False] * 4 + [True]
    clock.now += 60.0
    assert not pool["test"].resting


def test_calls_that_wait_for_their_turn_are_not_sent_to_a_model_that_has_come_to_rest(
    server: OpenAIServer,
) -> None:
    server.script = lambda body: Reply.fails(500)
    pool = pool_of(server, max_concurrency=1)

    async def main() -> list[str]:
        return await asyncio.gather(*(outcome(pool, 30.0) for _ in range(20)))

    assert asyncio.run(main()) == ["model_unavailable"] * 20
    assert server.count() == 5


def test_one_more_failure_after_the_rest_brings_another() -> None:
    clock = Clock()
    rest = CircuitBreaker(clock)
    for _ in range(5):
        rest.failed(UnavailableError("down"))
    clock.now += 61.0
    assert not rest.resting
    rest.failed(UnavailableError("down"))
    assert rest.resting


def test_an_answer_ends_the_row_of_failures(server: OpenAIServer) -> None:
    pool = pool_of(server, clock=Clock())
    replies = [500, 500, 500, 500, 200, 500, 500, 500, 500]
    for status in replies:
        server.script = scripted(status)
        asyncio.run(outcome(pool))
    assert not pool["test"].resting


def test_bad_answers_and_requests_for_patience_bring_no_rest() -> None:
    rest = CircuitBreaker(Clock())
    for _ in range(9):
        rest.failed(BadAnswerError("empty"))
        rest.failed(RateLimitedError("slow down"))
    assert not rest.resting


def test_answers_without_a_vote_bring_a_rest_if_they_are_about_five_tasks() -> None:
    rest = CircuitBreaker(Clock())
    for task in (1, 1, 1, 2, 3, 4):
        rest.judged("model_bad_answer", task)
    assert not rest.resting
    rest.judged("model_bad_answer", 5)
    assert rest.resting


def test_a_vote_ends_the_row_of_answers_without_one() -> None:
    rest = CircuitBreaker(Clock())
    for task in (1, 2, 3, 4, None, 5, 6, 7, 8):
        rest.judged(None if task is None else "model_bad_answer", task)
    assert not rest.resting


def test_a_model_that_votes_on_half_of_the_texts_does_not_rest_after_a_row_that_is_chance() -> None:
    rest = CircuitBreaker(Clock())
    for task in range(20):
        rest.judged("model_refused" if task % 2 else None, task)
    for task in range(20, 30):
        rest.judged("model_refused", task)
    assert not rest.resting


def test_a_model_that_voted_on_half_of_the_texts_rests_once_it_votes_on_none() -> None:
    rest = CircuitBreaker(Clock())
    for task in range(20):
        rest.judged("model_refused" if task % 2 else None, task)
    for task in range(20, 37):
        rest.judged("model_refused", task)
    assert rest.resting


def test_a_model_that_votes_on_few_texts_rests_after_a_row_of_25() -> None:
    rest = CircuitBreaker(Clock())
    for task in range(4):
        rest.judged("model_refused", task)
    rest.judged(None, 4)
    for task in range(5, 30):
        assert not rest.resting
        rest.judged("model_refused", task)
    assert rest.resting


def test_a_model_whose_key_is_missing_comes_to_rest(server: OpenAIServer) -> None:
    entry = ModelSettings(name="test", model="openai/x", input_price=1, output_price=1, api_key_env="NOT_SET")
    pool = Pool([entry])
    for _ in range(5):
        with pytest.raises(KeyRejectedError):
            asyncio.run(attempt(pool))
    assert pool["test"].resting


def test_time_lost_in_our_own_queue_is_not_held_against_the_model(server: OpenAIServer) -> None:
    pool = pool_of(server, rpm=1, clock=Clock())
    assert asyncio.run(outcome(pool)) == "A"
    assert {asyncio.run(outcome(pool, 0.02)) for _ in range(6)} == {"model_timeout"}
    assert not pool["test"].resting


def test_nothing_is_sent_before_the_time_that_the_provider_asked_for(server: OpenAIServer) -> None:
    clock = Clock()
    server.script = lambda body: Reply.fails(429, retry_after="7")
    pool = pool_of(server, clock=clock)
    assert asyncio.run(outcome(pool, 5.0)) == "model_rate_limited"  # at once: the wait is longer than that
    server.script = lambda body: Reply.says("A")
    assert asyncio.run(outcome(pool, 5.0)) == "model_rate_limited"
    assert server.count() == 1
    clock.now += 7.0
    assert asyncio.run(outcome(pool, 5.0)) == "A"


def test_a_refused_call_waits_for_its_turn_and_is_sent_again(server: OpenAIServer) -> None:
    replies = iter([Reply.fails(429), Reply.fails(429, retry_after="0.1"), Reply.says("A")])
    server.script = lambda body: next(replies)
    assert asyncio.run(outcome(pool_of(server))) == "A"
    assert server.count() == 3


def test_a_call_that_is_refused_until_its_patience_ends_says_so(server: OpenAIServer) -> None:
    server.script = lambda body: Reply.fails(429)
    assert asyncio.run(outcome(pool_of(server), 0.5)) == "model_rate_limited"


def test_a_model_that_asks_for_a_long_wait_rests_and_one_that_asks_for_a_short_one_does_not(
    server: OpenAIServer,
) -> None:
    for seconds, resting in (("5", False), ("100", True)):
        server.script = scripted(429, retry_after=seconds)
        pool = pool_of(server, clock=Clock(), timeout=30)
        asyncio.run(outcome(pool, 4.0))
        assert pool["test"].resting is resting

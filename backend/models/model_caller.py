"""Calls to one model: a free slot, the limits per minute, one request, and its answer or error."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from backend.errors import (
    KeyRejectedError,
    LedgerError,
    ModelError,
    ModelTimeoutError,
    RateLimitedError,
    StoppingError,
    Usage,
)
from backend.models import litellm_info
from backend.models.call_gate import CallGate
from backend.models.calls import ModelAnswer, read_response, response_error
from backend.models.circuit_breaker import CircuitBreaker
from backend.models.failures import model_error, retry_after
from backend.models.model import Model
from backend.models.rate_limits import Clock, RateLimits
from backend.questions.prompts.message_parts import Messages
from backend.questions.question import TaskQuestion


class ModelCaller:
    """Calls one model. It belongs to one event loop after the first call.

    Args:
        model: the model.
        processes: number of worker processes that share the limits per minute.
        clock: monotonic seconds.
        gate: says whether a call may start.
    """

    def __init__(self, model: Model, processes: int, clock: Clock, gate: CallGate) -> None:
        self.model, self._gate = model, gate
        self.breaker = CircuitBreaker(clock, patience=model.settings.timeout)
        self._clock = clock
        self._slots = asyncio.Semaphore(model.settings.max_concurrency)
        rpm, tpm = model.settings.rpm, model.settings.tpm
        self._limits = RateLimits(rpm and rpm / processes, tpm and tpm / processes, clock)

    async def attempt(
        self,
        messages: Messages,
        schema: Mapping[str, Any] | None,
        patience: float,
        questions: Sequence[TaskQuestion],
    ) -> ModelAnswer:
        """Ask once; see ``Pool.attempt``."""
        self._refuse_without_key()
        model = self.model
        request = model.request(messages, schema)
        if model.settings.is_embedded:
            request["questions"] = tuple(questions)
        counted = model.count(messages)
        tokens = model.expected_input(messages) + model.meter.output_tokens
        until = asyncio.get_running_loop().time() + patience
        asked_at: float | None = None
        try:
            async with asyncio.timeout_at(until), self._slots:
                await self._wait_as_told(until)
                correct_tokens = await self._limits.enter(tokens)
                self._gate.admit()
                asked_at = self._clock()
                async with asyncio.timeout(model.settings.timeout):
                    response = await self._send(request, min(patience, model.settings.timeout))
        except (StoppingError, LedgerError):
            raise
        except Exception as error:
            raise self._failure(error, asked=asked_at is not None) from None
        answer = self._answer(response, counted, self._clock() - asked_at)
        correct_tokens(answer.input_tokens + answer.output_tokens)
        return answer

    def _refuse_without_key(self) -> None:
        model = self.model
        if model.key is None and model.settings.api_key_env is not None:
            error = KeyRejectedError(
                f"the environment variable {model.settings.api_key_env} is not set",
                where=model.where,
                fix="set it and start again",
            )
            self.breaker.failed(error)
            raise error

    async def _wait_as_told(self, until: float) -> None:
        """Wait as long as the provider asked for.

        Raises:
            TimeoutError: there is no time left.
            RateLimitedError: the wait does not fit into the time left.
        """
        loop = asyncio.get_running_loop()
        if loop.time() >= until:
            raise TimeoutError
        while (wait := self.breaker.seconds_to_wait) > 0:
            if loop.time() + wait >= until:
                raise RateLimitedError(f"must not be asked for {wait:.0f} s more", where=self.model.where)
            await asyncio.sleep(wait)

    async def _send(self, request: Mapping[str, Any], seconds: float) -> Any:
        key = {} if self.model.key is None else {"api_key": self.model.key}
        # drop_params is a parameter of the call: set on the module, litellm repeats a call after an HTTP 422
        return await litellm_info.litellm().acompletion(
            **request, **key, timeout=seconds, max_retries=0, num_retries=0, drop_params=True
        )

    def _failure(self, error: Exception, *, asked: bool) -> ModelError:
        """Return our error for an exception. A timeout in our own queue is not a failure of the model."""
        if isinstance(error, ModelError):
            return error
        if isinstance(error, TimeoutError) and not asked:
            return ModelTimeoutError(
                "had no room for another request in time",
                where=self.model.where,
                fix="raise max_concurrency, rpm or tpm if the provider allows more",
            )
        failure = model_error(error, self.model.settings.name)
        self.breaker.failed(failure, retry_after(error))
        return failure

    def _answer(self, response: Any, counted: int, seconds: float) -> ModelAnswer:
        """Return the answer in a response, and learn from the usage that it reports.

        Raises:
            RefusedError: the model, or a filter of its provider, refused.
            BadAnswerError: there is no text.
        """
        model, received = self.model, read_response(response)
        input_tokens = received.input_tokens or round(counted * model.meter.factor)
        content_tokens = litellm_info.count_tokens((received.content,)) if received.content else 0
        output_tokens = received.output_tokens or content_tokens
        cost = model.prices.cost(input_tokens, output_tokens)
        model.meter.observe(counted, input_tokens, output_tokens)
        self.breaker.answered()
        error = response_error(received, model.settings, Usage(input_tokens, output_tokens, cost))
        if error is not None:
            raise error
        return ModelAnswer(
            content=received.content,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cost=cost,
            seconds=seconds,
            counted=counted,
            estimated=not (received.input_tokens and received.output_tokens),
        )

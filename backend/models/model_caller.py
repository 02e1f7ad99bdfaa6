"""Calls to one model: the call's turn, one request, and its answer or error."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from backend.errors import (
    KeyRejectedError,
    ModelError,
    ModelTimeoutError,
    RateLimitedError,
    Usage,
)
from backend.models import litellm_info
from backend.models.calls import ModelAnswer, read_response, response_error
from backend.models.circuit_breaker import CircuitBreaker
from backend.models.failures import model_error
from backend.models.model import Model
from backend.models.rates import headers
from backend.models.rates.gate import Gate
from backend.models.rates.lease_holder import Passage
from backend.models.rates.outcomes import CallEnd
from backend.models.rates.stores import Clock, RateStore
from backend.questions.prompts.message_parts import Messages
from backend.questions.question import TaskQuestion


class ModelCaller:
    """Calls one model. It belongs to one event loop after the first call.

    Args:
        model: the model.
        rates: decides how many calls are sent. Embedded voters need no limits.
        clock: monotonic seconds.
    """

    def __init__(self, model: Model, rates: RateStore, clock: Clock) -> None:
        self.model = model
        self.breaker = CircuitBreaker(clock)
        self._clock = clock
        self._gate = None if model.settings.is_embedded else Gate(model.settings, rates, clock)

    @property
    def resting(self) -> bool:
        """Whether the model should not be asked now.

        It failed many times, or its provider asks to wait for longer than a call may take.
        """
        wait = 0.0 if self._gate is None else self._gate.seconds_to_wait
        return self.breaker.resting or wait > self.model.settings.timeout

    async def attempt(
        self,
        messages: Messages,
        schema: Mapping[str, Any] | None,
        patience: float,
        questions: Sequence[TaskQuestion],
    ) -> ModelAnswer:
        """Ask until the provider does not refuse the call for a quota; see ``Pool.attempt``."""
        self._refuse_without_key()
        model = self.model
        request = model.request(messages, schema)
        if model.settings.is_embedded:
            request["questions"] = tuple(questions)
        counted = model.count(messages)
        tokens = model.expected_input(messages) + model.meter.output_tokens
        until = asyncio.get_running_loop().time() + patience
        refusal: RateLimitedError | None = None
        passage: Passage | None = None
        while True:
            try:
                passage = await self._enter(tokens, until, passage)
            except ModelTimeoutError as error:
                raise refusal or error from None
            asked_at = self._clock()
            try:
                response = await self._send(request, until)
            except Exception as error:
                failure = self._failure(error)
                self._leave(passage, _end_of_failure(error, failure))
                if not isinstance(failure, RateLimitedError):
                    raise failure from None
                refusal = failure  # the call cost nothing, and waits for its turn again
                continue
            except BaseException:
                self._leave(passage, CallEnd())
                raise
            seconds = self._clock() - asked_at
            self._leave(passage, _end_of_answer(response, seconds))
            return self._answer(response, counted, seconds)

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

    async def _enter(self, tokens: float, until: float, refused: Passage | None) -> Passage | None:
        """Wait for the call's turn. Time lost in our own queue is not a failure of the model."""
        patience = until - asyncio.get_running_loop().time()
        try:
            if patience <= 0.0:
                raise TimeoutError
            return None if self._gate is None else await self._gate.enter(tokens, patience, refused=refused)
        except TimeoutError:
            raise ModelTimeoutError(
                "had no room for another request in time",
                where=self.model.where,
                fix="send fewer tasks at once, or raise rpm, tpm or max_concurrency if they are set",
            ) from None

    def _leave(self, passage: Passage | None, end: CallEnd) -> None:
        if self._gate is not None and passage is not None:
            self._gate.leave(passage, end)

    async def _send(self, request: Mapping[str, Any], until: float) -> Any:
        key = {} if self.model.key is None else {"api_key": self.model.key}
        seconds = min(until - asyncio.get_running_loop().time(), self.model.settings.timeout)
        async with asyncio.timeout(seconds):
            # drop_params is a parameter of the call: set on the module, litellm repeats a call after HTTP 422
            return await litellm_info.litellm().acompletion(
                **request, **key, timeout=seconds, max_retries=0, num_retries=0, drop_params=True
            )

    def _failure(self, error: Exception) -> ModelError:
        failure = model_error(error, self.model.settings.name)
        self.breaker.failed(failure)
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


def _end_of_answer(response: Any, seconds: float) -> CallEnd:
    """Return how a call ended that was answered, with the tokens that its response reports."""
    received = read_response(response)
    used = received.input_tokens + received.output_tokens
    told = headers.allowances(headers.response_headers(response))
    return CallEnd(seconds=seconds, tokens=float(used) if used else None, allowances=told)


def _end_of_failure(error: Exception, failure: ModelError) -> CallEnd:
    """Return how a call ended that failed."""
    told = headers.error_headers(error)
    refused = isinstance(failure, RateLimitedError)
    return CallEnd(
        timed_out=isinstance(failure, ModelTimeoutError),
        refused=refused,
        cause=headers.refusing_unit(error) if refused else "requests",
        wait=headers.retry_after(told) or 0.0,
        allowances=headers.allowances(told),
    )

"""Calls to one model: the call's turn, one request, and its answer or error."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import structlog

from backend.errors import (
    BadAnswerError,
    CutOffError,
    KeyRejectedError,
    LedgerError,
    ModelError,
    ModelTimeoutError,
    RateLimitedError,
    RefusedError,
    RejectedError,
    StoppingError,
    Usage,
)
from backend.models import batches
from backend.models import model as litellm_info
from backend.models.batches.provider import BatchProvider
from backend.models.calls import CallGate, ModelAnswer, ProviderResponse, read_response, stopping
from backend.models.failures import CircuitBreaker, Outage, Tries, Turn, Wait, model_error
from backend.models.model import Model
from backend.models.prices import TokenPrices, Used
from backend.models.rates import answers
from backend.models.rates.answers import CallEnd, Clock, RateStore
from backend.models.rates.gate import Passage, RateGate
from backend.questions.prompts.messages import Messages
from backend.questions.question import TaskQuestion
from backend.settings import ModelSettings
from backend.telemetry import metrics
from backend.telemetry.tracing import traced

_BYTES_PER_TOKEN = 64
"""The most bytes of an answer for each of its ``max_tokens``: an average token has 4, and few more than 16.

A longer text is no answer to a question, and reading, storing and parsing it would cost more than the call.
"""

_LONG_HOLD = 10.0
"""A provider that asks to wait longer than these seconds is logged."""

_LONG_BACKLOG: Final = 5.0
"""Seconds of work from which a model's backlog is worth a word."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Backlog:
    """The calls that a slow model has yet to answer.

    Attributes:
        model: its name in the pool.
        calls: how many are under way or wait for their turn.
        delay: the seconds by which each delays the next.
    """

    model: str
    calls: int
    delay: float

    @property
    def seconds(self) -> float:
        """The time until all are answered."""
        return self.calls * self.delay

    def __str__(self) -> str:
        calls = "1 call" if self.calls == 1 else f"{self.calls} calls"
        return f"waiting for {self.model} ({calls}, about {self.seconds:.0f} s)"


_CONNECT: Final = 15.0
"""Seconds within which a connection to a provider comes about."""

_SCHEMA = "response_format"
"""The parameter of a request that carries the JSON schema."""


class ModelCaller:
    """Calls one model. It belongs to one event loop after the first call.

    Args:
        model: the model.
        rates: decides how many calls are sent. Embedded voters need no limits.
        clock: monotonic seconds.
        gate: says whether a call may start.
        twin: calls the same model with one task in a prompt; both share its limits.
    """

    def __init__(
        self, model: Model, rates: RateStore, clock: Clock, gate: CallGate, twin: ModelCaller | None = None
    ) -> None:
        self.model, self._gate = model, gate
        self.breaker = CircuitBreaker(clock)
        self.outage: Outage = Outage(model.settings.name, clock) if twin is None else twin.outage
        self._clock = clock
        self._capped: set[str] = set()
        self._packed = twin is not None
        self._rates: RateGate | None = None
        if twin is not None:
            self._rates = twin._rates
        elif not model.settings.is_embedded:
            self._rates = RateGate(model.settings, rates, clock)

    @property
    def resting(self) -> bool:
        """Whether the model should not be asked now.

        It failed many times, or its provider asks to wait for longer than a call may take.
        """
        return self.breaker.resting or self._held > self.model.settings.timeout

    @property
    def _held(self) -> float:
        """The seconds that the provider still asks to wait."""
        return 0.0 if self._rates is None else self._rates.seconds_to_wait

    def rests(self, patience: float | None) -> str | None:
        """The code of the reason why the model should not be asked now; ``None`` if it may be.

        ``patience`` is how many seconds of an outage the call waits; ``None`` if it waits for none.
        """
        if patience is not None and not self.model.settings.is_embedded:
            awaited = self.breaker.waits_for_outage and not self.outage.hopeless(patience)
            if self._held > patience:
                return RateLimitedError.code
            return None if awaited or not self.breaker.resting else self._reason
        return self._reason

    @property
    def _reason(self) -> str | None:
        """The code of the reason why the model rests; ``None`` if it does not."""
        if self._held > self.model.settings.timeout:
            return RateLimitedError.code
        return self.breaker.failure

    @property
    def wait(self) -> Wait | None:
        """What the calls of jobs wait for; ``None`` if they are sent."""
        if (wait := self.outage.wait) is not None:
            return replace(wait, seconds=max(wait.seconds, self._held))
        if self._rates is None or self._held < _LONG_HOLD:
            return None
        return Wait(self.model.settings.name, "HTTP 429", self._rates.held_since, self._held)

    def tries(
        self, patience: float | None, most: int, until: float, rng: random.Random, *, divisible: bool = False
    ) -> Tries:
        """The tries of one call; see :class:`.Tries`."""
        if self.model.settings.is_embedded:
            patience = None
        return Tries(self.outage, patience, most, lambda: self.resting, until, rng, divisible)

    @property
    def delay(self) -> float:
        """The seconds by which asking about a task delays others while the model is busy."""
        return 0.0 if self._rates is None else self._rates.delay / self.pack_size

    @property
    def busy(self) -> bool:
        """Whether another call would delay others now."""
        return self._rates is not None and self._rates.busy

    @property
    def backlog(self) -> Backlog | None:
        """The calls that a slow model has yet to answer; ``None`` if they do not take long."""
        if self._packed or self._rates is None:
            return None
        backlog = Backlog(self.model.settings.name, self._rates.backlog, self._rates.delay)
        return backlog if backlog.seconds >= _LONG_BACKLOG else None

    @property
    def answers(self) -> int:
        """How many calls were answered so far."""
        return 0 if self._rates is None else self._rates.durations.answers

    @property
    def shortest(self) -> float:
        """The seconds that the model's quickest answer took."""
        return 0.0 if self._rates is None else self._rates.durations.shortest

    @property
    def pack_size(self) -> int:
        """The most tasks in a prompt of a packed arm; 1 for any other arm."""
        return (self.model.settings.pack or 1) if self._packed else 1

    @property
    def has_batches(self) -> bool:
        """Whether there is an adapter for the batches of the model's provider."""
        return batches.has_batches(self.model)

    @cached_property
    def batches(self) -> BatchProvider:
        """The adapter for the batches of the model's provider.

        Raises:
            BatchesUnsupportedError: there is none.
            PriceMissingError: nobody knows what a batch costs.
        """
        return batches.adapter(self.model)

    def failure_usage(self, messages: Messages, error: ModelError, *, tasks: int = 1) -> Usage:
        """Return the reported usage of a failed call about ``tasks`` tasks.

        A provider may bill a call that timed out or broke off, so it counts as answered; one that was never
        sent says that it used nothing.
        """
        if error.usage is not None or not error.billable:
            return error.usage or Usage(0, 0, 0.0)
        return Usage(0, 0, self.model.cost(messages, tasks))

    async def attempt(
        self,
        messages: Messages,
        schema: Mapping[str, Any] | None,
        patience: float,
        *,
        questions: Sequence[TaskQuestion] = (),
        tasks: int = 1,
        hurried: bool = False,
        turn: Turn | None = None,
    ) -> ModelAnswer:
        """Ask once. Only a call that the provider refused, which costs nothing, is sent again.

        That is a call after HTTP 429, and one whose JSON schema the server may have refused: it is sent again
        without the schema.

        Args:
            messages: system and user message.
            schema: JSON schema of the answer; sent if the model accepts one.
            patience: seconds to wait for the call's turn. The model's own ``timeout`` limits the call itself,
                from when it is sent.
            questions: the questions in the prompt. Embedded voters answer them without reading the prompt;
                other models ignore them.
            tasks: the number of tasks in the prompt.
            hurried: whether ``patience`` limits the call itself, too.
            turn: the turn of a call that waits for outages; ``None`` for any other.

        Raises:
            ModelError: there is no answer; ``usage`` holds what the failure cost.
            StoppingError: the gate was shut before the model was asked.
            LedgerError: the gate was held before the model was asked.
        """
        self._refuse_without_key()
        model = self.model.for_tasks(tasks)
        request = model.request(messages, schema)
        if model.settings.is_embedded:
            request["questions"] = tuple(questions)
        counted, most_input = model.count(messages), model.most_input(messages, schema)
        tokens = counted * model.meter.factor + model.meter.output_tokens * tasks
        until = asyncio.get_running_loop().time() + patience
        refusal: RateLimitedError | None = None
        passage: Passage | None = None
        rested = self._rests_in_outage
        while True:  # a refused call takes its turn again, until its patience ends in _enter
            try:
                passage = await self._enter(tokens, until, passage)
            except ModelTimeoutError as error:
                raise refusal or error from None
            self._take(turn, passage, came_to_rest=not rested and self._rests_in_outage)
            asked_at = self._clock()
            try:
                call = self._send(request, until if hurried else math.inf)
                response = await traced(model.settings.name, request, call, read_response)
            except Exception as error:
                failure = model_error(error, model.settings.name)
                self._leave(passage, _end_of_failure(error, failure))
                if _is_about_schema(error, failure, request) and model.may_refuse(schema):
                    request, passage = model.without_schema(request), None
                else:
                    refusal = self._refusal(failure, turn)
                continue
            except BaseException:
                self._leave(passage, CallEnd())
                raise
            seconds, received = self._clock() - asked_at, read_response(response)
            self._leave(passage, _end_of_answer(response, received, seconds, most_input, model.settings))
            self.model.note_schema(schema, taken=_SCHEMA in request)
            answer = self._answer(model, received, counted, most_input, seconds, tasks)
            return replace(answer, schema=schema if _SCHEMA in request else None)

    def _refusal(self, failure: ModelError, turn: Turn | None) -> RateLimitedError:
        """Note that a call has failed. A refusal for the rate is returned: it cost nothing, so it may go on.

        Raises:
            ModelError: the call has failed in another way.
        """
        self.breaker.failed(failure)
        self.outage.failed(failure, probe=turn is not None and turn.probe)
        if not isinstance(failure, RateLimitedError):
            raise failure from None
        return failure

    @property
    def _rests_in_outage(self) -> bool:
        return self.breaker.resting and self.breaker.waits_for_outage

    def _take(self, turn: Turn | None, passage: Passage | None, *, came_to_rest: bool) -> None:
        """Take a call's turn, unless the model has gone down while the call waited for its rate.

        Calls that wait for no outage have no turn. One that asks a resting model all the same is sent.
        """
        if came_to_rest if turn is None else not turn.valid:
            self._leave(passage, CallEnd())
            raise self.outage.error()
        if turn is not None:
            turn.sent = True

    def refuse_waiting(self) -> None:
        """Refuse the calls that wait for their turn or for an outage, because the process stops."""
        self.outage.refuse_waiting(stopping)
        if self._rates is not None:
            self._rates.refuse_waiting(stopping)

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
        self._gate.check()  # a refused call would wait for another turn
        patience = until - asyncio.get_running_loop().time()
        try:
            if patience <= 0.0:
                raise TimeoutError
            if self._rates is None:
                passage = None
            else:
                passage = await self._rates.enter(tokens, patience, refused=refused)
        except TimeoutError:
            raise ModelTimeoutError(
                "had no room for another request in time",
                where=self.model.where,
                fix="send fewer tasks at once, or raise rpm, tpm or max_concurrency if they are set",
                usage=Usage(0, 0, 0.0),
            ) from None
        try:
            self._gate.admit()
        except (StoppingError, LedgerError):
            self._leave(passage, CallEnd())
            raise
        return passage

    def _leave(self, passage: Passage | None, end: CallEnd) -> None:
        if self._rates is not None and passage is not None:
            self._rates.leave(passage, end)

    async def _send(self, request: Mapping[str, Any], until: float) -> Any:
        import httpx  # noqa: PLC0415 - keeps the help fast

        key = {} if self.model.key is None else {"api_key": self.model.key}
        seconds = min(until - asyncio.get_running_loop().time(), self.model.settings.timeout)
        async with asyncio.timeout(seconds):
            # A connection that takes too long ends before the call: nothing was sent.
            limits = httpx.Timeout(seconds, connect=min(_CONNECT, 0.9 * seconds))
            # drop_params is a parameter of the call: set on the module, litellm repeats a call after HTTP 422
            options = {"timeout": limits, "max_retries": 0, "num_retries": 0, "drop_params": True}
            return await litellm_info.complete({**request, **key, **options})

    def read_batched(self, response: Any, counted: int, most_input: int, *, tasks: int) -> ModelAnswer:
        """Return the answer in a line of a batch, at the price of batches, and learn from its usage.

        Raises:
            ModelError: the line holds no answer; ``usage`` holds what it cost.
        """
        model = self.model.for_tasks(tasks)
        received = read_response(response)
        return self._answer(model, received, counted, most_input, 0.0, tasks, model.batch_prices)

    def _answer(  # noqa: PLR0917 - what is known of the call
        self,
        model: Model,
        received: ProviderResponse,
        counted: int,
        most_input: int,
        seconds: float,
        tasks: int,
        prices: TokenPrices | None = None,
    ) -> ModelAnswer:
        """Return the answer in a response, and learn from the usage that it reports.

        ``counted`` is our own count of the input tokens, of which at most ``most_input`` are believed.
        """
        counted_input = min(round(counted * model.meter.factor), most_input)
        input_tokens = self._believed("input", received.input_tokens, most_input) or counted_input
        output_tokens = self._believed("output", received.output_tokens, model.settings.max_tokens)
        output_tokens = output_tokens or _tokens_of(received.content, model.settings)
        cached = min(received.cached_tokens, input_tokens)
        cost = (prices or model.prices).cost(input_tokens, output_tokens, cached)
        model.meter.observe(Used(counted, input_tokens, output_tokens, cached), tasks=tasks)
        self.breaker.answered()
        self.outage.answered()
        usage = Usage(input_tokens, output_tokens, cost, cached)
        if (error := _response_error(received, model.settings, usage)) is not None:
            raise error
        return ModelAnswer(
            content=received.content,
            usage=usage,
            seconds=seconds,
            estimated=not (received.input_tokens and received.output_tokens),
            tokens=received.tokens,
            version=received.version,
            cut_off=received.cut_off,
        )

    def _believed(self, direction: str, reported: int, most: int) -> int:
        """Return the reported tokens, at most as many as the call reserved money for.

        Reasoning tokens are output tokens. A provider that lets a model reason beyond ``max_tokens`` bills
        more than is booked; the warning names both numbers, and a higher ``max_tokens`` fixes it.
        """
        if reported <= most:
            return reported
        metrics.usage_capped.labels(model=self.model.settings.name, direction=direction).inc()
        if direction not in self._capped:
            self._capped.add(direction)
            _log.warning(
                "usage_capped",
                model=self.model.settings.name,
                direction=direction,
                reported=reported,
                believed=most,
                fix="compare with the provider's invoice"
                + (", and set max_tokens to what it bills at most" if direction == "output" else ""),
            )
        return most


def _response_error(response: ProviderResponse, settings: ModelSettings, usage: Usage) -> ModelError | None:
    """Return the error for a response that is not an answer, with its usage; ``None`` for an answer."""
    where = f"model {settings.name}"
    if response.refused or response.finish_reason == "content_filter":
        return RefusedError("refused", where=where, usage=usage)
    if len(response.content.encode("utf-8", "replace")) > _BYTES_PER_TOKEN * settings.max_tokens:
        message = f"gave an answer far longer than its {settings.max_tokens} tokens allow"
        fix = "check what answers at its address; set max_tokens higher if the answer is right"
        return BadAnswerError(message, where=where, fix=fix, usage=usage)
    if response.content.strip():
        return None
    if response.cut_off:
        message = f"used all its {settings.max_tokens} tokens before it answered"
        return CutOffError(message, where=where, fix=CutOffError.cure, usage=usage)
    return BadAnswerError("gave an empty answer", where=where, usage=usage)


def _is_about_schema(error: Exception, failure: ModelError, request: Mapping[str, Any]) -> bool:
    """Whether a request may have been rejected for its schema, and not for a model that does not exist."""
    rejected = isinstance(failure, RejectedError) and getattr(error, "status_code", None) not in {404, 405}
    return rejected and _SCHEMA in request


def _tokens_of(content: str, settings: ModelSettings) -> int:
    """Return the tokens of an answer whose provider reports none, ``max_tokens`` at most."""
    most = settings.max_tokens
    if not content or len(content) > _BYTES_PER_TOKEN * settings.max_tokens:
        return most if content else 0
    return min(litellm_info.count_tokens((content,)), most)


def _end_of_answer(
    response: Any, received: ProviderResponse, seconds: float, most_input: int, settings: ModelSettings
) -> CallEnd:
    """Return how a call ended that was answered."""
    used = min(received.input_tokens + received.output_tokens, most_input + settings.max_tokens)
    allowed = answers.allowances(answers.response_headers(response))
    return CallEnd(seconds=seconds, tokens=float(used) or None, allowances=allowed)


def _end_of_failure(error: Exception, failure: ModelError) -> CallEnd:
    """Return how a call ended that failed."""
    headers = answers.error_headers(error)
    refused = isinstance(failure, RateLimitedError)
    return CallEnd(
        timed_out=isinstance(failure, ModelTimeoutError),
        refused=refused,
        cause=answers.refusing_unit(error) if refused else "requests",
        wait=answers.retry_after(headers) or 0.0,
        allowances=answers.allowances(headers),
    )

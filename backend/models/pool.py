"""The pool: the models that can be asked, by name."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import structlog

from backend.errors import (
    BadAnswerError,
    BudgetExhaustedError,
    LedgerError,
    ModelError,
    ModelTimeoutError,
    ModelUnknownError,
    RefusedError,
    StoppingError,
    UnusableAnswersError,
    Usage,
)
from backend.ledger.answers import CallOutcome
from backend.ledger.database.writer import outlast
from backend.models.batches import adapters
from backend.models.batches.provider import BatchProvider
from backend.models.call_ledger import ATTEMPTS, CallEstimate, CallLedger, ModelQuery, PaidAnswer, attempt_key
from backend.models.calls import CallGate, ModelAnswer
from backend.models.model import Model, TokenMeter, TokenPrices, Used
from backend.models.model_caller import ModelCaller
from backend.models.rates.controller import Clock, ProcessRates, RateStore
from backend.models.rates.gate import Retries, forget_when_done
from backend.questions.prompts.messages import Messages, answer_confidences
from backend.questions.question import TaskQuestion
from backend.settings import ModelSettings
from backend.telemetry import metrics


class Pool:
    """The models that can be asked, by name. It belongs to one event loop after the first call.

    Args:
        models: the models' settings, with unique names.
        keys: model name → API key, for models with their own key.
        rates: decides how many calls are sent; ``None`` for rates of this process alone.
        clock: monotonic seconds.

    Attributes:
        gate: every call passes it; shutting it stops all of them from starting.

    Raises:
        PriceMissingError: a model has no price.
        ConfigError: litellm does not know a model's provider.
    """

    def __init__(
        self,
        models: Sequence[ModelSettings],
        *,
        keys: Mapping[str, str] = MappingProxyType({}),
        rates: RateStore | None = None,
        clock: Clock = time.monotonic,
    ) -> None:
        self.gate = CallGate()
        self._batch_providers: dict[str, BatchProvider] = {}
        rates = rates or ProcessRates(clock)
        self._callers: dict[str, ModelCaller] = {}
        self._packed: dict[str, ModelCaller] = {}
        for settings in models:
            key = keys.get(settings.name)
            caller = ModelCaller(Model(settings, key), rates, clock, self.gate)
            self._callers[settings.name] = caller
            if (packed := settings.packed) is not None:
                self._packed[packed.name] = ModelCaller(Model(packed, key), rates, clock, self.gate, caller)

    def __repr__(self) -> str:
        return f"Pool({', '.join(self.names)})"

    @property
    def names(self) -> tuple[str, ...]:
        """The models' names, in the order of the settings."""
        return tuple(self._callers)

    @property
    def most_output(self) -> dict[str, int]:
        """The most output tokens of one answer about a task, by arm."""
        callers = {**self._callers, **self._packed}
        return {name: caller.model.settings.max_tokens for name, caller in callers.items()}

    def count(self, name: str, messages: Messages) -> int:
        """Return the input tokens of a prompt by litellm's count, uncorrected."""
        return self._model(name).count(messages)

    def cost(self, name: str, messages: Messages) -> float:
        """Return the expected cost of one call, $, from corrected input tokens and the mean output."""
        return self._model(name).cost(messages)

    def pack_size(self, name: str) -> int:
        """Return the most tasks in a prompt of a packed arm; 1 for any other arm."""
        return (self._model(name).settings.pack or 1) if name in self._packed else 1

    def failure_usage(self, name: str, messages: Messages, error: ModelError, *, tasks: int = 1) -> Usage:
        """Return the reported usage of a failed call about ``tasks`` tasks.

        A provider may bill a call that timed out, so it counts as answered.
        """
        if error.usage is not None or not isinstance(error, ModelTimeoutError):
            return error.usage or Usage(0, 0, 0.0)
        return Usage(0, 0, self._model(name).cost(messages, tasks))

    def packed_cost(self, name: str, system: str, texts: str, *, batched: bool = False) -> float:
        """Return the expected cost of asking a packed arm about one task, $.

        Args:
            name: the packed arm.
            system: the system message, which the tasks of a prompt share.
            texts: the task's own part of the prompt.
            batched: whether the prompt is a line of a provider's batch.
        """
        return self._model(name).packed_cost(system, texts, batched=batched)

    def ceiling(
        self, name: str, messages: Messages, schema: Mapping[str, Any] | None = None, *, tasks: int = 1
    ) -> float:
        """Return the highest possible cost in $ of a call about ``tasks`` tasks; reserve it before the call.

        The input is bounded by the number of bytes, because no tokenizer makes more tokens than that. The
        output is bounded by ``max_tokens``.
        """
        return self._model(name).for_tasks(tasks).ceiling(messages, schema)

    def batch_cost(self, name: str, messages: Messages) -> float:
        """Return the expected cost of one line of a provider's batch, $."""
        return self._model(name).batch_cost(messages)

    def batch_ceiling(
        self, name: str, messages: Messages, schema: Mapping[str, Any] | None, *, tasks: int = 1
    ) -> float:
        """Return the highest possible cost in $ of a line about ``tasks`` tasks in a provider's batch."""
        return self._model(name).for_tasks(tasks).batch_ceiling(messages, schema)

    def most_input(self, name: str, messages: Messages, schema: Mapping[str, Any] | None) -> int:
        """Return the most input tokens that a call can take."""
        return self._model(name).most_input(messages, schema)

    def request(
        self, name: str, messages: Messages, schema: Mapping[str, Any] | None, *, tasks: int = 1
    ) -> dict[str, Any]:
        """Return the litellm parameters of a call about ``tasks`` tasks, without key and timeout."""
        return self._model(name).for_tasks(tasks).request(messages, schema)

    def has_batches(self, name: str) -> bool:
        """Return whether there is an adapter for the batches of a model's provider."""
        return adapters.has_batches(self._model(name))

    def batch_provider(self, name: str) -> BatchProvider:
        """Return the adapter for the batches of a model's provider; the same one every time.

        Raises:
            BatchesUnsupportedError: there is none.
            PriceMissingError: nobody knows what a batch costs.
        """
        if name not in self._batch_providers:
            self._batch_providers[name] = adapters.adapter(self._model(name))
        return self._batch_providers[name]

    def read_batched(
        self, name: str, response: Any, counted: int, most_input: int, *, tasks: int = 1
    ) -> ModelAnswer:
        """Return the answer in a line of a batch, and learn from the usage that it reports.

        Args:
            name: the model.
            response: in litellm's form.
            counted: our own count of the input tokens.
            most_input: the most input tokens that are believed.
            tasks: the number of tasks in the prompt.

        Raises:
            ModelError: the line holds no answer; ``usage`` holds what it cost.
        """
        return self._caller(name).read_batched(response, counted, most_input, tasks)

    def fingerprint(self, name: str, messages: Messages, schema: Mapping[str, Any] | None) -> str:
        """Return the SHA-256 (hex) of everything that can change the answer; not of key, prices or limits."""
        return self._model(name).fingerprint(messages, schema)

    def observe(
        self,
        name: str,
        counted: int,
        input_tokens: int,
        output_tokens: int,
        *,
        calls: int = 1,
        tasks: int | None = None,
        cached_tokens: int = 0,
    ) -> None:
        """Learn the error of the token count and the length of answers, from one call or the sums of several.

        :meth:`attempt` does this itself. At start-up it is called with the earlier calls in the ledger.
        ``tasks`` is the number of tasks that the calls were about; ``None`` for one each.
        """
        used = Used(counted, input_tokens, output_tokens, cached_tokens)
        self._model(name).meter.observe(used, calls=calls, tasks=calls if tasks is None else tasks)

    def measured_calls(self, name: str) -> int:
        """Return how many calls the expected length of a model's answers rests on."""
        return self._model(name).meter.calls

    def meter(self, name: str) -> TokenMeter:
        """Return what a model's reported usage says of the tokens of its calls."""
        return self._model(name).meter

    def prices(self, name: str) -> TokenPrices:
        """Return a model's prices."""
        return self._model(name).prices

    def batch_prices(self, name: str) -> TokenPrices | None:
        """Return a model's prices in its provider's batches; ``None`` if they are unknown."""
        return self._model(name).batch_prices

    def sees(self, name: str) -> bool:
        """Return whether a model accepts images."""
        return self._model(name).sees

    def can_be_shown(self, name: str, addresses: Sequence[str]) -> bool:
        """Return whether a model accepts images, and opens the web addresses among these itself."""
        return self._model(name).can_be_shown(addresses)

    def resting(self, name: str) -> bool:
        """Return whether a model should not be asked now, after many failures or a long "retry after"."""
        return self._caller(name).resting

    def judge(self, name: str, *, usable: bool) -> None:
        """Record whether a model's answer contained a vote; after several without a vote it rests."""
        self._caller(name).breaker.judged(usable=usable)

    def missing_keys(self, *names: str) -> tuple[str, ...]:
        """Return the environment variables for keys that are needed and not set, of some models or of all."""
        missing = (self._model(name).missing_variables for name in names or self.names)
        return tuple(dict.fromkeys(variable for variables in missing for variable in variables))

    async def attempt(
        self,
        name: str,
        messages: Messages,
        schema: Mapping[str, Any] | None,
        timeout: float,  # noqa: ASYNC109 - includes waiting for a slot
        *,
        questions: Sequence[TaskQuestion] = (),
        tasks: int = 1,
    ) -> ModelAnswer:
        """Ask once. Only a call that the provider refused (HTTP 429), which costs nothing, is sent again.

        Args:
            name: the model.
            messages: system and user message.
            schema: JSON schema of the answer; sent if the model accepts one.
            timeout: seconds for everything, including the wait for the call's turn.
                The model's own ``timeout`` limits the call itself.
            questions: the questions in the prompt. Embedded voters answer them without reading the prompt;
                other models ignore them.
            tasks: the number of tasks in the prompt.

        Raises:
            ModelError: there is no answer; ``usage`` holds what the failure cost.
            StoppingError: the gate was shut before the model was asked.
            LedgerError: the gate was held before the model was asked.
        """
        return await self._caller(name).attempt(messages, schema, timeout, questions, tasks)

    def refuse_waiting(self) -> None:
        """Refuse the calls that wait for their turn, because the process stops; called on the event loop."""
        for caller in self._callers.values():
            caller.refuse_waiting()

    def _model(self, name: str) -> Model:
        return self._caller(name).model

    def _caller(self, name: str) -> ModelCaller:
        try:
            return self._packed[name] if name in self._packed else self._callers[name]
        except KeyError:
            known = ", ".join(self.names)
            raise ModelUnknownError(f"{name!r} is not in the pool", fix=f"name one of {known}") from None


OVERTIME = 30.0
"""Seconds that a running attempt may continue after the deadline, so that a paid answer is still stored."""

_log = structlog.get_logger(__name__)


class CachingPool:
    """A pool whose answers are stored in the ledger and paid for once.

    Args:
        pool: the models.
        calls: the ledger's side of this process's calls.
        retries: the number of further calls after a failure that may be temporary.
        clock: unix seconds.
    """

    def __init__(
        self,
        pool: Pool,
        calls: CallLedger,
        *,
        retries: int,
        clock: Callable[[], float],
    ) -> None:
        self._pool, self._calls = pool, calls
        self._retries, self._clock = Retries(pool.resting, retries, clock), clock
        self._running: dict[str, asyncio.Task[PaidAnswer]] = {}
        pool.gate.hold_by(calls.settlements.check)

    async def ask(
        self, query: ModelQuery, patience: float, usable: Callable[[str], bool] = lambda content: True
    ) -> PaidAnswer:
        """Return the model's answer: the first usable one in the ledger, or a new one.

        The stored answers to the prompt are checked in the order of the attempts. If none is usable and
        there are fewer than :data:`ATTEMPTS`, or the query says ``again``, the model is asked once more. A
        query asks once at most: it returns an unusable new answer, and only a later query asks again.

        While the database is down, this waits: ``patience`` starts again when it is back.

        Args:
            query: what to ask.
            patience: seconds for all retries and for waiting on another process.
            usable: whether an answer gives a vote.

        Raises:
            UnusableAnswersError: all attempts were made, and no answer is usable.
            ModelError: the model gave no answer.
            BudgetExhaustedError: the budget does not cover the call.
            StoppingError: the process stops.
        """
        fingerprint = self._pool.fingerprint(query.model, query.messages, query.schema)
        for attempt in itertools.count() if query.again else range(ATTEMPTS):
            answer = await self._share(attempt_key(fingerprint, attempt), query, patience)
            if not answer.stored or usable(answer.content):
                return answer
        raise UnusableAnswersError(
            f"gave {ATTEMPTS} unusable answers to the same prompt and is not asked it again",
            where=f"model {query.model}",
            fix="give the labels hints, or name other models",
        )

    async def _share(self, key: str, query: ModelQuery, patience: float) -> PaidAnswer:
        """Make one attempt. Identical queries that run at the same time share one call."""
        while (shared := self._running.get(key)) is not None:
            # The first query pays. If its project has no money left, this query asks for itself.
            with contextlib.suppress(BudgetExhaustedError):
                await self._calls.record_use(key, query)
                return replace(await asyncio.shield(shared), cost=0.0)
            await asyncio.sleep(0)  # the failed task is removed from _running in the loop's next turn
        task = asyncio.create_task(outlast(lambda: self._ask(key, query, self._clock() + patience)))
        forget_when_done(self._running, key, task)
        return await asyncio.shield(task)

    async def _ask(self, key: str, query: ModelQuery, until: float) -> PaidAnswer:
        estimate = CallEstimate(
            self._pool.ceiling(query.model, query.messages, query.schema),
            self._pool.count(query.model, query.messages),
        )
        for tried in self._retries.tries:
            self._pool.gate.check()
            seconds = max(until - self._clock(), 0.0) + OVERTIME
            claimed = await self._calls.claim(key, query, estimate, until, seconds)
            if claimed.content is not None:
                metrics.answers_reused.labels(model=query.model).inc()
                return PaidAnswer(
                    claimed.content,
                    0.0,
                    stored=True,
                    confidences=claimed.confidences,
                    version=claimed.version,
                )
            try:
                return await self._call(key, query, claimed.call, until)
            except ModelError as error:
                await self._retries.pause(query.model, error, tried, until)
            finally:
                self._calls.stop_renewing(key)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _call(self, key: str, query: ModelQuery, call: int | None, until: float) -> PaidAnswer:
        """Ask once. A refusal, or an answer that cannot be read, is stored as an empty answer: no vote."""
        started = self._clock()
        try:
            answer = await self._pool.attempt(
                query.model,
                query.messages,
                query.schema,
                until - started + OVERTIME,
                questions=query.questions,
            )
        except ModelError as error:
            outcome = CallOutcome(
                content="" if isinstance(error, BadAnswerError | RefusedError) else None,
                usage=self._pool.failure_usage(query.model, query.messages, error),
                code=error.code,
                seconds=self._clock() - started,
            )
            await self._calls.settle(key, query, call, outcome)
            _log.warning(
                "model_failed", model=query.model, task=query.task, code=error.code, reason=str(error)
            )
            raise
        except (StoppingError, LedgerError) as error:
            outcome = CallOutcome(None, Usage(0, 0, 0.0), error.code, self._clock() - started)
            await self._calls.settle(key, query, call, outcome)
            raise
        usage = answer.usage
        confidences = answer_confidences(answer.content, answer.tokens, query.questions)
        outcome = CallOutcome(answer.content, usage, None, answer.seconds, confidences, answer.version)
        await self._calls.settle(key, query, call, outcome)
        return PaidAnswer(answer.content, answer.cost, confidences=confidences, version=answer.version)

"""The pool: the models that can be asked, by name."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import monotonic
from types import MappingProxyType

import structlog

from backend.errors import (
    BadAnswerError,
    BudgetExhaustedError,
    ConfigError,
    CutOffError,
    LedgerError,
    ModelError,
    ModelTimeoutError,
    ModelUnknownError,
    RefusedError,
    StoppingError,
    UnavailableError,
    UnusableAnswersError,
    Usage,
    WithdrawnError,
)
from backend.ledger.answers import CallOutcome
from backend.ledger.database.writer import outlast
from backend.models.call_ledger import (
    ATTEMPTS,
    CallEstimate,
    CallLedger,
    ModelQuery,
    PaidAnswer,
    attempt_key,
    is_last_attempt,
)
from backend.models.calls import CallGate
from backend.models.failures import Turn, Wait
from backend.models.model import Model, count_text
from backend.models.model_caller import Backlog, ModelCaller
from backend.models.prices import TokenMeter
from backend.models.rates.answers import Clock, RateStore
from backend.models.rates.controller import ProcessRates
from backend.questions.prompts.confidences import answer_confidences
from backend.settings import ModelSettings
from backend.settings.models import WRITER
from backend.telemetry import metrics

_CONTEXT = 128_000
"""The most tokens of a prompt for a model of which litellm does not know it."""

_WRITING = 300.0
"""Seconds that an answer which is a text may take at least: it is many times as long as a label."""

_ROOM = 500
"""Tokens of a prompt that are left for the questions and the task at least."""


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
        ConfigError: litellm does not know a model's provider, or two models send the same request, so that
            one answer would be two votes.
    """

    def __init__(
        self,
        models: Sequence[ModelSettings],
        *,
        keys: Mapping[str, str] = MappingProxyType({}),
        rates: RateStore | None = None,
        clock: Clock = monotonic,
    ) -> None:
        self.gate = CallGate()
        rates = rates or ProcessRates(clock)
        self._rates, self._clock = rates, clock
        self._callers: dict[str, ModelCaller] = {}
        self._packed: dict[str, ModelCaller] = {}
        meters: list[TokenMeter] = []
        for settings in models:
            key = keys.get(settings.name)
            caller = ModelCaller(Model(settings, key, meters), rates, clock, self.gate)
            self._callers[settings.name] = caller
            if (packed := settings.packed) is not None:
                model = Model(packed, key, meters)
                self._packed[packed.name] = ModelCaller(model, rates, clock, self.gate, caller)
        _refuse_echoes([caller.model for caller in self._callers.values()])
        callers = [*self._callers.values(), *self._packed.values()]
        meters += [caller.model.meter for caller in callers if not caller.model.settings.is_embedded]

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

    def __getitem__(self, name: str) -> ModelCaller:
        """The caller of a model or of a packed arm."""
        try:
            return self._packed[name] if name in self._packed else self._callers[name]
        except KeyError:
            known = ", ".join(self.names)
            raise ModelUnknownError(f"{name!r} is not in the pool", fix=f"name one of {known}") from None

    def add_writer(self, name: str, max_tokens: int) -> str:
        """Add an arm of a model whose answers are texts instead of labels, and return its name.

        It has a name and a meter of its own, so that its long answers change no price of labels.

        Raises:
            ModelUnknownError: there is no such model.
            ConfigError: the model cannot write.
        """
        caller = self[name]
        settings = caller.model.settings
        if settings.is_embedded:
            raise ConfigError(
                f"model {name} writes no texts", where=name, fix="name another model of the pool"
            )
        most = max(max_tokens, settings.max_tokens)
        timeout = max(settings.timeout, _WRITING)
        changes = {"name": f"{name}{WRITER}", "max_tokens": most, "pack": None, "timeout": timeout}
        model = Model(settings.model_copy(update=changes), caller.model.key)
        self._packed[model.settings.name] = ModelCaller(model, self._rates, self._clock, self.gate, caller)
        return model.settings.name

    def missing_keys(self, *names: str) -> tuple[str, ...]:
        """Return the environment variables for keys that are needed and not set, of some models or of all."""
        missing = (self[name].model.missing_variables for name in names or self.names)
        return tuple(dict.fromkeys(variable for variables in missing for variable in variables))

    def require_room(self, instructions: str, where: str) -> None:
        """Check that instructions leave room for a task in every model's prompt, as far as that is known.

        Raises:
            ConfigError: they do not; its ``where`` is the one given.
        """
        tokens = count_text(instructions) if instructions else 0
        name, most = self.shortest_context
        if tokens > most - _ROOM:
            raise ConfigError(
                f"the instructions take {tokens:,} tokens, and {name} reads {most:,} at most",
                where=where,
                fix="shorten them, take the model out of the pool, or set project_instructions: false",
            )

    @cached_property
    def shortest_context(self) -> tuple[str, int]:
        """The model that reads the shortest prompts, and their tokens, as far as that is known."""
        contexts = {name: caller.model.context or _CONTEXT for name, caller in self._callers.items()}
        return min(contexts.items(), key=lambda each: each[1])

    @property
    def waits(self) -> list[Wait]:
        """What the calls of jobs wait for now: models that are down, or whose providers ask to wait."""
        return [wait for caller in self._callers.values() if (wait := caller.wait) is not None]

    @property
    def backlogs(self) -> list[Backlog]:
        """What slow models have yet to answer."""
        callers = self._callers.values()
        return [backlog for caller in callers if (backlog := caller.backlog) is not None]

    def refuse_waiting(self) -> None:
        """Refuse the calls that wait for their turn, because the process stops; called on the event loop."""
        for caller in self._callers.values():
            caller.refuse_waiting()


_LOOK = 0.2
"""Seconds between two looks whether the model of another task's call has gone down."""

OVERTIME = 30.0
"""Seconds that a hurried attempt may continue after the deadline, so that a paid answer is still stored."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A call that has not ended, and the query that it was begun for."""

    query: ModelQuery
    answer: asyncio.Future[PaidAnswer]


class SharedCalls:
    """The calls under way of one process, by key: equal queries share one. Used from one event loop only.

    Args:
        pool: the models.
        calls: the ledger's side of this process's calls.
    """

    def __init__(self, pool: Pool, calls: CallLedger) -> None:
        self._pool, self._calls = pool, calls
        self._under_way: dict[str, _UnderWay] = {}

    def begin(self, key: str, query: ModelQuery, answer: asyncio.Future[PaidAnswer]) -> None:
        """Let further queries share a call until it has its answer."""

        def forget(done: asyncio.Future[PaidAnswer]) -> None:
            self._under_way.pop(key, None)
            if not done.cancelled():
                done.exception()  # if nobody waits for it any more, asyncio would log it with its traceback

        self._under_way[key] = _UnderWay(query, answer)
        answer.add_done_callback(forget)

    async def answer(self, key: str, query: ModelQuery, patience: float) -> PaidAnswer | None:
        """Return the answer of the call under way with a key; ``None`` if the query has to begin one.

        The first query pays. If its project has no money left, if it was given up, or if this query waits for
        outages and that one did not or was in a hurry, this query asks for itself.

        Args:
            key: the hash of the request.
            query: what to ask.
            patience: as for :meth:`CachingPool.ask`.

        Raises:
            ModelError: the model gave no answer.
            StoppingError: the process stops.
        """
        while (shared := self._under_way.get(key)) is not None:
            await self._calls.record_use(key, query)
            try:
                return (await self._joined(shared, query, patience)).for_others
            except (BudgetExhaustedError, WithdrawnError):
                pass
            except (ModelTimeoutError, UnavailableError) as error:
                was_in_a_hurry = isinstance(error, ModelTimeoutError) and shared.query.hurried
                gave_up = query.waits and not shared.query.waits
                if query.hurried or not (was_in_a_hurry or gave_up):
                    raise
            await asyncio.sleep(0)  # the failed call is forgotten in the loop's next turn
        return None

    async def _joined(self, shared: _UnderWay, query: ModelQuery, patience: float) -> PaidAnswer:
        """The answer to the same query; in a hurry, no longer than that after one that is not.

        A query that waits for no outage does not wait with one that does.
        """
        outage = self._pool[query.model].outage
        bounded = query.hurried and not shared.query.hurried
        try:
            async with asyncio.timeout(patience + OVERTIME if bounded else None):
                while not query.waits and shared.query.waits and not shared.answer.done():
                    if outage.down:
                        raise outage.error()
                    await asyncio.wait({shared.answer}, timeout=_LOOK)
                return await asyncio.shield(shared.answer)
        except TimeoutError:
            raise ModelTimeoutError(
                "has not answered another task's call in time", where=f"model {query.model}"
            ) from None


class CachingPool:
    """A pool whose answers are stored in the ledger and paid for once.

    Args:
        pool: the models.
        calls: the ledger's side of this process's calls.
        retries: the number of further calls after a failure that may be temporary.
    """

    def __init__(self, pool: Pool, calls: CallLedger, *, retries: int) -> None:
        self._pool, self._calls = pool, calls
        self._retries, self._rng = retries, random.SystemRandom()
        self._shared = SharedCalls(pool, calls)
        pool.gate.hold_by(calls.settlements.check)
        calls.stop_by(pool.gate.check)

    async def ask(
        self, query: ModelQuery, patience: float, usable: Callable[[str], bool] = lambda content: True
    ) -> PaidAnswer:
        """Return the model's answer: the first usable one in the ledger, or a new one.

        The stored answers to the prompt are checked in the order of the attempts. If none is usable, the
        model is asked once more, unless the last one was its last attempt (:func:`is_last_attempt`). A query
        asks once at most: it returns an unusable new answer, and only a later query asks again.

        While the database is down, this waits: ``patience`` starts again when it is back.

        Args:
            query: what to ask.
            patience: seconds for all retries, and for waiting on another process, for money and for the
                call's turn; for the call itself, too, if the query is hurried.
            usable: whether an answer gives a vote.

        Raises:
            UnusableAnswersError: all attempts were made, and no answer is usable.
            CutOffError: an earlier answer was cut off.
            ModelError: the model gave no answer.
            BudgetExhaustedError: the budget does not cover the call.
            StoppingError: the process stops.
            WithdrawnError: the call was given up before it was sent.
        """
        fingerprint = self._pool[query.model].model.fingerprint(query.messages, query.schema)
        for attempt in itertools.count():
            repeated = replace(query, repeats=attempt > 0 and not query.again)
            answer = await self._share(attempt_key(fingerprint, attempt), repeated, patience)
            if not answer.stored or usable(answer.content):
                return answer
            if is_last_attempt(attempt, cut_off=answer.cut_off, again=query.again):
                break
        if answer.cut_off:
            raise _cut_off(query.model)
        raise UnusableAnswersError(
            f"gave {ATTEMPTS} unusable answers to the same prompt and is not asked it again",
            where=f"model {query.model}",
            fix="give the labels hints, or name other models",
        )

    async def _share(self, key: str, query: ModelQuery, patience: float) -> PaidAnswer:
        """Make one attempt. Identical queries that run at the same time share one call."""
        if (shared := await self._shared.answer(key, query, patience)) is not None:
            return shared
        task = asyncio.create_task(outlast(lambda: self._ask(key, query, patience)))
        self._shared.begin(key, query, task)
        return await asyncio.shield(task)

    async def _ask(self, key: str, query: ModelQuery, patience: float) -> PaidAnswer:
        caller, until = self._pool[query.model], monotonic() + patience
        model = caller.model
        estimate = CallEstimate(model.ceiling(query.messages, query.schema), model.count(query.messages))
        waits = patience if query.waits else None
        tries = caller.tries(waits, self._retries, until, self._rng)
        while True:
            self._pool.gate.check()
            async with tries.turn() as turn:
                claimed = await self._calls.claim(key, query, estimate, until, model.settings.timeout)
                if claimed.answer is not None:
                    metrics.answers_reused.labels(model=query.model).inc()
                    return claimed.answer
                try:
                    return await self._call(key, query, claimed.call, until, turn)
                except ModelError as error:
                    failure = error
                finally:
                    self._calls.stop_renewing(key)
            await tries.pause(failure, turn)

    async def _call(
        self, key: str, query: ModelQuery, call: int | None, until: float, turn: Turn | None
    ) -> PaidAnswer:
        """Ask once. A refusal, or an answer that cannot be read, is stored as an empty answer: no vote."""
        started, caller = monotonic(), self._pool[query.model]
        try:
            answer = await caller.attempt(
                query.messages,
                query.schema,
                until - started + OVERTIME,
                questions=query.questions,
                hurried=query.hurried,
                turn=turn,
            )
        except ModelError as error:
            if not query.repeats:
                caller.breaker.unread(error, query.payer)
            outcome = CallOutcome(
                content="" if isinstance(error, BadAnswerError | RefusedError) else None,
                usage=caller.failure_usage(query.messages, error),
                code=error.code,
                seconds=monotonic() - started,
                cut_off=isinstance(error, CutOffError),
            )
            await self._calls.settle(key, query, call, outcome)
            _log.warning(
                "model_failed", model=query.model, task=query.task, code=error.code, reason=str(error)
            )
            raise
        except (StoppingError, WithdrawnError, LedgerError) as error:
            outcome = CallOutcome(None, Usage(0, 0, 0.0), error.code, monotonic() - started)
            await self._calls.settle(key, query, call, outcome)
            raise
        confidences = answer_confidences(answer.content, answer.tokens, query.questions, answer.schema)
        outcome = CallOutcome(
            answer.content, answer.usage, None, answer.seconds, confidences, answer.version, answer.cut_off
        )
        await self._calls.settle(key, query, call, outcome)
        return PaidAnswer(
            answer.content,
            answer.usage.cost,
            confidences=confidences,
            version=answer.version,
            cut_off=answer.cut_off,
            repeats=query.repeats,
        )


def _refuse_echoes(models: Sequence[Model]) -> None:
    """Refuse a model whose requests another one sends: each answer would be two votes."""
    senders: dict[str, Model] = {}
    for model in models:
        prompt = [{"role": role, "content": ""} for role in ("system", "user")]
        first = senders.setdefault(model.fingerprint(prompt, {}), model)
        if first is not model:
            raise ConfigError(
                f"asks {model.settings.model} exactly as {first.settings.name!r} does, so that one answer"
                " would count as two votes",
                where=model.where,
                fix="ask another model, or remove one of the two",
            )


def _cut_off(model: str) -> CutOffError:
    return CutOffError(
        "was cut off by max_tokens at the same prompt, and is not asked it again",
        where=f"model {model}",
        fix=CutOffError.cure,
    )

"""Models that fail: our errors for litellm's exceptions, and outages with their rests and waits.

A provider's message can echo the prompt or the key, so our errors contain only the class and the HTTP status.
Classes are looked up by name along the inheritance, so this module does not import litellm.
"""

from __future__ import annotations

import asyncio
import math
import random
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import structlog

from backend.errors import (
    BadAnswerError,
    ContextTooLongError,
    KeyRejectedError,
    ModelError,
    ModelTimeoutError,
    RateLimitedError,
    RefusedError,
    RejectedError,
    UnavailableError,
    Usage,
)
from camvo.errors import CamvoError

_BY_CLASS: dict[str, type[ModelError]] = {
    "APIConnectionError": UnavailableError,
    "APIError": UnavailableError,
    "APIResponseValidationError": UnavailableError,
    "APIStatusError": UnavailableError,
    "AuthenticationError": KeyRejectedError,
    "BadGatewayError": UnavailableError,
    "BadRequestError": RejectedError,
    "BlockedPiiEntityError": RefusedError,
    "BudgetExceededError": RejectedError,
    "ContentPolicyViolationError": RefusedError,
    "ContextWindowExceededError": ContextTooLongError,
    "GuardrailRaisedException": RefusedError,
    "ImageFetchError": RejectedError,
    "InternalServerError": UnavailableError,
    "InvalidRequestError": RejectedError,
    "JSONSchemaValidationError": BadAnswerError,
    "LiteLLMUnknownProvider": RejectedError,
    "MidStreamFallbackError": UnavailableError,
    "MockException": UnavailableError,
    "ModelNotMappedError": RejectedError,
    "ModifyResponseException": RefusedError,
    "NotFoundError": RejectedError,
    "OpenAIError": UnavailableError,
    "PaymentRequiredError": KeyRejectedError,
    "PermissionDeniedError": KeyRejectedError,
    "RateLimitError": RateLimitedError,
    "RejectedRequestError": RejectedError,
    "SensitiveDataRouteException": RefusedError,
    "ServiceUnavailableError": UnavailableError,
    "Timeout": ModelTimeoutError,
    "TimeoutError": ModelTimeoutError,
    "APITimeoutError": ModelTimeoutError,
    "UnprocessableEntityError": RejectedError,
    "UnsupportedParamsError": RejectedError,
    "VectorStoreSearchError": RejectedError,
}
"""Class name → our error, for all of litellm's exceptions and the builtin ones that a call can raise."""

_BY_CODE: dict[str, type[ModelError]] = {
    "content_filter": RefusedError,
    "content_policy_violation": RefusedError,
    "context_length_exceeded": ContextTooLongError,
    "insufficient_quota": KeyRejectedError,  # sent as a 429, but waiting brings no credit
    "invalid_api_key": KeyRejectedError,
}
"""OpenAI's error codes → our error; a code is more precise than the class."""

_BY_STATUS: dict[int, type[ModelError]] = {
    400: RejectedError,
    401: KeyRejectedError,
    402: KeyRejectedError,
    403: KeyRejectedError,
    404: RejectedError,
    405: RejectedError,
    408: ModelTimeoutError,
    413: ContextTooLongError,
    422: RejectedError,
    429: RateLimitedError,
}

_OVERLOADED = frozenset({503, 529})
"""Statuses that say nothing about the request, but that the provider takes none at the moment."""

_EMBEDDED_FIX = "embedded voters only answer questions with a list of labels: name other models in camvo.yaml"

_MESSAGES: dict[type[ModelError], str] = {
    ModelTimeoutError: "gave no answer in time",
    RateLimitedError: "refused for its quota, or asks to wait",
    UnavailableError: "is unavailable",
    KeyRejectedError: "does not accept the key, or none is set",
    RejectedError: "does not accept the request",
    ContextTooLongError: "has a context window shorter than the prompt",
    RefusedError: "refused",
    BadAnswerError: "gave an answer that cannot be read",
}


# for a key that was never set, litellm raises an InternalServerError or an APIConnectionError
_NO_KEY = re.compile(
    r"(?:missing|no|pass|set|need)\b.{0,60}(?:api[ _]?key|credentials)"
    r"|(?:api[ _]?key|credentials).{0,60}(?:missing|required|not set|not found|not provided|must be set)",
    re.IGNORECASE | re.DOTALL,
)
_NO_CONNECTION = {"ConnectTimeout", "ConnectionTimeoutError"}
"""The classes of httpx and aiohttp for a connection that did not come about in time."""

_BROKEN_OFF = "ClientPayloadError"
"""The class of aiohttp for a response that ended in mid-body."""

_LONGEST_CHAIN = 20
"""Causes of an error that are looked at."""

_HEAD = 300  # characters; the rest is a traceback or an echo of the request


def model_error(error: BaseException, model: str) -> ModelError:
    """Return our error for an exception of a litellm call; unknown classes become ``UnavailableError``."""
    if (reason := _unreachable(error)) is not None:
        unreachable = UnavailableError(
            f"cannot be reached: {reason}",
            where=f"model {model}",
            fix="start its server, or correct api_base and check the network",
        )
        unreachable.reason, unreachable.certain = reason, True
        return unreachable
    status, code = _status_of(error), _code_of(error)
    kind = _BY_CODE.get(code) or _kind(error, status)
    detail = type(error).__name__ + (f", HTTP {status}" if status else "") + (f", {code}" if code else "")
    embedded = status == 400 and getattr(error, "llm_provider", None) == "embedded"
    fix = _EMBEDDED_FIX if embedded else kind.cure
    failure = kind(f"{_MESSAGES[kind]}: {detail}", where=f"model {model}", fix=fix)
    failure.reason = (
        "no answer in time" if kind is ModelTimeoutError else f"HTTP {status}" if status else detail
    )
    failure.certain = status in _OVERLOADED
    if any(type(cause).__name__ == _BROKEN_OFF for cause in _causes(error)):
        failure.reason, failure.billable = "its answer broke off", True
    return failure


def line_error(status: int | None, code: str | None, model: str) -> ModelError:
    """Return our error for one request of a batch, from its HTTP status and its provider's code."""
    kind = _BY_CODE.get(code or "") or _BY_STATUS.get(status or 0, UnavailableError)
    detail = f": HTTP {status}" if status else ""
    return kind(_MESSAGES[kind] + detail, where=f"model {model}", fix=kind.cure)


def _unreachable(error: BaseException) -> str | None:
    """Return why no connection to the provider came about; ``None`` if one did.

    litellm reports it as HTTP 500, although nothing answered. Only the chain of causes shows it.
    """
    for cause in _causes(error):
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused"
        if isinstance(cause, socket.gaierror):
            return "its host name is unknown"
        if isinstance(cause, ssl.SSLError):
            return "the TLS handshake failed"
        if type(cause).__name__ in _NO_CONNECTION:
            return "no connection in time"
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error, its cause, the cause of that, and so on."""
    cause: BaseException | None = error
    for _ in range(_LONGEST_CHAIN):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__ or cause.__context__


def _kind(error: BaseException, status: int | None) -> type[ModelError]:
    names = (ancestor.__name__ for ancestor in type(error).__mro__)
    kind = next((_BY_CLASS[name] for name in names if name in _BY_CLASS), UnavailableError)
    if kind is not UnavailableError:
        return kind
    if status in _BY_STATUS:  # litellm has no specific class for 402, 403 and 413
        return _BY_STATUS[status]
    return KeyRejectedError if _NO_KEY.search(str(error)[:_HEAD]) else kind


def _code_of(error: BaseException) -> str:
    """Return OpenAI's code in the provider's response if it is in ``_BY_CODE``, else an empty string."""
    body = getattr(error, "body", None)
    code = body.get("code") if isinstance(body, Mapping) else None
    return code if isinstance(code, str) and code in _BY_CODE else ""


def _status_of(error: BaseException) -> int | None:
    """Return the HTTP status of the provider's response, if litellm reports it."""
    try:
        status = int(getattr(error, "status_code", None) or 0)
    except (TypeError, ValueError):
        return None
    return status or None


_OUTAGES = (ModelTimeoutError, UnavailableError)
"""Failures that may pass by themselves. A rejected key or request does not."""

FAILURES: Final = 5
"""Failures in a row after which a model counts as down."""

_BY_CHANCE: Final = 1e-5
"""The probability below which a row of answers without a vote is no chance."""

_LONGEST_ROW: Final = 25
"""The longest row for which a model does not rest: one that answers fewer than a third of the texts may."""


class CircuitBreaker:
    """Whether a model should rest, so that tasks do not wait for a failing model one after another.

    The model rests for a minute in two cases:

    - five failures in a row that do not concern the answer: a timeout, an unavailable provider, a rejected
      key or request. One more failure after the rest starts another minute; an answer ends it.
    - five answers in a row that contained no vote, empty ones and refusals included. Such a model earns no
      reward but would be paid each time. Answers about the same task count once, since it may be the task. A
      model that answers some texts only rests after so many that chance hardly makes such a row.

    Args:
        clock: monotonic seconds.
    """

    SECONDS = 60.0
    _COUNTED = (*_OUTAGES, KeyRejectedError, RejectedError)

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._unusable: set[Hashable] = set()
        self._voted = self._voteless = 0
        self._unusable_code = BadAnswerError.code
        self._until = self._unusable_until = -math.inf
        self._latest: ModelError | None = None

    @property
    def resting(self) -> bool:
        """Whether the model should not be asked now."""
        return self._clock() < max(self._until, self._unusable_until)

    @property
    def failure(self) -> str | None:
        """The code of the failures, or of the answers without a vote, for which the model rests.

        ``None`` if it does not rest.
        """
        if self._clock() < self._until and self._latest is not None:
            return self._latest.code
        return self._unusable_code if self._clock() < self._unusable_until else None

    @property
    def waits_for_outage(self) -> bool:
        """Whether the model rests for nothing but an outage, which may be waited for."""
        return self._clock() >= self._unusable_until and isinstance(self._latest, _OUTAGES)

    def answered(self) -> None:
        """Record a call that returned an answer, usable or not."""
        self._failures, self._until = 0, -math.inf

    def judged(self, failure: str | None, about: Hashable) -> None:
        """Record a new answer, whose call was made now.

        Args:
            failure: why it contained no vote; ``None`` if it did contain one.
            about: the task, or the tasks, that the model was asked about.
        """
        if failure is None:
            self._voted, self._voteless = self._voted + 1, self._voteless + len(self._unusable)
            self._unusable.clear()
            return
        self._unusable.add(about)
        self._unusable_code = failure
        if len(self._unusable) >= self._longest_row:
            self._unusable_until = self._clock() + self.SECONDS

    @property
    def _longest_row(self) -> int:
        """How many answers without a vote in a row bring a rest, by how often it voted before them."""
        if not self._voteless:
            return FAILURES
        chance = self._voteless / (self._voted + self._voteless)
        return min(max(FAILURES, math.ceil(math.log(_BY_CHANCE) / math.log(chance))), _LONGEST_ROW)

    def unread(self, error: ModelError, about: Hashable) -> None:
        """Record a failed call that was answered without anything to read: an empty answer or a refusal.

        Args:
            error: how it failed.
            about: as for :meth:`judged`.
        """
        if isinstance(error, BadAnswerError | RefusedError) and error.usage is not None:
            self.judged(error.code, about)

    def failed(self, error: ModelError) -> None:
        """Record a failed call."""
        if isinstance(error, self._COUNTED):
            self._failures += 1
            self._latest = error
            if self._failures >= FAILURES:
                self._until = self._clock() + self.SECONDS
        elif not isinstance(error, RateLimitedError):
            self.answered()


_FIRST_PAUSE: float = 2.0
"""Seconds until the first probe of a model that is down; each further one comes after twice the time."""

LONGEST_PAUSE, LONGEST_PAID_PAUSE = 60.0, 300.0
"""The most seconds between two probes, or between two tries of one call; more after failures that may be
billed."""

_PAID_PROBES: Final = 8
"""Probes of one outage that fail though they may be billed, after which it is given up."""

_PAID_FAILURES, _PAID_FAILURES_BESIDE_ANSWERS = 5, 3
"""The most calls about one prompt that fail and may be billed. Fewer while the model answers others."""

_FAILURES, _FAILURES_BESIDE_ANSWERS = 30, 8
"""The same for other failures that one text may cause, such as HTTP 500."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Wait:
    """What the calls of jobs to a model wait for.

    Attributes:
        model: its name in the pool.
        reason: why it cannot be asked, such as ``HTTP 503``.
        since: unix seconds.
        seconds: until it is asked again.
    """

    model: str
    reason: str
    since: float
    seconds: float

    def __str__(self) -> str:
        since = time.strftime("%H:%M", time.localtime(self.since))
        return f"waiting for {self.model} ({self.reason}) since {since}, next probe in {self.seconds:.0f} s"


@dataclass(slots=True)
class Turn:
    """The permission of a waiting call to ask the model once.

    Attributes:
        probe: whether the model is down, and this call tries whether it is back.
        sent: whether the call was sent.
    """

    _outage: Outage
    probe: bool
    sent: bool = False

    @property
    def valid(self) -> bool:
        """Whether the call may be sent: the model may have gone down while it waited for its rate."""
        return self.probe or not self._outage.down


class Outage:
    """Whether a model is down, and the calls that wait until it is back. Used from one event loop at a time.

    A model is down after :data:`FAILURES` failures in a row that may pass. Then one of the waiting calls at a
    time is sent as a *probe*, in turn and at growing intervals; any response of the provider ends the outage.

    Args:
        model: its name in the pool.
        clock: monotonic seconds.

    Attributes:
        answers: how often the provider has responded.
    """

    def __init__(self, model: str, clock: Callable[[], float]) -> None:
        self.model, self.clock = model, clock
        self.answers = 0
        self._failures = 0
        self._since = self._since_clock = 0.0
        self._error: ModelError | None = None
        self._pause, self._probe_at, self._probing, self._paid = _FIRST_PAUSE, 0.0, False, 0
        self._line: list[object] = []  # the calls that wait for the end of the outage, in turn
        self._sleepers: set[asyncio.Future[None]] = set()
        self._pausing: set[asyncio.Future[None]] = set()

    @property
    def down(self) -> bool:
        """Whether calls wait."""
        return self._failures >= FAILURES

    @property
    def wait(self) -> Wait | None:
        """What calls wait for now; ``None`` if the model is not down."""
        if not self.down or self._error is None:
            return None
        seconds = max(self._probe_at - self.clock(), 0.0)
        return Wait(self.model, self._error.reason or self._error.code, self._since, seconds)

    def hopeless(self, patience: float) -> bool:
        """Whether the outage is given up: it lasts longer than a call waits, in seconds, or is too dear."""
        lasts = self.clock() - self._since_clock >= patience
        return self.down and (lasts or self._paid >= _PAID_PROBES)

    def answered(self) -> None:
        """Record that the provider responded, whatever it said about the request."""
        if self.down:
            _log.warning("model_is_back", model=self.model, seconds=round(self.clock() - self._since_clock))
        self.answers += 1
        self._failures = 0
        self._wake()

    def failed(self, error: ModelError, *, probe: bool) -> None:
        """Record a call that was sent and failed.

        Args:
            error: how it failed.
            probe: whether the call was a probe.
        """
        if isinstance(error, RateLimitedError):
            return
        if not isinstance(error, _OUTAGES):
            self.answered()
            return
        if not self._failures:
            self._since, self._since_clock = time.time(), self.clock()
        self._failures += 1
        self._error = error
        if self._failures == FAILURES:
            self._pause, self._paid = _FIRST_PAUSE, 0
            self._probe_at = self.clock() + self._pause
            _log.warning("model_is_down", model=self.model, code=error.code, reason=str(error))
        elif probe:
            self._paid += error.billable
            self._pause = min(2.0 * self._pause, LONGEST_PAID_PAUSE if error.billable else LONGEST_PAUSE)
            self._probe_at = self.clock() + self._pause

    @asynccontextmanager
    async def turn(self, patience: float) -> AsyncIterator[Turn]:
        """Wait while the model is down. During the block the call may be sent.

        Args:
            patience: the most seconds of an outage that the call waits.

        Raises:
            ModelError: the outage lasts longer.
            CamvoError: :meth:`refuse_waiting` was called.
        """
        probe = await self._until_up(patience)
        try:
            yield Turn(self, probe)
        finally:
            if probe:
                self._probing = False
                self._wake()

    async def _until_up(self, patience: float) -> bool:
        """Wait until the model is back, or until this call is the next probe; return whether it is."""
        place = object()
        self._line.append(place)
        try:
            while self.down:
                now = self.clock()
                if self._line[0] is place and not self._probing and now >= self._probe_at:
                    self._probing = True
                    return True
                if self.hopeless(patience):
                    raise self.error()
                left, due = self._since_clock + patience - now, self._probe_at - now
                await _sleep(min(left, due) if due > 0.0 else left, self._sleepers)
            return False
        finally:
            self._line.remove(place)

    def error(self) -> ModelError:
        """The error of a call that does not wait for the end of the outage, and is not sent."""
        kind = UnavailableError if self._error is None else type(self._error)
        why = "" if self._error is None or self._error.reason is None else f" ({self._error.reason})"
        return kind(f"is down{why}", where=f"model {self.model}", fix=kind.cure, usage=Usage(0, 0, 0.0))

    async def pause(self, seconds: float) -> None:
        """Wait some seconds.

        Raises:
            CamvoError: :meth:`refuse_waiting` was called.
        """
        await _sleep(seconds, self._pausing)

    def _wake(self) -> None:
        for sleeper in self._sleepers:
            _wake(sleeper)

    def refuse_waiting(self, error: Callable[[], CamvoError]) -> None:
        """Refuse the calls that wait.

        Args:
            error: makes the error of one call.
        """
        for sleeper in (*self._sleepers, *self._pausing):
            if not sleeper.done():
                sleeper.set_exception(error())


async def _sleep(seconds: float, sleepers: set[asyncio.Future[None]]) -> None:
    """Wait some seconds, or until somebody ends the future that is among the sleepers meanwhile."""
    loop = asyncio.get_running_loop()
    woken = loop.create_future()
    sleepers.add(woken)
    timer = loop.call_later(seconds, _wake, woken)
    try:
        await woken
    finally:
        timer.cancel()
        sleepers.discard(woken)


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


@dataclass(slots=True)
class Tries:
    """The tries of one call: whether it is sent again after a failure, and when.

    Attributes:
        outage: that of its model.
        patience: the most seconds of an outage that the call waits; ``None`` if it waits for none.
        most: the number of further calls after a failure that may be temporary, if it waits for no outage.
        resting: whether the model is not to be asked now.
        until: monotonic seconds; the latest time for another try.
        rng: draws how long the pauses are.
        divisible: whether the prompt is about several tasks, so that it is rather divided than repeated.
    """

    outage: Outage
    patience: float | None
    most: int
    resting: Callable[[], bool]
    until: float
    rng: random.Random = field(default_factory=random.SystemRandom)
    divisible: bool = False
    _tried: int = 0
    _failed: int = 0
    _billable: int = 0
    _beside: int = 0
    _answers: int = 0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Turn | None]:
        """During the block the call may be sent; a call that waits for outages first waits for its turn.

        Raises:
            ModelError: an outage lasts too long.
            CamvoError: the process stops.
        """
        if self.patience is None:
            yield None
            return
        async with self.outage.turn(self.patience) as turn:
            self._answers = self.outage.answers
            yield turn

    async def pause(self, error: ModelError, turn: Turn | None) -> None:
        """Wait before the next try.

        Args:
            error: how the latest try ended.
            turn: its turn.

        Raises:
            ModelError: the error, because another try is hopeless or would be too late.
            CamvoError: the process stops.
        """
        if turn is not None and not turn.sent and not turn.valid:
            return  # the model went down while the call waited for its rate
        seconds = min(self.rng.uniform(0.5, 1.0) * 2.0**self._tried, LONGEST_PAUSE)
        again = self._again(error) if turn is not None and turn.sent else self._retried(error)
        if not again or self.outage.clock() + seconds >= self.until:
            raise error
        self._tried += 1
        _log.info("model_retry", model=self.outage.model, code=error.code, retry=self._tried)
        if turn is None or not self.outage.down:
            await self.outage.pause(seconds)

    def _retried(self, error: ModelError) -> bool:
        return error.retry and self._tried < self.most and not self.resting()

    def _again(self, error: ModelError) -> bool:
        """Whether a call that waits for outages is made again.

        A text that always makes its call fail must not hold a job for hours. Such a call fails while the
        model answers others, or so often that waiting for the end of an outage is not worth it any more.
        """
        if not isinstance(error, _OUTAGES):
            return self._retried(error)
        if error.certain:
            return True
        self._failed += 1
        self._beside += self.outage.answers > self._answers
        if error.billable:
            self._billable += 1
            most, beside, failed = _PAID_FAILURES, _PAID_FAILURES_BESIDE_ANSWERS, self._billable
        else:
            most, beside, failed = _FAILURES, _FAILURES_BESIDE_ANSWERS, self._failed
        return failed < (beside if self.divisible else most) and self._beside < beside

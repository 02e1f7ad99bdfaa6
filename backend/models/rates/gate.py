"""The gate in front of one model: it lets the calls of one process through, by leases of a second.

Calls wait in a queue, those of the smallest request first. While there is something to send or to tell, the
gate exchanges a report for a lease once a second. No call does so itself.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from backend.errors import LedgerError, RateLimitedError, WithdrawnError
from backend.models.rates.answers import CallEnd, Lease, RateReport, RateStore
from backend.settings import ModelSettings
from backend.telemetry import metrics
from camvo.errors import CamvoError

_START: Final = 20
_MOST: Final = 512
"""The first and the highest number of calls at once."""

_LEAST_USEFUL: Final = 4.0
"""Calls at once that every model is allowed, however slow it seems, unless calls time out."""

_QUICK = 0.25
_NOTICEABLY_SLOWER = 2.0


class Concurrency:
    """The calls under way, and how many are allowed.

    The number doubles from one generation of calls to the next, as long as answers are quick: they take less
    than a quarter of the model's ``timeout``, or less than twice the shortest answer. A local server that
    answers one call after another thus never has a queue so long that calls time out. Once its answers show
    how many calls it can use, it is sent no more than these. A call that does time out halves the number.

    Args:
        timeout: seconds that one call may take.
        most: the most calls at once by the settings, which is then also the first number; ``None`` to begin
            with :data:`_START` and to go up to :data:`_MOST`.
        careful: whether the first answer must show that the server can be sent :data:`_START` calls. A
            server of one's own may answer one call after another, and most of these would time out.

    Attributes:
        limit: how many are allowed.
        under_way: how many there are; counted by the gate.
    """

    def __init__(self, timeout: float, most: int | None, *, careful: bool = False) -> None:
        self._timeout = timeout
        self._most = float(_MOST if most is None else most)
        self._untried = careful and most is None
        self.limit = _LEAST_USEFUL if self._untried else float(_START if most is None else most)
        self.under_way = 0
        self._shortest = float("inf")
        self._until_next_halving = 0

    @property
    def free(self) -> bool:
        """Whether another call may start."""
        return self.under_way < int(self.limit)

    def answered(self, seconds: float, *, useful: float = math.inf) -> None:
        """Take in the duration of an answer, whose call is still counted as under way."""
        self._until_next_halving -= 1
        self._shortest = min(self._shortest, seconds)
        if self._untried and seconds * _START / _LEAST_USEFUL < self._timeout / 2:
            self.limit = float(_START)
        self._untried = False
        quick = seconds < max(_QUICK * self._timeout, _NOTICEABLY_SLOWER * self._shortest)
        if quick and 2 * self.under_way >= self.limit:
            self.limit = min(self.limit + 1.0, self._most)
        self.limit = min(self.limit, max(useful, _LEAST_USEFUL))

    def timed_out(self) -> None:
        """Halve the number. The calls that started with this one do not halve it again."""
        if self._until_next_halving <= 0:
            self.limit = max(1.0, self.limit / 2)
            self._until_next_halving = self.under_way
        else:
            self._until_next_halving -= 1


_PERIOD: Final = 1.0
"""Seconds between two exchanges."""

_VALID: Final = 2.0
"""Seconds for which a lease may be used."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A call that was let through.

    Attributes:
        tokens: the tokens that it will probably use.
        epoch: the epoch of its lease.
        arrival: its place in the queue, which it keeps if the provider refuses it.
        under_way: the calls under way when it was sent, itself included.
    """

    tokens: float
    epoch: int
    arrival: int
    under_way: int = 1


class _LeaseHolder:
    """Holds the current lease of one process."""

    def __init__(self) -> None:
        self._lease: Lease | None = None
        self._calls = self._tokens = 0.0
        self._valid_until = self._next_at = -float("inf")
        self._counted = self._stopped = self.is_made_up = False
        self._sent_since_report = 0
        self._tally = RateReport()

    @property
    def pause(self) -> float:
        """Seconds between two calls of this lease; 0 if they need not be spread."""
        lease = self._lease
        return _PERIOD / lease.calls if lease is not None and lease.calls and lease.spread else 0.0

    def may_send(self, now: float) -> bool:
        """Return whether a call may be sent now."""
        lease = self._lease
        if lease is None or self._stopped:
            return False
        if lease.calls is None:
            return True
        used_up = self._calls < 1 or (lease.limits_tokens and self._tokens <= 0.0)
        return not used_up and self._next_at <= now < self._valid_until

    def send(self, tokens: float, arrival: int, now: float) -> Passage:
        """Count a call as sent; :meth:`may_send` has just allowed it."""
        self._calls -= 1
        self._sent_since_report += 1
        if self._counted:
            self._tokens -= tokens
        else:
            self._tally.sent += 1
            self._tally.sent_tokens += tokens
        self._next_at = max(self._next_at, now - self.pause) + self.pause
        return Passage(tokens, 0 if self._lease is None else self._lease.epoch, arrival)

    def take_back(self, passage: Passage) -> None:
        """Undo a passage whose call was cancelled before it was sent."""
        if self._counted:
            self._tally.unused += 1
            self._tally.unused_tokens += passage.tokens
        else:
            self._tally.sent -= 1
            self._tally.sent_tokens -= passage.tokens

    def add(self, passage: Passage, end: CallEnd, now: float) -> None:
        """Record how a call ended. An unexpected refusal stops the others until the next lease."""
        self._tally.add(passage.tokens, passage.epoch, end, now)
        if end.tokens is not None:
            self._return_tokens(passage.tokens - end.tokens)
        lease = self._lease
        if end.refused and lease is not None and lease.stops and passage.epoch >= lease.epoch:
            self._stopped = True

    def report(self, waiting: Sequence[float], now: float) -> RateReport | None:
        """Return the next report, given the tokens of each call that waits; ``None`` if it would be empty."""
        if self._counted:
            self._tally.unused += int(self._calls)
            self._tally.unused_tokens += self._tokens
        self._calls = self._tokens = 0.0
        sent, self._sent_since_report = self._sent_since_report, 0
        tally = self._tally
        if not waiting and not sent and tally.is_empty:
            return None
        self._tally = RateReport()
        # What will arrive until the next report is not known; what is not used is given back.
        tally.wanted = 2 * len(waiting) + sent
        tally.wanted_tokens = tally.wanted * (sum(waiting) / len(waiting) if waiting else tally.last_tokens)
        tally.wait = max(0.0, tally.not_before - now)
        return tally

    def renew(self, lease: Lease, asked_at: float) -> None:
        """Go on with a new lease, which was asked for at a time."""
        self._replace(lease, asked_at, counted=lease.calls is not None)
        self.is_made_up = False

    def make_up(self, unreported: RateReport, asked_at: float) -> None:
        """Go on at half of the last lease's rate, because the ledger could not be reached.

        The next report counts what is sent meanwhile, and repeats what could not be reported.
        """
        self.repeat(unreported)
        lease = self._lease or Lease(calls=2)
        if not self.is_made_up:
            calls = None if lease.calls is None else max(1, lease.calls // 2)
            lease = replace(lease, calls=calls, limits_tokens=False, hold=0.0)
        self._replace(lease, asked_at, counted=False)
        self.is_made_up = True

    def repeat(self, unreported: RateReport) -> None:
        """Add what could not be reported to the next report."""
        self._tally.merge(unreported)

    def _replace(self, lease: Lease, asked_at: float, *, counted: bool) -> None:
        self._lease, self._stopped, self._counted = lease, False, counted
        self._calls, self._valid_until = float(lease.calls or 0), asked_at + _VALID
        returned, self._tokens = self._tokens, 0.0
        self._return_tokens(returned)
        if counted:
            self._tokens += lease.tokens

    def _return_tokens(self, tokens: float) -> None:
        """Give back what a call did not use; a negative number is what it used in addition."""
        if self._counted:
            self._tokens += tokens
        else:
            self._tally.unused_tokens += tokens


_LONGEST_SLEEP = 10.0
"""Seconds between two reports while the provider asks to wait."""

_NOTICEABLE: Final = 0.1
"""Seconds: a call that delays others by less counts as delaying none."""

request_size: contextvars.ContextVar[int] = contextvars.ContextVar("request_size", default=1)
"""How many tasks the request has that the current call is for: a single task is urgent."""


class Cancellation:
    """Gives up calls that wait for their turn; a call that was sent goes on."""

    def __init__(self) -> None:
        self._turns: list[asyncio.Future[Passage]] = []
        self._cancelled = False

    def add(self, turn: asyncio.Future[Passage]) -> None:
        """Add a call that waits for its turn."""
        self._turns.append(turn)
        if self._cancelled:
            self.cancel()

    def cancel(self) -> None:
        """Give up the calls that still wait, and those to come."""
        self._cancelled = True
        for turn in self._turns:
            if not turn.done():
                turn.set_exception(WithdrawnError("is not waited for any longer"))


cancellation: contextvars.ContextVar[Cancellation | None] = contextvars.ContextVar(
    "cancellation", default=None
)
"""What can give up the current call; ``None`` if nothing can."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Waiting:
    turn: asyncio.Future[Passage]
    tokens: float
    until: float


_FORGET: Final = 0.98
"""The weight of an answer beside that of the next one: about the last fifty count."""


_RECENT: Final = 20
"""The gaps between answers that count."""


_OUTDATED: Final = 100
"""Answers without so many calls under way, after which the gaps are forgotten: the model may have changed."""


_QUICKEST: Final = 3
"""The quickest answers that are kept; the slowest of them stands for all, as one may be quick by chance."""


_FEWEST: Final = 5
"""Answers before their durations say anything."""


_ERRORS: Final = 2.0
"""Standard errors by which a slope is lowered, so that what varies by chance delays nothing."""


_CROWD: Final = 12


_CROWDED: Final = 0.3
"""With this many calls under way, a model that answers them at once gives an answer far more often than every
three tenths of the time that its quickest answers take."""


class _Durations:
    """How long answers took, beside how many calls were under way.

    A server that answers one call after another takes the longer, the more calls it has; each of them delays
    the next by the seconds that one takes. A provider that answers many at once takes as long for each.
    """

    def __init__(self) -> None:
        self.answers = 0
        self._sums: tuple[float, ...] = (0.0,) * 6
        self._quickest: list[float] = []
        self._gap, self._gaps, self._crowded_at, self._alone = 0.0, 0, -math.inf, 0

    def add(self, sent_beside: int, seconds: float, *, beside: int, now: float) -> None:
        """Count an answer."""
        self.answers += 1
        x, y = float(sent_beside), seconds
        news = 1.0, x, y, x * x, x * y, y * y
        self._sums = tuple([_FORGET * past + new for past, new in zip(self._sums, news, strict=True)])
        self._quickest = sorted([*self._quickest, seconds])[:_QUICKEST]
        if beside < _CROWD:
            self._crowded_at, self._alone = -math.inf, self._alone + 1
            if self._alone > _OUTDATED:
                self._gaps = 0
            return
        self._alone = 0
        if self._crowded_at > -math.inf:
            # A longer gap is a pause: with that many calls under way, an answer comes within this time.
            gap = min(now - self._crowded_at, self._quickest[-1])
            self._gaps += 1
            self._gap += (gap - self._gap) / min(self._gaps, _RECENT)
        self._crowded_at = now

    @property
    def mean(self) -> float:
        """The mean duration, seconds; 0 before the first answer."""
        return self._sums[2] / self._sums[0] if self._sums[0] else 0.0

    @property
    def shortest(self) -> float:
        """The shortest duration, seconds; 0 before the first answer."""
        return self._quickest[0] if self._quickest else 0.0

    @property
    def useful(self) -> float:
        """How many calls at once keep the model busy, with as many that wait for it."""
        delay = self.delay
        return 2.0 * self._quickest[-1] / delay if delay else math.inf

    @property
    def delay(self) -> float:
        """The seconds by which one more call under way delays an answer, at least; 0 if by none."""
        crowded = self._gaps >= _FEWEST and self._gap >= _CROWDED * self._quickest[-1]
        return max(self._slope, self._gap if crowded else 0.0)

    @property
    def _slope(self) -> float:
        """How much longer answers take for each call that was under way when they were sent, at least."""
        count, x, y, xx, xy, yy = self._sums
        if count < _FEWEST * _FORGET**_FEWEST or (spread := xx - x * x / count) < 1e-6 * xx:
            return 0.0
        slope = (xy - x * y / count) / spread
        rest = max(yy - y * y / count - slope * slope * spread, 0.0)
        return max(slope - _ERRORS * math.sqrt(rest / max(count - 2.0, 1.0) / spread), 0.0)


class RateGate:
    """The calls of one process to one model. It belongs to one event loop at a time.

    Args:
        model: the model's settings.
        store: exchanges reports for leases.
        clock: monotonic seconds.

    Attributes:
        durations: how long its answers took.
        held_since: unix seconds; since when the provider asks to wait.
    """

    def __init__(self, model: ModelSettings, store: RateStore, clock: Callable[[], float]) -> None:
        self._model, self._store, self._clock = model, store, clock
        self.concurrency = Concurrency(
            model.timeout,
            model.max_concurrency,
            careful=not model.parameters.keys().isdisjoint({"api_base", "base_url"}),
        )
        self._queue: list[tuple[int, int, _Waiting]] = []
        self._arrivals = itertools.count()
        self._leases, self.durations = _LeaseHolder(), _Durations()
        self._delay_by_quota = 0.0  # seconds, because a quota bounds how many calls are sent
        self._hold_until = self._next_exchange = -float("inf")
        self.held_since = 0.0
        self._exchanges: asyncio.Task[None] | None = None

    @property
    def seconds_to_wait(self) -> float:
        """The seconds that the provider still asks to wait; 0 if it does not."""
        return max(0.0, self._hold_until - self._clock())

    @property
    def delay(self) -> float:
        """The seconds by which one more call delays the calls after it while the model is busy, to one digit.

        It is 0 for a model that answers as many calls at once as it is sent, however long each takes. It is
        more for a server whose answers take longer the more calls it has, and where time-outs,
        ``max_concurrency`` or a quota bound what the model is sent.
        """
        delay = max(self._delay_at_once, self._delay_by_quota)
        return float(f"{delay:.1g}") if delay >= _NOTICEABLE else 0.0

    @property
    def busy(self) -> bool:
        """Whether another call would delay others: calls wait, or more would if the next one came now."""
        waits = any(not waiting.turn.done() for _, _, waiting in self._queue)
        return waits or (self.concurrency.under_way > 0 and self._delay_at_once >= self._delay_by_quota)

    @property
    def backlog(self) -> int:
        """How many calls are under way or wait. Any thread may read it, so the queue is copied."""
        waiting = sum(not entry.turn.done() for _, _, entry in [*self._queue])
        return self.concurrency.under_way + waiting

    @property
    def _delay_at_once(self) -> float:
        """The delay because the model works on few calls at once, seconds."""
        if self.concurrency.limit >= _START:  # neither the settings nor time-outs keep the number low
            return self.durations.delay
        # The mean may be of a time with more calls at once; a call delays others by its own time at most.
        bounded = min(self.durations.mean / self.concurrency.limit, self.durations.shortest)
        return max(self.durations.delay, bounded)

    async def enter(self, tokens: float, patience: float, *, refused: Passage | None = None) -> Passage:
        """Wait until a call may start. Each passage must be given back to :meth:`leave`.

        Args:
            tokens: the tokens that the call will probably use.
            patience: seconds to wait at most.
            refused: the call's last passage, if the provider refused the call.

        Raises:
            TimeoutError: the call's turn did not come in time.
            RateLimitedError: the provider asks to wait longer than that.
            WithdrawnError: the call was given up.
            CamvoError: :meth:`refuse_waiting` was called.
        """
        if patience <= 0.0:
            raise TimeoutError
        waiting = _Waiting(asyncio.get_running_loop().create_future(), tokens, self._clock() + patience)
        if (given_up := cancellation.get()) is not None:
            given_up.add(waiting.turn)
        self._refuse_hopeless(waiting)
        if not waiting.turn.done():
            arrival = next(self._arrivals) if refused is None else refused.arrival
            heapq.heappush(self._queue, (request_size.get(), arrival, waiting))
            self._admit()
            self._keep_exchanging()
        if waiting.turn.done():
            return waiting.turn.result()
        try:
            async with asyncio.timeout(patience):
                return await waiting.turn
        except BaseException:
            if waiting.turn.done() and not waiting.turn.cancelled() and waiting.turn.exception() is None:
                self._leases.take_back(waiting.turn.result())
                self.concurrency.under_way -= 1
                self._admit()
            waiting.turn.cancel()
            raise

    def leave(self, passage: Passage, end: CallEnd) -> None:
        """Take in how a call ended, and let others through."""
        if end.seconds is not None:
            beside, now = self.concurrency.under_way, self._clock()
            self.durations.add(passage.under_way, end.seconds, beside=beside, now=now)
            slow = self.durations.delay >= _NOTICEABLE
            self.concurrency.answered(end.seconds, useful=self.durations.useful if slow else math.inf)
        if end.timed_out:
            self.concurrency.timed_out()
        self.concurrency.under_way -= 1
        self._leases.add(passage, end, self._clock())
        if end.refused:
            metrics.model_refused.labels(model=self._model.name).inc()
        if end.wait:
            self._hold(end.wait)
        self._admit()
        self._keep_exchanging()

    def refuse_waiting(self, error: Callable[[], CamvoError]) -> None:
        """Refuse the calls that wait for their turn.

        Args:
            error: makes the error of one call.
        """
        for _, _, waiting in self._queue:
            if not waiting.turn.done():
                waiting.turn.set_exception(error())

    def _hold(self, seconds: float) -> None:
        if not self.seconds_to_wait:
            self.held_since = time.time()
        self._hold_until = max(self._hold_until, self._clock() + seconds)
        for _, _, waiting in self._queue:
            self._refuse_hopeless(waiting)

    def _refuse_hopeless(self, waiting: _Waiting) -> None:
        if not waiting.turn.done() and self._hold_until > max(waiting.until, self._clock()):
            message = f"must not be asked for {self.seconds_to_wait:.0f} s more"
            waiting.turn.set_exception(RateLimitedError(message, where=f"model {self._model.name}"))

    def _admit(self) -> None:
        """Let through as many waiting calls as may start now."""
        while self._queue:
            _, arrival, waiting = self._queue[0]
            if waiting.turn.done():
                heapq.heappop(self._queue)
                continue
            now = self._clock()
            if not self.concurrency.free or now < self._hold_until or not self._leases.may_send(now):
                return
            heapq.heappop(self._queue)
            self.concurrency.under_way += 1
            sent = self._leases.send(waiting.tokens, arrival, now)
            waiting.turn.set_result(replace(sent, under_way=self.concurrency.under_way))
            if pause := self._leases.pause:
                asyncio.get_running_loop().call_later(pause, self._admit)

    def _keep_exchanging(self) -> None:
        if self._exchanges is None or self._exchanges.done():
            self._exchanges = asyncio.get_running_loop().create_task(self._exchange_while_busy())

    async def _exchange_while_busy(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._next_exchange - loop.time())
        while await self._exchange():
            self._admit()
            hold = min(self.seconds_to_wait, _LONGEST_SLEEP)
            await asyncio.sleep(max(hold, self._next_exchange - loop.time()))

    async def _exchange(self) -> bool:
        """Exchange a report for a lease; return whether there was something to report."""
        self._queue = [entry for entry in self._queue if not entry[2].turn.done()]
        heapq.heapify(self._queue)
        waiting = [entry[2].tokens for entry in self._queue]
        asked_at = self._clock()
        if (report := self._leases.report(waiting, asked_at)) is None:
            return False
        self._next_exchange = asyncio.get_running_loop().time() + _PERIOD
        try:
            lease = await self._store.exchange(self._model, report)
        except LedgerError as error:
            if not self._leases.is_made_up:
                _log.error("rates_not_shared", model=self._model.name, code=error.code, reason=str(error))
            self._leases.make_up(report, asked_at)
        except BaseException:
            self._leases.repeat(report)
            raise
        else:
            self._leases.renew(lease, asked_at)
            self._note(lease)
        return True

    def _note(self, lease: Lease) -> None:
        if lease.hold > 0.0:
            self._hold(lease.hold)
        self._delay_by_quota = 60.0 / lease.rate if lease.rate else 0.0
        if lease.rate is not None:
            metrics.model_rate.labels(model=self._model.name).set(lease.rate)

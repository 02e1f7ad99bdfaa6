"""The gate in front of one model: it lets the calls of one process through, by leases of a second.

Calls wait in a queue, those of the smallest request first. While there is something to send or to tell, the
gate exchanges a report for a lease once a second. No call does so itself.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from backend.errors import LedgerError, RateLimitedError
from backend.models.rates.concurrency import Concurrency
from backend.models.rates.counts import BINS
from backend.models.rates.messages import Lease, RateReport
from backend.models.rates.outcomes import CallEnd, RateTally
from backend.models.rates.stores import RateStore
from backend.settings import ModelSettings
from backend.telemetry import metrics

_VALID = 2.0
"""Periods for which a lease may be used."""

_LONGEST_SLEEP = 10.0
"""Periods between two reports while the provider asks to wait."""

request_size: contextvars.ContextVar[int] = contextvars.ContextVar("request_size", default=1)
"""How many tasks the request has that the current call is for: a single task is urgent."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Passage:
    """A call that was let through: its expected tokens, and the epoch of its lease."""

    tokens: float
    epoch: int


@dataclass(slots=True)
class _Waiting:
    turn: asyncio.Future[Passage]
    tokens: float
    until: float


class Gate:
    """The calls of one process to one model. It belongs to one event loop at a time.

    Args:
        model: the model's settings.
        store: exchanges reports for leases.
        clock: monotonic seconds.
    """

    def __init__(self, model: ModelSettings, store: RateStore, clock: Callable[[], float]) -> None:
        self._model, self._store, self._clock = model, store, clock
        self._period = store.window / BINS
        self.concurrency = Concurrency(model.timeout, model.max_concurrency)
        self._queue: list[tuple[int, int, _Waiting]] = []
        self._arrivals = itertools.count()
        self._tally = RateTally()
        self._lease: Lease | None = None
        self._calls = self._tokens = 0.0
        self._valid_until = self._hold_until = self._next_at = -float("inf")
        self._counted = self._alone = False
        self._admitted = 0
        self._refused_since_lease = False
        self._exchanges: asyncio.Task[None] | None = None
        self._next_exchange = -float("inf")

    @property
    def seconds_to_wait(self) -> float:
        """The seconds that the provider still asks to wait; 0 if it does not."""
        return max(0.0, self._hold_until - self._clock())

    async def enter(self, tokens: float, patience: float) -> Passage:
        """Wait until a call may start. Each passage must be given back to :meth:`leave`.

        Args:
            tokens: the tokens that the call will probably use.
            patience: seconds to wait at most.

        Raises:
            TimeoutError: the call's turn did not come in time.
            RateLimitedError: the provider asks to wait longer than that.
        """
        if patience <= 0.0:
            raise TimeoutError
        waiting = _Waiting(asyncio.get_running_loop().create_future(), tokens, self._clock() + patience)
        self._refuse_hopeless(waiting)
        if not waiting.turn.done():
            heapq.heappush(self._queue, (request_size.get(), next(self._arrivals), waiting))
            self._admit()
            self._keep_exchanging()
        try:
            async with asyncio.timeout(patience):
                return await waiting.turn
        except BaseException:
            if waiting.turn.done() and not waiting.turn.cancelled() and waiting.turn.exception() is None:
                self._take_back(waiting.turn.result())
            waiting.turn.cancel()
            raise

    def leave(self, passage: Passage, end: CallEnd) -> None:
        """Take in how a call ended, and let others through."""
        if end.seconds is not None:
            self.concurrency.answered(end.seconds)
        if end.timed_out:
            self.concurrency.timed_out()
        self.concurrency.ended()
        self._tally.add(passage.tokens, passage.epoch, end, self._clock())
        if end.tokens is not None:
            self._return_tokens(passage.tokens - end.tokens)
        if end.refused:
            metrics.model_refused.labels(model=self._model.name).inc()
            if self._lease is not None and passage.epoch >= self._lease.epoch:
                self._refused_since_lease = True  # until the next lease says how to go on
        if end.wait:
            self._hold(end.wait)
        self._admit()
        self._keep_exchanging()

    def _take_back(self, passage: Passage) -> None:
        """Undo a passage whose call was cancelled before it started."""
        self.concurrency.ended()
        if self._counted:
            self._tally.unused += 1
            self._tally.unused_tokens += passage.tokens
        else:
            self._tally.sent -= 1
            self._tally.sent_tokens -= passage.tokens
        self._admit()

    def _return_tokens(self, tokens: float) -> None:
        """Give back what a call did not use; a negative number is what it used in addition."""
        if self._counted:
            self._tokens += tokens
        else:
            self._tally.unused_tokens += tokens

    def _hold(self, seconds: float) -> None:
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
            waiting = self._queue[0][2]
            if waiting.turn.done():
                heapq.heappop(self._queue)
                continue
            if not self.concurrency.free or not self._may_send():
                return
            heapq.heappop(self._queue)
            self.concurrency.started()
            self._admitted += 1
            waiting.turn.set_result(self._pass(waiting.tokens))

    def _may_send(self) -> bool:
        lease, now = self._lease, self._clock()
        if lease is None or self._refused_since_lease or now < self._hold_until:
            return False
        if lease.calls is None:
            return True
        if self._calls < 1 or now >= self._valid_until or (lease.limits_tokens and self._tokens <= 0.0):
            return False
        return now >= self._next_at

    def _pass(self, tokens: float) -> Passage:
        lease = self._lease
        assert lease is not None  # noqa: S101 - _may_send has just said so
        self._calls -= 1
        if self._counted:
            self._tokens -= tokens
        else:
            self._tally.sent += 1
            self._tally.sent_tokens += tokens
        if lease.calls and lease.spread:
            pause = self._period / lease.calls
            self._next_at = max(self._next_at, self._clock() - pause) + pause
            asyncio.get_running_loop().call_later(pause, self._admit)
        return Passage(tokens, lease.epoch)

    # -- exchanges

    def _keep_exchanging(self) -> None:
        if self._exchanges is None or self._exchanges.done():
            self._exchanges = asyncio.get_running_loop().create_task(self._exchange_while_busy())

    async def _exchange_while_busy(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._next_exchange - loop.time())
        while (report := self._report()) is not None:
            self._next_exchange = loop.time() + self._period
            tally, self._tally = self._tally, RateTally()
            asked_at, done = self._clock(), False
            try:
                lease = await self._store.exchange(self._model, report)
                self._take(lease, asked_at, counted=lease.calls is not None)
                done = True
            except LedgerError as error:
                self._go_on_alone(asked_at, error)
            finally:
                if not done:
                    self._tally.merge(tally)
            self._admit()
            hold = min(self.seconds_to_wait, _LONGEST_SLEEP * self._period)
            await asyncio.sleep(max(hold, self._next_exchange - loop.time()))

    def _report(self) -> RateReport | None:
        """Return the next report; ``None`` if there is nothing to tell and nothing to send."""
        self._queue = [entry for entry in self._queue if not entry[2].turn.done()]
        heapq.heapify(self._queue)
        if self._counted:
            self._tally.unused += int(self._calls)
            self._tally.unused_tokens += self._tokens
        self._calls = self._tokens = 0.0
        admitted, self._admitted = self._admitted, 0
        waiting = [entry[2].tokens for entry in self._queue]
        if not waiting and not admitted and self._tally.is_empty:
            return None
        # What will arrive until the next report is not known; what is not used is given back.
        wanted = 2 * len(waiting) + admitted
        mean = sum(waiting) / len(waiting) if waiting else self._tally.mean_tokens
        return self._tally.report(wanted, wanted * mean, self._clock())

    def _take(self, lease: Lease, asked_at: float, *, counted: bool) -> None:
        """Go on with a new lease.

        Args:
            lease: from the store, or made up while it cannot be reached.
            asked_at: when it was asked for.
            counted: whether the store has counted the lease's calls as sent.
        """
        self._lease, self._refused_since_lease, self._counted = lease, False, counted
        self._alone = False
        self._calls, self._valid_until = float(lease.calls or 0), asked_at + _VALID * self._period
        returned, self._tokens = self._tokens, 0.0
        self._return_tokens(returned)
        if counted:
            self._tokens += lease.tokens
        if lease.hold > 0.0:
            self._hold(lease.hold)
        if lease.rate is not None:
            metrics.model_rate.labels(model=self._model.name).set(lease.rate)

    def _go_on_alone(self, asked_at: float, error: LedgerError) -> None:
        """Send at half of the last lease's rate, because the ledger cannot be reached."""
        alone = self._lease
        if alone is None or not self._alone:
            _log.error("rates_not_shared", model=self._model.name, code=error.code, reason=str(error))
            last = alone or Lease(calls=2)
            calls = None if last.calls is None else max(1, last.calls // 2)
            alone = replace(last, calls=calls, limits_tokens=False, hold=0.0)
        self._take(alone, asked_at, counted=False)
        self._alone = True

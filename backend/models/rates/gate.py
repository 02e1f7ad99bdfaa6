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
from dataclasses import dataclass

import structlog

from backend.errors import LedgerError, RateLimitedError
from backend.models.rates.concurrency import Concurrency
from backend.models.rates.counts import BINS
from backend.models.rates.lease_holder import LeaseHolder, Passage
from backend.models.rates.messages import Lease
from backend.models.rates.outcomes import CallEnd
from backend.models.rates.stores import RateStore
from backend.settings import ModelSettings
from backend.telemetry import metrics
from camvo.errors import CamvoError

_LONGEST_SLEEP = 10.0
"""Periods between two reports while the provider asks to wait."""

request_size: contextvars.ContextVar[int] = contextvars.ContextVar("request_size", default=1)
"""How many tasks the request has that the current call is for: a single task is urgent."""

_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Waiting:
    turn: asyncio.Future[Passage]
    tokens: float
    until: float


class RateGate:
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
        self._leases = LeaseHolder(self._period)
        self._hold_until = self._next_exchange = -float("inf")
        self._exchanges: asyncio.Task[None] | None = None

    @property
    def seconds_to_wait(self) -> float:
        """The seconds that the provider still asks to wait; 0 if it does not."""
        return max(0.0, self._hold_until - self._clock())

    async def enter(self, tokens: float, patience: float, *, refused: Passage | None = None) -> Passage:
        """Wait until a call may start. Each passage must be given back to :meth:`leave`.

        Args:
            tokens: the tokens that the call will probably use.
            patience: seconds to wait at most.
            refused: the call's last passage, if the provider refused the call.

        Raises:
            TimeoutError: the call's turn did not come in time.
            RateLimitedError: the provider asks to wait longer than that.
            CamvoError: :meth:`refuse_waiting` was called.
        """
        if patience <= 0.0:
            raise TimeoutError
        waiting = _Waiting(asyncio.get_running_loop().create_future(), tokens, self._clock() + patience)
        self._refuse_hopeless(waiting)
        if not waiting.turn.done():
            arrival = next(self._arrivals) if refused is None else refused.arrival
            heapq.heappush(self._queue, (request_size.get(), arrival, waiting))
            self._admit()
            self._keep_exchanging()
        try:
            async with asyncio.timeout(patience):
                return await waiting.turn
        except BaseException:
            if waiting.turn.done() and not waiting.turn.cancelled() and waiting.turn.exception() is None:
                self._leases.take_back(waiting.turn.result())
                self.concurrency.ended()
                self._admit()
            waiting.turn.cancel()
            raise

    def leave(self, passage: Passage, end: CallEnd) -> None:
        """Take in how a call ended, and let others through."""
        if end.seconds is not None:
            self.concurrency.answered(end.seconds)
        if end.timed_out:
            self.concurrency.timed_out()
        self.concurrency.ended()
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
            self.concurrency.started()
            waiting.turn.set_result(self._leases.send(waiting.tokens, arrival, now))
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
            hold = min(self.seconds_to_wait, _LONGEST_SLEEP * self._period)
            await asyncio.sleep(max(hold, self._next_exchange - loop.time()))

    async def _exchange(self) -> bool:
        """Exchange a report for a lease; return whether there was something to report."""
        self._queue = [entry for entry in self._queue if not entry[2].turn.done()]
        heapq.heapify(self._queue)
        waiting = [entry[2].tokens for entry in self._queue]
        asked_at = self._clock()
        if (told := self._leases.report(waiting, asked_at)) is None:
            return False
        self._next_exchange = asyncio.get_running_loop().time() + self._period
        report, tally = told
        try:
            lease = await self._store.exchange(self._model, report)
        except LedgerError as error:
            if not self._leases.is_made_up:
                _log.error("rates_not_shared", model=self._model.name, code=error.code, reason=str(error))
            self._leases.make_up(tally, asked_at)
        except BaseException:
            self._leases.repeat(tally)
            raise
        else:
            self._leases.renew(lease, asked_at)
            self._note(lease)
        return True

    def _note(self, lease: Lease) -> None:
        if lease.hold > 0.0:
            self._hold(lease.hold)
        if lease.rate is not None:
            metrics.model_rate.labels(model=self._model.name).set(lease.rate)

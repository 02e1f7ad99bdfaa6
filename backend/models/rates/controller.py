"""The controller of one model's rates: from reports of all processes to leases for each of them.

It does no I/O and has no clock, so that it can be stored in the ledger and simulated in tests. What it does:

- Without any knowledge it limits nothing, and the processes' concurrency grows (``gate.py``).
- What refusals teach about the rate is in ``quota.py``.
- If the provider refuses again at once, nobody sends anything for 1, 2 and then 4 seconds. One call then
  tries, and the others follow 2 seconds later.
- Limits in the settings and in the provider's headers are never exceeded.
"""

from __future__ import annotations

import functools
import math
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from backend.ledger import Writer, answers
from backend.ledger.database import statements
from backend.models.rates.answers import Allowance, Clock, Lease, RateReport, Unit
from backend.models.rates.quota import LONG_AGO, WINDOW, Quota, QuotaState
from backend.settings import ModelSettings

_LONGEST_PAUSE = 4.0
_TRIAL = 2.0
_CALM = 4.0
"""Seconds: the longest pause, the time for one call to try, and the time after which all is well again."""

_IDLE = 5.0
"""Seconds without demand after which the measurement restarts, and a process no longer counts as active."""

_WHOLE = 0.95
"""A reset after at least this share of a window refills a whole bucket; one unit comes much earlier."""


class _RateController:
    """The rates of one model."""

    def __init__(
        self, requests: float | None, tokens: float | None, *, state: Mapping[str, Any] | None = None
    ) -> None:
        stored = dict(state or {})
        self.quotas: Mapping[Unit, Quota] = {
            "requests": Quota(requests, QuotaState(**stored.get("requests", {}))),
            "tokens": Quota(tokens, QuotaState(**stored.get("tokens", {}))),
        }
        self._epoch = int(stored.get("epoch", 0))
        self._streak = int(stored.get("streak", 0))
        self._hold_until = float(stored.get("hold_until", LONG_AGO))
        self._tried_at = float(stored.get("tried_at", LONG_AGO))
        self._wanted_at = float(stored.get("wanted_at", LONG_AGO))
        self._demand: dict[str, list[float]] = dict(stored.get("demand", {}))

    def dump(self) -> dict[str, Any]:
        """Return the state as JSON can hold it."""
        return {
            **{unit: quota.dump() for unit, quota in self.quotas.items()},
            "epoch": self._epoch,
            "streak": self._streak,
            "hold_until": self._hold_until,
            "tried_at": self._tried_at,
            "wanted_at": self._wanted_at,
            "demand": self._demand,
        }

    def exchange(self, now: float, report: RateReport) -> Lease:
        """Take in a process's report, and lease it what it may send next."""
        self._note_demand(now, report)
        self._count(now, report)
        size: dict[Unit, float] = {
            "requests": 1.0,
            "tokens": max(report.wanted_tokens / max(report.wanted, 1), 1.0),
        }
        for unit, allowance in report.allowances.items():
            self._obey(now, unit, allowance, size[unit])
        if report.wait > 0.0:
            self._hold_until = max(self._hold_until, now + report.wait)
        if report.refused and report.refused_epoch >= self._epoch:
            self._refuse(now, report, size)
        elif self._streak and now > self._hold_until + _CALM:
            self._streak = 0
        for unit, quota in self.quotas.items():
            quota.climb(now, size[unit])
        return self._lease(now, report, size)

    def _note_demand(self, now: float, report: RateReport) -> None:
        if report.wanted or report.sent:
            idle = now - self._wanted_at
            if idle > _IDLE and not self._streak and not report.refused:
                for quota in self.quotas.values():
                    quota.restart(now, idle)
            self._wanted_at = now
        self._demand = {owner: held for owner, held in self._demand.items() if now - held[1] <= _IDLE}
        self._demand[report.owner] = [report.wanted, now]

    def _count(self, now: float, report: RateReport) -> None:
        requests, tokens = self.quotas["requests"], self.quotas["tokens"]
        requests.send(now, report.sent)
        tokens.send(now, report.sent_tokens)
        requests.send(now, -report.unused)
        tokens.send(now, -report.unused_tokens)
        requests.refuse(now, report.refused)
        tokens.refuse(now, report.refused_tokens)

    def _obey(self, now: float, unit: Unit, allowance: Allowance, size: float) -> None:
        """Take over what a provider's headers say about one quota."""
        quota = self.quotas[unit]
        reset, remaining = allowance.reset, allowance.remaining
        limit = None if allowance.limit is None or allowance.limit < 1.0 else allowance.limit
        # Some providers state limits per day in the same headers; these reset much later.
        quota.state.limit = limit if reset is None or reset <= WINDOW else None
        if remaining is None:
            return
        quota.remain(now, remaining)
        if remaining < min(size, limit or size) and reset is not None:
            refills_slowly = limit is not None and _WHOLE * WINDOW <= reset <= WINDOW
            wait = min(size / limit, 1.0) * WINDOW if refills_slowly and limit else reset
            self._hold_until = max(self._hold_until, now + wait)

    def _refuse(self, now: float, report: RateReport, size: Mapping[Unit, float]) -> None:
        quota, units = self.quotas[report.cause], size[report.cause]
        alone = quota.came_alone(
            report.refused if report.cause == "requests" else report.refused_tokens, units
        )
        if quota.expects(now, units):
            return
        if alone and not self._streak:
            quota.hold(now, units)
            self._epoch += 1
            return
        quota.cut(now, units, first=self._streak == 0)
        if quota.expects(now, units):
            self._epoch, self._streak = self._epoch + 1, 0
            return
        pause = min(2.0 ** (self._streak - 1), _LONGEST_PAUSE) if self._streak else 0.0
        self._hold_until = max(self._hold_until, now + pause)
        self._epoch += 1
        self._streak += 1

    def _lease(self, now: float, report: RateReport, size: Mapping[Unit, float]) -> Lease:
        requests, tokens = self.quotas["requests"], self.quotas["tokens"]
        spread = requests.learnt or tokens.learnt
        stops = not any(quota.forgiving for quota in self.quotas.values())
        hold = max(0.0, self._hold_until - now)
        room = min(quota.room(now, size[unit]) for unit, quota in self.quotas.items())
        if hold > 0.0:
            room = 0.0
        elif self._streak > 1 and now < self._hold_until + _TRIAL:
            room = min(room, 0.0 if self._tried_at >= self._hold_until else 1.0)
            if room and report.wanted:
                self._tried_at = now
        if math.isinf(room):
            return Lease(epoch=self._epoch, stops=stops)
        calls = min(report.wanted, self._share(report, room))
        requests.send(now, calls)
        leased_tokens = calls * min(size["tokens"], tokens.rate or math.inf)
        tokens.send(now, leased_tokens)
        return Lease(
            calls=calls,
            tokens=leased_tokens,
            limits_tokens=tokens.rate is not None,
            epoch=self._epoch,
            hold=hold,
            spread=spread,
            stops=stops,
            rate=requests.rate,
        )

    def _share(self, report: RateReport, room: float) -> int:
        """Return a process's share of the room, which is by demand, so that none waits forever."""
        if math.isinf(room):
            return report.wanted
        demand = sum(held[0] for held in self._demand.values())
        return math.ceil(room * report.wanted / demand) if report.wanted else 0


class ProcessRates:
    """Rates of one process that has no ledger; ``clock`` returns monotonic seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._controllers: dict[str, _RateController] = {}

    async def exchange(self, model: ModelSettings, report: RateReport) -> Lease:
        """See :class:`RateStore`."""
        if model.name not in self._controllers:
            self._controllers[model.name] = _RateController(model.rpm, model.tpm)
        return self._controllers[model.name].exchange(self._clock(), report)


class LedgerRates:
    """Rates that all processes of a ledger share."""

    def __init__(self, writer: Writer) -> None:
        self._writer, self._owner = writer, uuid.uuid4().hex

    async def exchange(self, model: ModelSettings, report: RateReport) -> Lease:
        """See :class:`RateStore`. It takes one transaction."""
        report = replace(report, owner=self._owner)
        return await self._writer.run(functools.partial(self._exchange, model, report))

    @staticmethod
    def _exchange(model: ModelSettings, report: RateReport, connection: Connection) -> Lease:
        now = statements.now(connection)
        # What was stored later is of before the clock was set back: its waits would last until then again.
        state = answers.read_rates(connection, model.name, until=now + WINDOW)
        controller = _RateController(model.rpm, model.tpm, state=state)
        lease = controller.exchange(now, report)
        answers.store_rates(connection, model.name, controller.dump(), now)
        return lease

"""The controller of one model's rates: from reports of all processes to leases for each of them.

It does no I/O and has no clock, so that it can be stored in the ledger and simulated in tests. What it does:

- Without any knowledge it limits nothing, and the processes' concurrency grows (``concurrency.py``).
- After a refusal the model is sent 95% of what the provider accepted. From there the rate grows by 1% a
  window; it grows faster when the refused rate has been passed without a refusal.
- If the provider refuses again at once, nobody sends anything for 1, 2 and then 4 seconds. One call then
  tries, and the others follow 2 seconds later.
- Limits in the settings and in the provider's headers are never exceeded.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from backend.models.rates.counts import BINS, LONG_AGO
from backend.models.rates.messages import Allowance, Lease, RateReport, Unit
from backend.models.rates.quota import Quota, QuotaState

WINDOW: Final = 60.0
"""Seconds for which providers count."""

_LONGEST_PAUSE = 4.0
_TRIAL = 2.0
_CALM = 4.0
"""Bins: the longest pause, the time for one call to try, and the time after which all is well again."""

_IDLE = 5.0
"""Bins without demand after which measuring begins anew, and a process no longer counts as active."""

_WHOLE = 0.95
"""A reset after at least this share of a window refills a whole bucket; one unit comes much earlier."""


class RateController:
    """The rates of one model.

    Args:
        requests: requests per window in the settings; ``None`` for no limit.
        tokens: tokens per window in the settings; ``None`` for no limit.
        window: seconds.
        state: as :meth:`dump` returned it; ``None`` to begin.
    """

    def __init__(
        self,
        requests: float | None,
        tokens: float | None,
        *,
        window: float = WINDOW,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        stored = dict(state or {})
        self._window, self._bin = window, window / BINS
        self.quotas: Mapping[Unit, Quota] = {
            "requests": Quota(window, requests, QuotaState.load(stored.get("requests", {}))),
            "tokens": Quota(window, tokens, QuotaState.load(stored.get("tokens", {}))),
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
        """Take in a process's report, and lease it what it may send next.

        Args:
            now: seconds, by a clock that all processes share.
            report: what happened in the process.
        """
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
        elif self._streak and now > self._hold_until + _CALM * self._bin:
            self._streak = 0
        for unit, quota in self.quotas.items():
            quota.climb(now, size[unit])
        return self._lease(now, report, size)

    def _note_demand(self, now: float, report: RateReport) -> None:
        if report.wanted or report.sent:
            idle = now - self._wanted_at
            if idle > _IDLE * self._bin and not self._streak and not report.refused:
                for quota in self.quotas.values():
                    quota.restart(now, idle)
            self._wanted_at = now
        self._demand = {
            owner: held for owner, held in self._demand.items() if now - held[1] <= _IDLE * self._bin
        }
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
        quota.state.limit = limit if reset is None or reset <= self._window else None
        if remaining is None:
            return
        quota.remain(now, remaining)
        if remaining < min(size, limit or size) and reset is not None:
            refills_slowly = limit is not None and _WHOLE * self._window <= reset <= self._window
            wait = min(size / limit, 1.0) * self._window if refills_slowly and limit else reset
            self._hold_until = max(self._hold_until, now + wait)

    def _refuse(self, now: float, report: RateReport, size: Mapping[Unit, float]) -> None:
        self.quotas[report.cause].cut(now, size[report.cause], first=self._streak == 0)
        pause = min(2.0 ** (self._streak - 1), _LONGEST_PAUSE) * self._bin if self._streak else 0.0
        self._hold_until = max(self._hold_until, now + pause)
        self._epoch += 1
        self._streak += 1

    def _lease(self, now: float, report: RateReport, size: Mapping[Unit, float]) -> Lease:
        requests, tokens = self.quotas["requests"], self.quotas["tokens"]
        rate = requests.rate
        per_minute = None if rate is None else rate * WINDOW / self._window
        spread = requests.learnt or tokens.learnt
        hold = max(0.0, self._hold_until - now)
        room = min(quota.room(now, size[unit]) for unit, quota in self.quotas.items())
        if hold > 0.0:
            room = 0.0
        elif self._streak > 1 and now < self._hold_until + _TRIAL * self._bin:
            room = min(room, 0.0 if self._tried_at >= self._hold_until else 1.0)
            if room and report.wanted:
                self._tried_at = now
        if math.isinf(room):
            return Lease(epoch=self._epoch)
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
            rate=per_minute,
        )

    def _share(self, report: RateReport, room: float) -> int:
        """Return a process's share of the room, which is by demand, so that none waits for ever."""
        if math.isinf(room):
            return report.wanted
        demand = sum(held[0] for held in self._demand.values())
        return math.ceil(room * report.wanted / demand) if report.wanted else 0

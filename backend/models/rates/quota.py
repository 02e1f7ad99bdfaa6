"""One quota of a model, requests or tokens: what may be sent, and what refusals teach about it.

How the provider counts is not known: in fixed windows, in a sliding window, or with a token bucket. What it
accepted over an interval that ends with a refusal is a good estimate for all three:

- over a whole window it is exact for windows of both kinds;
- between two refusals it is exact for a bucket, which was empty both times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from backend.models.rates.counts import BINS, LONG_AGO, Counts

BACK_TO = 0.95
"""The share of the estimated quota that is sent after a refusal."""

STEP = 0.01
"""How much the rate grows in a window without a refusal."""

_STEPS = 6
"""Steps after which the refused rate has been passed without a refusal; from then on steps double."""

_LITTLE = 0.8
_SEARCHING = 4.0
"""How much larger steps are if refusals lowered the rate to less than 80%, perhaps too far, for pauses count.

These steps double from the first one.
"""

_LARGEST_STEP = 0.5
_CALLS_PER_STEP = 30
"""Fewest calls between two steps, so that at a low rate, too, at most 1% of the calls are refused."""

_OUTDATED = 10.0
"""Windows without demand after which the rate grows by the larger steps, for the quota may have risen."""

_USED = 0.85
"""The rate grows only if at least this share of it was used."""

_ENOUGH = 10
"""Calls accepted between two refusals that are enough for an estimate."""

_SECONDS_IN_STORE = 2
"""Bins for whose length unused calls accumulate beyond one call, at a rate that refusals taught."""

_VALID = 1
"""Bins between two exchanges: a leased call may be sent up to that long after it was counted."""

_ROUNDING = 1e-9


@dataclass
class QuotaState:
    """What is stored of a quota. Times are in the seconds of the controller's caller.

    Attributes:
        rate: units per window that refusals taught; ``None`` before any.
        limit: units per window by the provider's headers.
        level: units that may be sent now.
        level_at: when ``level`` was true; ``None`` if it never was.
        since: since when there has been continuous demand.
        anchor: the refusal from which the next estimate counts.
        climbed_at: when the rate last grew.
        climbs: how often it grew since the last refusal.
        steady: whether the last refusals lowered the rate only a little.
        used: units sent since ``climbed_at`` and not refused.
        before: the rate before the refusals in progress.
        sent: units sent, by bin.
        refused: units refused, by bin.
    """

    rate: float | None = None
    limit: float | None = None
    level: float = 0.0
    level_at: float | None = None
    since: float = LONG_AGO
    anchor: float = LONG_AGO
    climbed_at: float = LONG_AGO
    climbs: int = 0
    steady: bool = False
    used: float = 0.0
    before: float | None = None
    sent: Mapping[str, float] = field(default_factory=dict)
    refused: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def load(cls, stored: Mapping[str, Any]) -> QuotaState:
        """Return what :meth:`Quota.dump` returned, also if another version of CaMVo did."""
        known = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in stored.items() if name in known})


class Quota:
    """One quota of a model.

    Args:
        window: seconds; providers count per minute.
        given: units per window in the settings; ``None`` for no limit.
        state: as :meth:`dump` returned it.
    """

    def __init__(self, window: float, given: float | None, state: QuotaState | None = None) -> None:
        self._window, self._given = window, given
        self.state = state or QuotaState()
        self._sent, self._refused = Counts(window, self.state.sent), Counts(window, self.state.refused)

    def dump(self) -> dict[str, Any]:
        """Return the state as JSON can hold it."""
        return asdict(self.state) | {"sent": self._sent.bins, "refused": self._refused.bins}

    @property
    def promised(self) -> float | None:
        """Units per window by the settings and the provider's headers."""
        return min((limit for limit in (self._given, self.state.limit) if limit is not None), default=None)

    @property
    def rate(self) -> float | None:
        """Units per window that may be sent; ``None`` if no limit is known."""
        learnt, promised = self.state.rate, self.promised
        return min((limit for limit in (learnt, promised) if limit is not None), default=None)

    @property
    def learnt(self) -> bool:
        """Whether a refusal taught the rate."""
        return self.state.rate is not None

    def room(self, now: float, size: float) -> float:
        """Return how many calls fit now, infinity for any number.

        Args:
            now: seconds.
            size: units of a call. One that is larger than the whole rate waits until nothing else was sent.
        """
        rate, state = self.rate, self.state
        if rate is None:
            state.level_at = None
            return math.inf
        size = min(size, rate)
        most = size + rate * _SECONDS_IN_STORE / BINS if self.learnt else rate
        if state.level_at is None:
            state.level = 0.0 if self.learnt else most
        else:
            state.level += rate * max(0.0, now - state.level_at) / self._window
        state.level, state.level_at = min(state.level, most), now
        free = state.level
        if self.promised is not None:
            horizon = now - self._window * (1.0 + _VALID / BINS)
            free = min(free, self.promised - self._sent.at_most_since(horizon))
        return max(0.0, math.floor(free / size + _ROUNDING))

    def send(self, now: float, units: float) -> None:
        """Count units as sent; negative ones were counted before and are given back."""
        self.state.level -= units
        self.state.used += units
        if units > 0.0:
            self._sent.add(now, units)
        else:
            self._sent.take_back(-units)

    def refuse(self, now: float, units: float) -> None:
        """Count units as refused."""
        if units > 0.0:
            self.state.used -= units
            self._refused.add(now, units)

    def restart(self, now: float, idle: float) -> None:
        """Begin to measure anew, because there was no demand for ``idle`` seconds."""
        self.state.since = self.state.anchor = now
        if idle > _OUTDATED * self._window:
            self.state.steady, self.state.climbs = False, 0

    def remain(self, now: float, units: float) -> None:
        """Take over what the provider says may still be sent."""
        self.room(now, 1.0)  # adds what has accumulated until now
        self.state.level = min(self.state.level, units)

    def cut(self, now: float, size: float, *, first: bool) -> None:
        """Go back to a share of the rate that the provider seems to accept.

        Args:
            now: when the provider refused.
            size: units of a call.
            first: whether the rate worked until now. If not, earlier refusals have cut it already.
        """
        state, rate = self.state, self.rate
        if first:
            state.before = rate
        state.climbs, state.climbed_at, state.used = 0, now, 0.0
        start = max(state.since, now - self._window)
        if self._accepted(start) < _ENOUGH * size:
            start = now - self._window  # demand has only just begun again
        if self._accepted(start) < 1.0:
            # Nothing has been accepted for a window: this is an outage and says nothing about the quota.
            state.rate = None if state.before is None else state.before / 2
            state.steady = False
            return
        estimates = [self._measured(start, now)]
        if state.anchor > start and self._accepted(state.anchor) >= _ENOUGH * size:
            estimates.append(self._measured(state.anchor, now))
            state.anchor = now
        if first:
            state.anchor = now
        lower = BACK_TO * min(estimates)
        if rate is not None:
            lower = min(lower, BACK_TO * rate if first else rate)
        state.rate, state.level = max(lower, 1.0), min(state.level, 0.0)
        state.steady = state.before is not None and state.rate >= _LITTLE * state.before

    def climb(self, now: float, size: float) -> None:
        """Raise the rate a little, if it has been used for a window without a refusal."""
        state, rate = self.state, self.rate
        if state.rate is None or rate is None:
            return
        elapsed = now - state.climbed_at
        if elapsed < self._window:
            return
        if state.used < _USED * rate * elapsed / self._window:
            state.climbed_at, state.used = now, 0.0
        elif state.used >= _CALLS_PER_STEP * size or not state.steady:
            if state.steady:
                step = STEP * 2.0 ** max(0, state.climbs - _STEPS)
            else:
                step = STEP * _SEARCHING * 2.0**state.climbs
            step = min(step, _LARGEST_STEP)
            raised = state.rate * (1.0 + step)
            state.rate = raised if self.promised is None else min(raised, self.promised)
            state.climbs, state.climbed_at, state.used = state.climbs + 1, now, 0.0

    def _accepted(self, start: float) -> float:
        return self._sent.since(start) - self._refused.since(start)

    def _measured(self, start: float, now: float) -> float:
        """Return the accepted units per window in an interval.

        A short interval can lie in a gap of the provider's window, so it may at most halve the rate.
        """
        seconds = max(now - start, self._window / BINS)
        estimate = self._accepted(start) * self._window / seconds
        if seconds < self._window / 2 and self.rate is not None:
            return max(estimate, self.rate / 2 / BACK_TO)
        return estimate

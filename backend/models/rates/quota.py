"""The rate at which one quota of a provider is used, learnt from what it accepts and refuses.

- After a refusal the model is sent 95% of what the provider accepted. From there the rate grows by 1% a
  window; it grows faster when the refused rate has been passed without a refusal.
- Refusals that go on at rates that the provider accepted before may not come from the rate: somebody else
  uses the quota, or the provider is short of machines. One that comes alone there lowers nothing. After
  three, a trial sends less. If as many are refused, that share is expected from then on, and changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

WINDOW: Final = 60.0
"""Seconds for which providers count. What is sent is counted by the second."""

LONG_AGO = -1e12
"""A time before all others. JSON has no infinity."""


class _Counts:
    """How many units were counted in which second."""

    def __init__(self, bins: Mapping[str, float]) -> None:
        self._bins = {int(number): units for number, units in bins.items()}

    @property
    def bins(self) -> dict[str, float]:
        """The bins, as JSON can hold them."""
        return {str(number): units for number, units in self._bins.items()}

    def add(self, now: float, units: float) -> None:
        """Count units now, and forget what is older than two windows."""
        number = int(now)
        if number not in self._bins:
            self._bins = {other: held for other, held in self._bins.items() if other > number - 2 * WINDOW}
        self._bins[number] = self._bins.get(number, 0.0) + units

    def take_back(self, units: float) -> None:
        """Remove units that were counted last."""
        for number in sorted(self._bins, reverse=True):
            removed = min(units, self._bins[number])
            self._bins[number] -= removed
            units -= removed
            if units <= 0.0:
                return

    def since(self, start: float) -> float:
        """Return the units counted since a time; the bin around that time counts by its later part."""
        return sum(units * min(1.0, max(0.0, number + 1 - start)) for number, units in self._bins.items())

    def at_most_since(self, start: float) -> float:
        """Return the most units that can have been counted since a time."""
        return sum(units for number, units in self._bins.items() if number + 1 > start)


_BACK_TO = 0.95
"""The share of the estimated quota that is sent after a refusal."""

_STEP = 0.01
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

_LEAST_OF_MEASURED = 1 / 8
"""The share of what was accepted to which refusals in a row lower the rate at most; pauses do the rest."""

_ALONE = 10
"""Calls since the refusal before that make a refused call one that came alone: a full quota refuses more."""

_CONTRADICTIONS = 3
"""Refusals at rates that were accepted before, after which a trial shows whether the rate matters at all."""

_SURELY_ACCEPTED = 0.85
"""The share of what was accepted in the last window that is sent in a trial: no steady quota refuses it."""

_FEW, _ENOUGH_REFUSED, _LONGEST_TRIAL = 3, 8, 400
"""Refused calls that a trial needs, and at which it ends; its most calls."""

_LONG, _SHORT = 8.0, 2.0
"""The most windows of a trial, and of one before which the refused share is not known."""

_MUCH_LESS = 0.6
"""The rate matters if a trial's refused share is less than this part of the share before."""

_MOST_SPORADIC = 0.4
"""A larger refused share is an outage, or a quota that has fallen far."""

_FIRST_GAP, _LONGEST_GAP = 2, 128
"""Windows between two trials; they double while these find the same."""

_RECENT = 5
"""Seconds that show at once when far more is refused than expected."""

_TOO_MANY = 3.0
"""Standard errors by which refusals exceed an expected share."""

_SECONDS_IN_STORE = 2
"""Seconds for whose length unused calls accumulate beyond one call, at a rate that refusals taught."""

_VALID = 1
"""Seconds between two exchanges: a leased call may be sent up to that long after it was counted."""

_ROUNDING = 1e-9


@dataclass
class QuotaState:
    """What is stored of a quota. Times are in the seconds of the controller's caller.

    Refusals below ``measured``, the rate that the provider was last seen to accept, are ``contradictions``
    of a quota. ``doubted`` was the rate before them, and ``tried`` and ``declined`` are the units sent and
    refused since; ``seen`` were accepted before the last refusal, and ``apart`` sent since then. A trial
    (``tries``, begun at ``tried_at``) counts them from its beginning; ``suspected`` is the refused share
    before it, 0 if not known, and ``fallback`` the rate afterwards if the rate matters. ``sporadic`` is the
    share that is refused whatever the rate, and is tried again after ``gap`` windows.
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
    apart: float = 0.0
    before: float | None = None
    measured: float | None = None
    doubted: float | None = None
    doubted_at: float = LONG_AGO
    contradictions: int = 0
    seen: float = 0.0
    tried: float = 0.0
    declined: float = 0.0
    tries: bool = False
    suspected: float = 0.0
    fallback: float = 0.0
    sporadic: float = 0.0
    tried_at: float = LONG_AGO
    gap: int = _FIRST_GAP
    sent: Mapping[str, float] = field(default_factory=dict)
    refused: Mapping[str, float] = field(default_factory=dict)


def _excess(share: float, sent: float, refused: float, error: float = 0.0) -> float:
    """Return by how many standard errors more calls were refused than a share with a relative error."""
    sent = max(sent, refused, 1.0)
    expected = sent * share
    return (refused - 1.0 - expected) / math.sqrt(expected * (1.0 - share) + (error * expected) ** 2)


class Quota:
    """One quota of a model."""

    def __init__(self, given: float | None, state: QuotaState) -> None:
        self._given, self.state = given, state
        self._sent, self._refused = _Counts(state.sent), _Counts(state.refused)

    def dump(self) -> dict[str, Any]:
        """Return the state as JSON can hold it."""
        return vars(self.state) | {"sent": self._sent.bins, "refused": self._refused.bins}

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
        """Return how many calls fit now, infinity for any number."""
        rate, state = self.rate, self.state
        if rate is None:
            state.level_at = None
            return math.inf
        size = min(size, rate)  # a call larger than the whole rate waits until nothing else was sent
        most = size + rate * _SECONDS_IN_STORE / WINDOW if self.learnt else rate
        if state.level_at is None:
            state.level = 0.0 if self.learnt else most
        else:
            state.level += rate * max(0.0, now - state.level_at) / WINDOW
        state.level, state.level_at = min(state.level, most), now
        free = state.level
        if self.promised is not None:
            horizon = now - WINDOW - _VALID
            free = min(free, self.promised - self._sent.at_most_since(horizon))
        return max(0.0, math.floor(free / size + _ROUNDING))

    def send(self, now: float, units: float) -> None:
        """Count units as sent; negative ones were counted before and are given back."""
        self.state.level -= units
        self.state.used += units
        self.state.tried += units
        self.state.apart += units
        if units > 0.0:
            self._sent.add(now, units)
        else:
            self._sent.take_back(-units)

    def refuse(self, now: float, units: float) -> None:
        """Count units as refused."""
        if units > 0.0:
            self.state.used -= units
            self.state.declined += units
            self._refused.add(now, units)

    def restart(self, now: float, idle: float) -> None:
        """Restart the measurement, because there was no demand for ``idle`` seconds."""
        self.state.since = self.state.anchor = now
        if idle > _OUTDATED * WINDOW:
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
        start = max(state.since, now - WINDOW)
        if self._accepted(start) < _ENOUGH * size <= self._accepted(now - WINDOW):
            start = now - WINDOW  # demand has only just begun again
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
        lower = _BACK_TO * min(estimates)
        if rate is not None:
            lower = min(lower, _BACK_TO * rate if first else rate)
        if not first and state.measured is not None:
            lower = max(lower, _LEAST_OF_MEASURED * state.measured)
        state.rate, state.level = max(lower, 1.0), min(state.level, 0.0)
        state.steady = state.before is not None and state.rate >= _LITTLE * state.before
        self._doubt(now, size, rate, min(estimates))

    def came_alone(self, refused: float, size: float) -> bool:
        """Whether a refusal of some units came alone, at a rate that the provider was seen to accept."""
        apart, self.state.apart = self.state.apart, 0.0
        return refused <= size and apart >= _ALONE * size and self._is_accepted(self.rate)

    def _is_accepted(self, rate: float | None) -> bool:
        """Whether the provider was last seen to accept a rate."""
        return rate is not None and self.state.measured is not None and rate <= self.state.measured

    def hold(self, now: float, size: float) -> None:
        """Keep the rate after a refusal that came alone, and see whether such refusals go on."""
        state = self.state
        if state.steady:
            state.climbed_at, state.used = now, 0.0
        state.seen = state.tried - state.declined
        share = state.declined / max(state.tried, size)
        self._contradict(now, size, share, _BACK_TO * (self.rate or 1.0))

    def _contradict(self, now: float, size: float, share: float, fallback: float) -> None:
        """Count a refusal at a rate that was accepted; see :meth:`_try` for what follows after some."""
        state = self.state
        state.contradictions += 1
        if state.contradictions >= _CONTRADICTIONS and state.seen >= _ENOUGH * size:
            seconds = max(now - state.doubted_at, 1.0)
            accepted = min(state.seen * WINDOW / seconds, self._accepted(now - WINDOW))
            self._try(now, state.doubted, accepted, share, fallback)

    def _doubt(self, now: float, size: float, rate: float | None, measured: float) -> None:
        """See whether refusals go on, among accepted calls, at rates that the provider was seen to accept."""
        state = self.state
        accepted, state.seen = state.tried - state.declined - state.seen, state.tried - state.declined
        contradicted, state.measured = self._is_accepted(rate), measured
        if contradicted and accepted >= size:
            self._contradict(now, size, 0.0, state.rate or measured)
        else:  # a quota that is used up refuses one call after another
            state.doubted, state.doubted_at, state.contradictions = rate or measured, now, 0
            state.tried = state.declined = state.seen = 0.0

    @property
    def forgiving(self) -> bool:
        """Whether refusals are expected, so that one of them stops no other call."""
        return self.state.tries or self.state.sporadic > 0.0

    def expects(self, now: float, size: float) -> bool:
        """Return whether a refusal changes nothing, for it is one of those that do not depend on the rate."""
        state = self.state
        if not self.forgiving:
            return False
        if state.tries:
            sent, refused = state.tried, state.declined
        else:
            start = max(state.climbed_at, now - _RECENT)
            sent, refused = self._sent.since(start), self._refused.since(start)
        if _excess(_MOST_SPORADIC, sent / size, refused / size) <= _TOO_MANY:
            return True
        if state.tries:
            state.tries, state.measured = False, state.fallback
        return False

    def _try(
        self, now: float, rate: float | None, accepted: float, share: float, fallback: float | None = None
    ) -> None:
        """Begin to send less than was accepted, to see whether the refused share depends on the rate.

        Args:
            now: seconds.
            rate: the rate to go back to if it does not; ``None`` for no limit.
            accepted: units per window that the provider was seen to accept.
            share: the share that is refused at the present rate; 0 if that is not known.
            fallback: the rate to go back to if the rate matters; ``None`` for what was accepted.
        """
        state = self.state
        state.tries, state.tried_at, state.doubted, state.suspected = True, now, rate, share
        state.fallback, state.measured = fallback or _BACK_TO * accepted, None
        state.rate, state.level = max(_SURELY_ACCEPTED * accepted, 1.0), min(state.level, 0.0)
        state.tried = state.declined = state.seen = state.contradictions = 0

    def _differs(self, now: float, size: float) -> None:
        """Begin a trial if far more is refused than the last one found, or if it was long ago."""
        state, start = self.state, now - WINDOW
        sent, refused = self._sent.since(start), self._refused.since(start)
        if _excess(state.sporadic, sent / size, refused / size, _ENOUGH_REFUSED**-0.5) > _TOO_MANY:
            self._try(now, self.rate, sent - refused, refused / max(sent, refused))
        elif now - state.tried_at > state.gap * WINDOW:
            self._try(now, self.rate, sent - refused, state.sporadic)

    def _end_trial(self, now: float, size: float) -> None:
        """See whether the rate made a difference, once enough was tried."""
        state = self.state
        expected = state.suspected * state.tried / size
        clear = state.declined == 0.0 and expected >= _FEW
        few = state.declined < _ENOUGH_REFUSED * size and state.tried < _LONGEST_TRIAL * size and not clear
        windows, most = (now - state.tried_at) / WINDOW, _LONG if state.suspected else _SHORT
        if windows < _RECENT / WINDOW or (few and windows < most):
            return
        state.tries, state.tried_at, state.climbed_at, state.used = False, now, now, 0.0
        share = state.declined / max(state.tried, size) if state.declined >= _FEW * size else 0.0
        if share > _MOST_SPORADIC:
            state.rate = state.measured = state.fallback
        elif share > _MUCH_LESS * state.suspected:
            state.gap = min(2 * state.gap, _LONGEST_GAP) if state.sporadic else _FIRST_GAP
            state.sporadic, state.rate = share, state.doubted
        else:
            state.gap, state.sporadic = _FIRST_GAP, share
            unknown = 0.0 < expected < _FEW
            rate = state.fallback / _BACK_TO if unknown else state.fallback
            state.rate = state.measured = max(rate / (1.0 - share), 1.0)
            state.steady = state.doubted is not None and state.rate >= _LITTLE * state.doubted
        state.doubted_at, state.tried, state.declined, state.seen = now, 0.0, 0.0, 0.0

    def climb(self, now: float, size: float) -> None:
        """Raise the rate a little, if it has been used for a window without a refusal."""
        state, rate = self.state, self.rate
        if state.tries:
            self._end_trial(now, size)
        elif state.sporadic and now - state.tried_at >= WINDOW:
            self._differs(now, size)
        if state.tries or state.rate is None or rate is None:
            return
        elapsed = now - state.climbed_at
        if elapsed < WINDOW:
            return
        if state.used < _USED * (1.0 - state.sporadic) * rate * elapsed / WINDOW:
            state.climbed_at, state.used = now, 0.0
        elif state.used >= _CALLS_PER_STEP * size or not state.steady:
            if state.steady:
                step = _STEP * 2.0 ** max(0, state.climbs - _STEPS)
            else:
                step = _STEP * _SEARCHING * 2.0**state.climbs
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
        seconds = max(now - start, 1.0)
        estimate = self._accepted(start) / (1.0 - self.state.sporadic) * WINDOW / seconds
        if seconds < WINDOW / 2 and self.rate is not None:
            return max(estimate, self.rate / 2 / _BACK_TO)
        return estimate

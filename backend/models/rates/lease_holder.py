"""One process's lease of a model: what may still be sent, and what the next report says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from backend.models.rates.messages import Lease, RateReport
from backend.models.rates.outcomes import CallEnd, RateTally

_VALID = 2.0
"""Periods for which a lease may be used."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A call that was let through.

    Attributes:
        tokens: the tokens that it will probably use.
        epoch: the epoch of its lease.
        arrival: its place in the queue, which it keeps if the provider refuses it.
    """

    tokens: float
    epoch: int
    arrival: int


class LeaseHolder:
    """Holds the current lease of one process.

    Args:
        period: seconds between two reports.
    """

    def __init__(self, period: float) -> None:
        self._period = period
        self._lease: Lease | None = None
        self._calls = self._tokens = 0.0
        self._valid_until = self._next_at = -float("inf")
        self._counted = self._stopped = self.is_made_up = False
        self._sent_since_report = 0
        self._tally = RateTally()

    @property
    def pause(self) -> float:
        """Seconds between two calls of this lease; 0 if they need not be spread."""
        lease = self._lease
        return self._period / lease.calls if lease is not None and lease.calls and lease.spread else 0.0

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
        """Take in how a call ended. A refusal stops all others until the next lease says how to go on."""
        self._tally.add(passage.tokens, passage.epoch, end, now)
        if end.tokens is not None:
            self._return_tokens(passage.tokens - end.tokens)
        if end.refused and self._lease is not None and passage.epoch >= self._lease.epoch:
            self._stopped = True

    def report(self, waiting: Sequence[float], now: float) -> tuple[RateReport, RateTally] | None:
        """Return the next report and what it is made of; ``None`` if there is nothing to tell or to send.

        Args:
            waiting: the tokens of the calls that wait.
            now: seconds.
        """
        if self._counted:
            self._tally.unused += int(self._calls)
            self._tally.unused_tokens += self._tokens
        self._calls = self._tokens = 0.0
        sent, self._sent_since_report = self._sent_since_report, 0
        tally = self._tally
        if not waiting and not sent and tally.is_empty:
            return None
        self._tally = RateTally()
        # What will arrive until the next report is not known; what is not used is given back.
        wanted = 2 * len(waiting) + sent
        mean = sum(waiting) / len(waiting) if waiting else tally.mean_tokens
        return tally.report(wanted, wanted * mean, now), tally

    def renew(self, lease: Lease, asked_at: float) -> None:
        """Go on with a new lease, which was asked for at a time."""
        self._replace(lease, asked_at, counted=lease.calls is not None)
        self.is_made_up = False

    def make_up(self, unreported: RateTally, asked_at: float) -> None:
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

    def repeat(self, unreported: RateTally) -> None:
        """Add what could not be reported to the next report."""
        self._tally.merge(unreported)

    def _replace(self, lease: Lease, asked_at: float, *, counted: bool) -> None:
        self._lease, self._stopped, self._counted = lease, False, counted
        self._calls, self._valid_until = float(lease.calls or 0), asked_at + _VALID * self._period
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

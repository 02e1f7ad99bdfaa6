"""How calls ended, and their sum until the next report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from backend.models.rates.messages import Allowance, RateReport, Unit


@dataclass(frozen=True, slots=True)
class CallEnd:
    """How one call ended.

    Attributes:
        seconds: the duration of a call that was answered.
        timed_out: whether the model gave no answer in time.
        refused: whether the provider refused the call because of a quota.
        cause: which quota.
        wait: seconds that the provider asks to wait.
        tokens: the tokens that the call used; ``None`` if unknown.
        allowances: what the response's headers say.
    """

    seconds: float | None = None
    timed_out: bool = False
    refused: bool = False
    cause: Unit = "requests"
    wait: float = 0.0
    tokens: float | None = None
    allowances: Mapping[Unit, Allowance] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(slots=True)
class RateTally:
    """What happened since the last report. The fields are those of :class:`RateReport`."""

    sent: int = 0
    sent_tokens: float = 0.0
    unused: int = 0
    unused_tokens: float = 0.0
    refused: int = 0
    refused_tokens: float = 0.0
    refused_epoch: int = -1
    cause: Unit = "requests"
    not_before: float = -float("inf")
    allowances: dict[Unit, Allowance] = field(default_factory=dict)
    mean_tokens: float = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell."""
        told = self.sent, self.unused, self.unused_tokens, self.refused, len(self.allowances)
        return not any(told) and self.not_before == -float("inf")

    def add(self, tokens: float, epoch: int, end: CallEnd, now: float) -> None:
        """Add a call that has ended.

        Args:
            tokens: its expected tokens.
            epoch: the epoch in which it was sent.
            end: how it ended.
            now: seconds, by the clock of :meth:`report`.
        """
        self.mean_tokens = tokens
        if end.refused:
            self.refused += 1
            self.refused_tokens += tokens
            if epoch >= self.refused_epoch:
                self.refused_epoch, self.cause = epoch, end.cause
        if end.wait:
            self.not_before = max(self.not_before, now + end.wait)
        self.allowances |= end.allowances

    def merge(self, earlier: RateTally) -> None:
        """Add a tally that could not be reported."""
        self.sent += earlier.sent
        self.sent_tokens += earlier.sent_tokens
        self.unused += earlier.unused
        self.unused_tokens += earlier.unused_tokens
        self.refused += earlier.refused
        self.refused_tokens += earlier.refused_tokens
        if earlier.refused_epoch > self.refused_epoch:
            self.refused_epoch, self.cause = earlier.refused_epoch, earlier.cause
        self.not_before = max(self.not_before, earlier.not_before)
        self.allowances = earlier.allowances | self.allowances

    def report(self, wanted: int, wanted_tokens: float, now: float) -> RateReport:
        """Return the report of this tally."""
        return RateReport(
            owner="",
            wanted=wanted,
            wanted_tokens=wanted_tokens,
            sent=self.sent,
            sent_tokens=self.sent_tokens,
            unused=self.unused,
            unused_tokens=self.unused_tokens,
            refused=self.refused,
            refused_tokens=self.refused_tokens,
            refused_epoch=self.refused_epoch,
            cause=self.cause,
            wait=max(0.0, self.not_before - now),
            allowances=dict(self.allowances),
        )

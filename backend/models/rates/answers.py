"""What a process reports of its calls, and what it is leased: the words of the gate and the controller."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal, Protocol, TypeAlias

from backend.settings import ModelSettings

Unit: TypeAlias = Literal["requests", "tokens"]
"""What quotas are counted in."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a provider's headers say about one quota.

    Attributes:
        limit: units per window; ``None`` if not reported.
        remaining: units that may still be sent; ``None`` if not reported.
        reset: seconds until all units are available again; ``None`` if not reported.
    """

    limit: float | None = None
    remaining: float | None = None
    reset: float | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """What one process may send until its next report.

    Attributes:
        calls: how many calls; ``None`` for any number.
        tokens: how many tokens.
        limits_tokens: whether no call may start after the tokens are used up.
        epoch: grows whenever the provider refuses. A refusal of a call from an earlier epoch teaches nothing.
        hold: seconds in which nothing may be sent.
        spread: whether the calls must be spread evenly over the time until the next report.
        stops: whether a refusal stops the other calls until the next report.
        rate: requests per minute that all processes together may send; ``None`` if no limit is known.
    """

    calls: int | None = None
    tokens: float = 0.0
    limits_tokens: bool = False
    epoch: int = 0
    hold: float = 0.0
    spread: bool = False
    stops: bool = True
    rate: float | None = None


class RateStore(Protocol):
    """Exchanges reports for leases."""

    async def exchange(self, model: ModelSettings, report: RateReport) -> Lease:
        """Take a process's report about a model, and return what the process may send next.

        Raises:
            LedgerError: the database failed.
        """
        ...


Clock = Callable[[], float]

_PREFIX = "llm_provider-"
_UNITS: tuple[Unit, ...] = ("requests", "tokens")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_LONGEST_WAIT = 3600.0
"""The longest "retry after" that is honoured, seconds."""

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def response_headers(response: Any) -> dict[str, str]:
    """Return the provider's headers of a litellm response, names in lower case."""
    hidden = getattr(response, "_hidden_params", None) or {}
    headers = hidden.get("additional_headers") if isinstance(hidden, Mapping) else None
    if not isinstance(headers, Mapping):
        return {}
    return {str(name).lower().removeprefix(_PREFIX): str(value) for name, value in headers.items()}


def error_headers(error: BaseException) -> dict[str, str]:
    """Return the provider's headers of a litellm exception, names in lower case."""
    headers = getattr(error, "litellm_response_headers", None)
    if headers is None:
        headers = getattr(getattr(error, "response", None), "headers", None)
    if not isinstance(headers, Mapping):
        return {}
    return {str(name).lower(): str(value) for name, value in headers.items()}


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in ``retry-after``, at most an hour; a date is ignored."""
    seconds = _number(headers.get("retry-after"))
    return None if seconds is None else min(seconds, _LONGEST_WAIT)


def allowances(headers: Mapping[str, str]) -> dict[Unit, Allowance]:
    """Return what the headers say about each quota; a quota that they do not mention is absent."""
    if not any("-ratelimit-" in name for name in headers):
        return {}
    stated = {unit: _allowance(headers, unit) for unit in _UNITS}
    return {unit: allowance for unit, allowance in stated.items() if allowance != Allowance()}


def refusing_unit(error: BaseException) -> Unit:
    """Return which quota an exception says is exhausted; requests, if it does not say."""
    body = getattr(error, "body", None)
    if isinstance(body, Mapping) and body.get("type") == "tokens":
        return "tokens"
    left = allowances(error_headers(error))
    exhausted = [unit for unit, allowance in left.items() if allowance.remaining == 0.0]
    return "tokens" if exhausted == ["tokens"] else "requests"


def _allowance(headers: Mapping[str, str], unit: Unit) -> Allowance:
    reset = _value(headers, unit, "reset")
    return Allowance(
        limit=_number(_value(headers, unit, "limit")),
        remaining=_number(_value(headers, unit, "remaining")),
        reset=_number(reset) if _number(reset) is not None else _time_left(reset, headers.get("date")),
    )


def _value(
    headers: Mapping[str, str], unit: Unit, kind: Literal["limit", "remaining", "reset"]
) -> str | None:
    return headers.get(f"x-ratelimit-{kind}-{unit}") or headers.get(f"anthropic-ratelimit-{unit}-{kind}")


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "nan")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _time_left(value: str | None, date: str | None) -> float | None:
    """Return the seconds in a duration (``1m2.5s``), or from the response's date to a time."""
    if value is None:
        return None
    parts = _DURATION.findall(value)
    if parts and "".join(number + unit for number, unit in parts) == value.strip():
        return sum(float(number) * _SECONDS[unit] for number, unit in parts)
    try:
        # Both times are of the provider's clock.
        return max(0.0, (datetime.fromisoformat(value) - parsedate_to_datetime(date or "")).total_seconds())
    except (TypeError, ValueError):
        return None


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
    allowances: Mapping[Unit, Allowance] = field(default_factory=dict)


@dataclass(slots=True)
class RateReport:
    """What happened in one process since its last report, and what it wants to do next.

    Attributes:
        owner: the process.
        wanted: calls that wait, or are expected until the next report.
        wanted_tokens: their tokens.
        sent: calls that were sent without a lease, because the rate was unlimited.
        sent_tokens: their tokens.
        unused: leased calls that are given back.
        unused_tokens: leased tokens that are given back; negative if calls used more than was leased.
        refused: calls that the provider refused (HTTP 429).
        refused_tokens: their tokens.
        refused_epoch: the latest epoch in which a refused call was sent.
        cause: which quota was exhausted, if the provider reported it.
        wait: seconds from now that the provider asks to wait.
        allowances: what the headers of the last responses said.
        not_before: until when the provider asks to wait, by the process's clock.
        last_tokens: the expected tokens of the call that ended last.
    """

    owner: str = ""
    wanted: int = 0
    wanted_tokens: float = 0.0
    sent: int = 0
    sent_tokens: float = 0.0
    unused: int = 0
    unused_tokens: float = 0.0
    refused: int = 0
    refused_tokens: float = 0.0
    refused_epoch: int = -1
    cause: Unit = "requests"
    wait: float = 0.0
    allowances: Mapping[Unit, Allowance] = field(default_factory=dict)
    not_before: float = -math.inf
    last_tokens: float = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether nothing has happened."""
        counts = self.sent, self.unused, self.unused_tokens, self.refused, len(self.allowances)
        return not any(counts) and self.not_before == -math.inf

    def add(self, tokens: float, epoch: int, end: CallEnd, now: float) -> None:
        """Add a call that has ended, with its expected tokens and the epoch in which it was sent."""
        self.last_tokens = tokens
        if end.refused:
            self.refused += 1
            self.refused_tokens += tokens
            if epoch >= self.refused_epoch:
                self.refused_epoch, self.cause = epoch, end.cause
        if end.wait:
            self.not_before = max(self.not_before, now + end.wait)
        self.allowances = {**self.allowances, **end.allowances}

    def merge(self, earlier: RateReport) -> None:
        """Add what happened by a report that did not arrive."""
        self.sent += earlier.sent
        self.sent_tokens += earlier.sent_tokens
        self.unused += earlier.unused
        self.unused_tokens += earlier.unused_tokens
        self.refused += earlier.refused
        self.refused_tokens += earlier.refused_tokens
        if earlier.refused_epoch > self.refused_epoch:
            self.refused_epoch, self.cause = earlier.refused_epoch, earlier.cause
        self.not_before = max(self.not_before, earlier.not_before)
        self.allowances = {**earlier.allowances, **self.allowances}

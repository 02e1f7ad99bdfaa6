"""What a process tells the controller of a model's rates, and what it gets: a lease."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias

Unit: TypeAlias = Literal["requests", "tokens"]
"""What quotas are counted in."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a provider's headers say about one quota.

    Attributes:
        limit: units per window; ``None`` if not told.
        remaining: units that may still be sent; ``None`` if not told.
        reset: seconds until all units are available again; ``None`` if not told.
    """

    limit: float | None = None
    remaining: float | None = None
    reset: float | None = None


@dataclass(frozen=True, slots=True)
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
        cause: which quota refused, if the provider told.
        wait: seconds from now that the provider asks to wait.
        allowances: what the headers of the last responses said.
    """

    owner: str
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
    allowances: Mapping[Unit, Allowance] = field(default_factory=lambda: MappingProxyType({}))


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
        rate: requests per minute that all processes together may send; ``None`` if no limit is known.
    """

    calls: int | None = None
    tokens: float = 0.0
    limits_tokens: bool = False
    epoch: int = 0
    hold: float = 0.0
    spread: bool = False
    rate: float | None = None

"""Numbers, money and times as people read them, on the page and on the terminal."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from backend.server.status.evidence import Share

_NOTHING = "–"


def count(value: int | None) -> str:
    """A whole number with narrow spaces between the thousands."""
    return _NOTHING if value is None else f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def of(value: int, noun: str) -> str:
    """A number and its noun: ``1 label``, ``2 labels``."""
    return f"{count(value)} {noun}" + ("" if value == 1 else "s")


def dollars(value: float | None) -> str:
    """Dollars: with cents from $100 on, with four decimals from a cent on, with three digits below."""
    if value is None:
        return _NOTHING
    if value >= 100.0:
        return f"${value:,.2f}"
    if value >= 0.01 or value <= 0.0:
        return f"${value:.4f}" if value else "$0"
    decimals = 2 - math.floor(math.log10(value))
    return f"${value:.{decimals}f}".rstrip("0")


def percent(value: float | None) -> str:
    """A share in [0, 1] as a percentage with one decimal."""
    return _NOTHING if value is None else f"{100.0 * value:.1f}%"


def share_of_hundred(value: float) -> str:
    """A share that a person has set, without decimals that say nothing: ``90%``, ``97.5%``."""
    return f"{100.0 * value:.4g}%"


def interval(value: Share) -> str:
    """The 95% interval of a share; empty without data."""
    if value.low is None or value.high is None:
        return ""
    return f"{100.0 * value.low:.1f}–{100.0 * value.high:.1f}%"


def seconds(value: float | None) -> str:
    """A duration in seconds."""
    return _NOTHING if value is None else f"{value:.2f} s" if value < 10.0 else f"{value:.0f} s"


def moment(value: float | None) -> str:
    """A time in UTC, to the minute."""
    if value is None:
        return _NOTHING
    time = datetime.fromtimestamp(value, UTC)
    return f"{time.day} {time:%b %Y, %H:%M} UTC"


def iso(value: float) -> str:
    """A time in ISO 8601, for machines."""
    return datetime.fromtimestamp(value, UTC).isoformat(timespec="seconds")

"""The report as one HTML page that loads nothing: no script, no font, no image."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from backend.server.status.report import Report, Share

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""What a browser is told with the page."""

_NOTHING = "–"


def render(report: Report) -> str:
    """The page."""
    return _environment().get_template("status.html").render(report=report)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("backend.server.status"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "count": count,
        "dollars": dollars,
        "interval": interval,
        "moment": moment,
        "iso": iso,
        "of": of,
        "percent": percent,
        "seconds": seconds,
    }
    return made


def count(value: int | None) -> str:
    """A whole number with thin spaces between the thousands."""
    return _NOTHING if value is None else f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def of(value: int, noun: str) -> str:
    """A number of things: ``1 label``, ``2 labels``."""
    return f"{count(value)} {noun}" + ("" if value == 1 else "s")


def dollars(value: float | None) -> str:
    """Dollars: cents from 100 $ on, four decimals from a cent on, three digits below."""
    if value is None:
        return _NOTHING
    if value >= 100.0:
        return f"${value:,.2f}"
    return f"${value:.4f}" if value >= 0.01 else f"${value:.3g}"


def percent(value: float | None) -> str:
    """A share in [0, 1] with one decimal of a percent."""
    return _NOTHING if value is None else f"{100.0 * value:.1f}%"


def interval(value: Share) -> str:
    """The 95% interval of a share."""
    if value.low is None or value.high is None:
        return ""
    return f"{100.0 * value.low:.1f}–{100.0 * value.high:.1f}%"


def seconds(value: float | None) -> str:
    """How long something took."""
    return _NOTHING if value is None else f"{value:.2f} s" if value < 10.0 else f"{value:.0f} s"


def moment(value: float | None) -> str:
    """A time in UTC, to the minute."""
    if value is None:
        return _NOTHING
    time = datetime.fromtimestamp(value, UTC)
    return f"{time.day} {time:%b %Y, %H:%M} UTC"


def iso(value: float) -> str:
    """A time as machines read it."""
    return datetime.fromtimestamp(value, UTC).isoformat(timespec="seconds")

"""The report as one HTML page that loads nothing: no script, no font, no image."""

from __future__ import annotations

from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from backend.server.status import formats
from backend.server.status.report import Report

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""HTTP headers that are sent with the page."""


def render_page(report: Report) -> str:
    """The report as HTML."""
    return _environment().get_template("status.html").render(report=report)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("backend.server.status"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": formats.count,
        "dollars": formats.dollars,
        "interval": formats.interval,
        "moment": formats.moment,
        "iso": formats.iso,
        "of": formats.of,
        "percent": formats.percent,
        "seconds": formats.seconds,
    }
    return environment

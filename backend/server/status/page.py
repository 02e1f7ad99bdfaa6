"""The report as one HTML page that loads nothing: no script, no font, no image."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from backend.server.status import formats
from backend.server.status.report import ProjectReport, Report

if TYPE_CHECKING:
    from backend.server.status.drawings.drawing import Drawing

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


def render_page(report: Report, *, overview: bool) -> str:
    """The report as HTML.

    Args:
        report: the report.
        overview: whether several projects are listed in one table; else the page is about the first one.
    """
    project = None if overview or not report.projects else report.projects[0]
    return (
        _environment()
        .get_template("status.html")
        .render(
            report=report,
            project=project,
            several=project is not None and sum(question.current for question in project.questions) > 1,
            charts={} if project is None else _drawings(project),
            by_host=_by_host(report.projects),
        )
    )


def _drawings(project: ProjectReport) -> dict[str, list[Drawing]]:
    from backend.server.status.drawings.of_project import drawings  # noqa: PLC0415 - matplotlib is slow to load

    return drawings(project)


def _by_host(projects: Sequence[ProjectReport]) -> list[tuple[str, list[ProjectReport]]]:
    """The projects of each Label Studio, so that two of them are kept apart."""
    hosts: dict[str, list[ProjectReport]] = {}
    for project in projects:
        hosts.setdefault(_host(project.label_studio), []).append(project)
    return list(hosts.items())


def _host(address: str | None) -> str:
    """An address without its scheme."""
    return (address or "").partition("://")[2]


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
        "host": _host,
        "dollars": formats.dollars,
        "interval": formats.interval,
        "moment": formats.moment,
        "iso": formats.iso,
        "of": formats.of,
        "percent": formats.percent,
        "seconds": formats.seconds,
    }
    return environment

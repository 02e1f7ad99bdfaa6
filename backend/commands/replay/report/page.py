"""The page of a report, and all its files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from backend.charts.style import WIDTH, Picture, style
from backend.charts.svg import inline, svg
from backend.commands.replay.report.blocks import over_blocks
from backend.commands.replay.report.calibration import reliability_diagrams, risk_coverage
from backend.commands.replay.report.calls import calls_per_model
from backend.commands.replay.report.cost_accuracy import cost_accuracy
from backend.commands.replay.report.data import ReportData
from backend.commands.replay.report.folder import MARK, PAGE
from backend.commands.replay.report.numbers import columns, findings, label_rows, targets
from backend.commands.replay.report.rounds import over_rounds

_PICTURES: tuple[Callable[[ReportData], Picture | None], ...] = (
    cost_accuracy,
    over_rounds,
    over_blocks,
    reliability_diagrams,
    risk_coverage,
    calls_per_model,
)


class _Figure(NamedTuple):
    picture: Picture
    element: Markup

    @property
    def width(self) -> float:
        """How much of the page's width it takes, in percent."""
        return float(round(100 * self.picture.figure.get_figwidth() / WIDTH, 1))


def write_page(folder: Path, data: ReportData, title: str) -> None:
    """Draw every picture and write the page that shows them."""
    with style():
        pictures = [picture for draw in _PICTURES if (picture := draw(data)) is not None]
        figures = [_Figure(picture, _save(folder, picture)) for picture in pictures]
    page = Environment(
        loader=PackageLoader("backend.commands.replay.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template("page.html.j2")
    html = page.render(
        title=title,
        mark=Markup(MARK),  # noqa: S704 - a constant
        data=data,
        findings=findings(data),
        targets=targets(data),
        columns=columns(data),
        figures=figures,
        label_rows=label_rows,
    )
    (folder / PAGE).write_text(html, encoding="utf-8")


def _save(folder: Path, picture: Picture) -> Markup:
    """Write the picture as PNG and SVG, and return what the page shows."""
    document = svg(picture)
    (folder / f"{picture.name}.svg").write_text(document, encoding="utf-8")
    picture.figure.savefig(folder / f"{picture.name}.png", metadata={"Software": None})
    return Markup(inline(document, picture.name, picture.alt))  # noqa: S704 - drawn text, escaped alt

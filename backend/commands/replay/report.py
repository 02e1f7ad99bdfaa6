"""The page of a report, and all its files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from backend.charts.charts import WIDTH, Picture, inline, style, svg
from backend.commands.replay.report_blocks import PICTURES
from backend.commands.replay.report_data import ReportData
from backend.commands.replay.study import MARK, PAGE, ReplayRun, Summary, new_report_folder
from camvo.replays.replay import VotesTable


def draw_report(
    directory: Path,
    table: VotesTable,
    runs: Sequence[ReplayRun],
    summaries: Sequence[Summary],
    *,
    title: str = "CaMVo replay",
) -> None:
    """Write ``index.html`` and its pictures, each as PNG and SVG.

    The page needs no network, no scripts and no other file. The same replay gives the same bytes. Without
    truth, the parts that need it are left out.
    """
    data = ReportData.of(table, runs, summaries)
    with new_report_folder(directory) as new:
        _write_page(new, data, title)


class _Figure(NamedTuple):
    picture: Picture
    element: Markup

    @property
    def width(self) -> float:
        """How much of the page's width it takes, in percent."""
        return float(round(100 * self.picture.figure.get_figwidth() / WIDTH, 1))


def _write_page(folder: Path, data: ReportData, title: str) -> None:
    """Draw every picture and write the page that shows them."""
    with style():
        pictures = [picture for draw in PICTURES if (picture := draw(data)) is not None]
        figures = [_Figure(picture, _save(folder, picture)) for picture in pictures]
    page = Environment(
        loader=PackageLoader("backend.commands", "resources"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template("replay.html.j2")
    html = page.render(
        title=title,
        mark=Markup(MARK),  # noqa: S704 - a constant
        data=data,
        columns=data.columns(),
        figures=figures,
    )
    (folder / PAGE).write_text(html, encoding="utf-8")


def _save(folder: Path, picture: Picture) -> Markup:
    """Write the picture as PNG and SVG, and return what the page shows."""
    document = svg(picture)
    (folder / f"{picture.name}.svg").write_text(document, encoding="utf-8")
    picture.figure.savefig(folder / f"{picture.name}.png", metadata={"Software": None})
    return Markup(inline(document, picture.name, picture.alt))  # noqa: S704 - drawn text, escaped alt

"""A report: its folder, its page, and all its files. Only drawing one loads matplotlib."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

from backend.commands.replay.runs import ReplayRun, Summary
from backend.server.status.formats import templates
from camvo.errors import CamvoError
from camvo.replays.replay import VotesTable

if TYPE_CHECKING:
    from backend.charts import Picture
    from backend.commands.replay.report_data import ReportData

_PAGE = "index.html"
_MARK = '<meta name="generator" content="camvo replay">'
_PICTURES = ("blocks", "calls", "cost-accuracy", "over-rounds", "reliability", "risk-coverage")
_OURS = (*(f"{name}.{kind}" for name in _PICTURES for kind in ("png", "svg")), _PAGE)
"""Every file that a report may have; the page comes last."""


def _require_replaceable(directory: Path) -> None:
    """Refuse a folder that a report must not be written to. Unrelated files in it are left alone."""
    try:
        if directory.exists() and not directory.is_dir():
            raise CamvoError("is not a folder", where=str(directory), fix="give --report another folder")
        existing = [name for name in _OURS if (directory / name).exists()]
        if existing and not _is_report(directory / _PAGE):
            raise CamvoError(
                f"has a file {existing[0]} that is not from a report",
                where=str(directory),
                fix="give --report another folder",
            )
    except OSError as error:
        raise _unwritable(directory, error) from error


def require_drawable(directory: Path) -> None:
    """Check that a report can be drawn into a folder, before hours of work."""
    if find_spec("matplotlib") is None:
        raise CamvoError("a report needs matplotlib", where="--report", fix='pip install "camvo[server]"')
    _require_replaceable(directory)


@contextmanager
def _new_report_folder(directory: Path) -> Iterator[Path]:
    """Open a temporary folder that becomes the report when the block ends, or is dropped if it fails.

    A new report appears as a whole. In an existing folder, its files replace those of an earlier report one
    by one, the page last; pictures that the new report lacks are removed.
    """
    _require_replaceable(directory)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        near = directory if directory.exists() else directory.parent
        with tempfile.TemporaryDirectory(dir=near, prefix=".camvo-report-") as folder:
            new = Path(folder) / "report"
            new.mkdir()
            yield new
            _place(new, directory)
    except OSError as error:
        raise _unwritable(directory, error) from error


def _place(new: Path, directory: Path) -> None:
    if not directory.exists():
        new.rename(directory)
        return
    for name in _OURS:
        if (new / name).exists():
            os.replace(new / name, directory / name)
        else:
            (directory / name).unlink(missing_ok=True)


def _is_report(page: Path) -> bool:
    return page.is_file() and _MARK in page.read_text(encoding="utf-8", errors="replace")


def _unwritable(directory: Path, error: OSError) -> CamvoError:
    return CamvoError(
        f"the report cannot be written: {error.strerror or error}",
        where=str(directory),
        fix="give --report another folder",
    )


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
    from backend.commands.replay.report_data import ReportData  # noqa: PLC0415 - loads matplotlib

    data = ReportData.of(table, runs, summaries)
    with _new_report_folder(directory) as new:
        _write_page(new, data, title)


class _Figure(NamedTuple):
    picture: Picture
    element: Markup

    @property
    def width(self) -> float:
        """How much of the page's width it takes, in percent."""
        from backend.charts import WIDTH  # noqa: PLC0415 - loads matplotlib

        return float(round(100 * self.picture.figure.get_figwidth() / WIDTH, 1))


def _write_page(folder: Path, data: ReportData, title: str) -> None:
    """Draw every picture and write the page that shows them."""
    from backend.charts import style  # noqa: PLC0415 - loads matplotlib
    from backend.commands.replay.report_blocks import PICTURES  # noqa: PLC0415 - loads matplotlib

    with style():
        pictures = [picture for draw in PICTURES if (picture := draw(data)) is not None]
        figures = [_Figure(picture, _save(folder, picture)) for picture in pictures]
    page = templates("backend.commands", "resources").get_template("replay.html.j2")
    html = page.render(
        title=title,
        mark=Markup(_MARK),  # noqa: S704 - a constant
        data=data,
        columns=data.columns(),
        figures=figures,
    )
    (folder / _PAGE).write_text(html, encoding="utf-8")


def _save(folder: Path, picture: Picture) -> Markup:
    """Write the picture as PNG and SVG, and return what the page shows."""
    from backend.charts import inline, svg  # noqa: PLC0415 - loads matplotlib

    document = svg(picture)
    (folder / f"{picture.name}.svg").write_text(document, encoding="utf-8")
    picture.figure.savefig(folder / f"{picture.name}.png", metadata={"Software": None})
    return Markup(inline(document, picture.name, picture.alt))  # noqa: S704 - drawn text, escaped alt

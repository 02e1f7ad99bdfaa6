"""``camvo replay --report``: pictures of a replay, and a page with them and the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from backend.commands.replay.report import folder
from backend.commands.replay.results import ReplayRun, Summary
from camvo.errors import CamvoError
from camvo.replays.votes_table import VotesTable


def require_drawable(directory: Path) -> None:
    """Check that a report can be drawn into a folder, before hours of work.

    Raises:
        CamvoError: matplotlib is not installed, or the folder has a file that must not be replaced.
    """
    if find_spec("matplotlib") is None:
        raise CamvoError("a report needs matplotlib", where="--report", fix='pip install "camvo[server]"')
    folder.require_replaceable(directory)


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

    Args:
        directory: created if missing. A report in it is replaced; other files are left alone.
        table: the table that was replayed.
        runs: all runs.
        summaries: one for each setting, in the order of the report.
        title: the title of the page, plain text.

    Raises:
        CamvoError: as :func:`require_drawable`, or the folder cannot be written.
        InvalidParameterError: there is no setting, or a summary has no run.
    """
    require_drawable(directory)
    from backend.commands.replay.report.data import report_data  # noqa: PLC0415 - keeps the help fast
    from backend.commands.replay.report.page import write_page  # noqa: PLC0415 - matplotlib is optional

    data = report_data(table, runs, summaries)
    with folder.new_report_folder(directory) as new:
        write_page(new, data, title)

"""``camvo replay --report``: pictures of a replay, and a page that shows them with the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from backend.commands.replay.report import folder
from backend.commands.replay.results import Run, Summary
from camvo.errors import CamvoError
from camvo.replays.votes_table import VotesTable


def check(directory: Path) -> None:
    """Raise what :func:`draw` would raise for its surroundings, before the replay takes its time.

    Raises:
        CamvoError: matplotlib is not installed, or the folder holds what is not ours to replace.
    """
    if find_spec("matplotlib") is None:
        raise CamvoError("a report is drawn with matplotlib", fix='pip install "camvo[report]"')
    folder.check(directory)


def draw(
    directory: Path,
    table: VotesTable,
    runs: Sequence[Run],
    summaries: Sequence[Summary],
    *,
    title: str = "CaMVo replay",
) -> None:
    """Write ``index.html`` and its pictures, each as PNG and SVG.

    The page needs neither network nor scripts, nor the files beside it. The same replay gives the same report
    to the byte. Where no truth is known, what needs it is left out.

    Args:
        directory: made if it is not there; a report that it holds is replaced, other files are left alone.
        table: what was replayed.
        runs: all of them.
        summaries: one for each setting, in the order in which they are shown.
        title: of the page, plain text.

    Raises:
        CamvoError: as :func:`check`, or the folder cannot be written.
        InvalidParameterError: there is no setting, or a summary without a run.
    """
    check(directory)
    from backend.commands.replay.report.page import write  # noqa: PLC0415 - matplotlib is heavy, and optional
    from backend.commands.replay.report.study import study  # noqa: PLC0415 - the same

    seen = study(table, runs, summaries)
    with folder.written(directory) as new:
        write(new, seen, title)

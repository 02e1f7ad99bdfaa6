"""What a replay of a table and of synthetic data have in common: settings, runs, progress, output."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from backend.commands.replay import grid, report
from backend.commands.replay.policies import Parameters, Setting, settings
from backend.commands.replay.results import Run, Summary
from backend.commands.replay.writing import check_file, check_folder, written
from backend.errors import ReplayError
from camvo.errors import InvalidParameterError
from camvo.replays.votes_table import VotesTable
from camvo.state.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """The options of the command line that do not describe the data (:mod:`.options` explains them)."""

    policies: Sequence[str]
    deltas: Sequence[float]
    k_mins: Sequence[int]
    agreements: Sequence[float]
    parameters: Parameters
    lambda_l: float
    window: int
    calibrate: bool
    shuffles: int
    seed: int
    jobs: int
    json: Path | None
    report: Path | None

    @property
    def seeds(self) -> range:
        """The seeds of the shuffles."""
        return range(self.seed, self.seed + self.shuffles)

    def settings(self, models: Sequence[str]) -> list[Setting]:
        """Every policy with every δ and k_min, or agreement, that it can have.

        Raises:
            ReplayError: one that cannot be.
        """
        try:
            State(1, self.lambda_l)
        except InvalidParameterError as error:
            raise ReplayError(error.message, where="--lambda-l") from error
        return settings(
            self.policies, self.deltas, self.k_mins, self.agreements, self.parameters, models=models
        )

    def check_output(self, *reports: Path) -> None:
        """Find out before hours of work that the JSON, or the reports in these folders, could not be written.

        Raises:
            CamvoError: a folder is missing or cannot be written to, or matplotlib is not installed.
        """
        if self.json is not None:
            check_file(self.json, "--json")
        for folder in reports:
            check_folder(folder, "--report")
            report.check(folder)

    def draw(
        self, folder: Path, table: VotesTable, runs: Sequence[Run], summaries: Sequence[Summary], title: str
    ) -> None:
        """Draw a report into the folder."""
        report.draw(folder, table, runs, summaries, title=title)

    def run(
        self, experiment: grid.Experiment, chosen: Sequence[Setting], progress: grid.Progress
    ) -> list[Run]:
        """Every setting on every shuffle."""
        return list(grid.runs(experiment, chosen, self.jobs, progress))

    def write(
        self, rows: Sequence[Mapping[str, Any]], means: Sequence[Mapping[str, Any]], table: Mapping[str, Any]
    ) -> None:
        """The public JSON of docs/replay.md, if it was asked for; what is not known is ``null``."""
        if self.json is None:
            return
        options = {
            "policies": list(self.policies),
            "deltas": list(self.deltas),
            "k_mins": list(self.k_mins),
            "agreements": list(self.agreements),
        }
        numbers = {
            "lambda_l": self.lambda_l,
            "window": self.window,
            "calibrate": self.calibrate,
            "shuffles": self.shuffles,
            "seed": self.seed,
        }
        content = {
            "rows": rows,
            "means": means,
            "table": {
                **table,
                "options": {**options, **asdict(self.parameters), **numbers, **table["options"]},
            },
        }
        with written(self.json) as stream:
            stream.write(json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False).encode("utf-8"))
            stream.write(b"\n")


@contextmanager
def progress_bar(console: Console, what: str, total: int) -> Iterator[grid.Progress]:
    """What is to be called with the number of items that were done; it draws on a terminal only."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda items: bar.advance(task, items)

"""The study that a replay of a table and one of synthetic data have in common: settings, runs and output."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from backend.commands.progress import Advance
from backend.commands.replay import grid, report
from backend.commands.replay.inputs.orders import Shuffle
from backend.commands.replay.policies import Parameters, ReplaySetting, replay_settings
from backend.commands.replay.results import ReplayRun
from backend.commands.replay.writing import atomic_write, require_writable_file, require_writable_folder
from backend.errors import ReplayError
from camvo.errors import InvalidParameterError
from camvo.replays.votes_table import VotesTable
from camvo.state.state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayStudy:
    """The options that do not describe the data; :mod:`.options` explains them."""

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

    def settings(self, models: Sequence[str]) -> list[ReplaySetting]:
        """Return every policy with each δ and k_min, or each agreement, that it takes.

        Raises:
            ReplayError: a policy or a parameter is invalid.
        """
        try:
            State(1, self.lambda_l)
        except InvalidParameterError as error:
            raise ReplayError(error.message, where="--lambda-l") from error
        return replay_settings(
            self.policies, self.deltas, self.k_mins, self.agreements, self.parameters, models=models
        )

    def require_output(self, *reports: Path) -> None:
        """Check that the JSON file and these report folders can be written, before hours of work.

        Raises:
            CamvoError: a folder is missing or cannot be written to, or matplotlib is not installed.
        """
        if self.json is not None:
            require_writable_file(self.json, "--json")
        for folder in reports:
            require_writable_folder(folder, "--report")
            report.require_drawable(folder)

    def run(
        self,
        table: VotesTable,
        shuffles: Mapping[int, Shuffle],
        settings: Sequence[ReplaySetting],
        advance: Advance,
        *,
        student: bool | None = None,
        complete: bool = False,
    ) -> list[ReplayRun]:
        """Replay every setting on every shuffle of the table (:class:`grid.Experiment`)."""
        experiment = grid.Experiment(
            table, shuffles, self.lambda_l, self.window, self.calibrate, student, complete
        )
        return list(grid.replay_all(experiment, settings, self.jobs, advance))

    def write_json(
        self, rows: Sequence[Mapping[str, Any]], means: Sequence[Mapping[str, Any]], table: Mapping[str, Any]
    ) -> None:
        """Write the JSON of docs/replay.md if ``--json`` was given; unknown values are ``null``."""
        if self.json is None:
            return
        lists = {
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
        options = {**lists, **asdict(self.parameters), **numbers, **table["options"]}
        content = {"rows": rows, "means": means, "table": {**table, "options": options}}
        with atomic_write(self.json) as stream:
            stream.write(json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False).encode("utf-8"))
            stream.write(b"\n")

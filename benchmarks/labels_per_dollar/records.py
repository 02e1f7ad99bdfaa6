"""Records of the runs, in a JSON file for each table and part."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import policies
from numpy.typing import NDArray

from backend.commands.replay.inputs import Shuffle
from backend.commands.replay.runs import ReplayRun, ReplaySetting
from backend.commands.replay.study import Experiment
from camvo.policies.policy import Policy
from camvo.replays import measures
from camvo.replays.replay import VotesTable, calibrated_scores
from camvo.scores import calibration

WINDOW = 64
CONFIRMED = 500
"""The number of random human labels for the calibrated score."""


class RecordsFile:
    """A JSON file of rows: name → one record for each shuffle. A stored row is not computed again."""

    def __init__(self, path: Path, **facts: Any) -> None:
        self.path = path
        self.content = json.loads(path.read_text()) if path.exists() else {**facts, "rows": {}}

    def missing(self, chosen: Mapping[str, Policy]) -> dict[str, Policy]:
        return {name: policy for name, policy in chosen.items() if name not in self.content["rows"]}

    def add(self, name: str, records: list[dict[str, Any]]) -> None:
        self.content["rows"][name] = records
        self.path.write_text(json.dumps(self.content, indent=1))
        cost = np.mean([record["cost_share"] for record in records])
        points = np.mean([record["points"] for record in records])
        print(f"{self.path.stem}: {name}: {points:+.2f} at {cost:.1%}")

    def replay(
        self,
        table: VotesTable,
        shuffles: Mapping[int, Shuffle],
        chosen: Mapping[str, Policy],
        jobs: int,
        *,
        complete: bool = False,
    ) -> None:
        """Replay the policies whose rows are missing, and store their rows.

        With ``complete``, all models are asked about what humans label.
        """
        settings = [
            ReplaySetting(name, None, None, None, policy) for name, policy in self.missing(chosen).items()
        ]
        experiment = Experiment(table, shuffles, window=WINDOW, complete=complete)
        replayed = experiment.replay(settings, jobs, int)
        for setting in settings:
            self.add(
                setting.name, [record(next(replayed), table, shuffle.human) for shuffle in shuffles.values()]
            )


def record(run: ReplayRun, table: VotesTable, human: NDArray[np.bool_] | None = None) -> dict[str, Any]:
    """The record of a run: points against the full vote, cost, errors of its own and of the shown scores."""
    shown, confirmed = None, None
    if run.row.policy in policies.SHOWN:
        items = reordered(table, run.order)
        if human is not None and human.sum() == CONFIRMED:
            confirmed = taught_error(run, items, human)
        else:
            shown, confirmed = shown_errors(run, items)
    row = asdict(run.row)
    copied = {
        name: row[name] for name in ("seed", "accuracy", "full_accuracy", "agreement", "cost_share", "ece")
    }
    return {
        **copied,
        "points": 100.0 * (run.row.accuracy - run.row.full_accuracy),
        "shown_ece": shown,
        "confirmed_ece": confirmed,
    }


def shown_errors(run: ReplayRun, items: VotesTable) -> tuple[float | None, float | None]:
    """ECE of the scores that the server would show: without human labels, and calibrated by 500.

    The 500 items are drawn at random and the second ECE is that of all others. It is ``None`` for fewer than
    1,000 items.
    """
    scores = calibrated_scores(run.trace, items, growth=1.0)
    plain = measures.calibration_error(run.trace.labels, scores, items.truth)
    (answered,) = np.nonzero(run.trace.labels >= 0)
    if len(answered) < 2 * CONFIRMED:
        return plain, None
    drawn = np.random.default_rng([run.row.seed, 2]).permutation(answered)
    known, rest = drawn[:CONFIRMED], drawn[CONFIRMED:]
    labels, truth = run.trace.labels, items.truth
    fitted = calibration.fit_calibration(scores[known], (labels[known] == truth[known]).astype(float))
    return plain, measures.calibration_error(labels[rest], fitted(scores[rest]), truth[rest])


def taught_error(run: ReplayRun, items: VotesTable, human: NDArray[np.bool_]) -> float | None:
    """ECE of the scores that the server would show after these human labels, on all later items."""
    scores = calibrated_scores(run.trace, items, human)
    late = np.arange(len(human)) > np.flatnonzero(human)[-1]
    return measures.calibration_error(run.trace.labels[late], scores[late], items.truth[late])


def reordered(table: VotesTable, order: np.ndarray) -> VotesTable:
    return table.take(order)

"""``camvo replay``: from a table of votes to rows, a report and a verdict."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from backend.commands.replay import contexts, prices, terminal, votes_file
from backend.commands.replay.grid import Experiment, shuffled
from backend.commands.replay.results import summarised
from backend.commands.replay.study import Study, progress_bar
from backend.commands.replay.votes_file import VotesFile
from backend.errors import ReplayError
from backend.models.embedder.embedder import Embedder
from camvo.replays.clairvoyant import clairvoyant
from camvo.replays.measures import full_vote, full_weights, model_accuracy
from camvo.replays.votes_table import VotesTable
from camvo.typing import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What was asked for on the command line; see :func:`backend.commands.replay.command.replay`."""

    study: Study
    votes: Path
    prices: str | None
    embeddings: Path | None
    human_labels: float
    limit: int | None

    def run(self, console: Console, progress: Console) -> None:
        """Replay, print, write and draw.

        Args:
            console: where the result is printed.
            progress: where the progress bar is drawn, if it is a terminal.

        Raises:
            ReplayError: bad input; nothing has been written then but, at most, the embeddings' cache.
            EmbedderError: the embedding model is not to be had.
        """
        report = self.study.report
        self.study.check_output(*([report] if report else []))
        file = votes_file.read(self.votes)
        costs = prices.read(self.prices, file.models, self.votes)
        settings = self.study.settings(file.models)
        if self.human_labels and not (file.truth >= 0).any():
            raise ReplayError("needs the truth of some items", where=f"{self.votes}, --human-labels")
        embedded = self._contexts(file, progress)
        table = VotesTable(file.labels, costs, embedded, file.votes, file.truth)

        shuffles = {
            seed: shuffled(table.truth, seed, self.limit, self.human_labels) for seed in self.study.seeds
        }
        experiment = Experiment(table, shuffles, self.study.lambda_l, self.study.window, self.study.calibrate)
        items = sum(len(shuffle.order) for shuffle in shuffles.values()) * len(settings)
        with progress_bar(progress, "replaying", items) as advance:
            runs = self.study.run(experiment, settings, advance)
        rows = [run.row for run in runs]
        summaries = summarised(rows)
        self.study.write(
            [asdict(row) for row in rows], [asdict(summary) for summary in summaries], self._facts(table)
        )
        if report is not None:
            self.study.draw(report, table, runs, summaries, f"Replay of {self.votes.name}")
        terminal.show(console, summaries)
        console.print(f"\n{terminal.verdict(summaries)}", highlight=False)

    def _contexts(self, file: VotesFile, progress: Console) -> Array:
        if self.embeddings is not None:
            return contexts.read(self.embeddings, file)
        with progress_bar(progress, "embedding", len(file.truth)) as advance:
            return contexts.embedded(file, Embedder(), advance)

    def _facts(self, table: VotesTable) -> dict[str, Any]:
        accuracies = model_accuracy(table.votes, table.truth).tolist()
        return {
            "file": str(self.votes),
            "items": len(table.truth),
            "items_with_truth": int((table.truth >= 0).sum()),
            "labels": list(table.labels),
            "dimension": table.contexts.shape[1],
            "prices": dict(table.prices),
            "full_cost": table.full_cost,
            "model_accuracy": {
                model: None if math.isnan(accuracy) else accuracy
                for model, accuracy in zip(table.prices, accuracies, strict=True)
            },
            "clairvoyant": _clairvoyant(table),
            "options": {"human_labels": self.human_labels, "limit": self.limit},
        }


def _clairvoyant(table: VotesTable) -> dict[str, Any]:
    """What the cheapest prefix would have cost that is right, and that has the full vote's label."""
    count, costs = len(table.labels), np.array(list(table.prices.values()))
    weights = full_weights(table.votes, table.truth)
    answers = {"truth": table.truth, "full_vote": full_vote(table.votes, table.truth, count)}
    bounds = {name: clairvoyant(table.votes, weights, costs, to_be, count) for name, to_be in answers.items()}
    return {name: bound and asdict(bound) for name, bound in bounds.items()}

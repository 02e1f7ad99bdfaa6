"""``camvo replay``: from a table of votes to rows, a report and a verdict on the target."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from backend.commands.progress import progress_bar
from backend.commands.replay import report, terminal
from backend.commands.replay.inputs.contexts import (
    embed_texts,
    only_categories,
    read_embeddings,
    with_categories,
)
from backend.commands.replay.inputs.oddities import odd_k_mins, odd_labels
from backend.commands.replay.inputs.orders import HumanLabels, shuffle_items
from backend.commands.replay.inputs.prices import read_prices
from backend.commands.replay.inputs.votes_file import TEXT, VotesFile, read_votes
from backend.commands.replay.policies import ReplaySetting
from backend.commands.replay.results import summaries_of
from backend.commands.replay.study import ReplayStudy
from backend.commands.replay.verdict import student_note, verdict
from backend.errors import ReplayError
from backend.models.embedder.embedder import Embedder
from camvo.replays.clairvoyant_bound import clairvoyant_bound
from camvo.replays.measures import full_vote, full_vote_weights, model_accuracy
from camvo.replays.votes_table import VotesTable
from camvo.student.taught_texts import STUDENT
from camvo.typing import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReplay:
    """The options of ``camvo replay``; :mod:`.command` explains them."""

    study: ReplayStudy
    votes: Path
    prices: str | None
    embeddings: Path | None
    human_labels: HumanLabels
    limit: int | None
    delimiter: str
    in_order: bool
    confidences: bool = True
    student: bool | None = None
    complete: bool = False
    context: str | None = None

    def run(self, console: Console, progress: Console) -> None:
        """Replay the table, write and draw what was asked for, and print the results.

        Args:
            console: where the results are printed.
            progress: where the progress bar is drawn, if it is a terminal.

        Raises:
            ReplayError: bad input; nothing was written, except perhaps the cached embeddings.
            EmbedderError: the embedding model is not available.
        """
        folder = self.study.report
        self.study.require_output(*([folder] if folder else []))
        if self.in_order and self.study.shuffles > 1:
            raise ReplayError(
                "the rows as they stand are one order",
                where="--in-order",
                fix="leave --shuffles out",
            )
        file = read_votes(self.votes, self.delimiter, self.context)
        prices = read_prices(self.prices, file.models, self.votes)
        settings = self.study.settings(file.models)
        if self.human_labels.share and not (file.truth >= 0).any():
            raise ReplayError(
                "needs the truth of some items",
                where=f"{self.votes}, --human-labels",
                fix="fill the column truth, or leave --human-labels out",
            )
        table = VotesTable(
            file.labels,
            prices,
            self._contexts(file, progress),
            file.votes,
            file.truth,
            file.confidences if self.confidences else None,
            self._texts(file),
        )

        warnings = [*odd_labels(file), *odd_k_mins(self._k_mins(settings), len(file.models))]
        for warning in warnings:
            progress.print(f"camvo: warning: {warning}", markup=False, highlight=False, soft_wrap=True)
        shuffles = {
            seed: shuffle_items(table.truth, seed, self.limit, self.human_labels, in_order=self.in_order)
            for seed in self.study.seeds
        }
        items = sum(len(shuffle.order) for shuffle in shuffles.values()) * len(settings)
        with progress_bar(progress, "replaying", items, transient=True) as advance:
            runs = self.study.run(
                table, shuffles, settings, advance, student=self.student, complete=self.complete
            )
        rows = [run.row for run in runs]
        summaries = summaries_of(rows)
        self.study.write_json(
            [asdict(row) for row in rows],
            [asdict(summary) for summary in summaries],
            self._facts(table, warnings),
        )
        if folder is not None:
            report.draw_report(folder, table, runs, summaries, title=f"Replay of {self.votes.name}")
        terminal.print_summaries(console, summaries)
        terminal.print_spread(console, summaries)
        console.print()
        for line in (*verdict(summaries), *student_note(summaries)):
            console.print(line, highlight=False, markup=False)

    @staticmethod
    def _k_mins(settings: Sequence[ReplaySetting]) -> list[int]:
        return [setting.k_min for setting in settings if setting.k_min is not None]

    def _contexts(self, file: VotesFile, progress: Console) -> Array:
        if file.categories is None:
            return self._embeddings(file, progress)
        if file.texts is None and self.embeddings is None:
            return only_categories(file.categories)
        return with_categories(self._embeddings(file, progress), file.categories)

    def _embeddings(self, file: VotesFile, progress: Console) -> Array:
        if self.embeddings is not None:
            return read_embeddings(self.embeddings, file)
        with progress_bar(progress, "embedding", len(file.truth), transient=True) as advance:
            return embed_texts(file, Embedder(), advance)

    def _texts(self, file: VotesFile) -> Sequence[str] | None:
        """The texts that the student reads; ``None`` without it."""
        if STUDENT in file.models:
            raise ReplayError(
                f"{STUDENT!r} is the name of the student", where=str(self.votes), fix="rename the column"
            )
        if self.student and file.texts is None:
            raise ReplayError(
                f"no column {TEXT!r} for the student", where=f"{self.votes}, --student", fix="add it"
            )
        return None if self.student is False else file.texts

    def _facts(self, table: VotesTable, warnings: Sequence[str]) -> dict[str, Any]:
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
            "warnings": list(warnings),
            "options": {
                "human_labels": self.human_labels.share,
                "human_labels_way": self.human_labels.way,
                "limit": self.limit,
                "delimiter": self.delimiter,
                "in_order": self.in_order,
                "confidences": self.confidences,
                "student": self.student,
                "complete": self.complete,
            },
        }


def _clairvoyant(table: VotesTable) -> dict[str, Any]:
    """Return the cheapest prefixes of models that are right, and that have the full vote's label."""
    count, costs = len(table.labels), np.array(list(table.prices.values()))
    weights = full_vote_weights(table.votes, table.truth)
    targets = {"truth": table.truth, "full_vote": full_vote(table.votes, table.truth, count)}
    bounds = {
        name: clairvoyant_bound(table.votes, weights, costs, labels, count)
        for name, labels in targets.items()
    }
    return {name: bound and asdict(bound) for name, bound in bounds.items()}

"""``camvo synthetic``: the sensitivity study of the paper's Appendix H, over γ, α, δ and k_min.

Every γ and α has a table of its own, which holds the draws of all seeds one after the other: a run goes over
those of its seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from backend.commands.replay import terminal
from backend.commands.replay.grid import Experiment, Shuffle
from backend.commands.replay.results import summarised
from backend.commands.replay.study import Study, progress_bar
from backend.errors import ReplayError
from camvo.errors import InvalidParameterError
from camvo.replays.copula_data import CorrelatedRounds, correlated_rounds
from camvo.replays.paper_models import PAPER_MODELS, equal_correlation, heterogeneous_correlation
from camvo.replays.votes_table import VotesTable
from camvo.typing import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """The options of the command line (:mod:`.synthetic_command` explains them).

    A γ of ``None`` is the paper's heterogeneous matrix.
    """

    study: Study
    gammas: Sequence[float | None]
    alphas: Sequence[float]
    items: int
    standardised: bool

    def run(self, console: Console, progress: Console) -> None:
        """Draw, replay, print and write.

        Args:
            console: where the result is printed.
            progress: where the progress bar is drawn, if it is a terminal.

        Raises:
            ReplayError: an option that cannot be.
        """
        points = [(gamma, alpha) for gamma in self.gammas for alpha in self.alphas]
        self.study.check_output(*filter(None, (self._report(*point) for point in points)))
        settings = self.study.settings(tuple(PAPER_MODELS))
        data = [(gamma, alpha, self._draw(gamma, alpha)) for gamma, alpha in points]
        rows, means, given, summaries = [], [], [], []
        total = len(data) * len(settings) * self.study.shuffles * self.items
        with progress_bar(progress, "replaying", total) as advance:
            for gamma, alpha, drawn in data:
                table = self._table(drawn)
                experiment = Experiment(
                    table, self._shuffles(), self.study.lambda_l, self.study.window, self.study.calibrate
                )
                runs = self.study.run(experiment, settings, advance)
                of_these = summarised([run.row for run in runs])
                point: dict[str, float | None] = {"gamma": gamma, "alpha": alpha}
                rows += [{**point, **asdict(run.row)} for run in runs]
                means += [{**point, **asdict(summary)} for summary in of_these]
                given += [{"γ": gamma, "α": alpha}] * len(of_these)
                summaries += of_these
                if (folder := self._report(gamma, alpha)) is not None:
                    self.study.draw(folder, table, runs, of_these, f"Synthetic votes: {folder.name}")
        facts = [{"gamma": gamma, "alpha": alpha, **_attained(drawn)} for gamma, alpha, drawn in data]
        self.study.write(rows, means, self._facts(facts))
        terminal.show(console, summaries, given)
        console.print()
        for line in (*_clamps(data), terminal.kept(summaries)):
            console.print(line, highlight=False)

    def _draw(self, gamma: float | None, alpha: float) -> list[CorrelatedRounds]:
        """One draw a seed; the same seed draws the same contexts and noise whatever γ and α are."""
        try:
            return [
                correlated_rounds(
                    heterogeneous_correlation() if gamma is None else equal_correlation(gamma),
                    rounds=self.items,
                    seed=_seeds(seed)[0],
                    alpha=alpha,
                    standardised=self.standardised,
                )
                for seed in self.study.seeds
            ]
        except InvalidParameterError as error:
            raise ReplayError(error.message, where=f"{_name(gamma)}, --alpha {alpha:g}") from error

    def _table(self, drawn: Sequence[CorrelatedRounds]) -> VotesTable:
        parts = [
            rounds.votes_table(seed=_seeds(seed)[1])
            for rounds, seed in zip(drawn, self.study.seeds, strict=True)
        ]
        return VotesTable(
            parts[0].labels,
            parts[0].prices,
            np.concatenate([part.contexts for part in parts]),
            np.concatenate([part.votes for part in parts]),
            np.concatenate([part.truth for part in parts]),
        )

    def _shuffles(self) -> dict[int, Shuffle]:
        return {
            seed: Shuffle(np.arange(number * self.items, (number + 1) * self.items))
            for number, seed in enumerate(self.study.seeds)
        }

    def _report(self, gamma: float | None, alpha: float) -> Path | None:
        """The folder of one table's report, if reports are wanted."""
        return self.study.report and self.study.report / f"{_name(gamma)}-alpha-{alpha:g}"

    def _facts(self, data: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "items": self.items,
            "models": {name: asdict(model) for name, model in PAPER_MODELS.items()},
            "full_cost": sum(model.price for model in PAPER_MODELS.values()),
            "data": data,
            "options": {"standardised": self.standardised},
        }


def _seeds(seed: int) -> tuple[int, int]:
    """Seeds for the rounds and for the votes on them, which are to be independent."""
    rounds, votes = np.random.SeedSequence(seed).generate_state(2).tolist()
    return rounds, votes


def _attained(drawn: Sequence[CorrelatedRounds]) -> dict[str, Any]:
    """What Algorithm 5 comes to: of the copula alone, and with the context (mean over the draws)."""
    calibration = drawn[0].calibration
    names = tuple(drawn[0].models)
    accuracy: Array = np.mean([rounds.expected_accuracy for rounds in drawn], axis=0)
    correlation: Array = np.mean([rounds.expected_correlation for rounds in drawn], axis=0)
    return {
        "clamped": [
            {"models": [names[i], names[j]], "attained": float(calibration.attained[i, j])}
            for i, j in np.argwhere(np.triu(calibration.clamped))
        ],
        "copula_correlation": calibration.attained.tolist(),
        "expected_correlation": correlation.tolist(),
        "expected_accuracy": dict(zip(names, accuracy.tolist(), strict=True)),
    }


def _clamps(data: Sequence[tuple[float | None, float, list[CorrelatedRounds]]]) -> list[str]:
    """A line for each γ that some pairs of models cannot have, and one on what the data have at all."""
    lines = {}
    for gamma, _, drawn in data:
        calibration = drawn[0].calibration
        pairs = np.triu(calibration.clamped)
        if gamma is not None and pairs.any():
            lines[gamma] = (
                f"γ = {gamma:g} is more than {pairs.sum()} of {len(pairs) * (len(pairs) - 1) // 2} pairs of"
                f" models of these accuracies can have; theirs was clamped, down to"
                f" {calibration.attained[pairs].min():.2f}."
            )
    attained = [
        round(float(rounds.expected_correlation[np.triu_indices(len(rounds.models), 1)].mean()), 2) + 0.0
        for _, _, drawn in data
        for rounds in drawn
    ]
    return [
        *lines.values(),
        f"With the context in it, Algorithm 5 comes to correlations of {min(attained):.2f} to"
        f" {max(attained):.2f} (mean over the pairs; docs/replay.md).",
    ]


def _name(gamma: float | None) -> str:
    return "heterogeneous" if gamma is None else f"gamma-{gamma:g}"

"""The sensitivity study of the paper's Appendix H, over γ, α, δ and k_min.

    python benchmarks/paper/synthetic.py --items 3000 --shuffles 3 --window 64 [--jobs 2] [--json OUT.json]

Each pair of γ and α has its own table, which holds the draws of all seeds one after the other. A run replays
the draws of its seed. benchmarks/RESULTS.md has the options.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

from backend.commands.replay import replay_command
from backend.commands.replay import table as terminal
from backend.commands.replay.inputs import Shuffle
from backend.commands.replay.options import DATA, RUNS, PolicyParameters, SharedOptions
from backend.commands.replay.runs import Summary
from backend.commands.replay.study import ReplayStudy, numbers
from backend.commands.shared.output import progress_bar
from backend.errors import ReplayError
from camvo.errors import CamvoError, InvalidParameterError
from camvo.replays.replay import VotesTable
from camvo.typing import Array

sys.path.append(str(Path(__file__).resolve().parents[1] / "labels_per_dollar"))
from correlated_votes import (
    PAPER_MODELS,
    CorrelatedRounds,
    draw_correlated_rounds,
    equal_correlation,
    heterogeneous_correlation,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """The options of the study; the command below explains them.

    A γ of ``None`` means the paper's heterogeneous matrix.
    """

    study: ReplayStudy
    gammas: Sequence[float | None]
    alphas: Sequence[float]
    items: int
    standardised: bool

    def run(self, console: Console, progress: Console) -> None:
        """Draw the tables, replay them, write what was asked for, and print the results.

        Args:
            console: where the results are printed.
            progress: where the progress bar is drawn, if it is a terminal.

        Raises:
            ReplayError: an option is invalid.
        """
        points = [(gamma, alpha) for gamma in self.gammas for alpha in self.alphas]
        self.study.require_output(*filter(None, (self._report(*point) for point in points)))
        settings = self.study.settings(tuple(PAPER_MODELS))
        data = [(gamma, alpha, self._draw(gamma, alpha)) for gamma, alpha in points]
        rows, means, coordinates, summaries = [], [], [], []
        total = len(data) * len(settings) * self.study.shuffles * self.items
        with progress_bar(progress, "replaying", total, transient=True) as advance:
            for gamma, alpha, drawn in data:
                table = self._table(drawn)
                runs = self.study.run(table, self._shuffles(), settings, advance)
                of_table = Summary.of_rows([run.row for run in runs])
                point: dict[str, float | None] = {"gamma": gamma, "alpha": alpha}
                rows += [{**point, **asdict(run.row)} for run in runs]
                means += [{**point, **asdict(summary)} for summary in of_table]
                coordinates += [{"γ": gamma, "α": alpha}] * len(of_table)
                summaries += of_table
                if (folder := self._report(gamma, alpha)) is not None:
                    title = f"Synthetic votes: {folder.name}"
                    from backend.commands.replay.study import draw_report

                    draw_report(folder, table, runs, of_table, title=title)
        facts = [{"gamma": gamma, "alpha": alpha, **_attained(drawn)} for gamma, alpha, drawn in data]
        self.study.write_json(rows, means, self._facts(facts))
        terminal.print_summaries(console, summaries, coordinates)
        console.print()
        for line in (*_clamps(data), _target_count(summaries)):
            console.print(line, highlight=False)

    def _draw(self, gamma: float | None, alpha: float) -> list[CorrelatedRounds]:
        """Draw once per seed. A seed draws the same contexts and noise for every γ and α."""
        try:
            return [
                draw_correlated_rounds(
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
            rounds.draw_votes_table(seed=_seeds(seed)[1])
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
        """Return the folder of one table's report, or ``None`` without ``--report``."""
        return self.study.options.report and self.study.options.report / f"{_name(gamma)}-alpha-{alpha:g}"

    def _facts(self, data: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "items": self.items,
            "models": {name: asdict(model) for name, model in PAPER_MODELS.items()},
            "full_cost": sum(model.price for model in PAPER_MODELS.values()),
            "data": data,
            "options": {"standardised": self.standardised},
        }


def _target_count(summaries: Sequence[Summary]) -> str:
    met = [share for summary in summaries if (share := summary.means["target_met"]) is not None]
    return f"{met.count(1.0)} of {len(met)} settings met their target in every table drawn."


def _seeds(seed: int) -> tuple[int, int]:
    """Return independent seeds for the rounds and for the votes on them."""
    rounds, votes = np.random.SeedSequence(seed).generate_state(2).tolist()
    return rounds, votes


def _attained(drawn: Sequence[CorrelatedRounds]) -> dict[str, Any]:
    """Return the correlations and accuracies that Algorithm 5 attains, as means over the draws.

    ``copula_correlation`` is the copula's alone; the expected values include the effect of the context.
    """
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
    """Return a line for each γ that some pairs cannot attain, and one on the correlations attained."""
    lines = {}
    for gamma, _, drawn in data:
        calibration = drawn[0].calibration
        pairs = np.triu(calibration.clamped)
        if gamma is not None and pairs.any():
            lines[gamma] = (
                f"γ = {gamma:g} is impossible for {pairs.sum()} of {len(pairs) * (len(pairs) - 1) // 2} pairs"
                f" of models with these accuracies; their correlation was clamped, to"
                f" {calibration.attained[pairs].min():.2f} at the lowest."
            )
    attained = [
        round(float(rounds.expected_correlation[np.triu_indices(len(rounds.models), 1)].mean()), 2) + 0.0
        for _, _, drawn in data
        for rounds in drawn
    ]
    return [
        *lines.values(),
        f"With the effect of the context, Algorithm 5 attains correlations from {min(attained):.2f} to"
        f" {max(attained):.2f} (mean over the pairs; see RESULTS.md).",
    ]


def _name(gamma: float | None) -> str:
    return "heterogeneous" if gamma is None else f"gamma-{gamma:g}"


@replay_command.with_policies(delta="0.8,0.85,0.9,0.93,0.95,0.96", k_min="1,3")
def synthetic(
    *,
    gamma: Annotated[
        str,
        typer.Option(
            help="γ: correlation of any two models' errors. A list, e.g. 0,0.3.", rich_help_panel=DATA
        ),
    ] = "0,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8",
    heterogeneous: Annotated[
        bool,
        typer.Option(
            "--heterogeneous",
            help="Use the paper's matrix of correlations instead of γ.",
            rich_help_panel=DATA,
        ),
    ] = False,
    alpha: Annotated[
        str,
        typer.Option(
            help="α of the data: share of context weights common to all models. A list, e.g. 0.1,0.4.",
            rich_help_panel=DATA,
        ),
    ] = "0.1,0.2,0.4",
    standardised: Annotated[
        bool,
        typer.Option(
            "--standardised", help="Attain the paper's accuracies (see RESULTS.md).", rich_help_panel=DATA
        ),
    ] = False,
    items: Annotated[int, typer.Option(min=1, help="Items of each table.", rich_help_panel=DATA)] = 10_000,
    policy: replay_command.PolicyNames = ["camvo"],  # noqa: B006 - Typer copies it
    parameters: PolicyParameters,
    shuffles: Annotated[
        int, typer.Option(min=1, help="Tables drawn, each with its own seed.", rich_help_panel=RUNS)
    ] = 1,
    shared: SharedOptions,
) -> None:
    """Repeat the paper's study of correlated models (Appendix H) on synthetic votes. Calls no model.

    Example: python benchmarks/paper/synthetic.py --gamma 0,0.4 --alpha 0.2 --items 2000
    """
    study = ReplayStudy.of(shared, policies=policy, parameters=parameters, shuffles=shuffles)
    Sensitivity(
        study=study,
        gammas=[None] if heterogeneous else numbers(gamma, "--gamma", float),
        alphas=numbers(alpha, "--alpha", float),
        items=items,
        standardised=standardised,
    ).run(Console(), Console(stderr=True))


def main() -> None:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(synthetic)
    try:
        app()
    except CamvoError as error:
        print(f"synthetic: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()

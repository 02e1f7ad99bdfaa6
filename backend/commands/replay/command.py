"""``camvo replay``: its options. What is heavy is imported when it runs, so that the help stays quick."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from backend.commands.replay import options


def replay(
    *,
    votes: Annotated[
        Path, typer.Argument(metavar="VOTES.csv", help="CSV with text, truth and a column for each model.")
    ],
    prices: Annotated[
        str | None,
        typer.Option(
            help="$ per million input tokens: model=usd,… or a JSON file; by default the one beside VOTES."
        ),
    ] = None,
    policy: options.Policies = ["camvo", "baseline", "majority"],  # noqa: B006 - Typer copies it
    delta: Annotated[str, typer.Option(help="δ of camvo and ccamvo; a list, as in 0.9,0.95.")] = "0.97",
    k_min: Annotated[str, typer.Option("--k-min", help="Fewest models they ask; a list.")] = "3",
    alpha: Annotated[float, typer.Option(help="α, width of the confidence bound.")] = 0.25,
    agreement: options.Agreement = "0.99",
    max_stages: options.MaxStages = 3,
    worth: options.Worth = 75.0,
    lambda_l: options.LambdaL = 1.0,
    lambda_r: options.LambdaR = 1.0,
    n0: options.N0 = 10,
    confidence: options.Confidence = "beta",
    estimator: options.Estimator = "moments",
    human_labels: Annotated[
        float,
        typer.Option("--human-labels", min=0.0, max=1.0, help="Share of the items that a human labels."),
    ] = 0.0,
    window: options.Window = 1,
    calibrate: options.Calibrate = False,
    shuffles: Annotated[int, typer.Option(min=1, help="Random orders of the items.")] = 1,
    seed: options.Seed = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first items of each shuffle.")] = None,
    embeddings: Annotated[
        Path | None,
        typer.Option(help="Contexts of the items (.npy); by default the texts are embedded once."),
    ] = None,
    jobs: options.Jobs = 1,
    json: options.Json = None,
    report: options.Report = None,
) -> None:
    """Replay a table of votes: what would a setting have cost, and how right would it have been?"""
    from rich.console import Console  # noqa: PLC0415 - the help must not wait for it

    from backend.commands.replay.policies import Parameters  # noqa: PLC0415 - the same
    from backend.commands.replay.study import Study  # noqa: PLC0415 - the same
    from backend.commands.replay.table import Replay  # noqa: PLC0415 - the same

    study = Study(
        policies=policy,
        deltas=options.decimals(delta, "--delta"),
        k_mins=options.integers(k_min, "--k-min"),
        agreements=options.decimals(agreement, "--agreement"),
        parameters=Parameters(
            alpha=alpha,
            lambda_r=lambda_r,
            n0=n0,
            confidence=confidence,
            estimator=estimator,
            max_stages=max_stages,
            worth=worth,
        ),
        lambda_l=lambda_l,
        window=window,
        calibrate=calibrate,
        shuffles=shuffles,
        seed=seed,
        jobs=jobs,
        json=json,
        report=report,
    )
    Replay(
        study=study,
        votes=votes,
        prices=prices,
        embeddings=embeddings,
        human_labels=human_labels,
        limit=limit,
    ).run(Console(), Console(stderr=True))

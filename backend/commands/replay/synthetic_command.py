"""``camvo synthetic``: its options. What is heavy is imported when it runs, so that the help stays quick."""

from __future__ import annotations

from typing import Annotated

import typer

from backend.commands.replay import options


def synthetic(
    *,
    gamma: Annotated[
        str, typer.Option(help="γ, the correlation of any two models' errors that is asked for; a list.")
    ] = "0,0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8",
    heterogeneous: Annotated[
        bool, typer.Option("--heterogeneous", help="The paper's matrix of correlations in place of γ.")
    ] = False,
    alpha: Annotated[
        str,
        typer.Option(help="α of the data, the share of context weights that models have in common; a list."),
    ] = "0.1,0.2,0.4",
    standardised: Annotated[
        bool, typer.Option("--standardised", help="Attain the paper's accuracies (docs/replay.md).")
    ] = False,
    items: Annotated[int, typer.Option(min=1, help="Items of each table.")] = 10_000,
    policy: options.Policies = ["camvo"],  # noqa: B006 - Typer copies it
    delta: Annotated[
        str, typer.Option(help="δ of camvo and ccamvo; a list.")
    ] = "0.8,0.85,0.9,0.93,0.95,0.96",
    k_min: Annotated[str, typer.Option("--k-min", help="Fewest models they ask; a list.")] = "1,3",
    policy_alpha: Annotated[
        float, typer.Option("--policy-alpha", help="α of the policy, width of the confidence bound.")
    ] = 0.25,
    agreement: options.Agreement = "0.99",
    max_stages: options.MaxStages = 3,
    worth: options.Worth = 75.0,
    lambda_l: options.LambdaL = 1.0,
    lambda_r: options.LambdaR = 1.0,
    n0: options.N0 = 10,
    confidence: options.Confidence = "beta",
    estimator: options.Estimator = "moments",
    window: options.Window = 1,
    calibrate: options.Calibrate = False,
    shuffles: Annotated[int, typer.Option(min=1, help="Tables drawn, each with a seed of its own.")] = 1,
    seed: options.Seed = 0,
    jobs: options.Jobs = 1,
    json: options.Json = None,
    report: options.Report = None,
) -> None:
    """Run the paper's study of correlated models (Appendix H) on synthetic votes."""
    from rich.console import Console  # noqa: PLC0415 - the help must not wait for it

    from backend.commands.replay.policies import Parameters  # noqa: PLC0415 - the same
    from backend.commands.replay.study import Study  # noqa: PLC0415 - the same
    from backend.commands.replay.synthetic import Sensitivity  # noqa: PLC0415 - the same

    study = Study(
        policies=policy,
        deltas=options.decimals(delta, "--delta"),
        k_mins=options.integers(k_min, "--k-min"),
        agreements=options.decimals(agreement, "--agreement"),
        parameters=Parameters(
            alpha=policy_alpha,
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
    Sensitivity(
        study=study,
        gammas=[None] if heterogeneous else options.decimals(gamma, "--gamma"),
        alphas=options.decimals(alpha, "--alpha"),
        items=items,
        standardised=standardised,
    ).run(Console(), Console(stderr=True))

"""``camvo synthetic``: its options. Heavy modules are imported when it runs, which keeps the help fast."""

from __future__ import annotations

from typing import Annotated

import typer

from backend.commands.arguments import decimals
from backend.commands.replay import replay_command
from backend.commands.replay.replay_command import DATA, RUNS


@replay_command.with_groups(delta="0.8,0.85,0.9,0.93,0.95,0.96", k_min="1,3")
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
            "--standardised", help="Attain the paper's accuracies (see docs/replay.md).", rich_help_panel=DATA
        ),
    ] = False,
    items: Annotated[int, typer.Option(min=1, help="Items of each table.", rich_help_panel=DATA)] = 10_000,
    policy: replay_command.PolicyNames = ["camvo"],  # noqa: B006 - Typer copies it
    parameters: replay_command.PolicyParameters,
    shuffles: Annotated[
        int, typer.Option(min=1, help="Tables drawn, each with its own seed.", rich_help_panel=RUNS)
    ] = 1,
    shared: replay_command.SharedOptions,
) -> None:
    """Repeat the paper's study of correlated models (Appendix H) on synthetic votes. Calls no model.

    Example: camvo synthetic --gamma 0,0.4 --alpha 0.2 --items 2000
    """
    from rich.console import Console  # noqa: PLC0415 - keeps the help fast

    from backend.commands.replay.synthetic import Sensitivity  # noqa: PLC0415 - keeps the help fast

    study = shared.study(policies=policy, parameters=parameters, shuffles=shuffles)
    Sensitivity(
        study=study,
        gammas=[None] if heterogeneous else decimals(gamma, "--gamma"),
        alphas=decimals(alpha, "--alpha"),
        items=items,
        standardised=standardised,
    ).run(Console(), Console(stderr=True))

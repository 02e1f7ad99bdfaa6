"""The options that ``camvo replay`` and ``camvo synthetic`` share. Nothing heavy is imported here."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from backend.errors import ReplayError

Policies: TypeAlias = Annotated[
    list[str],
    typer.Option(
        "--policy",
        help="camvo, ccamvo, sequential, stacked, baseline, majority, cascade:SCORE, random:SHARE,"
        " single:MODEL or subset:MODEL+MODEL; may be repeated.",
    ),
]
Agreement: TypeAlias = Annotated[
    str,
    typer.Option(help="Share of sequential's labels that are to be everybody's; a list, as in 0.98,0.99."),
]
MaxStages: TypeAlias = Annotated[
    int, typer.Option("--max-stages", help="How often sequential and stacked may wait for models.")
]
Worth: TypeAlias = Annotated[
    float, typer.Option(help="What a right label is worth to stacked, in prices of asking everyone.")
]
LambdaL: TypeAlias = Annotated[float, typer.Option("--lambda-l", help="λ_L, ridge of the linear models.")]
LambdaR: TypeAlias = Annotated[
    float, typer.Option("--lambda-r", help="λ_R, strength of the regularisation towards ½.")
]
N0: TypeAlias = Annotated[
    int, typer.Option("--n0", help="Rewards before a model counts; until then it is always asked.")
]
Confidence: TypeAlias = Annotated[
    Literal["beta", "exact", "copula"], typer.Option(help="How camvo computes the confidence of a subset.")
]
Estimator: TypeAlias = Annotated[
    Literal["moments", "mle"], typer.Option(help="How the Beta distributions are estimated.")
]
Window: TypeAlias = Annotated[
    int, typer.Option(min=1, help="Items planned on the same state, as under concurrency; 1 is the paper.")
]
Calibrate: TypeAlias = Annotated[
    bool, typer.Option("--calibrate", help="Measure the scores that the server would have shown as well.")
]
Seed: TypeAlias = Annotated[int, typer.Option(min=0, help="Seed of the first shuffle; the others count on.")]
Jobs: TypeAlias = Annotated[int, typer.Option(min=1, help="Processes.")]
Json: TypeAlias = Annotated[
    Path | None, typer.Option("--json", help="Write every row and the means to this file (docs/replay.md).")
]
Report: TypeAlias = Annotated[Path | None, typer.Option(help="Draw a report into this folder.")]


def decimals(given: str, option: str) -> list[float]:
    """The finite numbers of a comma-separated list.

    Raises:
        ReplayError: there is none, or something else.
    """
    try:
        numbers = [float(part) for part in given.split(",")]
    except ValueError as error:
        raise ReplayError(f"{given!r} is no list of numbers", where=option, fix="as in 0.9,0.95") from error
    if not all(math.isfinite(number) for number in numbers):
        raise ReplayError(f"{given!r} holds what is no number", where=option)
    return numbers


def integers(given: str, option: str) -> list[int]:
    """The whole numbers of a comma-separated list.

    Raises:
        ReplayError: there is none, or something else.
    """
    try:
        return [int(part) for part in given.split(",")]
    except ValueError as error:
        raise ReplayError(f"{given!r} is no list of whole numbers", where=option, fix="as in 1,3") from error

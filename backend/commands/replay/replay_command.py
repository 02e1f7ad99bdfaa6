"""``camvo replay``: its options. Heavy modules are imported when it runs, which keeps the help fast."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, cast, get_type_hints

import typer

from backend.commands.shared.arguments import decimals, integers

if TYPE_CHECKING:
    from backend.commands.replay.study import ReplayStudy
    from backend.commands.replay.table import TableReplay

DATA, POLICIES, RUNS, OUTPUT = "Data", "Policies", "Runs", "Output"
"""The groups of options in the help."""

PolicyNames: TypeAlias = Annotated[
    list[str],
    typer.Option(
        "--policy",
        help="Policy to replay; may be repeated: camvo, ccamvo, joint, baseline,"
        " majority, cascade:SCORE, random:SHARE, single:MODEL, subset:MODEL+MODEL, best-single or"
        " router:GAIN.",
        rich_help_panel=POLICIES,
    ),
]
Deltas: TypeAlias = Annotated[
    str,
    typer.Option(
        "--delta",
        help="δ of camvo and ccamvo: the confidence to reach. A list, e.g. 0.9,0.95.",
        rich_help_panel=POLICIES,
    ),
]
KMins: TypeAlias = Annotated[
    str,
    typer.Option(
        "--k-min",
        help="Fewest models that camvo and ccamvo ask. A list, e.g. 1,3.",
        rich_help_panel=POLICIES,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOptions:
    """The options that both commands have with the same default. The help texts explain them."""

    agreement: Annotated[
        str | None,
        typer.Option(
            help="Share of labels that must equal the vote of all models; for joint, in place of its worth."
            " A list, e.g. 0.98,0.99.",
            rich_help_panel=POLICIES,
        ),
    ] = None
    worth: Annotated[
        float | None,
        typer.Option(
            help="Value of one more right label, in prices of asking every model; for joint. Default: 15.",
            rich_help_panel=POLICIES,
        ),
    ] = None
    first: Annotated[
        int,
        typer.Option(
            help="First tasks about which best-single asks every model, and router both of its models.",
            rich_help_panel=POLICIES,
        ),
    ] = 200
    lambda_l: Annotated[
        float,
        typer.Option("--lambda-l", help="λ_L: ridge of the linear models.", rich_help_panel=POLICIES),
    ] = 1.0
    lambda_r: Annotated[
        float,
        typer.Option(
            "--lambda-r",
            help="λ_R: strength of the confidence's regularisation towards ½.",
            rich_help_panel=POLICIES,
        ),
    ] = 1.0
    n0: Annotated[
        int,
        typer.Option(
            "--n0",
            help="Rewards before a model's history counts; until then it is always asked.",
            rich_help_panel=POLICIES,
        ),
    ] = 10
    confidence: Annotated[
        Literal["beta", "exact", "copula"],
        typer.Option(help="How camvo computes a subset's confidence.", rich_help_panel=POLICIES),
    ] = "beta"
    estimator: Annotated[
        Literal["moments", "mle"],
        typer.Option(help="How the Beta distributions are estimated.", rich_help_panel=POLICIES),
    ] = "moments"
    window: Annotated[
        int,
        typer.Option(
            min=1,
            help="Items planned on the same state, as under concurrency; 1 as in the paper.",
            rich_help_panel=RUNS,
        ),
    ] = 1
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Also measure the scores that the server would have returned.",
            rich_help_panel=RUNS,
        ),
    ] = False
    seed: Annotated[
        int,
        typer.Option(min=0, help="Seed of the first shuffle; the others count up.", rich_help_panel=RUNS),
    ] = 0
    jobs: Annotated[int, typer.Option(min=1, help="Processes.", rich_help_panel=RUNS)] = 1
    json: Annotated[
        Path | None,
        typer.Option(
            "--json",
            help="Write all rows and means to this file (see docs/replay.md).",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    report: Annotated[
        Path | None,
        typer.Option(help="Draw a report into this folder.", rich_help_panel=OUTPUT),
    ] = None

    def study(
        self, *, policies: Sequence[str], deltas: str, k_mins: str, alpha: float, shuffles: int
    ) -> ReplayStudy:
        """Return the study that these options and those with different defaults describe.

        Raises:
            ReplayError: a list is not one of numbers.
        """
        from backend.commands.replay.policies import Parameters  # noqa: PLC0415 - keeps the help fast
        from backend.commands.replay.study import ReplayStudy  # noqa: PLC0415 - keeps the help fast

        return ReplayStudy(
            policies=policies,
            deltas=decimals(deltas, "--delta"),
            k_mins=integers(k_mins, "--k-min"),
            agreements=[] if self.agreement is None else decimals(self.agreement, "--agreement"),
            parameters=Parameters(
                alpha=alpha,
                lambda_r=self.lambda_r,
                n0=self.n0,
                confidence=self.confidence,
                estimator=self.estimator,
                worth=self.worth,
                first=self.first,
            ),
            lambda_l=self.lambda_l,
            window=self.window,
            calibrate=self.calibrate,
            shuffles=shuffles,
            seed=self.seed,
            jobs=self.jobs,
            json=self.json,
            report=self.report,
        )


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Give Typer a command with one option for each field in the place of a parameter that is a dataclass."""
    groups: dict[str, type[Any]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if is_dataclass(parameter.annotation):
            groups[name] = cast("type[Any]", parameter.annotation)
            parameters += _options_of(groups[name])
        else:
            parameters.append(parameter)

    def expanded(**options: Any) -> None:
        grouped = {
            name: group(**{field.name: options.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**options, **grouped)

    expanded.__name__, expanded.__doc__ = command.__name__, command.__doc__
    expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by Typer
    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return expanded


def _options_of(group: type[Any]) -> list[inspect.Parameter]:
    """A command's parameter for each field."""
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(group)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """The options about the table. The help texts explain them."""

    prices: Annotated[
        str | None,
        typer.Option(
            help="$ per million input tokens: model=usd,… or a JSON file.",
            show_default="the JSON file beside VOTES.csv",
            rich_help_panel=DATA,
        ),
    ] = None
    embeddings: Annotated[
        Path | None,
        typer.Option(
            help="Contexts of the items (.npy).",
            show_default="embed the texts once and cache the result",
            rich_help_panel=DATA,
        ),
    ] = None
    context: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Column with each item's language, subject or the like, on which skill may hang.",
            rich_help_panel=DATA,
        ),
    ] = None
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Replay only the first items of each shuffle.", rich_help_panel=DATA),
    ] = None
    human_labels: Annotated[
        str,
        typer.Option(
            "--human-labels",
            help="Share of the items that a human labels, and which: random:0.05, first:0.05, lowest:0.05.",
            rich_help_panel=DATA,
        ),
    ] = "0"
    confidences: Annotated[
        bool,
        typer.Option(
            help="Use the columns conf_<model>: how sure each model says it is.", rich_help_panel=DATA
        ),
    ] = True
    complete: Annotated[
        bool,
        typer.Option(
            "--complete",
            help="Ask the models that were left out about the items that a human labels.",
            rich_help_panel=RUNS,
        ),
    ] = False
    student: Annotated[
        bool | None,
        typer.Option(
            "--student/--no-student",
            help="Let a student that reads the texts vote too, for nothing.",
            show_default="beside joint, if the table has texts",
            rich_help_panel=DATA,
        ),
    ] = None
    delimiter: Annotated[
        str, typer.Option(help="What separates the cells: a character, or tab.", rich_help_panel=DATA)
    ] = ","
    in_order: Annotated[
        bool,
        typer.Option("--in-order", help="Replay the rows as they stand, to see drift.", rich_help_panel=RUNS),
    ] = False

    def replay(self, votes: Path, study: ReplayStudy) -> TableReplay:
        """Return the replay of a table of votes that these options describe.

        Raises:
            ReplayError: ``--human-labels`` is not one of its forms.
        """
        from backend.commands.replay.inputs import parse_human_labels  # noqa: PLC0415 - keeps the help fast
        from backend.commands.replay.table import TableReplay  # noqa: PLC0415 - keeps the help fast

        return TableReplay(
            study=study,
            votes=votes,
            prices=self.prices,
            embeddings=self.embeddings,
            human_labels=parse_human_labels(self.human_labels),
            limit=self.limit,
            confidences=self.confidences,
            student=self.student,
            complete=self.complete,
            delimiter=self.delimiter,
            in_order=self.in_order,
            context=self.context,
        )


@with_groups
def replay(
    *,
    votes: Annotated[
        Path,
        typer.Argument(metavar="VOTES.csv", help="CSV with text, truth and a column of labels per model."),
    ],
    table: TableOptions,
    policy: PolicyNames = ["camvo", "baseline", "majority"],  # noqa: B006 - Typer copies it
    delta: Deltas = "0.97",
    k_min: KMins = "3",
    alpha: Annotated[
        float, typer.Option(help="α: width of the confidence bound.", rich_help_panel=POLICIES)
    ] = 0.25,
    shuffles: Annotated[
        int, typer.Option(min=1, help="Random orders of the items.", rich_help_panel=RUNS)
    ] = 1,
    shared: SharedOptions,
) -> None:
    """Replay a table of votes and print each policy's cost and accuracy. Calls no model.

    Example: camvo replay votes.csv --prices small=0.1,large=5 --policy joint --policy majority
    """
    from rich.console import Console  # noqa: PLC0415 - keeps the help fast

    study = shared.study(policies=policy, deltas=delta, k_mins=k_min, alpha=alpha, shuffles=shuffles)
    table.replay(votes, study).run(Console(), Console(stderr=True))

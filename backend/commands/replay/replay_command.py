"""``camvo replay``: its options. Heavy modules are imported when it runs, which keeps the help fast."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, cast

import typer
from rich.console import Console

from backend.commands.shared.arguments import OptionGroup, ScaleError, numbers, with_groups
from backend.errors import ReplayError
from camvo.policies.parameters import CLASSES, ByLabel, declared_by


def _value_by_label(text: str, option: str) -> float | ByLabel:
    """Parse a finite number, or numbers by label: ``Fraud=50,default=10``.

    >>> _value_by_label("Fraud=50,default=10", "--worth")
    {'Fraud': 50.0, 'default': 10.0}
    """
    if "=" not in text:
        return numbers(text.replace(",", " "), option, float)[0]
    found = ByLabel()
    for part in text.split(","):
        label, _, value = part.rpartition("=")
        if not label.strip():
            raise ReplayError(f"{part!r} names no label", where=option, fix="give e.g. Fraud=50,default=10")
        (found[label.strip()],) = numbers(value, option, float)
    return found


if TYPE_CHECKING:
    from backend.commands.replay.study import ReplayStudy
    from backend.commands.replay.table import TableReplay

app = typer.Typer()

DATA, _POLICIES, RUNS, _OUTPUT = "Data", "Policies", "Runs", "Output"
"""The groups of options in the help."""

PolicyNames: TypeAlias = Annotated[
    list[str],
    typer.Option(
        "--policy",
        help="Policy to replay; may be repeated: camvo, ccamvo, joint, baseline,"
        " majority, cascade:SCORE, random:SHARE, single:MODEL, subset:MODEL+MODEL, best-single or"
        " router:GAIN.",
        rich_help_panel=_POLICIES,
    ),
]
PolicyParameters: TypeAlias = Mapping[str, object]
"""The parameters of the policies by name, with which :func:`with_policies` replaces the options made of them.

The values of ``delta``, ``k_min`` and ``agreement`` are lists, as text; that of ``worth`` may be by label.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOptions:
    """The options that both commands have with the same default. The help texts explain them."""

    lambda_l: Annotated[
        float, typer.Option("--lambda-l", help="λ_L: ridge of the linear models.", rich_help_panel=_POLICIES)
    ] = 1.0
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
        int, typer.Option(min=0, help="Seed of the first shuffle; the others count up.", rich_help_panel=RUNS)
    ] = 0
    jobs: Annotated[int, typer.Option(min=1, help="Processes.", rich_help_panel=RUNS)] = 1
    json: Annotated[
        Path | None,
        typer.Option(
            "--json",
            help="Write all rows and means to this file (see docs/replay.md).",
            rich_help_panel=_OUTPUT,
        ),
    ] = None
    report: Annotated[
        Path | None, typer.Option(help="Draw a report into this folder.", rich_help_panel=_OUTPUT)
    ] = None

    def study(self, *, policies: Sequence[str], parameters: PolicyParameters, shuffles: int) -> ReplayStudy:
        """Return the study that these options and those with different defaults describe."""
        from backend.commands.replay.study import ReplayStudy  # noqa: PLC0415 - keeps the help fast

        of_labels = {name for name, each in declared_by(CLASSES).items() if each.about.by_label}
        others = {
            name: _value_by_label(str(value), f"--{name}") if name in of_labels else value
            for name, value in parameters.items()
        }
        delta, k_min, agreement = (others.pop(name) for name in ("delta", "k_min", "agreement"))
        return ReplayStudy(
            policies=policies,
            deltas=numbers(str(delta), "--delta", float),
            k_mins=numbers(str(k_min), "--k-min", int),
            agreements=[] if agreement is None else numbers(str(agreement), "--agreement", float),
            parameters=others,
            shuffles=shuffles,
            **asdict(self),
        )


def _policy_options(
    classes: Iterable[type[Any]], taken: Collection[str] = (), defaults: Mapping[str, str] | None = None
) -> dict[str, inspect.Parameter]:
    """Make an option of each parameter of the policies."""
    options = {}
    for name, declared in declared_by(classes).items():
        about = declared.about
        if not about.in_replay:
            continue
        kind, default, text = declared.kind, declared.default, about.help
        if about.by_label:
            kind, default = str, str(default)
            text = f"{text} By label: Fraud=50,default=10."
        if about.sweep:
            kind, text = str, f"{text} A list, e.g. {about.sweep}."
            default = None if default is None else f"{default:g}"
        default = (defaults or {}).get(name, default)
        option = f"policy_{name}" if name in taken else name
        spelling = f"--{option.replace('_', '-')}"
        options[name] = inspect.Parameter(
            option,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[
                kind | None if default is None else kind,
                typer.Option(spelling, help=text, rich_help_panel=_POLICIES),
            ],
        )
    return options


def with_policies(**defaults: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give Typer a command in which parameters that represent several options are replaced by these options.

    A parameter that is a dataclass becomes an option for each of its fields; ``parameters`` becomes an option
    for each parameter of the policies.
    """

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        groups = [
            OptionGroup.of(cast("type[Any]", each.annotation))
            for each in own.values()
            if is_dataclass(each.annotation)
        ]
        taken = {*own, *(option.name for group in groups for option in group.options)}
        options = _policy_options(CLASSES, taken, defaults)
        names = {option.name: name for name, option in options.items()}

        def by_parameter(values: Mapping[str, Any]) -> PolicyParameters:
            return {names[option]: value for option, value in values.items()}

        return with_groups(command, parameters=OptionGroup(list(options.values()), by_parameter))

    return with_options


@dataclass(frozen=True, slots=True, kw_only=True)
class _TableOptions:
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
            help="Let a student that reads the texts vote too, free of charge.",
            show_default="beside joint, if the table has texts",
            rich_help_panel=DATA,
        ),
    ] = None
    ordered: Annotated[
        ScaleError | None,
        typer.Option(
            "--ordered",
            help="The labels are numbers on a scale; which error to minimise.",
            show_default=False,
            rich_help_panel=DATA,
        ),
    ] = None
    delimiter: Annotated[
        str, typer.Option(help="What separates the cells: a character, or tab.", rich_help_panel=DATA)
    ] = ","
    in_order: Annotated[
        bool,
        typer.Option(
            "--in-order",
            help="Replay the rows in the order of the table, to see drift.",
            rich_help_panel=RUNS,
        ),
    ] = False

    def replay(self, votes: Path, study: ReplayStudy) -> TableReplay:
        """Return the replay of a table of votes that these options describe."""
        from backend.commands.replay.inputs import HumanLabels  # noqa: PLC0415 - keeps the help fast
        from backend.commands.replay.table import TableReplay  # noqa: PLC0415 - keeps the help fast

        options = {**asdict(self), "human_labels": HumanLabels.parse(self.human_labels)}
        return TableReplay(study=study, votes=votes, **options)


@app.command()
@with_policies()
def replay(
    *,
    votes: Annotated[
        Path,
        typer.Argument(metavar="VOTES.csv", help="CSV with text, truth and a column of labels per model."),
    ],
    table: _TableOptions,
    policy: PolicyNames = ["camvo", "baseline", "majority"],  # noqa: B006 - Typer copies it
    parameters: PolicyParameters,
    shuffles: Annotated[
        int, typer.Option(min=1, help="Random orders of the items.", rich_help_panel=RUNS)
    ] = 1,
    shared: SharedOptions,
) -> None:
    """Replay a table of votes and print each policy's cost and accuracy. Calls no model.

    Example: camvo replay votes.csv --prices small=0.1,large=5 --policy joint --policy majority
    """
    study = shared.study(policies=policy, parameters=parameters, shuffles=shuffles)
    table.replay(votes, study).run(Console(), Console(stderr=True))

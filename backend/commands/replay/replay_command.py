"""``camvo replay``: its options. Heavy modules are imported when it runs, which keeps the help fast."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias, cast

import typer
from rich.console import Console

from backend.commands.replay.options import POLICIES, RUNS, PolicyParameters, SharedOptions, TableOptions
from backend.commands.shared.arguments import OptionGroup, with_groups
from camvo.policies.parameters import CLASSES, declared_by

app = typer.Typer()

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
                typer.Option(spelling, help=text, rich_help_panel=POLICIES),
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


@app.command()
@with_policies()
def replay(
    *,
    votes: Annotated[
        Path,
        typer.Argument(metavar="VOTES.csv", help="CSV with text, truth and a column of labels per model."),
    ],
    table: TableOptions,
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
    from backend.commands.replay.study import ReplayStudy  # noqa: PLC0415 - keeps the help fast
    from backend.commands.replay.table import TableReplay  # noqa: PLC0415 - keeps the help fast

    study = ReplayStudy.of(shared, policies=policy, parameters=parameters, shuffles=shuffles)
    TableReplay(study, votes, table).run(Console(), Console(stderr=True))

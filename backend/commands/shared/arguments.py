"""Options that several commands share, and their checks. Nothing heavy is imported here."""

from __future__ import annotations

import csv
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeAlias,
    cast,
    get_type_hints,
)

import typer
from rich.console import Console

from backend.commands.shared.output import say
from backend.errors import ConfigError

if TYPE_CHECKING:
    from backend.commands.shared.options import LabelOptions
    from backend.settings import Environment

LabelStudioUrl: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--label-studio",
        help="Label Studio's address, e.g. http://host:8080.",
        show_default="LABEL_STUDIO_URL",
    ),
]


def _without_mistakes(config: Path | None) -> Path | None:
    """Refuse a config with mistakes at once: what a command imports may take ten seconds."""
    from backend.settings import Environment, load  # noqa: PLC0415 - keeps the help fast

    load(_chosen(config, Environment()))
    return config


_CONFIG_HELP = "The camvo.yaml to use."
_USUAL_CONFIG = "CAMVO_CONFIG, else camvo.yaml in this folder, else the defaults"
Config: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", help=_CONFIG_HELP, show_default=_USUAL_CONFIG, callback=_without_mistakes),
]
AnyConfig: TypeAlias = Annotated[
    Path | None, typer.Option("--config", help=_CONFIG_HELP, show_default=_USUAL_CONFIG)
]
"""The same for commands that may need no camvo.yaml at all, such as those of the ledger."""


_USUAL = "camvo.yaml"


def environment_with(config: Path | None) -> Environment:
    """Return the environment, with ``--config`` instead of ``CAMVO_CONFIG`` if it is given.

    Without both, a ``camvo.yaml`` in the folder is used; a line on stderr says so.
    """
    from backend.settings import Environment  # noqa: PLC0415 - keeps the help fast

    environment = Environment()
    if (chosen := _chosen(config, environment)) not in {config, environment.config}:
        _say_that_it_is_used()
    return environment.model_copy(update={"config": chosen})


def quiet_environment(config: Path | None) -> Environment:
    """The environment of a command that says itself what it does, so only errors are logged by default."""
    from backend.telemetry import logs  # noqa: PLC0415 - keeps the help fast

    environment = environment_with(config)
    logs.configure(environment.log_level if "log_level" in environment.model_fields_set else "error")
    return environment


def _chosen(config: Path | None, environment: Environment) -> Path | None:
    usual = Path(_USUAL)
    return config or environment.config or (usual if usual.exists() else None)


@cache
def _say_that_it_is_used() -> None:
    say(Console(stderr=True), f"camvo: {_USUAL} in this folder is used (--config names another)")


SourceFile: TypeAlias = Annotated[
    Path | None,
    typer.Argument(help="The tasks: .csv, .jsonl, .parquet, or Label Studio's .json.", show_default=False),
]
ScaleError: TypeAlias = Literal["exact", "absolute", "quadratic"]
"""What an answer on a scale minimises; :data:`camvo.votes.labels.ErrorName` without its slow import."""

Name: TypeAlias = Annotated[
    str | None, typer.Option("--name", help="The project in the ledger.", show_default="the file's name")
]
Budget: TypeAlias = Annotated[
    float | None,
    typer.Option("--budget", min=0, help="The most dollars that the job may cost over all its runs."),
]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", help="Spend what the quote says without being asked.")]
Pilot: TypeAlias = Annotated[
    int,
    typer.Option(
        "--pilot",
        min=0,
        help="First ask every model about this number of random tasks, for a narrower quote.",
    ),
]
InOrder: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--in-order", help="Label the tasks in their order, not in a random one, which plans learn best from."
    ),
]
NoWait: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--no-wait",
        help="Decide tasks without the models that are down, instead of waiting until they are back.",
    ),
]
ProjectInstead: TypeAlias = Annotated[
    int | None, typer.Option("--project", min=1, help="This project of Label Studio instead of a file.")
]


class ChosenTasks(NamedTuple):
    """The tasks that a command is about, those of a file or of a project by its number, and its options."""

    source: Path | int
    options: LabelOptions
    config: Path | None
    label_studio: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksOf:
    """The options of a command about the tasks of a file or of a project. The help texts explain them."""

    source: SourceFile = None
    project: ProjectInstead = None
    label_config: Annotated[
        Path | None, typer.Option("--label-config", help="The label config, an XML file.")
    ] = None
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels", help="Instead of a label config: labels, with commas; one that has any, in quotes."
        ),
    ] = None
    text_column: Annotated[
        str | None, typer.Option("--text-column", help="With --labels: the column of the text.")
    ] = None
    ordered: Annotated[
        ScaleError | None,
        typer.Option(
            "--ordered",
            help="With --labels: they are a scale, the lowest or the highest first; which error to minimise.",
            show_default=False,
        ),
    ] = None
    config: Config = None
    id_column: Annotated[
        str | None,
        typer.Option("--id-column", help="The column of the ids.", show_default="a hash of the content"),
    ] = None
    name: Name = None
    label_studio: LabelStudioUrl = None

    def require_one(
        self, *, of_file: Mapping[str, object] | None = None, of_project: Mapping[str, object] | None = None
    ) -> None:
        """Check that there is either a file or a project, and no option of the other one."""
        if (self.source is None) == (self.project is None):
            raise ConfigError("say what to label", where="SOURCE", fix="give a file, or --project N")
        if self.source is not None:
            fix = "give --project N in place of a file"
            refuse("is for projects", fix, **(of_project or {}), label_studio=self.label_studio)
            return
        names = "label_config", "labels", "text_column", "ordered", "id_column", "name"
        own = {name: getattr(self, name) for name in names}
        refuse("is for files", "leave it out: Label Studio has the tasks", **own, **(of_file or {}))

    def chosen(self, of_project: Mapping[str, object] | None = None, **others: Any) -> ChosenTasks:
        """The tasks and the options of a run, checked as by :meth:`require_one`."""
        self.require_one(of_project=of_project)
        source = self.source or int(self.project or 0)
        return ChosenTasks(source, self.run_options(**others), self.config, self.label_studio)

    def run_options(self, **others: Any) -> LabelOptions:
        """The options of a run on a file."""
        from backend.commands.shared.options import LabelOptions  # noqa: PLC0415 - keeps the help fast

        return LabelOptions(
            label_config=None
            if self.label_config is None
            else read_text(self.label_config, "--label-config"),
            labels=listed(self.labels or ""),
            text_column=self.text_column,
            ordered=self.ordered,
            id_column=self.id_column,
            name=self.name,
            **others,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelChanges:
    """What is to become of labels, as it is written on the command line. The help texts explain it."""

    renames: Annotated[
        list[str] | None, typer.Option("--rename", metavar="OLD=NEW", help="A label has a new name.")
    ] = None
    merges: Annotated[
        list[str] | None, typer.Option("--merge", metavar="A,B=C", help="Labels become one.")
    ] = None
    drops: Annotated[
        list[str] | None,
        typer.Option("--drop", metavar="LABEL", help="A label is given up; its tasks are asked about again."),
    ] = None
    splits: Annotated[
        list[str] | None,
        typer.Option(
            "--split", metavar="OLD=A,B", help="A label becomes several; its tasks are asked again."
        ),
    ] = None
    adds: Annotated[
        list[str] | None,
        typer.Option("--add", metavar="NEW=A,B", help="A label is new; tasks of A and B may get it."),
    ] = None
    below: Annotated[
        float | None,
        typer.Option("--below", min=0.0, max=1.0, help="Also ask again about tasks with a lower score."),
    ] = None
    control: Annotated[
        str | None, typer.Option("--control", help="The question, if several have the label.")
    ] = None
    label_config: Annotated[
        Path | None,
        typer.Option(
            "--label-config",
            help="The label config afterwards, an XML file.",
            show_default="Label Studio's if it has changed already, else the present one with these changes",
        ),
    ] = None
    undo: Annotated[bool, typer.Option("--undo", help="Take the latest change of labels back.")] = False
    anew: Annotated[
        bool, typer.Option("--anew", help="The labels are entirely new: ask about all tasks again.")
    ] = False


class OptionGroup(NamedTuple):
    """Several options of the command line that are one parameter of a command.

    Attributes:
        options: the parameters of the function that Typer gets.
        value: makes the command's parameter of the options' values.
    """

    options: Sequence[inspect.Parameter]
    value: Callable[[Mapping[str, Any]], object]

    @classmethod
    def of(cls, kind: type[Any]) -> OptionGroup:
        """A dataclass: an option for each of its fields."""
        hints = get_type_hints(kind, include_extras=True)
        return cls(
            [
                inspect.Parameter(
                    field.name,
                    inspect.Parameter.KEYWORD_ONLY,
                    default=field.default,
                    annotation=hints[field.name],
                )
                for field in fields(kind)
            ],
            lambda values: kind(**values),
        )


def with_groups(command: Callable[..., None], **others: OptionGroup) -> Callable[..., None]:
    """The command as Typer needs it: parameters that are groups of options are replaced by these."""
    own = inspect.signature(command, eval_str=True).parameters
    groups = others | {
        name: OptionGroup.of(cast("type[Any]", each.annotation))
        for name, each in own.items()
        if is_dataclass(each.annotation)
    }
    parameters = [
        option.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, each in own.items()
        for option in (groups[name].options if name in groups else [each])
    ]

    def expanded(**given: Any) -> None:
        values = {
            name: group.value({option.name: given.pop(option.name) for option in group.options})
            for name, group in groups.items()
        }
        command(**given, **values)

    expanded.__name__, expanded.__doc__ = command.__name__, command.__doc__
    expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by Typer
    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return expanded


def refuse(message: str, fix: str, **options: object) -> None:
    """Refuse options that are given where they have no meaning."""
    for name, value in options.items():
        if value is not None and value is not False and value != 0:
            raise ConfigError(message, where=f"--{name.replace('_', '-')}", fix=fix)


def consent(command: str, *, yes: bool, dry_run: bool) -> Callable[[str], bool]:
    """What asks whether to go on with a command; a dry run never does."""

    def agreed(question: str) -> bool:
        if dry_run:
            return False
        if not yes and not sys.stdin.isatty():
            raise ConfigError("there is no terminal to ask", where=command, fix="add --yes or --dry-run")
        return yes or typer.confirm(question)

    return agreed


def require_webhook_secret(environment: Environment, fix: str) -> None:
    """Refuse basic auth without a secret of webhooks; ``fix`` says where to set it."""
    if environment.basic_auth_user is not None and environment.webhook_secret is None:
        raise ConfigError(
            "Label Studio's webhooks carry no basic auth, so the server would refuse every human answer",
            where="CAMVO_WEBHOOK_SECRET",
            fix=fix,
        )


def read_text(path: Path, option: str) -> str:
    """The text of a file that an option names."""
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} cannot be read: {type(error).__name__}", where=option, fix="check the path"
        ) from None


def listed(text: str) -> list[str]:
    """The names in a list with commas; quotes are around a name that has one.

    >>> listed('good, "bad, or worse"')
    ['good', 'bad, or worse']
    """
    rows = csv.reader(text.splitlines(), skipinitialspace=True)
    return [name.strip() for row in rows for name in row if name.strip()]

"""The options of the commands for tasks of a file or project. Heavy modules are imported when one runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backend.commands.shared import arguments
from backend.commands.shared.arguments import (
    Config,
    TasksOf,
    refuse,
    with_groups,
)
from backend.errors import ConfigError

if TYPE_CHECKING:
    from backend.commands.shared.options import LabelOptions


@with_groups
def label(  # noqa: PLR0917 - a command's options
    tasks: TasksOf,
    out: arguments.Out = None,
    spreadsheet: arguments.Spreadsheet = False,
    blind: arguments.Blind = 0,
    sample: arguments.Sample = 0,
    pilot: arguments.Pilot = 0,
    budget: arguments.Budget = None,
    yes: arguments.Yes = False,
    retry_failed: arguments.RetryFailed = False,
    batch: arguments.Batch = False,
    wait: arguments.Wait = False,
    no_wait: arguments.NoWait = False,
    below: arguments.Below = 0.0,
    recount: arguments.Recount = False,
    ask_more: arguments.AskMore = None,
    certificate: arguments.Certificate = None,
    shard: arguments.ShardOf = None,
    engine: arguments.Engine = None,
) -> None:
    """Label a whole file, or a Label Studio project in this process. Calls models, which costs money.

    It says first what it will cost, and asks before it spends more than a dollar. After Ctrl-C or a crash,
    the same command continues where it stopped: nothing that was paid for is lost.
    Exit codes: 0 every task has a label and no vote is missing; 1 tasks have no label; 2 wrong options, or no
    consent to the cost; 3 votes are missing that may still come; 4 models were rejected or gave no or hardly
    any votes; 5 a disk is full; 130 after Ctrl-C.

    Example: camvo label reviews.csv --labels Positive,Negative --text-column review --out labels.csv
    """
    of_run = {"blind": blind, "sample": sample}
    tasks.require_one(of_file={**of_run, "shard": shard, "engine": engine})
    if ask_more is not None and not recount:
        raise ConfigError("is for counting again", where="--ask-more", fix="add --recount")
    of_batches = {"batch": batch, "wait": wait}
    counting = {"recount": recount, "ask_more": ask_more}
    spending: dict[str, Any] = {"budget": budget, "yes": yes, "pilot": pilot, "retry_failed": retry_failed}
    spending |= {"no_wait": no_wait, "spreadsheet": spreadsheet, "below": below}
    if tasks.project is not None:
        refuse("is for files", "use camvo report --certificate FILE", certificate=certificate)
        ending = _label_project(tasks, out, **spending, **of_batches, **counting)
    else:
        if tasks.source is None or out is None:
            raise ConfigError("say where the labels go", where="--out", fix="give --out labels.csv")
        if engine is not None:
            refuse("is for CSV, and parts are Parquet", "leave it out", spreadsheet=spreadsheet)
        parts = _checked_parts(shard, engine, recount, of_batches, **of_run, pilot=pilot)
        blind_file = (Path() if engine else _file_of(out).parent) / "blind.csv"
        run = {**of_run, **of_batches, **spending, **counting, **parts, "blind_file": blind_file}
        options = tasks.run_options(**run)
        ending = _label_file(tasks.source, out, options, tasks.config, engine)
        if certificate is not None:
            _issue(certificate, options.project(tasks.source), tasks.config)
    if ending:
        raise typer.Exit(ending)


def _checked_parts(
    shard: str | None,
    engine: str | None,
    recount: bool,
    of_batches: Mapping[str, bool],
    **of_one_process: int,
) -> dict[str, object]:
    """The options of a run that is divided; those that need the whole file in one process are refused."""
    from backend.datasets.tasks import (  # noqa: PLC0415
        WHOLE,
        Shard,
    )

    if shard or engine:
        fix = "set audit in camvo.yaml to a share of the tasks: every host then keeps the same ones blind"
        refuse("draws one sample of a file that one process labels", fix, blind=of_one_process.pop("blind"))
        again = "run it once more for the whole file, without --shard and --engine: nothing is paid twice"
        refuse("goes through the whole file in one process", again, recount=recount)
        refuse("is for a file that one process labels", "run it without parts first", **of_one_process)
    if engine:
        refuse("divides a file among hosts, as --engine does itself", "leave one out", shard=shard)
        at_once = "leave it out, or run it without --engine"
        refuse("is for one process that waits for all its batches", at_once, **of_batches)
    return {"shard": WHOLE if shard is None else Shard.parse(shard)}


def _label_file(
    source: Path, out: str, options: LabelOptions, config: Path | None, engine: arguments.Engine
) -> int:
    if engine is None:
        from backend.commands.label.run import label_file  # noqa: PLC0415 - keeps the help fast

        return label_file(source, _file_of(out), options, config)
    from backend.commands.label.engines import label_in_parts  # noqa: PLC0415

    return label_in_parts(source, out, options, config, engine)


def _issue(certificate: Path, project: str, config: Path | None) -> None:
    from rich.console import Console  # noqa: PLC0415 - keeps the help fast

    from backend.commands.shared.certificate import issue_certificate  # noqa: PLC0415
    from backend.commands.shared.setup import environment_with  # noqa: PLC0415

    issue_certificate(Console(), environment_with(config), project, certificate)


def _label_project(tasks: TasksOf, out: str | None, **spending: Any) -> int:
    """Label a project in this process; returns the exit code."""
    from backend.commands.label.project import label_project  # noqa: PLC0415 - keeps the help fast
    from backend.commands.shared.options import LabelOptions  # noqa: PLC0415 - keeps the help fast

    file = None if out is None else _file_of(out)
    return label_project(
        int(tasks.project or 0), tasks.config, tasks.label_studio, LabelOptions(**spending), file
    )


def _file_of(out: str) -> Path:
    """The file that ``--out`` names."""
    if "://" in out:
        raise ConfigError(
            "only parts are written to an object store",
            where="--out",
            fix="add --engine asyncio, or name a file",
        )
    return Path(out)


@with_groups
def quote(  # noqa: PLR0917 - a command's options
    tasks: TasksOf,
    pilot: arguments.Pilot = 0,
    batch: arguments.Batch = False,
    budget: arguments.Budget = None,
    yes: arguments.Yes = False,
    below: arguments.Below = 0.0,
    target: Annotated[
        float | None,
        typer.Option(
            "--target",
            min=0.01,
            max=0.999,
            help="Also say which mix of models and people makes this share of all labels right at the lowest"
            " price.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what labelling a file or a project will cost, and how long it takes.

    It counts the tokens of every task for every model, and spends nothing without --pilot. --pilot asks every
    model about some random tasks for real. They are part of the job: camvo label does not ask about them
    again.

    Example: camvo quote reviews.csv --labels Positive,Negative --text-column review --pilot 200
    """
    from backend.commands.quote import print_quote_of  # noqa: PLC0415 - keeps the help fast

    chosen, options = tasks.chosen(pilot=pilot, batch=batch, budget=budget, yes=yes, below=below)
    print_quote_of(chosen, options, tasks.config, tasks.label_studio, as_json=as_json, target=target)


def jobs(
    project: Annotated[
        str | None, typer.Option("--project", help="Only the jobs of this project.", show_default="all")
    ] = None,
    cancel: Annotated[
        str | None, typer.Option("--cancel", help="Cancel the jobs whose ids begin with this, or 'all'.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    config: Config = None,
) -> None:
    """List the batches that camvo label sent to providers, with their costs, or cancel them.

    Answers that a provider gave before the end are paid and kept. camvo label fetches them.

    Example: camvo jobs --cancel 3f2a
    """
    from rich.console import Console  # noqa: PLC0415 - keeps the help fast

    from backend.commands.jobs import list_jobs  # noqa: PLC0415 - keeps the help fast
    from backend.commands.shared.setup import environment_with  # noqa: PLC0415 - the same

    list_jobs(Console(), environment_with(config), project, cancel=cancel, as_json=as_json)


@with_groups
def show(
    task: Annotated[
        str,
        typer.Option(
            "--task", help="The task's number in Label Studio; of a file's row, its id or its line."
        ),
    ],
    tasks: TasksOf,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show one task: the messages that models are sent, their answers, the votes, prices and seconds.

    Sends nothing to a model, and spends nothing. It prints the task's texts.

    Example: camvo show --project 1 --task 12 --config camvo.yaml
    """
    from backend.commands.show import show_task  # noqa: PLC0415 - keeps the help fast

    chosen, options = tasks.chosen()
    show_task(chosen, task, options, tasks.config, tasks.label_studio, as_json=as_json)


def teach(
    source: Annotated[
        Path, typer.Argument(help="The labels: blind.csv, or any table with its columns.", show_default=False)
    ],
    annotator: Annotated[
        str | None,
        typer.Option(
            "--annotator",
            help="Whose labels: a number of Label Studio's, or a name.",
            show_default="the column camvo_annotator",
        ),
    ] = None,
    config: Config = None,
) -> None:
    """Take people's labels of a file back, also changed and emptied ones. Spends nothing.

    Several people may label the same tasks, each in a file of their own or in rows of their own.

    Example: camvo teach blind.csv --annotator anna
    """
    from rich.console import Console  # noqa: PLC0415 - keeps the help fast

    from backend.commands.teach import teach_file  # noqa: PLC0415 - keeps the help fast

    tally = teach_file(source, config, annotator)
    Console().print(tally.summary(), highlight=False, soft_wrap=True)

"""The options of the commands for tasks of a file or project. Heavy modules are imported when one runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from backend.commands.shared import arguments
from backend.commands.shared.arguments import (
    Config,
    LabelStudioUrl,
    Name,
    ProjectInstead,
    SourceFile,
    TasksOf,
    environment_with,
    refuse,
    with_groups,
)
from backend.commands.shared.output import say
from backend.errors import ConfigError

if TYPE_CHECKING:
    from backend.commands.shared.options import LabelOptions

app = typer.Typer()


@app.command()
@with_groups
def label(  # noqa: PLR0917 - a command's options
    tasks: TasksOf,
    out: arguments.Out = None,
    spreadsheet: arguments.Spreadsheet = False,
    blind: arguments.Blind = 0,
    sample: arguments.Sample = 0,
    in_order: arguments.InOrder = False,
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
    spending |= {"in_order": in_order, "no_wait": no_wait, "spreadsheet": spreadsheet, "below": below}
    if tasks.project is not None:
        refuse("is for files", "use camvo report --certificate FILE", certificate=certificate)
        ending = _label_project(tasks, out, **spending, **of_batches, **counting)
    else:
        if tasks.source is None or out is None:
            raise ConfigError("say where the labels go", where="--out", fix="give --out labels.csv")
        if engine is not None:
            refuse("is for CSV, and parts are Parquet", "leave it out", spreadsheet=spreadsheet)
            refuse("is for one process, and parts are labelled at once", "leave it out", in_order=in_order)
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
    from backend.datasets.tasks import WHOLE, Shard  # noqa: PLC0415

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
    from backend.commands.shared.certificate import issue_certificate  # noqa: PLC0415

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


@app.command()
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
    from backend.commands.bulk.quoting import print_quote_of  # noqa: PLC0415 - keeps the help fast

    chosen = tasks.chosen(pilot=pilot, batch=batch, budget=budget, yes=yes, below=below)
    print_quote_of(chosen, as_json=as_json, target=target)


@app.command()
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
    from backend.commands.bulk.batch_run import list_jobs  # noqa: PLC0415 - keeps the help fast

    list_jobs(Console(), environment_with(config), project, cancel=cancel, as_json=as_json)


@app.command()
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

    Example: camvo show --project 1 --task 12
    """
    from backend.commands.show import show_task  # noqa: PLC0415 - keeps the help fast

    show_task(tasks.chosen(), task, as_json=as_json)


@app.command()
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
    from backend.commands.shared.setup import interruptible  # noqa: PLC0415 - keeps the help fast
    from backend.commands.teach import teach_file  # noqa: PLC0415 - keeps the help fast

    with interruptible():
        tally = teach_file(source, config, annotator)
    say(Console(), tally.summary())


@app.command("try")
@with_groups
def try_text(  # noqa: PLR0917 - a command's options
    tasks: TasksOf,
    instructions: Annotated[
        Path | None,
        typer.Option(
            "--instructions", help="The new instructions: a plain text, or HTML if it is named *.html."
        ),
    ] = None,
    new_label_config: Annotated[
        Path | None,
        typer.Option("--new-label-config", help="The new label config: other labels, hints or instructions."),
    ] = None,
    sample: Annotated[
        int, typer.Option("--sample", min=1, help="Try it on this number of tasks, most of them labelled.")
    ] = 50,
    out: Annotated[
        Path, typer.Option("--out", metavar="PATH", help="Where the page goes, an HTML file.")
    ] = Path("try.html"),
    budget: arguments.Budget = None,
    yes: arguments.Yes = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare new instructions with the present ones, side by side, before anything changes.

    It asks every model about a sample of tasks with both texts, once its quote is agreed to. Answers are
    kept: trying again costs nothing, and they count once the text is adopted. With --project, --label-config
    is the same as --new-label-config.

    Example: camvo try --project 1 --instructions new.txt --sample 50
    """
    from backend.commands.instructions.trial import TrialOptions, run_trial  # noqa: PLC0415 - keeps the help fast

    new = new_label_config
    if tasks.source is None:  # the project has a label config, so this can only be the new one
        refuse("is given twice", "leave it out", label_config=new and tasks.label_config)
        new, tasks = new or tasks.label_config, replace(tasks, label_config=None)
    chosen = tasks.chosen(budget=budget, yes=yes)
    if instructions is None and new is None:
        raise ConfigError(
            "say what to try",
            where="--instructions",
            fix="give a file with new instructions, or a label config",
        )
    run_trial(chosen, TrialOptions(instructions, new, sample, out), as_json=as_json)


@app.command()
@with_groups
def codebook(  # noqa: PLR0917 - a command's options
    tasks: TasksOf,
    out: Annotated[
        Path, typer.Option("--out", metavar="PATH", help="Where the codebook goes, as Markdown.")
    ] = Path("codebook.md"),
    examples: Annotated[
        int, typer.Option("--examples", min=0, help="The most examples of a label, and of a confusion.")
    ] = 3,
    quote_blind: Annotated[
        bool,
        typer.Option("--quote-blind", help="Also quote blind tasks that people labelled; not for models."),
    ] = False,
    into_project: Annotated[
        bool,
        typer.Option(
            "--into-project",
            help="Also write it below the project's instructions in Label Studio, for annotators alone.",
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="With --into-project: change the project's instructions.")
    ] = False,
) -> None:
    """Write what each label means: its hint, examples that people confirmed, and what it is taken for.

    Reads the ledger and the tasks; asks no model and spends nothing. --into-project shows what it replaces
    in Label Studio, and changes it with --yes only. Models do not read that part, so nothing is paid again.

    Example: camvo codebook --project 1 --out codebook.md
    """
    from backend.commands.instructions.codebook import CodebookOptions, run_codebook  # noqa: PLC0415

    chosen = tasks.chosen({"into_project": into_project})
    refuse("needs --into-project", "leave it out", yes=yes and not into_project)
    refuse(
        "would show annotators the labels of blind tasks",
        "leave it out",
        quote_blind=quote_blind and into_project,
    )
    run_codebook(chosen, CodebookOptions(out, examples, quote_blind, into_project, yes))


@app.command()
@with_groups
def refine(  # noqa: PLR0917 - a command's options
    tasks: TasksOf,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            help="The model of the pool that proposes.",
            show_default="the one with the highest price of output",
        ),
    ] = None,
    sample: Annotated[
        int, typer.Option("--sample", min=20, help="Judge on at most this number of labelled tasks.")
    ] = 300,
    out: Annotated[
        Path, typer.Option("--out", metavar="PATH", help="The folder for the texts and their pages.")
    ] = Path("refine"),
    adopt: Annotated[
        Path | None,
        typer.Option("--adopt", metavar="PATH", help="Ask nobody: write this text into the project."),
    ] = None,
    take_back: Annotated[
        bool, typer.Option("--take-back", help="Ask nobody: write an earlier text of the project into it.")
    ] = False,
    text: Annotated[
        str | None,
        typer.Option("--text", metavar="ID", help="With --take-back: not the text before, but this one."),
    ] = None,
    budget: arguments.Budget = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Spend what the quote says, or change the project's text.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Let a model propose changes of the instructions, and judge them on labelled tasks that it never saw.

    Spends what its quote says at most, and changes nothing: one proposal with --adopt becomes the project's
    text, if you say so. At most three changes race with the present text; worse ones are dropped early.

    Example: camvo refine --project 1 --by opus --budget 5
    """
    chosen = tasks.chosen({"adopt": adopt, "take_back": take_back, "text": text}, budget=budget, yes=yes)
    refuse("is another text than that of --adopt", "leave one out", take_back=take_back and adopt)
    refuse("goes with --take-back", "add it", text=None if take_back else text)
    if adopt is not None or take_back:
        from backend.commands.instructions.codebook import adopt_text  # noqa: PLC0415 - the same

        refuse("asks nobody with --adopt or --take-back", "leave it out", by=by, budget=budget, json=as_json)
        number, console = int(tasks.project or 0), Console()
        adopt_text(number, adopt, tasks.config, tasks.label_studio, console, yes=yes, text_id=text)
        return
    from backend.commands.instructions.refine import RefineOptions, run_refine  # noqa: PLC0415 - the same

    run_refine(chosen, RefineOptions(by, sample, out), as_json=as_json)


@app.command()
def relabel(  # noqa: PLR0917 - a command's options
    source: SourceFile = None,
    project: ProjectInstead = None,
    rename: Annotated[
        list[str] | None, typer.Option("--rename", metavar="OLD=NEW", help="A label has a new name.")
    ] = None,
    merge: Annotated[
        list[str] | None, typer.Option("--merge", metavar="A,B=C", help="Labels become one.")
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option("--drop", metavar="LABEL", help="A label is given up; its tasks are asked about again."),
    ] = None,
    split: Annotated[
        list[str] | None,
        typer.Option(
            "--split", metavar="OLD=A,B", help="A label becomes several; its tasks are asked again."
        ),
    ] = None,
    add: Annotated[
        list[str] | None,
        typer.Option("--add", metavar="NEW=A,B", help="A label is new; tasks of A and B may get it."),
    ] = None,
    below: Annotated[
        float | None,
        typer.Option("--below", min=0.0, max=1.0, help="Also ask again about tasks with a lower score."),
    ] = None,
    control: Annotated[
        str | None, typer.Option("--control", help="The question, if several have the label.")
    ] = None,
    label_config: Annotated[
        Path | None,
        typer.Option(
            "--label-config",
            help="The label config afterwards, an XML file.",
            show_default="Label Studio's if it has changed already, else the present one with these changes",
        ),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Take the latest change of labels back.")] = False,
    anew: Annotated[
        bool, typer.Option("--anew", help="The labels are entirely new: ask about all tasks again.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan, and stop.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    name: Name = None,
    label_studio: LabelStudioUrl = None,
    config: Config = None,
) -> None:
    """Rename, merge, drop, split or add labels; only tasks that this concerns are asked about again.

    Prints its plan first, and loses no human label. In a project of Label Studio, the label config and the
    annotations change too.

    Example: camvo relabel --project 1 --rename bad=negative --merge good,great=positive
    """
    from backend.commands.relabel.label_changes import LabelChanges  # noqa: PLC0415 - keeps the help fast
    from backend.commands.relabel.run import run_relabel  # noqa: PLC0415 - the same

    if (source is None and name is None) == (project is None):
        raise ConfigError("say of what", where="SOURCE", fix="give a file or --name, or --project N")
    wanted = LabelChanges(
        rename or (),
        merge or (),
        drop or (),
        split or (),
        add or (),
        below,
        control,
        label_config,
        undo,
        anew,
    )
    changes = rename or merge or drop or split or add or below is not None
    if (undo or anew) and (changes or (undo and (anew or label_config))):
        raise ConfigError("stands alone", where="--undo" if undo else "--anew", fix="leave the others out")
    if anew and project is None:
        raise ConfigError(
            "is for projects", where="--anew", fix="label the file under another --name to begin anew"
        )
    run_relabel(
        source or (Path("name") if project is None else project),
        wanted,
        name=name,
        config=config,
        label_studio=label_studio,
        agreed=arguments.consent("relabel", yes=yes, dry_run=dry_run),
    )

"""The options of the commands for tasks of a file or project. Heavy modules are imported when one runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer
from rich.console import Console

from backend.commands.shared import arguments
from backend.commands.shared.arguments import (
    Config,
    LabelChanges,
    LabelStudioUrl,
    Name,
    ProjectInstead,
    SourceFile,
    TasksOf,
    quiet_environment,
    refuse,
    with_groups,
)
from backend.commands.shared.output import say
from backend.errors import ConfigError

if TYPE_CHECKING:
    from backend.datasets.tasks import Shard

app = typer.Typer()

_Below: TypeAlias = Annotated[
    float,
    typer.Option(
        "--below",
        min=0.0,
        max=1.0,
        help="Ask again about tasks with labels of earlier instructions and a lower score; 1 for all.",
    ),
]
_Batch: TypeAlias = Annotated[
    bool, typer.Option("--batch", help="Ask in providers' batches: at half the price, within a day.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _LabelOptions:
    """How ``camvo label`` labels, and where the labels go. The help texts explain it."""

    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="PATH",
            help="Where labels go: .csv, .jsonl, .parquet, or .json for import into Label Studio."
            " With --engine: a folder, or s3://bucket/folder/.",
        ),
    ] = None
    spreadsheet: Annotated[
        bool,
        typer.Option(
            "--spreadsheet",
            help="Put an apostrophe before the cells of a .csv that a spreadsheet would take for a formula.",
        ),
    ] = False
    blind: Annotated[
        int,
        typer.Option(
            "--blind",
            min=0,
            help="Keep this number of random tasks blind, and write them to blind.csv beside --out.",
        ),
    ] = 0
    sample: Annotated[
        int, typer.Option("--sample", min=0, help="Label only this number of random tasks, as a trial.")
    ] = 0
    in_order: arguments.InOrder = False
    pilot: arguments.Pilot = 0
    budget: arguments.Budget = None
    yes: arguments.Yes = False
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed",
            help="Ask again about the tasks that failed, and for votes that are missing, and nothing else;"
            " models get another attempt.",
        ),
    ] = False
    batch: _Batch = False
    wait: Annotated[
        bool, typer.Option("--wait", help="With batches: wait for them instead of coming back later.")
    ] = False
    no_wait: arguments.NoWait = False
    below: _Below = 0.0
    recount: Annotated[
        bool,
        typer.Option(
            "--recount", help="At the end, count kept votes again by what is known then. Costs nothing."
        ),
    ] = False
    ask_more: Annotated[
        float | None,
        typer.Option(
            "--ask-more",
            min=0,
            help="With --recount: ask models that were left out, where that is worth most, for at most"
            " this many dollars over all runs.",
        ),
    ] = None
    certificate: Annotated[
        Path | None,
        typer.Option("--certificate", help="Also write the certificate of the labels, an HTML page."),
    ] = None
    shard: Annotated[
        str | None,
        typer.Option("--shard", help="Label only this part of the tasks, as 3/16; run the others elsewhere."),
    ] = None
    engine: Annotated[
        Literal["asyncio", "ray"] | None,
        typer.Option(
            "--engine",
            help="Label in parts, here or on a Ray cluster; --out is then a folder.",
            show_default=False,
        ),
    ] = None


@app.command()
@with_groups
def label(tasks: TasksOf, chosen: _LabelOptions) -> None:
    """Label a whole file, or a Label Studio project in this process. Calls models, which costs money.

    It says first what it will cost, and asks before it spends more than a dollar. After Ctrl-C or a crash,
    the same command continues where it stopped: nothing that was paid for is lost.
    Exit codes: 0 every task has a label and no vote is missing; 1 tasks have no label; 2 wrong options, or no
    consent to the cost; 3 votes are missing that may still come; 4 models were rejected or gave no or hardly
    any votes; 5 a disk is full; 130 after Ctrl-C.

    Example: camvo label reviews.csv --labels Positive,Negative --text-column review --out labels.csv
    """
    of_run = {"blind": chosen.blind, "sample": chosen.sample}
    tasks.require_one(of_file={**of_run, "shard": chosen.shard, "engine": chosen.engine})
    if chosen.ask_more is not None and not chosen.recount:
        raise ConfigError("is for counting again", where="--ask-more", fix="add --recount")
    ending = _label_file(tasks, chosen) if tasks.project is None else _label_project(tasks, chosen)
    if ending:
        raise typer.Exit(ending)


def _label_file(tasks: TasksOf, chosen: _LabelOptions) -> int:
    if tasks.source is None or chosen.out is None:
        raise ConfigError("say where the labels go", where="--out", fix="give --out labels.csv")
    if chosen.engine is not None:
        alone = "leave it out"
        refuse("is for CSV, and parts are Parquet", alone, spreadsheet=chosen.spreadsheet)
        refuse("is for one process, and parts are labelled at once", alone, in_order=chosen.in_order)
    shard = _checked_parts(chosen)
    folder = Path() if chosen.engine else _file_of(chosen.out).parent
    options = tasks.run_options(**_of_run(chosen), shard=shard, blind_file=folder / "blind.csv")
    files = {path.resolve() for path in (tasks.source, Path(chosen.out), options.blind_file)}
    if chosen.certificate is not None and chosen.certificate.resolve() in files:
        raise ConfigError("is a file of the run", where="--certificate", fix="give it another name")
    if chosen.engine is None:
        from backend.commands.label.run import label_file  # noqa: PLC0415 - keeps the help fast

        ending = label_file(tasks.source, _file_of(chosen.out), options, tasks.config)
    else:
        from backend.commands.label.engines import label_in_parts  # noqa: PLC0415 - the same

        ending = label_in_parts(tasks.source, chosen.out, options, tasks.config, chosen.engine)
    if chosen.certificate is not None:
        from backend.commands.shared.certificate import issue_certificate  # noqa: PLC0415 - the same

        project, environment = options.project(tasks.source), quiet_environment(tasks.config)
        issue_certificate(Console(), environment, project, chosen.certificate)
    return ending


def _of_run(chosen: _LabelOptions) -> dict[str, Any]:
    """The options that are those of a run, as :class:`LabelOptions` has them."""
    others = {"out", "certificate", "shard", "engine"}
    return {name: value for name, value in asdict(chosen).items() if name not in others}


def _checked_parts(chosen: _LabelOptions) -> Shard:
    """The part of the file to label; options that need the whole file in one process are refused."""
    from backend.datasets.tasks import WHOLE, Shard  # noqa: PLC0415

    if chosen.shard or chosen.engine:
        fix = "set audit in camvo.yaml to a share of the tasks: every host then keeps the same ones blind"
        refuse("draws one sample of a file that one process labels", fix, blind=chosen.blind)
        again = "run it once more for the whole file, without --shard and --engine: nothing is paid twice"
        refuse("goes through the whole file in one process", again, recount=chosen.recount)
        fix = "run it without parts first"
        refuse("is for a file that one process labels", fix, sample=chosen.sample, pilot=chosen.pilot)
    if chosen.engine:
        refuse("divides a file among hosts, as --engine does itself", "leave one out", shard=chosen.shard)
        fix = "leave it out, or run it without --engine"
        one = "is for one process that waits for all its batches"
        refuse(one, fix, batch=chosen.batch, wait=chosen.wait)
    return WHOLE if chosen.shard is None else Shard.parse(chosen.shard)


def _label_project(tasks: TasksOf, chosen: _LabelOptions) -> int:
    from backend.commands.label.project import label_project  # noqa: PLC0415 - keeps the help fast
    from backend.commands.shared.options import LabelOptions  # noqa: PLC0415 - the same

    refuse("is for files", "use camvo report --certificate FILE", certificate=chosen.certificate)
    number, options = int(tasks.project or 0), LabelOptions(**_of_run(chosen))
    file = None if chosen.out is None else _file_of(chosen.out)
    return label_project(number, tasks.config, tasks.label_studio, options, file)


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
    batch: _Batch = False,
    budget: arguments.Budget = None,
    yes: arguments.Yes = False,
    below: _Below = 0.0,
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

    list_jobs(Console(), quiet_environment(config), project, cancel=cancel, as_json=as_json)


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
@with_groups
def relabel(
    source: SourceFile = None,
    project: ProjectInstead = None,
    *,
    wanted: LabelChanges,
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
    from backend.commands.relabel.run import run_relabel  # noqa: PLC0415 - keeps the help fast

    if (source is None and name is None) == (project is None):
        raise ConfigError("say of what", where="SOURCE", fix="give a file or --name, or --project N")
    changes = (wanted.renames, wanted.merges, wanted.drops, wanted.splits, wanted.adds)
    others = any(changes) or wanted.below is not None
    if (wanted.anew and others) or (wanted.undo and (others or wanted.anew or wanted.label_config)):
        where = "--undo" if wanted.undo else "--anew"
        raise ConfigError("stands alone", where=where, fix="leave the others out")
    if wanted.anew and project is None:
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

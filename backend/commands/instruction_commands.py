"""The options of the commands for instructions. Heavy modules are imported when one runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from backend.commands.shared import arguments
from backend.commands.shared.arguments import TasksOf, refuse, with_groups
from backend.errors import ConfigError


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
    chosen, options = tasks.chosen(budget=budget, yes=yes)
    if instructions is None and new is None:
        raise ConfigError(
            "say what to try",
            where="--instructions",
            fix="give a file with new instructions, or a label config",
        )
    trial = TrialOptions(instructions, new, sample, out)
    run_trial(chosen, trial, options, tasks.config, tasks.label_studio, as_json=as_json)


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

    chosen, options = tasks.chosen({"into_project": into_project})
    refuse("needs --into-project", "leave it out", yes=yes and not into_project)
    refuse(
        "would show annotators the labels of blind tasks",
        "leave it out",
        quote_blind=quote_blind and into_project,
    )
    wanted = CodebookOptions(out, examples, quote_blind, into_project, yes)
    run_codebook(chosen, wanted, options, tasks.config, tasks.label_studio)


@with_groups
def refine(  # noqa: PLR0917 - a command's options
    tasks: TasksOf,
    by: Annotated[
        str | None,
        typer.Option("--by", help="The model of the pool that proposes.", show_default="the dearest one"),
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
        bool,
        typer.Option("--take-back", help="Ask nobody: write the project's text before this one into it."),
    ] = False,
    budget: arguments.Budget = None,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Spend what the quote says, or change the project's text."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Let a model propose changes of the instructions, and judge them on labelled tasks that it never saw.

    Spends what its quote says at most, and changes nothing: one proposal with --adopt becomes the project's
    text, if you say so. At most three changes race with the present text; worse ones are dropped early.

    Example: camvo refine --project 1 --by opus --budget 5
    """
    chosen, options = tasks.chosen({"adopt": adopt, "take_back": take_back}, budget=budget, yes=yes)
    refuse("is another text than that of --adopt", "leave one out", take_back=take_back and adopt)
    if adopt is not None or take_back:
        from rich.console import Console  # noqa: PLC0415 - keeps the help fast

        from backend.commands.instructions.refine import adopt_text  # noqa: PLC0415 - the same

        refuse("asks nobody with --adopt or --take-back", "leave it out", by=by, budget=budget, json=as_json)
        adopt_text(int(tasks.project or 0), adopt, tasks.config, tasks.label_studio, Console(), yes=yes)
        return
    from backend.commands.instructions.refine import RefineOptions, run_refine  # noqa: PLC0415 - the same

    wanted = RefineOptions(by, sample, out)
    run_refine(chosen, wanted, options, tasks.config, tasks.label_studio, as_json=as_json)

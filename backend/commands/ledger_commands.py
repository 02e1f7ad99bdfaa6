"""The options of ``camvo ledger``. Heavy modules are imported when a command runs."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from backend.commands.shared.arguments import AnyConfig, consent, quiet_environment

app = typer.Typer(
    name="ledger", help="Change, check, export or copy what the ledger holds.", no_args_is_help=True
)


@app.command()
def forget(  # noqa: PLR0917 - a command's options
    annotator: Annotated[
        str | None, typer.Option(help="Whose labels: a number of Label Studio's, or a name as in files.")
    ] = None,
    project: Annotated[
        str | None, typer.Option(help="The labels of this project, by number or key.", show_default="all")
    ] = None,
    task: Annotated[
        int | None, typer.Option(min=0, help="The labels of this task. Needs --project.", show_default="all")
    ] = None,
    since: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"],
            help="Only labels that were last changed at this time or later, in UTC.",
        ),
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Let these labels count again.")] = False,
    from_now_on: Annotated[bool, typer.Option("--from-now-on", help="Withdraw future labels, too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, and stop.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    config: AnyConfig = None,
) -> None:
    """Withdraw the human labels of a person, a task or a project from everything that was learnt.

    Rewards, scores, examples and the guarantee are then as if nobody had given these labels. They stay in
    the ledger and come back with --undo. Labels given or changed after the command count, unless
    --from-now-on is given. The last command that covers a label decides. The server may run meanwhile.
    Repeat the command if it was interrupted.

    Nothing is erased. To erase labels and texts for good, delete the annotations or tasks in Label Studio,
    or the project there and then here: camvo ledger erase.

    Example: camvo ledger forget --annotator 7 --since 2026-01-01
    """
    from backend.commands.ledger import LabelsToForget  # noqa: PLC0415 - keeps the help fast
    from backend.commands.teach import annotator_number  # noqa: PLC0415

    number = annotator_number(annotator, "--annotator")
    wanted = LabelsToForget(number, project, task, since, undo=undo, from_now_on=from_now_on)
    wanted.forget(Console(), quiet_environment(config), agreed=consent("forget", yes=yes, dry_run=dry_run))


@app.command()
def erase(
    project: Annotated[str, typer.Option(help="The project, by number or key.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, and stop.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    config: AnyConfig = None,
) -> None:
    """Erase a deleted project, or that of a file: its votes, answers, texts and human labels.

    Delete a project in Label Studio first: it tells nobody.

    What it has cost stays in the accounts. It cannot be restored.

    Example: camvo ledger erase --project 3
    """
    from backend.commands.ledger import erase_project  # noqa: PLC0415

    agreed = consent("erase", yes=yes, dry_run=dry_run)
    erase_project(Console(), quiet_environment(config), project, agreed=agreed)


@app.command()
def prune(  # noqa: PLR0917 - a command's options
    older: Annotated[str, typer.Option(help="Prune what is older than this: 90d, 12w or 2y.")],
    project: Annotated[
        str | None, typer.Option(help="Prune this project only, by number or key.", show_default="all")
    ] = None,
    compact: Annotated[
        bool, typer.Option("--compact", help="Rewrite a SQLite file, so that the disk gets the room back.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, and stop.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    config: AnyConfig = None,
) -> None:
    """Delete old texts, answers and contexts for good, and replace old events by their verified sum.

    What was learnt stays, and so do labels, scores, votes and money. Human labels of pruned tasks that come
    later are counted, and teach nothing. The server may run meanwhile. Repeat the command if it was
    interrupted.

    Example: camvo ledger prune --older 90d
    """
    from backend.commands.ledger import prune_ledger  # noqa: PLC0415

    prune_ledger(
        Console(),
        quiet_environment(config),
        older=older,
        project=project,
        agreed=consent("prune", yes=yes, dry_run=dry_run),
        compact=compact,
    )


@app.command()
def verify(
    url: Annotated[
        str | None,
        typer.Argument(
            help="Another ledger, such as a copy: sqlite:///copy.sqlite", show_default="the server's"
        ),
    ] = None,
    config: AnyConfig = None,
) -> None:
    """Check that states are the sums of their events, and money the sum of its calls. Changes nothing.

    The exit code is 1 if anything is wrong. The server may run meanwhile.

    Example: camvo ledger verify
    """
    from backend.commands.ledger import verify_ledger  # noqa: PLC0415

    if not verify_ledger(Console(), quiet_environment(config), url):
        raise typer.Exit(1)


@app.command()
def export(
    out: Annotated[
        Path | None,
        typer.Option(help="The file; one that ends with .gz is compressed.", show_default="stdout"),
    ] = None,
    project: Annotated[
        str | None, typer.Option(help="Only this project, by number or key.", show_default="all")
    ] = None,
    config: AnyConfig = None,
) -> None:
    """Write rounds, human labels and calls as lines of JSON, for your own analyses. Texts are not in it.

    Example: camvo ledger export --out ledger.jsonl.gz
    """
    from backend.commands.ledger import export_ledger  # noqa: PLC0415

    export_ledger(quiet_environment(config), out, project)


@app.command()
def migrate() -> None:
    """Create or update the ledger's tables, as every server does when it starts. Stop older versions first.

    Example: CAMVO_DATABASE_URL=postgresql://camvo:secret@db/camvo camvo ledger migrate
    """
    from backend.ledger import migrate as migrate_ledger  # noqa: PLC0415 - keeps the help fast
    from backend.settings import Environment  # noqa: PLC0415

    typer.echo(f"The ledger at {migrate_ledger(Environment().database_url)} has this version's tables.")


@app.command()
def copy(
    to: Annotated[str, typer.Option(help="An empty database: postgresql://user:password@host/database")],
    config: AnyConfig = None,
) -> None:
    """Copy the whole ledger into an empty database, such as PostgreSQL, and verify the copy.

    Stop the server first: what it writes after the beginning is not copied.

    Example: camvo ledger copy --to postgresql://camvo:secret@db/camvo
    """
    from backend.commands.ledger import copy_ledger  # noqa: PLC0415

    copy_ledger(Console(), quiet_environment(config), to)

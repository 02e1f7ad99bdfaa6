"""``camvo accept``: its options. Heavy modules are imported when it runs, which keeps the help fast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from backend.commands.shared.arguments import Config, LabelStudioUrl, ProjectNumber

if TYPE_CHECKING:
    from collections import Counter


def accept(  # noqa: PLR0917 - a command's options
    project: ProjectNumber,
    above: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Accept predictions with at least this score.")
    ] = None,
    uncertified: Annotated[
        bool, typer.Option("--uncertified", help="Also accept labels that no blind label certifies.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be accepted.")] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Delete the annotations that camvo accept has made.")
    ] = False,
    label_studio: LabelStudioUrl = None,
    config: Config = None,
) -> None:
    """Turn confident predictions into annotations, without a human look at each.

    Takes certified labels only. Leaves out tasks that are blind, annotated, skipped or begun by somebody.
    What is accepted is never learnt as a human label. Uses the server's ledger; needs LABEL_STUDIO_API_KEY.

    Example: camvo accept --project 1 --above 0.95
    """
    import time  # noqa: PLC0415 - with its only user

    from rich.console import Console  # noqa: PLC0415 - keeps the help fast

    from backend import settings  # noqa: PLC0415 - keeps the help fast
    from backend.commands import accept as acceptance  # noqa: PLC0415
    from backend.commands.shared import backend_client as addresses  # noqa: PLC0415
    from backend.commands.shared.setup import environment_with, existing_ledger, stored_project  # noqa: PLC0415
    from backend.errors import ConfigError  # noqa: PLC0415
    from backend.label_studio import payloads as webhooks  # noqa: PLC0415

    if (above is None) != undo:
        raise ConfigError("give either --above or --undo", where="camvo accept", fix="e.g. --above 0.95")
    environment, console = environment_with(config), Console()
    loaded = settings.load(environment.config)
    client = addresses.label_studio_client(label_studio, environment)
    key = webhooks.project_key(client.project(project))
    with existing_ledger(environment) as ledger:
        if above is None:
            console.print(_undone(acceptance.undo_accepted(client, ledger, project, key)), highlight=False)
            return
        with ledger.read() as connection:
            stored = stored_project(connection, key)
            known = acceptance.Evidence.load(connection, stored, loaded.guarantee)
        if not uncertified:
            known.require_certificate(above)
        run = acceptance.Acceptance(
            client, ledger, project, key, loaded.model_version, known, above, uncertified, time.time
        )
        tasks, left = run.chosen()
        count = len(tasks) if dry_run else run.accept(tasks)
    verb = "would be accepted" if dry_run else "accepted"
    console.print(f"{count} tasks {verb}", highlight=False)
    for reason, number in left.most_common():
        console.print(f"{number} left out: {reason}", highlight=False, soft_wrap=True)
    if count and not dry_run:
        console.print(f"Take it back with: camvo accept --project {project} --undo", highlight=False)


def _undone(outcome: Counter[str]) -> str:
    lines = [f"{outcome['deleted']} annotations deleted; their predictions are shown again"]
    if outcome["kept"]:
        lines.append(f"{outcome['kept']} kept, because somebody has changed or confirmed them since")
    if outcome["gone"]:
        lines.append(f"{outcome['gone']} were gone already")
    return "\n".join(lines)

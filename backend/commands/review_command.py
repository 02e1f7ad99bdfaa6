"""``camvo review``: its options. Heavy modules are imported when it runs, which keeps the help fast."""

from __future__ import annotations

from typing import Annotated

import typer

from backend.commands.shared.arguments import Config, LabelStudioUrl, ProjectNumber


def review(  # noqa: PLR0917 - a command's options
    project: ProjectNumber,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Most tasks to suggest.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    tab: Annotated[
        bool,
        typer.Option(
            "--tab", help="Show these tasks in tabs of Label Studio's Data Manager. Needs an API key."
        ),
    ] = False,
    disputed: Annotated[
        bool,
        typer.Option(
            "--disputed",
            help="List the tasks on which people disagree with one another or with a certain vote.",
        ),
    ] = False,
    label_studio: LabelStudioUrl = None,
    config: Config = None,
) -> None:
    """List the tasks that a human should label next, and why. Reads the ledger; needs no server.

    Example: camvo review --project 1 --limit 10
    """
    from rich.console import Console  # noqa: PLC0415 - keeps the help fast

    from backend.commands.review import show_disputed, show_review_list  # noqa: PLC0415
    from backend.commands.shared import backend_client as addresses  # noqa: PLC0415 - keeps the help fast
    from backend.commands.shared import tabs  # noqa: PLC0415 - keeps the help fast
    from backend.commands.shared.setup import environment_with  # noqa: PLC0415
    from backend.label_studio import payloads as webhooks  # noqa: PLC0415

    environment, console = environment_with(config), Console()
    if disputed:
        client = addresses.label_studio_client(label_studio, environment) if tab else None
        show_disputed(console, environment, client, project, limit, as_json=as_json)
        return
    if not tab:
        show_review_list(console, environment, str(project), limit, as_json=as_json)
        return
    client = addresses.label_studio_client(label_studio, environment)
    key = webhooks.project_key(client.project(project))
    suggestions = show_review_list(console, environment, key, limit, as_json=as_json)
    shown, notes = tabs.Tabs(client, project), Console(stderr=as_json)
    if (blind := shown.show_blind(suggestions.blind_next)) is not None:
        notes.print(f"Tab {tabs.BLIND_TITLE!r}: {blind}", highlight=False, soft_wrap=True)
    address = shown.show([suggested.task for suggested in suggestions.tasks])
    notes.print(f"Tab {tabs.TITLE!r}: {address}", highlight=False, soft_wrap=True)

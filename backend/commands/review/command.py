"""``camvo review`` as a person meets it."""

from __future__ import annotations

from typing import Annotated

import typer

from backend.commands.connect.commands import Config, LabelStudio, Project


def review(  # noqa: PLR0917 - a command's options
    project: Project,
    limit: Annotated[int, typer.Option(min=1, max=200, help="Tasks at the most.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
    tab: Annotated[
        bool, typer.Option("--tab", help="Show these tasks in a tab of Label Studio's Data Manager.")
    ] = False,
    label_studio: LabelStudio = None,
    config: Config = None,
) -> None:
    """Say which tasks a human should label next, and why, from the ledger; no server is needed."""
    from rich.console import Console  # noqa: PLC0415 - the help must not wait for it

    from backend.commands.connect import options, review_tab  # noqa: PLC0415
    from backend.commands.review import terminal  # noqa: PLC0415
    from backend.label_studio import webhooks  # noqa: PLC0415 - the same

    environment, console = options.environment(config), Console()
    if not tab:
        terminal.show(console, terminal.read(environment, str(project), limit), as_json=as_json)
        return
    client = options.client(label_studio, environment)
    found = terminal.read(environment, webhooks.project_key(client.project(project)), limit)
    terminal.show(console, found, as_json=as_json)
    address = review_tab.put(client, project, [one.task for one in found.tasks])
    Console(stderr=as_json).print(f"Tab {review_tab.TITLE!r}: {address}", highlight=False, soft_wrap=True)

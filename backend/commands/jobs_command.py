"""``camvo jobs``: its options. Heavy modules are imported when it runs, which keeps the help fast."""

from __future__ import annotations

from typing import Annotated

import typer

from backend.commands.shared.arguments import Config


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

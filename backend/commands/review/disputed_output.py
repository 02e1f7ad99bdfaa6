"""The output of ``camvo review --disputed``: a table or JSON, and a tab of Label Studio's Data Manager."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from backend.commands.connect import tabs
from backend.commands.review.disputed import DisputedTask, disputed_tasks
from backend.commands.stored_projects import existing_ledger, stored_project
from backend.label_studio import webhooks
from backend.label_studio.client import Client
from backend.settings import Environment


def show_disputed(
    console: Console,
    environment: Environment,
    client: Client | None,
    number: int,
    limit: int,
    *,
    as_json: bool,
) -> None:
    """Print a project's disputed tasks, and show them in a tab if there is a client of Label Studio.

    Args:
        console: where to print.
        environment: has the ledger's address.
        client: Label Studio; ``None`` for no tab.
        number: the project's number.
        limit: the most tasks.
        as_json: whether to print JSON.

    Raises:
        ConfigError: the ledger has no such project.
        LedgerError: the ledger cannot be read.
        LabelStudioError: Label Studio refused, or cannot be reached.
    """
    key = str(number) if client is None else webhooks.project_key(client.project(number))
    with existing_ledger(environment) as ledger, ledger.read() as connection:
        tasks = disputed_tasks(connection, stored_project(connection, key).key, limit)
    _print(console, tasks, as_json=as_json)
    if client is not None:
        unique = list(dict.fromkeys(disputed.task for disputed in tasks))
        address = tabs.show_in_tab(client, number, unique, tabs.DISPUTED_TITLE)
        line = f"Tab {tabs.DISPUTED_TITLE!r}: {address}"
        Console(stderr=as_json).print(line, highlight=False, soft_wrap=True)


def _print(console: Console, tasks: Sequence[DisputedTask], *, as_json: bool) -> None:
    if as_json:
        rows = [dataclasses.asdict(disputed) | {"why": disputed.why} for disputed in tasks]
        console.out(json.dumps({"disputed": rows}, indent=2), highlight=False)
        return
    if not tasks:
        console.print("No task is disputed.")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("task", "wrong", "score"):
        table.add_column(name, justify="right")
    table.add_column("question", overflow="fold", max_width=24)
    table.add_column("why", overflow="fold")
    for disputed in tasks:
        score = "–" if disputed.score is None else f"{disputed.score:.2f}"
        table.add_row(
            str(disputed.task), f"{disputed.wrong:.2f}", score, escape(disputed.control), escape(disputed.why)
        )
    console.print(table)
    console.print("Mark the right annotation of a task as ground truth, and it is settled.", highlight=False)

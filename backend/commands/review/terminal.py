"""``camvo review`` on a terminal, and as JSON."""

from __future__ import annotations

import dataclasses
import json

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from backend.commands.review.order import Review, Suggested, review
from backend.errors import ConfigError
from backend.ledger import Ledger, projects
from backend.settings import Environment


def read(environment: Environment, project: str, limit: int) -> Review:
    """What the ledger says about one project.

    Args:
        environment: says where the ledger is.
        project: the project's key, or its number in Label Studio.
        limit: how many tasks are wanted at the most.

    Raises:
        ConfigError: the ledger knows no such project.
        LedgerError: the ledger cannot be read.
    """
    ledger = Ledger(environment.database_url)
    try:
        with ledger.read() as connection:
            known = [
                one
                for one in projects.list_all(connection)
                if project in {one.key, one.key.partition(".")[0]}
            ]
            if not known:
                raise ConfigError(
                    f"the ledger knows no project {project!r}",
                    where="--project",
                    fix="let it predict first, and give camvo review the server's CAMVO_DATABASE_URL",
                )
            return review(connection, max(known, key=lambda one: one.updated_at), limit)
    finally:
        ledger.close()


def show(console: Console, found: Review, *, as_json: bool) -> None:
    """Print the tasks, the best first."""
    if as_json:
        tasks = [dataclasses.asdict(one) | {"why": one.why} for one in found.tasks]
        console.out(json.dumps(dataclasses.asdict(found) | {"tasks": tasks}, indent=2), highlight=False)
        return
    if found.tasks:
        console.print(_table(found.tasks))
    console.print(f"{found.open} tasks have a prediction and no annotation.", highlight=False)
    if found.blind:
        console.print(
            f"{found.blind} more are kept blind for the audit: label them, too, in any order.",
            highlight=False,
        )


def _table(tasks: tuple[Suggested, ...]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("task", "gain", "score"):
        table.add_column(name, justify="right")
    table.add_column("label", overflow="fold", max_width=30)
    table.add_column("why")
    for one in tasks:
        table.add_row(
            str(one.task),
            f"{one.gain:.2f}",
            "\n".join(f"{answer.score:.2f}" for answer in one.answers),
            "\n".join(escape(answer.label or "–") for answer in one.answers),
            one.why,
        )
    return table

"""What ``camvo jobs`` prints, and how it cancels."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from backend import settings as settings_module
from backend.annotation.batch_desk import Desk
from backend.commands.shared.setup import existing_ledger
from backend.errors import ConfigError
from backend.ledger import Ledger, Writer
from backend.ledger.batches import OPEN, BatchJob, Jobs, Lines
from backend.ledger.money import from_picodollars
from backend.models import Pool
from backend.settings import Environment

_MOST = 50
"""The most jobs that are listed: those that are out, and the newest others."""


def print_jobs(console: Console, environment: Environment, project: str | None, *, as_json: bool) -> None:
    """Print the jobs that are out, and the newest ones that are not.

    Raises:
        ConfigError: there is no ledger.
    """
    with _ledger(environment) as ledger, ledger.read() as connection:
        out = Jobs(connection).find(states=OPEN, project=project)
        rest = Jobs(connection).find(project=project, limit=_MOST)
        found = list({job.id: job for job in (*rest, *out)}.values())
        found.sort(key=lambda job: (job.created_at, job.id))
        rows = _rows(found, Lines(connection).sums_by_job([job.id for job in found]))
    if as_json:
        console.print_json(json.dumps(rows))
    elif not rows:
        console.print("no batches were sent", highlight=False)
    else:
        console.print(_table(rows))
        total = sum(row["cost_usd"] for row in rows)
        are = "is" if len(out) == 1 else "are"
        console.print(f"{len(out)} {are} out; those listed cost ${total:.4f} so far", highlight=False)


def cancel_jobs(console: Console, environment: Environment, project: str | None, chosen: str) -> None:
    """Cancel jobs that are out.

    Args:
        console: where it is said which.
        environment: the ledger's address, ``camvo.yaml`` and the keys.
        project: cancel jobs of this project only.
        chosen: the beginning of a job's id, or ``all``.

    Raises:
        ConfigError: there is no ledger, or no job that is out has such an id.
        ModelError: the provider does not cancel the job.
    """
    settings = settings_module.load(environment.config)
    with _ledger(environment) as ledger, closing(Writer(ledger)) as writer:
        with ledger.read() as connection:
            out = Jobs(connection).find(states=OPEN, project=project)
        wanted = [job for job in out if chosen == "all" or job.id.startswith(chosen)]
        if not wanted:
            raise ConfigError(
                f"no batch that is out has an id that begins with {chosen!r}",
                where="--cancel",
                fix="camvo jobs lists them",
            )
        pool = Pool(settings.models, keys=environment.keys(settings.models))
        desk = Desk(ledger, writer, pool, settings.models, settings.retries, time.time)
        asyncio.run(_cancel(desk, wanted))
        for job in wanted:
            console.print(f"{job.id[:8]} is being cancelled", highlight=False)


@contextmanager
def _ledger(environment: Environment) -> Iterator[Ledger]:
    with existing_ledger(environment) as ledger:
        ledger.migrate()
        yield ledger


async def _cancel(desk: Desk, wanted: Sequence[BatchJob]) -> None:
    for job in wanted:
        await desk.cancel(job)


def _rows(found: Sequence[BatchJob], sums: dict[str, dict[str, tuple[int, int]]]) -> list[dict[str, Any]]:
    return [
        {
            "id": job.id,
            "project": job.project,
            "model": job.model,
            "state": "cancelling" if job.cancelled and job.state in OPEN else job.state,
            "lines": job.lines,
            "answered": sums[job.id].get("answered", (0, 0))[0],
            "failed": sums[job.id].get("failed", (0, 0))[0],
            "cost_usd": from_picodollars(sum(cost for _, cost in sums[job.id].values())),
            "sent_at": job.sent_at,
            "due_at": job.due_at,
            "code": job.code,
        }
        for job in found
    ]


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("id", "project", "model", "state"):
        table.add_column(heading, no_wrap=True)
    for heading in ("lines", "answered", "failed", "cost"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("sent (UTC)")
    table.add_column("due (UTC)")
    for row in rows:
        state = f"{row['state']} ({row['code']})" if row["code"] else row["state"]
        numbers = [f"{row[name]:,}" for name in ("lines", "answered", "failed")]
        times = [_time(row[name]) for name in ("sent_at", "due_at")]
        cost = f"${row['cost_usd']:.4f}"
        table.add_row(row["id"][:8], row["project"], row["model"], state, *numbers, cost, *times)
    return table


def _time(at: float | None) -> str:
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%m-%d %H:%M")

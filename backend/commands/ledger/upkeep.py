"""``camvo ledger prune``, ``verify``, ``export`` and ``copy``."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO

from rich.console import Console

from backend import settings
from backend.commands.progress import progress_bar
from backend.commands.stored_projects import existing_ledger, stored_project
from backend.errors import ConfigError, LedgerError
from backend.ledger import Ledger, projects
from backend.settings import Environment
from backend.upkeep import copying, export, pruning, verification
from backend.upkeep.pruning import Pruned

_DAY = 86_400.0
_UNITS = {"d": _DAY, "w": 7 * _DAY, "y": 365 * _DAY}


def age_of(text: str) -> float:
    """The seconds of an age such as ``90d``, ``12w`` or ``2y``.

    Raises:
        ConfigError: the text is no age of at least one day.
    """
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not number.isdecimal() or not int(number):
        raise ConfigError(f"{text!r} is no age of a day or more", where="--older", fix="write 90d, 12w or 2y")
    return int(number) * _UNITS[unit]


def prune_ledger(
    console: Console,
    environment: Environment,
    *,
    older: str,
    project: str | None,
    agreed: Callable[[str], bool] | None,
    compact: bool,
) -> None:
    """Say what a prune changes and, if that is agreed to, prune.

    Args:
        console: where the numbers are printed.
        environment: has the ledger's address and ``camvo.yaml``.
        older: the age, such as ``90d``.
        project: the project's number or key; ``None`` for all.
        agreed: asks whether to go on; ``None`` to change nothing.
        compact: whether a SQLite file gives the room back.

    Raises:
        ConfigError: the age is none, or the ledger has no such project.
        LedgerError: the ledger failed, or a sum is not what it must be; the same command does the rest.
    """
    age, loaded = age_of(older), settings.load(environment.config)
    with existing_ledger(environment) as ledger:
        ledger.migrate()
        with ledger.read() as connection:
            stored = projects.list_all(connection)
            if project is not None:
                stored = [stored_project(connection, project)]
        plans = [pruning.planned(ledger, each.key, age) for each in stored]
        plans = [plan for plan in plans if plan.events or plan.rounds]
        for plan in plans:
            console.print(_described(plan, "to be"), highlight=False, soft_wrap=True)
        if not plans:
            console.print(f"Nothing is older than {older}.", highlight=False)
        elif agreed is None or not agreed("Go on? What is deleted does not come back."):
            console.print("Nothing was changed.")
            return
        for plan in plans:
            with progress_bar(console, "events", plan.events, transient=True) as advance:
                lambda_l = loaded.policy.lambda_l
                done = pruning.prune(ledger, plan.project, age, lambda_l=lambda_l, advance=advance)
            console.print(
                f"{_described(done, 'were')}, {done.answers} answers were deleted, "
                f"{done.lines} lines of batches too",
                highlight=False,
                soft_wrap=True,
            )
        pruning.forget_orphans(ledger)
        if compact:
            ledger.compact()


def verify_ledger(console: Console, environment: Environment, url: str | None) -> bool:
    """Print what is wrong in a ledger.

    Args:
        console: where the problems are printed.
        environment: has the ledger's address.
        url: the address of another ledger, such as a copy.

    Returns:
        Whether the ledger is sound.
    """
    if url is not None:
        environment = environment.model_copy(update={"database_url": url})
    found = 0
    with _readable_ledger(environment) as ledger, ledger.read() as connection:
        total = len(projects.list_all(connection))
        with progress_bar(console, "projects", total, transient=True) as advance:
            for problem in verification.problems(connection, advance):
                found += 1
                console.print(
                    f"{problem.kind}: {problem.where}: {problem.what}", highlight=False, soft_wrap=True
                )
        console.print(
            f"{found} problems" if found else f"The ledger is sound: {total} projects.", highlight=False
        )
    return not found


def export_ledger(environment: Environment, out: Path | None, project: str | None) -> None:
    """Write a ledger as lines of JSON; compressed if the file's name ends with ``.gz``.

    Raises:
        ConfigError: the ledger has no such project.
        LedgerError: the file cannot be written.
    """
    with _readable_ledger(environment) as ledger, ledger.read() as connection:
        keys = None if project is None else [stored_project(connection, project).key]
        with _opened(out) as stream:
            for line in export.lines(connection, keys):
                stream.write(json.dumps(line, ensure_ascii=False) + "\n")


def copy_ledger(console: Console, environment: Environment, target_url: str) -> None:
    """Copy the server's ledger into an empty database, and verify the copy.

    Raises:
        LedgerError: the target is not empty, or one of the databases failed; nothing is in the target then.
    """
    with existing_ledger(environment) as source, closing(Ledger(target_url)) as target:
        source.migrate()
        target.migrate()
        with source.read() as connection:
            total = sum(copying.row_counts(connection).values())
        with progress_bar(console, "rows", total, transient=True) as advance:
            copied = copying.copy(source, target, advance)
        console.print(
            f"{sum(copied.values())} rows copied to {target.place}", highlight=False, soft_wrap=True
        )
        with target.read() as connection:
            wrong = list(verification.problems(connection, lambda _: None))
    if wrong:
        raise LedgerError(
            f"the copy has {len(wrong)} problems, as its source probably has",
            where=wrong[0].where,
            fix="run `camvo ledger verify` on both",
        )
    console.print(
        f"The copy is sound. Set CAMVO_DATABASE_URL to {target.place}, with its password.",
        highlight=False,
        soft_wrap=True,
    )


@contextmanager
def _readable_ledger(environment: Environment) -> Iterator[Ledger]:
    """Open a ledger of this version, and change nothing in it."""
    with existing_ledger(environment) as ledger:
        ledger.check_revision()
        yield ledger


@contextmanager
def _opened(out: Path | None) -> Iterator[IO[str]]:
    if out is None:
        yield sys.stdout
        return
    try:
        with gzip.open(out, "wt") if out.suffix == ".gz" else out.open("w", encoding="utf-8") as stream:
            yield stream
    except OSError as error:
        raise LedgerError(
            f"the export cannot be written: {error.strerror or type(error).__name__}",
            where=str(out),
            fix="make room, or name another file",
        ) from error


def _described(plan: Pruned, be: str) -> str:
    return (
        f"project {plan.project}: {plan.events} events (up to number {plan.through}) {be} summed up,"
        f" {plan.rounds} rounds {be} pruned"
    )

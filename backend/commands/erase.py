"""``camvo ledger erase``: a project that Label Studio has no more, erased for good."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rich.console import Console

from backend import upkeep
from backend.commands.shared import backend_client
from backend.commands.shared.output import progress_bar, say
from backend.commands.shared.setup import existing_ledger, stored_project
from backend.errors import ConfigError, LabelStudioMissingError
from backend.label_studio import payloads
from backend.ledger import Ledger, money
from backend.ledger.database.statements import portions
from backend.ledger.erasure import Erasure, Held
from backend.ledger.projects import Project, is_of_label_studio, short_name
from backend.server.status.formats import dollars, of
from backend.settings import Environment

_TASKS_PER_TRANSACTION = 200
"""Bounds how long the server's writes wait."""


def erase_project(
    console: Console, environment: Environment, project: str, *, agreed: Callable[[str], bool] | None
) -> None:
    """Say what there is of a project and, if that is agreed to, erase it."""
    with existing_ledger(environment) as ledger:
        ledger.migrate()
        with ledger.read() as connection:
            stored = stored_project(connection, project)
            erasure = Erasure(connection, stored.key)
            erasure.require_no_batch()
            held, account = erasure.held(), money.balance(connection, stored.key, money.TOTAL)
        _require_deleted(stored, environment)
        named = _named(stored)
        say(console, f"{named}: {_described(held)} to erase")
        if agreed is None or not agreed(f"Erase {named}? What is erased cannot be restored."):
            console.print("Nothing was changed.")
            return
        with progress_bar(console, "tasks", len(held.tasks), transient=True) as advance:
            for portion in portions(held.tasks, _TASKS_PER_TRANSACTION):
                _erase_tasks(ledger, stored.key, portion)
                advance(len(portion))
        with ledger.write() as connection:
            Erasure(connection, stored.key).erase_rest()
        upkeep.forget_orphans(ledger)
        spent = dollars(money.from_picodollars(account.spent))
        say(console, f"{named}: {_described(held)} were erased. The {spent} spent stay in the accounts.")


def _erase_tasks(ledger: Ledger, project: str, tasks: Sequence[int]) -> None:
    """Erase some tasks, and let the server write for as long as that took."""
    began = time.monotonic()
    with ledger.write() as connection:
        Erasure(connection, project).erase_tasks(tasks)
    time.sleep(time.monotonic() - began)


def _require_deleted(stored: Project, environment: Environment) -> None:
    """Require that Label Studio, if the command can ask it, has the project no more: it would come back."""
    asks = environment.label_studio_url is not None and environment.label_studio_api_key is not None
    if not asks or not is_of_label_studio(stored.key):
        return
    number = short_name(stored.key)
    try:
        payload = backend_client.label_studio_client(None, environment).project(int(number))
    except LabelStudioMissingError:
        return
    if payloads.project_key(payload) in {stored.key, number}:
        raise ConfigError(
            f"project {number} is still in Label Studio, and would come back",
            where="--project",
            fix="delete it there first; `camvo ledger forget` withdraws its labels",
        )


def _named(stored: Project) -> str:
    number = short_name(stored.key)
    return f"project {number}" if stored.title is None else f"project {number} ({stored.title})"


def _described(held: Held) -> str:
    """What there is to erase."""
    return (
        f"{of(len(held.tasks), 'task')} with {of(held.rounds, 'round')}, {of(held.answers, 'answer')}"
        f" of models and {of(held.annotations, 'human label')}"
    )

"""``camvo ledger``: labels withdrawn, projects erased, the ledger pruned, verified, exported and copied."""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Final

from rich.console import Console
from sqlalchemy import Connection

from backend import settings, upkeep
from backend.commands.shared import backend_client
from backend.commands.shared.output import Advance, progress_bar, say
from backend.commands.shared.setup import existing_ledger, opened_ledger, stored_project
from backend.errors import ConfigError, LabelStudioMissingError, LedgerError
from backend.label_studio import payloads
from backend.learning import actions
from backend.learning.actions import AffectedLabels
from backend.learning.projects import project_settings
from backend.learning.teaching import correct_rewards
from backend.ledger import Ledger, money, projects
from backend.ledger.database.statements import portions
from backend.ledger.deletions import Erasure, Held
from backend.ledger.human_annotations import Annotations, Withdrawal
from backend.ledger.projects import Project, is_of_label_studio, short_name
from backend.server.status.formats import dollars, of, verb_of
from backend.settings import Environment, Settings
from backend.upkeep import Pruned

_TASKS_PER_TRANSACTION, _ERASED_PER_TRANSACTION = 20, 200
"""Bound how long the server's writes wait: tasks whose labels are withdrawn, or that are erased."""


@dataclass(frozen=True, slots=True)
class LabelsToForget:
    """The options of ``camvo ledger forget`` that say which labels are meant; ``None`` means every one."""

    annotator: int | None
    project: str | None
    task: int | None
    since: datetime | None
    undo: bool
    from_now_on: bool

    @property
    def _covers_later_labels(self) -> bool:
        """Whether the command also decides about labels that the ledger does not hold yet."""
        return self.undo or self.from_now_on

    def withdrawal(self, connection: Connection, now: float) -> Withdrawal:
        """The options as a withdrawal; the ledger says which project is meant."""
        if self.task is not None and self.project is None:
            raise ConfigError("a task belongs to a project", where="--task", fix="add --project")
        if self.annotator is None and self.project is None:
            raise ConfigError(
                "nothing says whose labels", where="forget", fix="add --annotator, --project, or both"
            )
        if self.undo and self.from_now_on:
            raise ConfigError("--undo always covers later labels", where="--from-now-on", fix="leave it out")
        covering = Withdrawal(
            project=None if self.project is None else stored_project(connection, self.project).key,
            task=self.task,
            annotator=self.annotator,
            since=None if self.since is None else self.since.replace(tzinfo=UTC).timestamp(),
            withdrawn=not self.undo,
            created_at=now,
        )
        return covering if self._covers_later_labels else actions.bounded(connection, covering)

    def forget(self, console: Console, environment: Environment, *, agreed: Callable[[str], bool]) -> None:
        """Say what a withdrawal changes and, if that is agreed to, change it."""
        loaded = settings.load(environment.config)
        with closing(Ledger(environment.database_url)) as ledger:
            with ledger.read() as connection:
                withdrawal = self.withdrawal(connection, time.time())
                affected = AffectedLabels.of(connection, withdrawal)
            say(console, _forget_described(affected, withdrawal))
            if not affected.annotations and not self._covers_later_labels:
                console.print("There is nothing to withdraw. --from-now-on covers future labels.")
                return
            if not agreed("Continue?"):
                console.print("Nothing was changed.")
                return
            with progress_bar(console, "tasks", affected.task_count, transient=True) as advance:
                corrected = _withdraw(ledger, withdrawal, loaded, advance)
            done = "withdrawn" if withdrawal.withdrawn else "back"
            console.print(
                f"The labels are {done}. {of(corrected, 'round', 'teach')} something else now.",
                highlight=False,
            )


def _withdraw(ledger: Ledger, withdrawal: Withdrawal, loaded: Settings, advance: Advance) -> int:
    """Store a withdrawal, and make the annotations and rewards that it covers agree with it.

    After each transaction the function waits as long as that took, so that the server can write.
    """
    with ledger.write() as connection:
        withdrawal.store(connection)
    with ledger.read() as connection:
        affected = AffectedLabels.of(connection, withdrawal)
    corrected = 0
    for project, tasks in affected.tasks.items():
        apply = partial(_apply_withdrawals, project=project, settings=loaded)
        for portion in portions(tasks, _TASKS_PER_TRANSACTION):
            corrected += upkeep.written(ledger, apply, portion)
            advance(len(portion))
    return corrected


def _apply_withdrawals(
    connection: Connection, tasks: Sequence[int], *, project: str, settings: Settings
) -> int:
    """Make the annotations and rewards of tasks agree with the stored withdrawals; safe to repeat."""
    own_settings, _ = project_settings(projects.get(connection, project), settings)
    corrected, now = 0, time.time()
    for task in tasks:
        Annotations(connection, project).apply_withdrawals(task)
        corrected += correct_rewards(connection, project, task, own_settings, now)
    return corrected


def _forget_described(affected: AffectedLabels, withdrawal: Withdrawal) -> str:
    truths = f" ({affected.ground_truths} of them ground truth)" if affected.ground_truths else ""
    change = "to withdraw" if withdrawal.withdrawn else "to bring back"
    return (
        f"{of(affected.annotations, 'annotation')} {change}{truths}, on {of(affected.task_count, 'task')}"
        f" with {of(affected.rounds, 'round')}, in {of(len(affected.tasks), 'project')}"
    )


_DAY = 86_400.0
_UNITS = {"d": _DAY, "w": 7 * _DAY, "y": 365 * _DAY}


def _age_of(text: str) -> float:
    """The seconds of an age such as ``90d``, ``12w`` or ``2y``."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not number.isdecimal() or not int(number):
        raise ConfigError(
            f"{text!r} is not an age of a day or more", where="--older", fix="write 90d, 12w or 2y"
        )
    return int(number) * _UNITS[unit]


_WORTH_A_BASE: Final = 1000
"""Pruned rounds that free about as much as a question's sums may take."""


def prune_ledger(
    console: Console,
    environment: Environment,
    *,
    older: str,
    project: str | None,
    agreed: Callable[[str], bool],
    compact: bool,
) -> None:
    """Say what a prune changes and, if that is agreed to, prune."""
    age, loaded = _age_of(older), settings.load(environment.config)
    with existing_ledger(environment, migrated=True) as ledger:
        with ledger.read() as connection:
            stored = projects.list_all(connection)
            if project is not None:
                stored = [stored_project(connection, project)]
        plans = [upkeep.planned(ledger, each.key, age) for each in stored]
        plans = [plan for plan in plans if plan.events or plan.rounds]
        for plan in plans:
            say(console, _described(plan, done=False))
        if sum(plan.rounds for plan in plans) < _WORTH_A_BASE * sum(plan.bases for plan in plans):
            say(console, "The sums take up to 8 MB a question, so a file with so few rounds may grow.")
        if not plans:
            console.print(f"Nothing is older than {older}.", highlight=False)
        elif not agreed("Continue? What is deleted cannot be restored."):
            console.print("Nothing was changed.")
            return
        for plan in plans:
            with progress_bar(console, "events", plan.events, transient=True) as advance:
                lambda_l = loaded.policy.lambda_l
                done = upkeep.prune(ledger, plan.project, age, lambda_l=lambda_l, advance=advance)
            say(
                console,
                f"{_described(done, done=True)}, {of(done.answers, 'answer', 'were')} deleted, "
                f"{of(done.lines, 'line')} of batches too",
            )
        upkeep.forget_orphans(ledger)
        if compact:
            ledger.compact()


def verify_ledger(console: Console, environment: Environment, url: str | None) -> bool:
    """Print what is wrong in a ledger."""
    found = 0
    with _readable_ledger(environment, url) as ledger, ledger.read() as connection:
        total = len(projects.list_all(connection))
        with progress_bar(console, "projects", total, transient=True) as advance:
            for problem in upkeep.problems(connection, advance):
                found += 1
                say(console, f"{problem.kind}: {problem.where}: {problem.what}")
        console.print(
            of(found, "problem") if found else f"The ledger is sound: {of(total, 'project')}.",
            highlight=False,
        )
    return not found


def export_ledger(environment: Environment, out: Path | None, project: str | None) -> None:
    """Write a ledger as lines of JSON; compressed if the file's name ends with ``.gz``."""
    with _readable_ledger(environment) as ledger, ledger.read() as connection:
        keys = None if project is None else [stored_project(connection, project).key]
        with _opened(out) as stream:
            for line in upkeep.lines(connection, keys):
                stream.write(json.dumps(line, ensure_ascii=False) + "\n")


def copy_ledger(console: Console, environment: Environment, target_url: str) -> None:
    """Copy the server's ledger into an empty database, and verify the copy."""
    with existing_ledger(environment) as source, closing(Ledger(target_url, source="--to")) as target:
        source.migrate()
        target.migrate()
        with source.read() as connection:
            total = sum(upkeep.row_counts(connection).values())
        with progress_bar(console, "rows", total, transient=True) as advance:
            copied = upkeep.copy(source, target, advance)
        say(console, f"{of(sum(copied.values()), 'row')} copied to {target.place}")
        with target.read() as connection:
            wrong = list(upkeep.problems(connection, lambda _: None))
    if wrong:
        raise LedgerError(
            f"the copy has {of(len(wrong), 'problem')}, as its source probably has",
            where=wrong[0].where,
            fix="run `camvo ledger verify` on both",
        )
    password = ", with its password" if target.file is None else ""
    say(console, f"The copy is sound. Set CAMVO_DATABASE_URL to {target.place}{password}.")


@contextmanager
def _readable_ledger(environment: Environment, url: str | None = None) -> Iterator[Ledger]:
    """Open a ledger of this version, by default the server's, and change nothing in it."""
    with (
        existing_ledger(environment)
        if url is None
        else opened_ledger(url, "URL", missing="check the address")
    ) as ledger:
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


def _described(plan: Pruned, *, done: bool) -> str:
    events, rounds = (verb_of(each, "were") if done else "to be" for each in (plan.events, plan.rounds))
    folded = f"{of(plan.events, 'event')} (up to number {plan.through}) {events} summed up"
    return f"project {plan.project}: {folded}, {of(plan.rounds, 'round')} {rounds} pruned"


def erase_project(
    console: Console, environment: Environment, project: str, *, agreed: Callable[[str], bool]
) -> None:
    """Say what there is of a project and, if that is agreed to, erase it."""
    with existing_ledger(environment, migrated=True) as ledger:
        with ledger.read() as connection:
            stored = stored_project(connection, project)
            erasure = Erasure(connection, stored.key)
            erasure.require_no_batch()
            held, account = erasure.held(), money.balance(connection, stored.key, money.TOTAL)
        _require_deleted(stored, environment)
        named = _named(stored)
        say(console, f"{named}: {_counted(held)} to erase")
        if not agreed(f"Erase {named}? What is erased cannot be restored."):
            console.print("Nothing was changed.")
            return
        with progress_bar(console, "tasks", len(held.tasks), transient=True) as advance:
            for portion in portions(held.tasks, _ERASED_PER_TRANSACTION):
                upkeep.written(
                    ledger, lambda each, some: Erasure(each, stored.key).erase_tasks(some), portion
                )
                advance(len(portion))
        with ledger.write() as connection:
            Erasure(connection, stored.key).erase_rest()
        upkeep.forget_orphans(ledger)
        spent = dollars(money.from_picodollars(account.spent))
        say(console, f"{named}: {_counted(held)} were erased. The {spent} spent stay in the accounts.")


def _require_deleted(stored: Project, environment: Environment) -> None:
    """Require that Label Studio, if the command can ask it, has the project no more: it would come back."""
    if environment.label_studio_access is None or not is_of_label_studio(stored.key):
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


def _counted(held: Held) -> str:
    """What there is to erase."""
    return (
        f"{of(len(held.tasks), 'task')} with {of(held.rounds, 'round')}, {of(held.answers, 'answer')}"
        f" of models and {of(held.annotations, 'human label')}"
    )

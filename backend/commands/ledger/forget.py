"""Withdrawing human labels from what was learnt, a few tasks per transaction, beside a running server."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from rich.console import Console
from sqlalchemy import Connection

from backend import settings
from backend.commands.progress import Advance, progress_bar
from backend.commands.stored_projects import stored_project
from backend.errors import ConfigError
from backend.learning import forgetting
from backend.learning.forgetting import AffectedLabels
from backend.ledger import Ledger, withdrawals
from backend.ledger.withdrawals import Withdrawal
from backend.settings import Environment, Settings

_TASKS_PER_TRANSACTION = 20
"""Bounds how long the server's writes wait."""


@dataclass(frozen=True, slots=True)
class LabelsToForget:
    """The options of ``camvo ledger forget`` that say which labels are meant.

    Attributes:
        annotator: the user's id; ``None`` for everybody.
        project: the project's number or key; ``None`` for every project.
        task: the task's number; ``None`` for every task.
        since: the earliest change of a label, in UTC; ``None`` for no bound.
        undo: whether the labels come back.
        from_now_on: whether labels that are still to come are withdrawn, too.
    """

    annotator: int | None
    project: str | None
    task: int | None
    since: datetime | None
    undo: bool
    from_now_on: bool

    @property
    def covers_later_labels(self) -> bool:
        """Whether the command also decides about labels that the ledger does not hold yet."""
        return self.undo or self.from_now_on

    def withdrawal(self, connection: Connection, now: float) -> Withdrawal:
        """The options as a withdrawal; the ledger says which project is meant.

        Raises:
            ConfigError: the options do not fit together, or the ledger has no such project.
        """
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
        return covering if self.covers_later_labels else forgetting.bounded(connection, covering)


def forget_labels(
    console: Console,
    environment: Environment,
    wanted: LabelsToForget,
    *,
    agreed: Callable[[str], bool] | None,
) -> None:
    """Say what a withdrawal changes and, if that is agreed to, change it.

    Args:
        console: where the numbers are printed.
        environment: has the ledger's address and ``camvo.yaml``.
        wanted: the labels.
        agreed: asks whether to go on; ``None`` to change nothing.

    Raises:
        ConfigError: the options do not fit together, or the ledger has no such project.
        LedgerError: the ledger failed; the same command does the rest.
    """
    loaded = settings.load(environment.config)
    ledger = Ledger(environment.database_url)
    try:
        with ledger.read() as connection:
            withdrawal = wanted.withdrawal(connection, time.time())
            affected = forgetting.affected_labels(connection, withdrawal)
        console.print(_described(affected, withdrawal), highlight=False, soft_wrap=True)
        if not affected.annotations and not wanted.covers_later_labels:
            console.print("There is nothing to withdraw. --from-now-on covers labels that are still to come.")
            return
        if agreed is None or not agreed("Go on?"):
            console.print("Nothing was changed.")
            return
        with progress_bar(console, "tasks", affected.task_count, transient=True) as advance:
            corrected = withdraw(ledger, withdrawal, loaded, advance)
        done = "withdrawn" if withdrawal.withdrawn else "back"
        console.print(f"The labels are {done}. {corrected} rounds teach something else now.", highlight=False)
    finally:
        ledger.close()


def withdraw(ledger: Ledger, withdrawal: Withdrawal, loaded: Settings, advance: Advance) -> int:
    """Store a withdrawal, and make the annotations and rewards that it covers agree with it.

    After each transaction the function waits as long as that took, so that the server has its turn.

    Args:
        ledger: the migrated ledger.
        withdrawal: which labels are withdrawn or come back.
        loaded: the server's settings.
        advance: called with the number of tasks that were finished.

    Returns:
        How many rounds are now taught by another label, or by somebody else.

    Raises:
        LedgerError: the ledger failed; the same withdrawal again does the rest.
    """
    with ledger.write() as connection:
        withdrawals.append(connection, withdrawal)
    with ledger.read() as connection:
        affected = forgetting.affected_labels(connection, withdrawal)
    corrected = 0
    for project, tasks in affected.tasks.items():
        for start in range(0, len(tasks), _TASKS_PER_TRANSACTION):
            portion = tasks[start : start + _TASKS_PER_TRANSACTION]
            began = time.monotonic()
            with ledger.write() as connection:
                corrected += forgetting.apply_withdrawals(connection, project, portion, loaded, time.time())
            advance(len(portion))
            time.sleep(time.monotonic() - began)
    return corrected


def _described(affected: AffectedLabels, withdrawal: Withdrawal) -> str:
    truths = f" ({affected.ground_truths} of them ground truth)" if affected.ground_truths else ""
    change = "to withdraw" if withdrawal.withdrawn else "to bring back"
    return (
        f"{affected.annotations} annotations {change}{truths}, on {affected.task_count} tasks"
        f" with {affected.rounds} rounds, in {len(affected.tasks)} projects"
    )

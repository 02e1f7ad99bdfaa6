"""Forgetting human labels: those of a person, a task or a project stop teaching, and come back when asked.

What they taught is taken out of the state by the opposite contribution, as when an annotation is deleted.
Nothing is erased: the annotations stay in the ledger, marked as withdrawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from backend.learning.projects import project_settings
from backend.learning.teaching import correct_rewards
from backend.ledger import human_annotations, projects, rounds, withdrawals
from backend.ledger.human_annotations import Annotation, withdrawn_by
from backend.ledger.withdrawals import Withdrawal
from backend.settings import Settings


@dataclass(frozen=True, slots=True)
class AffectedLabels:
    """What a withdrawal changes.

    Attributes:
        tasks: project's key → the tasks whose annotations change, in ascending order.
        annotations: how many annotations change.
        ground_truths: how many of them are marked as ground truth.
        rounds: how many rounds these tasks have.
    """

    tasks: Mapping[str, Sequence[int]]
    annotations: int
    ground_truths: int
    rounds: int

    @property
    def task_count(self) -> int:
        """How many tasks change."""
        return sum(map(len, self.tasks.values()))


def bounded(connection: Connection, withdrawal: Withdrawal) -> Withdrawal:
    """The withdrawal, limited to the annotations that were made up to now."""
    updates = [annotation.updated_at for annotation in _in_scope(connection, withdrawal)]
    return withdrawals.up_to(withdrawal, updates)


def affected_labels(connection: Connection, withdrawal: Withdrawal) -> AffectedLabels:
    """What a withdrawal will change, or has still to change if an earlier run of it was interrupted."""
    commands: dict[str, list[Withdrawal]] = {}
    changing = []
    for annotation in _in_scope(connection, withdrawal):
        project = annotation.project
        if project not in commands:
            commands[project] = [*withdrawals.of_project(connection, project), withdrawal]
        if withdrawn_by(commands[project], annotation) != annotation.withdrawn:
            changing.append(annotation)
    tasks = {
        project: sorted({a.task for a in changing if a.project == project and a.task is not None})
        for project in dict.fromkeys(annotation.project for annotation in changing)
    }
    return AffectedLabels(
        tasks,
        annotations=len(changing),
        ground_truths=sum(annotation.ground_truth for annotation in changing),
        rounds=sum(rounds.count_of_tasks(connection, project, of) for project, of in tasks.items()),
    )


def apply_withdrawals(
    connection: Connection, project: str, tasks: Sequence[int], settings: Settings, now: float
) -> int:
    """Make the annotations and rewards of tasks agree with the stored withdrawals; safe to repeat.

    Args:
        connection: a write transaction.
        project: the project's key.
        tasks: the tasks' numbers.
        settings: the server's settings.
        now: unix seconds.

    Returns:
        How many rounds are now taught by another label, or by somebody else.
    """
    own_settings, _ = project_settings(projects.get(connection, project), settings)
    corrected = 0
    for task in tasks:
        human_annotations.apply_withdrawals(connection, project, task)
        corrected += correct_rewards(connection, project, task, own_settings, now)
    return corrected


def _in_scope(connection: Connection, withdrawal: Withdrawal) -> list[Annotation]:
    return human_annotations.in_scope(connection, withdrawal.project, withdrawal.task, withdrawal.annotator)

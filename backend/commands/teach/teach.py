"""``camvo teach``: people's labels of a file go the way of Label Studio's annotations.

Each task has one annotation of each annotator. A label that has changed replaces it, and a cell that was
emptied withdraws it, so teaching a file twice teaches it once.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from backend import settings as settings_module
from backend.commands.environment import environment_with
from backend.commands.label.blind_sample import ANNOTATOR
from backend.commands.stored_projects import existing_ledger
from backend.commands.teach.annotator_fits import fit_annotators
from backend.commands.teach.human_rows import HumanRow, human_rows
from backend.datasets.sources.open_source import open_source
from backend.errors import DatasetError
from backend.label_studio.webhooks import WebhookEvent
from backend.learning.actions import PART, prepare_event
from backend.ledger import Ledger, human_annotations, projects
from backend.ledger.human_annotations import Annotation
from backend.ledger.withdrawals import annotation_time
from backend.settings import Settings


@dataclass(slots=True)
class TeachTally:
    """How many labels a file brought: new, changed and withdrawn ones, and those known already.

    ``annotators`` are those whom the file names, with their numbers.
    """

    new: int = 0
    changed: int = 0
    withdrawn: int = 0
    known: int = 0
    empty: int = 0
    annotators: dict[str, int] = field(default_factory=dict)

    def summary(self) -> str:
        """A line with the counts, and one with the annotators that have names."""
        counts = (
            f"{self.new} labels learnt, {self.changed} changed, {self.withdrawn} withdrawn,"
            f" {self.known} known already; {self.empty} rows have none"
        )
        named = {name: number for name, number in sorted(self.annotators.items()) if name != str(number)}
        if not named:
            return counts
        listed = ", ".join(f"{name} is {number}" for name, number in named.items())
        return f"{counts}\nannotators in reports: {listed}"


def teach_file(
    path: Path,
    config: Path | None,
    annotator: str | None = None,
    *,
    clock: Callable[[], float] = time.time,
) -> TeachTally:
    """Take the labels of a file, and weigh those of several annotators by how often each is right.

    Args:
        path: a file with the columns of ``blind.csv``.
        config: ``camvo.yaml``; ``None`` for that of the environment.
        annotator: who gave the labels of rows that do not say it; ``None`` for nobody in particular.
        clock: unix seconds.

    Raises:
        DatasetError: a row is wrong; nothing has been learnt then.
        CamvoError: the settings or the ledger are wrong.
    """
    environment = environment_with(config)
    settings = settings_module.load(environment.config)
    source = open_source(path)
    with existing_ledger(environment) as ledger:
        ledger.migrate()
        with ledger.read() as connection:
            known = {project.key: project for project in projects.list_all(connection)}
        rows = _without_repetitions(list(human_rows(source, known, annotator)))
        tally = TeachTally()
        tally.annotators = {row.said_by: row.annotator for row in rows if row.annotator is not None}
        for key, of_project in itertools.groupby(
            sorted(rows, key=lambda row: row.project), key=lambda row: row.project
        ):
            label_config = known[key].label_config or ""
            for part in _parts(of_project):
                _teach(
                    ledger,
                    WebhookEvent("ANNOTATION_UPDATED", key, label_config),
                    part,
                    settings,
                    tally,
                    clock,
                )
            if tally.annotators:
                fit_annotators(ledger, key, settings, clock)
    return tally


def _without_repetitions(rows: Sequence[HumanRow]) -> list[HumanRow]:
    """The rows, each task and annotator once.

    Raises:
        DatasetError: somebody says different things about the same task.
    """
    found: dict[tuple[str, int], HumanRow] = {}
    for row in rows:
        first = found.setdefault((row.project, row.annotation), row)
        if first.votes != row.votes:
            raise DatasetError(
                f"has another label than {first.place} for the same task",
                where=row.place,
                fix=f"keep one of the two rows, or say in column {ANNOTATOR!r} who gave which",
            )
    return list(found.values())


def _parts(rows: Iterator[HumanRow]) -> Iterator[list[HumanRow]]:
    while part := list(itertools.islice(rows, PART)):
        yield part


def _teach(  # noqa: PLR0917 - one transaction's part of a file
    ledger: Ledger,
    event: WebhookEvent,
    rows: Sequence[HumanRow],
    settings: Settings,
    tally: TeachTally,
    clock: Callable[[], float],
) -> None:
    with ledger.write() as connection:
        stored = [_stored(connection, row) for row in rows]
        new = [
            (row, _annotation(row, before, clock()))
            for row, before in zip(rows, stored, strict=True)
            if _count(row, before, tally)
        ]
        annotated = replace(
            event,
            annotations=[annotation for _, annotation in new],
            data={row.task: row.data for row, _ in new},
        )
        if new:
            prepare_event(annotated, settings, clock)(connection)


def _stored(connection: Connection, row: HumanRow) -> Annotation | None:
    of_task = human_annotations.of_task(connection, row.project, row.task)
    return next((annotation for annotation in of_task if annotation.annotation_id == row.annotation), None)


def _count(row: HumanRow, stored: Annotation | None, tally: TeachTally) -> bool:
    """Count a row, and return whether it says something new."""
    taught = stored is not None and stored.teaches
    if stored is None or not taught:
        tally.new += bool(row.votes)
        tally.empty += not row.votes
        return bool(row.votes)
    if dict(stored.labels) == dict(row.votes):
        tally.known += 1
        return False
    tally.changed += bool(row.votes)
    tally.withdrawn += not row.votes
    return True


def _annotation(row: HumanRow, stored: Annotation | None, now: float) -> dict[str, Any]:
    """The row as Label Studio would send it, later than what is stored, whatever the clocks say."""
    at = datetime.fromtimestamp(now, UTC)
    if stored is not None:
        at = max(at, annotation_time(stored.updated_at) + timedelta(milliseconds=1))
    return {
        "id": row.annotation,
        "task": row.task,
        "completed_by": row.annotator,
        "updated_at": at.isoformat(),
        "result": row.result,
        "was_cancelled": not row.votes,
    }

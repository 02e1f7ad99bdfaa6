"""What the ledger says about each row, as it is written to a sink."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection

from backend.annotation.job import JobQuestion
from backend.commands.label.dataset_jobs import DatasetJobs, Stored
from backend.datasets.indexed_tasks import IndexedTasks
from backend.datasets.sinks.result import PREFIX, Result
from backend.label_studio.prediction import model_predictions, prediction_of
from backend.ledger.money.task_costs import spent_on_tasks
from backend.ledger.rounds import Round
from camvo.student.taught_texts import without_silent_student


def results(tasks: IndexedTasks, jobs: DatasetJobs) -> Iterator[Result]:
    """Read the rows once more, and join each row with its rounds, its cost and its failure.

    Rows of one task have the same label; the first of them carries the task's cost, so that costs add up. The
    label of a blind task is left out until somebody has labelled the task.
    """
    costs: dict[int, float] = {}

    def read_costs(connection: Connection, numbers: Sequence[int]) -> None:
        costs.clear()
        costs.update(spent_on_tasks(connection, jobs.project, numbers))

    stored = jobs.look_up(tasks.every_row(), also=read_costs)
    # Tasks of a project may come and go, so it does not say beforehand how many rows it has.
    for found, first in zip(stored, tasks.is_first(), strict=False):
        yield _result(jobs, found, costs.get(found.task.number, 0.0) if first else 0.0)


def _result(jobs: DatasetJobs, stored: Stored, cost: float) -> Result:
    blind = any(round_.audit for _, round_ in stored.decided)
    hidden = any(round_.audit and round_.human is None for _, round_ in stored.decided)
    shown = [] if hidden else stored.decided
    added: dict[str, Any] = {f"{PREFIX}id": stored.task.id}
    for name in (question.name for question in jobs.config.questions):
        suffix = "" if len(jobs.config.questions) == 1 else f"_{name}"
        round_ = next((round_ for question, round_ in shown if question.name == name), None)
        added |= {f"{PREFIX}{key}{suffix}": value for key, value in _answer(round_).items()}
    added |= {
        f"{PREFIX}cost_usd": cost,
        f"{PREFIX}blind": blind,
        f"{PREFIX}error": None if stored.complete else stored.failure,
    }
    return Result(stored.task.row.data, added, stored.task.data, _predictions(jobs, shown))


def _answer(round_: Round | None) -> dict[str, Any]:
    if round_ is None:
        return {"label": None, "score": None, "votes": None, "human": None}
    return {
        "label": round_.label,
        "score": round_.score,
        "votes": without_silent_student(round_.votes),
        "human": round_.human,
    }


def _predictions(jobs: DatasetJobs, decided: Sequence[tuple[JobQuestion, Round]]) -> list[dict[str, Any]]:
    if not decided:
        return []
    version = jobs.settings.model_version
    answered = [(question.question, round_) for question, round_ in decided]
    each = model_predictions(answered, version) if jobs.settings.show_votes else []
    return [*each, prediction_of(answered, version)]

"""Predictions for projects that are too large for Label Studio's single request of 100 s.

A run keeps no state: it compares what Label Studio has with what the backend says. An interrupted run can be
repeated, and the backend answers tasks that it has decided from its ledger.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from backend.annotation.queue.answer import AUDIT, CROWDED, DEADLINE
from backend.commands.connect.backend_answers import Progress, TaskAnswer, TaskFailure
from backend.commands.predict.tally import Tally
from backend.commands.predict.watching import watching
from backend.commands.progress import Advance
from backend.errors import BatchPendingError, BodyTooLargeError
from backend.label_studio import stored_predictions
from backend.label_studio.client import Client

TRIES = 4
"""Consecutive requests without any prediction after which the open tasks are given up."""

_PAUSE = 1.0
"""Seconds to wait before repeating such a request, multiplied by how many there were."""


class Predictor(Protocol):
    """A source of predictions: the backend over HTTP."""

    def predict(
        self, project_key: str, label_config: str, tasks: Sequence[Mapping[str, Any]]
    ) -> list[TaskAnswer]:
        """Return for each task its predictions, or why it has none (yet)."""

    def failed_tasks(
        self, project_key: str, first: int = 0, last: int | None = None
    ) -> dict[int, TaskFailure]:
        """Return the tasks in a range of numbers that ended without a prediction."""

    def progress(
        self, project_key: str, first: int = 0, last: int | None = None, after: int | None = None
    ) -> Progress:
        """Return how far the project is."""


@dataclass(frozen=True, slots=True)
class PredictionRun:
    """One run over one project.

    Attributes:
        client: Label Studio.
        predictor: the backend.
        project: Label Studio's number of the project.
        key: the project's key for ``/predict``.
        label_config: its label config.
        model_version: the version of the backend's predictions; other versions are ignored.
        refresh: whether to update existing predictions to what the backend says now, unless somebody has
            annotated the task or begun to.
        failed: whether to ask only about the tasks that the backend failed on before.
        only: the numbers of the tasks that the run is about; ``None`` for all.
        batch: tasks in one request to the backend.
        most: the most tasks to ask about; ``None`` for all.
        sleep: waits for some seconds; tests replace it.
        tally: what was done so far, also after an interruption.
    """

    client: Client
    predictor: Predictor
    project: int
    key: str
    label_config: str
    model_version: str
    refresh: bool = False
    failed: bool = False
    only: Sequence[int] | None = None
    batch: int = 50
    most: int | None = None
    sleep: Callable[[float], None] = time.sleep
    tally: Tally = field(default_factory=Tally)

    def __call__(self, advance: Advance) -> Tally:
        """Go through the project once.

        Raises:
            LabelStudioError: Label Studio refused, or cannot be reached; stored predictions stay.
            BackendError: the backend refused, or cannot be reached; stored predictions stay.
        """
        tally, asked = self.tally, 0
        spent_before = self.predictor.progress(self.key).spent_usd - tally.spent_usd
        for page, wanted in self.pages():
            tally.unchanged += len(page) - len(wanted)
            advance(len(page) - len(wanted))
            chosen = wanted[: None if self.most is None else self.most - asked]
            asked += len(chosen)
            shown = _Shown(advance, tally, spent_before, len(chosen))
            answers = self._answers(chosen, tally, shown) if chosen else {}
            if answers:
                self._store(answers, tally)
            shown.all()
            if asked == self.most:
                break
        tally.spent_usd = self.predictor.progress(self.key).spent_usd - spent_before
        return tally

    def pages(self) -> Iterator[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
        """Read the project page by page: the tasks, and those among them that the backend is asked about.

        Raises:
            LabelStudioError: Label Studio refused, or cannot be reached.
        """
        for page in self._pages():
            yield (
                page,
                [
                    task
                    for task in page
                    if self.refresh or not stored_predictions.of_version(task, self.model_version)
                ],
            )

    def _pages(self) -> Iterator[list[dict[str, Any]]]:
        if self.only is None and not self.failed:
            yield from self.client.pages(self.project, size=self.batch)
            return
        numbers = list(self.predictor.failed_tasks(self.key)) if self.only is None else self.only
        for start in range(0, len(numbers), self.batch):
            yield self.client.tasks(self.project, numbers[start : start + self.batch])

    def _answers(
        self, tasks: Sequence[dict[str, Any]], tally: Tally, shown: _Shown
    ) -> dict[int, list[dict[str, Any]]]:
        """Return task → its predictions; repeat the request for tasks without one while that yields any.

        A task that failed is not asked about again in the same run: a model has only a few attempts at it,
        and what spoilt this one will spoil the next one too.
        """
        answers: dict[int, list[dict[str, Any]]] = {}
        fruitless = 0
        remaining = list(tasks)
        numbers = [task["id"] for task in tasks]
        with watching(self.predictor, self.key, range(min(numbers), max(numbers) + 1), shown):
            while remaining:
                results = self._ask(remaining, tally)
                answers |= {
                    task: answer.predictions for task, answer in results.items() if answer.predictions
                }
                for answer in results.values():
                    _count(answer, tally)
                unfinished = [task for task in remaining if _is_unfinished(results.get(task["id"]))]
                fruitless = 0 if len(unfinished) < len(remaining) else fruitless + 1
                if fruitless == TRIES:
                    tally.undecided += len(unfinished)
                    break
                if fruitless:
                    self.sleep(fruitless * _PAUSE)
                remaining = unfinished
        return answers

    def _ask(self, tasks: Sequence[dict[str, Any]], tally: Tally) -> dict[int, TaskAnswer]:
        """Ask the backend, in several requests if one is too large; a task that is too large is left out."""
        try:
            results = self.predictor.predict(self.key, self.label_config, tasks)
        except BodyTooLargeError:
            if len(tasks) == 1:
                tally.too_large += 1
                return {}
            half = len(tasks) // 2
            return self._ask(tasks[:half], tally) | self._ask(tasks[half:], tally)
        return {task["id"]: answer for task, answer in zip(tasks, results, strict=True)}

    def _store(self, answers: Mapping[int, list[dict[str, Any]]], tally: Tally) -> None:
        """Store the answers in Label Studio.

        The tasks are fetched again first. Answering may have taken minutes, during which a task may have been
        opened (Label Studio then stores a prediction itself) or deleted.
        """
        new: list[dict[str, Any]] = []
        for task in self.client.tasks(self.project, list(answers)):
            touched = stored_predictions.is_annotated(task) or stored_predictions.is_drafted(task)
            written = replaced = 0
            for prediction in answers[task["id"]]:
                existing = stored_predictions.of_version(task, prediction["model_version"])
                if not existing:
                    new.append({"task": task["id"], **prediction})
                    written += 1
                elif self.refresh and not touched:
                    replaced += stored_predictions.replace_prediction(self.client, existing, prediction)
            tally.replaced += replaced
            tally.unchanged += written + replaced == 0
        tally.created += len({prediction["task"] for prediction in new})
        nested = [prediction for prediction in new if _has_paths(prediction)]
        for prediction in nested:
            self.client.add_prediction(prediction)
            tally.stored += 1
        flat = [prediction for prediction in new if not _has_paths(prediction)]
        if flat:
            stored = self.client.import_predictions(self.project, flat)
            tally.stored += stored
            tally.refused += len(flat) - stored
            tally.created -= min(len(flat) - stored, tally.created)


def _has_paths(prediction: Mapping[str, Any]) -> bool:
    """Whether it answers nested Choices, which Label Studio's bulk import does not accept."""
    return any(
        isinstance(choice, list)
        for item in prediction["result"]
        for choice in item["value"].get("choices", ())
    )


def _is_unfinished(answer: TaskAnswer | None) -> bool:
    """Whether a task may have a prediction if it is asked about again soon."""
    return answer is not None and answer.code in {DEADLINE, CROWDED}


def _count(answer: TaskAnswer, tally: Tally) -> None:
    """Count a task that gets no prediction."""
    if answer.code is None or _is_unfinished(answer):
        return
    if answer.code == AUDIT:
        tally.blind += 1
        return
    if answer.code == BatchPendingError.code:
        tally.waiting += 1
        return
    tally.failed[answer.code] += 1
    if answer.fix is not None:
        tally.fixes.setdefault(answer.code, answer.fix)


class _Shown:
    """The tasks of one page that the progress has counted, and the money spent so far.

    Args:
        advance: moves the progress on.
        tally: where the money is noted.
        spent_before: what the project had spent when the run began, in $.
        tasks: how many tasks of the page are asked about.
    """

    def __init__(self, advance: Advance, tally: Tally, spent_before: float, tasks: int) -> None:
        self._advance, self._tally, self._before, self._tasks = advance, tally, spent_before, tasks
        self._counted = 0

    def __call__(self, progress: Progress) -> None:
        """Show what the server said."""
        self._tally.spent_usd = progress.spent_usd - self._before
        decided = min(progress.tasks, self._tasks)
        self._move(max(decided - self._counted, 0))

    def all(self) -> None:
        """Show that the page is finished."""
        self._move(self._tasks - self._counted)

    def _move(self, tasks: int) -> None:
        self._counted += tasks
        self._advance(tasks)

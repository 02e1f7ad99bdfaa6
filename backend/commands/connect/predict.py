"""``camvo predict``: predictions for projects too large for Label Studio's one request of 100 s.

Nothing is kept between runs: what a run has to do is seen from what Label Studio has, so one that was killed
goes on where it stopped, and the backend answers from its ledger what it has decided before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from backend.errors import BodyTooLargeError
from backend.label_studio.client import Client

TRIES = 4
"""Requests in a row that may leave every open task without a prediction; then these are given up."""

_PAUSE = 1.0
"""Seconds before such a request is repeated, times its number: the backend may be busy."""

Advance = Callable[[int], None]
"""Told how many more tasks are done with."""


class Predictor(Protocol):
    """Whoever predicts: the backend over HTTP."""

    def predict(self, project_key: str, label_config: str, tasks: Sequence[Mapping[str, Any]]) -> list[Any]:
        """One entry for each task: a prediction, several in a list, or ``[]`` for none (yet)."""


@dataclass(slots=True)
class Tally:
    """What a run did, in predictions, and in tasks where it says so.

    Attributes:
        created: stored where there was none.
        replaced: changed in their place.
        kept: tasks whose predictions were right, or not looked at with ``--only-missing``.
        undecided: tasks that the backend had no prediction for.
        too_large: tasks longer than the backend takes in one request.
        refused: passed over by Label Studio, as they do not fit the label config.
    """

    created: int = 0
    replaced: int = 0
    kept: int = 0
    undecided: int = 0
    too_large: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Run:
    """One run over one project.

    Attributes:
        client: Label Studio.
        predictor: the backend.
        project: Label Studio's number of the project.
        key: how ``/predict`` names it.
        label_config: its label config.
        model_version: the version of the backend's predictions; others are nobody's business here.
        refresh: make predictions that are there agree with what the backend says now.
        batch: tasks in one request to the backend.
        sleep: waits; a test need not.
    """

    client: Client
    predictor: Predictor
    project: int
    key: str
    label_config: str
    model_version: str
    refresh: bool = False
    batch: int = 50
    sleep: Callable[[float], None] = time.sleep

    def __call__(self, advance: Advance) -> Tally:
        """Go through the project once.

        Raises:
            LabelStudioError, BackendError: one of them is not there or refuses; what was stored stays.
        """
        tally = Tally()
        for page in self.client.pages(self.project, size=self.batch):
            wanted = [task for task in page if self.refresh or not self._of(task, self.model_version)]
            tally.kept += len(page) - len(wanted)
            answers = self._answers(wanted, tally) if wanted else {}
            if answers:
                self._store(answers, tally)
            advance(len(page))
        return tally

    def _answers(self, tasks: Sequence[dict[str, Any]], tally: Tally) -> dict[int, list[dict[str, Any]]]:
        """Task → its predictions; tasks without one are asked for again while that brings any."""
        answers: dict[int, list[dict[str, Any]]] = {}
        fruitless = 0
        todo = list(tasks)
        while todo:
            results = self._ask(todo, tally)
            answers |= results
            rest = [task for task in todo if task["id"] in results and not results[task["id"]]]
            fruitless = 0 if len(rest) < len(todo) else fruitless + 1
            if fruitless == TRIES:
                tally.undecided += len(rest)
                break
            if fruitless:
                self.sleep(fruitless * _PAUSE)
            todo = rest
        return {task: predictions for task, predictions in answers.items() if predictions}

    def _ask(self, tasks: Sequence[dict[str, Any]], tally: Tally) -> dict[int, list[dict[str, Any]]]:
        """One request; several, where the tasks are too long for one. A single one too long is left out."""
        try:
            results = self.predictor.predict(self.key, self.label_config, tasks)
        except BodyTooLargeError:
            if len(tasks) == 1:
                tally.too_large += 1
                return {}
            half = len(tasks) // 2
            return self._ask(tasks[:half], tally) | self._ask(tasks[half:], tally)
        return {
            task["id"]: [result] if isinstance(result, dict) else list(result)
            for task, result in zip(tasks, results, strict=True)
        }

    def _store(self, answers: Mapping[int, list[dict[str, Any]]], tally: Tally) -> None:
        """Bring Label Studio's predictions into agreement with the answers.

        The tasks are looked at again first: answering may have taken minutes, in which somebody opened a task
        (Label Studio then stores a prediction itself) or deleted one.
        """
        new: list[dict[str, Any]] = []
        for task in self.client.tasks(self.project, list(answers)):
            written = 0
            for prediction in answers[task["id"]]:
                there = self._of(task, prediction["model_version"])
                if not there:
                    new.append({"task": task["id"], **prediction})
                    written += 1
                elif self.refresh:
                    written += self._replace(there, prediction, tally)
            tally.kept += not written
        nested = [prediction for prediction in new if _has_paths(prediction)]
        for prediction in nested:
            self.client.add_prediction(prediction)
            tally.created += 1
        flat = [prediction for prediction in new if not _has_paths(prediction)]
        if flat:
            stored = self.client.import_predictions(self.project, flat)
            tally.created += stored
            tally.refused += len(flat) - stored

    def _replace(self, there: Sequence[dict[str, Any]], prediction: Mapping[str, Any], tally: Tally) -> bool:
        """Change the oldest prediction of a version where it differs, and delete its doubles."""
        first, *doubles = there
        for double in doubles:
            self.client.remove_prediction(double["id"])
        differs = (first["result"], first["score"]) != (prediction["result"], prediction["score"])
        if differs:
            values = {"result": prediction["result"], "score": prediction["score"]}
            self.client.change_prediction(first["id"], values)
        tally.replaced += differs or bool(doubles)
        return differs or bool(doubles)

    @staticmethod
    def _of(task: Mapping[str, Any], version: str) -> list[dict[str, Any]]:
        """A task's predictions of one version, the oldest first."""
        found = [one for one in task["predictions"] if one["model_version"] == version]
        return sorted(found, key=lambda one: one["id"])


def _has_paths(prediction: Mapping[str, Any]) -> bool:
    """Whether it answers nested Choices."""
    return any(
        isinstance(choice, list)
        for item in prediction["result"]
        for choice in item["value"].get("choices", ())
    )

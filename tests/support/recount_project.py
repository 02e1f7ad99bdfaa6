"""A project whose labels are all wrong until its votes are counted again: a backend and a Label Studio."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path
from typing import Any

from label_studio_api import KEY, LabelStudioApi
from label_studio_requests import Annotation, Project, annotated
from pydantic import SecretStr
from whole_backend import Backend, prompt_of, says

from backend.ledger import recounts
from backend.ledger.recounts import Counting, Recount, Recounts

TASKS, LABELLED = 30, 24
LEFT = TASKS - LABELLED
POLICY = {"name": "joint", "agreement": 0.99}

Prepared = tuple[bytes, dict[int, Any]]


def script(body: dict[str, Any]) -> Any:
    """Red and green agree on a label that is wrong on every task; blue is right."""
    right, wrong = ("Glad", "Sad") if "sunny" in prompt_of(body) else ("Sad", "Glad")
    return says(mood=right if body["model"] == "blue" else wrong)


def text(number: int) -> str:
    return f"Note {number}: {'sunny' if number % 2 else 'rainy'}"


def truth(number: int) -> str:
    return "Glad" if number % 2 else "Sad"


class Studio:
    """A Label Studio whose tasks all have the backend's first prediction."""

    def __init__(self, folder: Path, api: LabelStudioApi, *, key: bool = True, **settings: Any) -> None:
        self.api = api
        self.texts = [text(number) for number in range(TASKS)]
        self.tasks = api.add_tasks(*self.texts)
        api.project["created_at"] = self.project.payload()["created_at"]
        own = {"label_studio_url": api.url, "label_studio_api_key": SecretStr(KEY)} if key else {}
        self.backend = Backend(folder, script, environment=own, **{"policy": POLICY, **settings})

    @property
    def project(self) -> Project:
        number, config = self.api.project["id"], self.api.project["label_config"]
        return Project(number=number, label_config=config)

    def raw(self, *numbers: int) -> list[dict[str, Any]]:
        chosen = numbers or range(TASKS)
        return [{"id": self.tasks[number], "data": {"text": self.texts[number]}} for number in chosen]

    def predict(self) -> None:
        """Store every prediction in Label Studio. Red and green decide, so every label is wrong."""
        answers = self.backend.predict(*self.raw(), project=self.project)
        for task, answer in zip(self.tasks, answers, strict=True):
            if answer:
                self.api._add_prediction({"task": task, **answer})

    def label(self, *numbers: int) -> None:
        """People label tasks: in the webhook, and in Label Studio."""
        for number in numbers:
            annotation = Annotation(number=1000 + number, task=self.tasks[number], mood=truth(number))
            self.backend.hook(annotated(annotation, self.project))
            self.api.annotate(self.tasks[number], truth(number))

    def recount(self) -> dict[str, Any] | None:
        answer = self.backend.post("/recount", {"project": self.project.key}).get_json()
        assert answer["done"]
        counting: dict[str, Any] | None = answer["counting"]
        return counting

    def shown(self) -> dict[int, tuple[str, float]]:
        """Task → label and score in Label Studio."""
        return {
            number: (prediction["result"][0]["value"]["choices"][0], prediction["score"])
            for number, task in enumerate(self.api.tasks[task] for task in self.tasks)
            for prediction in task["predictions"]
        }

    def answers(self) -> list[Any]:
        return self.backend.predict(*self.raw(), project=self.project)

    def countings(self) -> list[Counting]:
        with self.backend.ledger.read() as connection:
            return Recounts(connection, self.project.key).countings()

    def pending(self) -> list[int]:
        with self.backend.ledger.read() as connection:
            return [self.tasks.index(task) for task in Recounts(connection, self.project.key).pending()]

    def recounts(self, number: int) -> Recount | None:
        [round_] = self.backend.rounds(self.tasks[number], self.project)
        with self.backend.ledger.read() as connection:
            return recounts.latest(connection, [round_.id]).get(round_.id)

    def tend(self) -> None:
        """Let the server look once, as it does by itself."""
        runtime = self.backend.runtime
        runtime._thread.submit(runtime.recounts.tend(self.project.key)).result(60)


def prepare(folder: Path) -> Prepared:
    """The ledger, and Label Studio's tasks, after a project was predicted and twelve tasks were labelled."""
    with LabelStudioApi() as api:
        studio = Studio(folder, api)
        with studio.backend:
            studio.predict()
            studio.label(*range(LABELLED))
        return (folder / "ledger.sqlite").read_bytes(), copy.deepcopy(api.tasks)


def resumed(prepared: Prepared, folder: Path, api: LabelStudioApi, **settings: Any) -> Studio:
    """A backend that goes on with the prepared project."""
    ledger, tasks = prepared
    (folder / "ledger.sqlite").write_bytes(ledger)
    studio = Studio(folder, api, **settings)
    api.tasks = copy.deepcopy(tasks)
    api.numbers = itertools.count(10_000)
    assert studio.tasks == [*tasks]
    return studio


NEW = [truth(number) for number in range(LABELLED, TASKS)]
"""The right labels of the tasks that nobody has annotated."""


def labels(answers: list[Any]) -> list[str]:
    return [answer["result"][0]["value"]["choices"][0] for answer in answers]

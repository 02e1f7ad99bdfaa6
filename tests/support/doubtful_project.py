"""A project that was predicted for little money, and is worth more now: a backend and a Label Studio."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from label_studio_api import KEY, LabelStudioApi
from pydantic import SecretStr
from recount_project import Prepared, Studio
from whole_backend import Backend, prompt_of, says

from backend.learning.states import FitCache

CHEAP = {"name": "joint", "worth": 0.5}
DEAR = {"name": "joint", "worth": 1000.0}
MODELS = ("red", "green", "blue", "white")
SKILL = {"red": 0.7, "green": 0.7, "blue": 0.75, "white": 0.95}
FIRST, REST = 36, 20
NUMBERS = range(FIRST + REST)


def script(body: dict[str, Any]) -> Any:
    """Each model is right as often as its skill says, and else says one of the other labels at random."""
    found = re.findall(r"Note (\d+)", prompt_of(body))
    number, model = int(found[-1]), body["model"]
    labels = ("Sad", "Glad", "Calm")
    right, wrong = labels[number % 3], [label for label in labels if label != labels[number % 3]]
    luck = random.Random(f"{model} {number}")  # noqa: S311 - no secret
    return says(mood=right if luck.random() < SKILL[model] else luck.choice(wrong))


class DoubtfulStudio(Studio):
    """The first 40 tasks ask every model; the others stop early while a right label is worth little."""

    def __init__(self, folder: Path, api: LabelStudioApi, **settings: Any) -> None:
        self.api = api
        self.texts = [f"Note {number}: {'sunny' if number % 2 else 'rainy'}" for number in NUMBERS]
        self.tasks = api.add_tasks(*self.texts)
        api.project["created_at"] = self.project.payload()["created_at"]
        self.backend = self.process(folder, **settings)

    def process(self, folder: Path, **settings: Any) -> Backend:
        """A process of the server on the ledger in a folder."""
        own = {"label_studio_url": self.api.url, "label_studio_api_key": SecretStr(KEY)}
        return Backend(folder, script, MODELS, environment=own, **settings)

    def raw(self, *numbers: int) -> list[dict[str, Any]]:
        return super().raw(*(numbers or NUMBERS))

    def predict_cheaply(self, folder: Path, numbers: Iterable[int]) -> None:
        """Predict tasks for little money, in another process on the ledger in ``folder``.

        They are predicted one after another, and by one fit each time, so the votes are always the same.
        """
        with self.process(folder, policy=CHEAP) as process, pytest.MonkeyPatch.context() as patch:
            patch.setattr(FitCache, "is_old", lambda *_, **__: False)
            for number in numbers:
                [answer] = process.predict(*self.raw(number), project=self.project)
                self.api._add_prediction({"task": self.tasks[number], **answer})

    def doubts(self, usd: float) -> dict[str, Any]:
        """The tasks in doubt, as POST /doubts says."""
        found: dict[str, Any] = self.backend.post(
            "/doubts", {"project": self.project.key, "usd": usd}
        ).get_json()
        return found

    def ask_more(self, usd: float) -> dict[str, Any]:
        """Ask about all tasks in doubt, as the command does."""
        found = self.doubts(usd)
        numbers = [self.tasks.index(task) for task in found["tasks"]]
        body = {
            "project": self.project.key,
            "label_config": self.project.label_config,
            "tasks": self.raw(*numbers) if numbers else [],
            "usd": usd,
            "least": found["least"] or 1.0,
        }
        said: dict[str, Any] = self.backend.post("/ask_more", body).get_json()
        return said


def prepare_doubtful(folder: Path) -> Prepared:
    """The ledger, and Label Studio's tasks, after the project was predicted."""
    with LabelStudioApi() as api:
        studio = DoubtfulStudio(folder, api, policy=CHEAP)
        for some in (range(FIRST), range(FIRST, FIRST + REST)):
            studio.predict_cheaply(folder, some)
        return (folder / "ledger.sqlite").read_bytes(), copy.deepcopy(api.tasks)


def resumed_doubtful(
    prepared: Prepared, folder: Path, api: LabelStudioApi, **settings: Any
) -> DoubtfulStudio:
    """A backend that goes on with the prepared project; a right label is worth more to it."""
    ledger, tasks = prepared
    (folder / "ledger.sqlite").write_bytes(ledger)
    studio = DoubtfulStudio(folder, api, **{"policy": DEAR, **settings})
    api.tasks = copy.deepcopy(tasks)
    assert studio.tasks == [*tasks]
    return studio

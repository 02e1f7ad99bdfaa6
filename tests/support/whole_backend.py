"""The whole backend in one process: the real app, ledger and litellm, with scripted models and embeddings.

::

    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Sad")) as backend:
        [prediction] = backend.predict(task(1))
        backend.post("/webhook", annotated(Annotation(number=5, task=1, mood="Sad")))
        backend.learnt("mood")          # {"red": (1, 0.0), …}: number and sum of rewards
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any
from unittest.mock import patch

import migrated
import yaml
from label_studio_requests import Project, predict
from rewards import rewards
from scripted_litellm import HashedTexts
from werkzeug.test import TestResponse

from backend.ledger import Ledger, events, human_annotations
from backend.ledger.events import ProjectEvents
from backend.ledger.human_annotations import Annotations
from backend.ledger.rounds import ProjectRounds, Round
from backend.models import model
from backend.models.embedder import Embedder
from backend.server.app import create_app
from backend.server.runtime import Runtime
from backend.settings import Environment
from backend.testing import OpenAIServer, Reply
from camvo.state.contribution import Contribution
from camvo.state.state import State

Script = Callable[[dict[str, Any]], Reply]

INPUT_PRICE, OUTPUT_PRICE = 1.0, 2.0
CALL = (10 * INPUT_PRICE + 2 * OUTPUT_PRICE) / 1e6
"""Cost in $ of a call that reports 10 input and 2 output tokens."""


def votes(**labels: str | None) -> Script:
    """A script of models with a fixed mood each; ``None`` fails in a way that is not retried."""

    def script(body: dict[str, Any]) -> Reply:
        label = labels[body["model"]]
        return Reply.fails(400) if label is None else says(mood=label)

    return script


def says(**answers: str) -> Reply:
    """An answer in the form that the prompt asks for, by control tag."""
    return Reply.says(answers)


def prompt_of(body: Mapping[str, Any]) -> str:
    """Everything that a model is shown."""
    return "\n".join(message["content"] for message in body["messages"])


_idle: list[tuple[Any, ...]] = []
"""What the packaged embedders of closed backends have loaded and embedded, for the next backend to use."""


def _packaged() -> Embedder:
    """A loaded embedder: importing its libraries in a thread beside a test is not safe."""
    embedder = Embedder()
    if _idle:
        embedder._model, embedder._dimension, embedder._identity, embedder._cache = _idle.pop()
    embedder.load()
    return embedder


class Backend:
    """A backend on the ledger in ``folder``; a second one on that folder acts as a second process.

    With ``packaged``, texts are embedded by the packaged model, so that texts that are alike have contexts
    that are alike; otherwise by their hash, which needs no library that takes six seconds to import.
    """

    def __init__(
        self,
        folder: Path,
        script: Script,
        models: tuple[str, ...] = ("red", "green", "blue"),
        environment: Mapping[str, Any] | None = None,
        entries: Mapping[str, Any] | None = None,
        *,
        database_url: str | None = None,
        packaged: bool = False,
        **settings: Any,
    ) -> None:
        self.server = OpenAIServer(script)
        self._folder, self._models, self._database_url = folder, models, database_url
        self._packaged = packaged
        self._entries, self._environment = dict(entries or {}), dict(environment or {})
        self._settings = {"retries": 0, "policy": {"name": "camvo"}, **settings}

    def __enter__(self) -> Backend:
        self.server.__enter__()
        url = self._database_url or migrated.sqlite(self._folder / "ledger.sqlite")
        self.ledger = Ledger(url)
        config = self._folder / "camvo.yaml"
        config.write_text(yaml.safe_dump({"models": self._pool(), **self._settings}))
        environment = Environment(database_url=url, config=config, **self._environment)
        model.litellm()  # importing it in a thread beside a test is not safe
        with patch("backend.runtime.Embedder", return_value=self._embedder()):
            self.app = create_app(environment)
        self.runtime: Runtime = self.app.extensions["camvo"]
        self.client = self.app.test_client()
        return self

    def __exit__(  # waits for the work that the app does after its answer
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.runtime.close(patience=30.0)
        embedder = self.runtime.embedder
        if self._packaged:
            _idle.append((embedder._model, embedder._dimension, embedder._identity, embedder._cache))
        self.server.__exit__(kind, error, trace)
        self.ledger.close()

    def _embedder(self) -> Any:
        if "embedder" in self._settings:
            return Embedder(self._settings["embedder"])
        return _packaged() if self._packaged else HashedTexts()

    def _pool(self) -> list[dict[str, Any]]:
        common: dict[str, Any] = {"api_base": self.server.url, "structured_output": False}
        common |= {"input_price": INPUT_PRICE, "output_price": OUTPUT_PRICE}
        return [{"name": name, "model": f"openai/{name}", **common, **self._entries} for name in self._models]

    def post(self, path: str, body: object, **options: Any) -> TestResponse:
        return self.app.test_client().post(path, json=body, **options)

    def predict(self, *tasks: object, project: Project | None = None) -> list[Any]:
        """The results of POST /predict."""
        response = self.post("/predict", predict(tasks, project))
        assert response.status_code == 200, response.text
        results: list[Any] = response.get_json()["results"]
        return results

    def hook(self, body: object) -> None:
        """POST /webhook, which must be accepted."""
        response = self.post("/webhook", body)
        assert response.status_code == 200, response.text

    @contextmanager
    def standstill(self) -> Iterator[None]:
        """Let the loop stand still meanwhile."""
        stands, goes_on = threading.Event(), threading.Event()

        def compute() -> None:
            stands.set()
            goes_on.wait(30.0)

        self.runtime._thread.call_soon(compute)
        try:
            assert stands.wait(30.0)
            yield
        finally:
            goes_on.set()

    def rounds(self, task: int, project: Project | None = None) -> list[Round]:
        with self.ledger.read() as connection:
            return ProjectRounds(connection, (project or Project()).key).of_task(task)

    def events(self, project: Project | None = None) -> list[events.Event]:
        with self.ledger.read() as connection:
            return ProjectEvents(connection, (project or Project()).key).after(0)

    def annotations(self, task: int, project: Project | None = None) -> list[human_annotations.Annotation]:
        with self.ledger.read() as connection:
            return Annotations(connection, (project or Project()).key).of_task(task)

    def learnt(self, control: str = "mood", project: Project | None = None) -> dict[str, tuple[int, float]]:
        """Arm → (N, Σr) from the ledger's events over all epochs; arms whose changes cancel out stay."""
        return rewards(event.contribution for event in self.events(project) if event.control == control)

    def state(self, control: str = "mood", project: Project | None = None) -> State:
        """A control's state: the sum of all its contributions in the ledger, over all epochs."""
        state = State(self.runtime.embedder.dimension)
        for event in self.events(project):
            if event.control == control:
                state.add(Contribution.unpack(event.contribution))
        return state

    def metric(self, name: str, **labels: str) -> float:
        """One number from GET /metrics, 0 if it is missing."""
        wanted = {f'{key}="{value}"' for key, value in labels.items()}
        for line in self.client.get("/metrics").text.splitlines():
            head, _, value = line.rpartition(" ")
            metric, _, inside = head.partition("{")
            if metric == name and wanted <= set(inside.removesuffix("}").split(",")):
                return float(value)
        return 0.0

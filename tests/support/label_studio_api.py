"""A stand-in for the part of Label Studio's API that CaMVo uses, on a free local port.

Its objects start as copies of what a real 1.23.2 answered (``label_studio_answers.json``). It has the same
side effects as the real one:

- Creating an ML backend creates a webhook, unless the address has one already.
- Creating the first ML backend sets the project's model version to the backend's title.
- Deleting an ML backend leaves its webhook.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from local_server import Handler, LocalServer
from pydantic import SecretStr

from backend.label_studio.client import Client
from backend.label_studio.payloads import project_key

ANSWERS: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("label_studio_answers.json").read_text()
)
KEY = "the-owners-key"
PROJECT: int = ANSWERS["project"]["body"]["id"]

Answer = tuple[int, Any]


class LabelStudioApi(LocalServer):
    """One organisation with one project. A test may change its content at any time."""

    def __init__(self) -> None:
        self.project = copy.deepcopy(ANSWERS["project"]["body"])
        self.backends: dict[int, dict[str, Any]] = {}
        self.webhooks: dict[int, dict[str, Any]] = {}
        self.tabs: dict[int, dict[str, Any]] = {}
        self.columns: list[dict[str, Any]] = []
        self.tasks: dict[int, dict[str, Any]] = {}
        self.drafted: set[int] = set()
        """Tasks on which somebody has begun an annotation."""
        self.answers: dict[tuple[str, str], Answer | bytes] = {}
        """(method, path) → the answer to give instead of the usual one."""
        self.before: Callable[[str, str], None] = lambda method, path: None
        """Called with every request before it is answered."""
        self.requests: list[tuple[str, str, Any]] = []
        self.numbers = itertools.count(100)
        super().__init__(self._handler())

    @property
    def project_key(self) -> str:
        return project_key(self.project)

    @property
    def writes(self) -> list[tuple[str, str]]:
        """The requests so far that were meant to change something."""
        return [(method, path) for method, path, _ in self.requests if method != "GET"]

    def client(self, key: str = KEY) -> Client:
        return Client(self.url, SecretStr(key))

    # content

    def says(self, method: str, path: str, name: str) -> None:
        """Answer a request with a recorded answer."""
        self.answers[method, path] = (ANSWERS[name]["status"], ANSWERS[name]["body"])

    def add_tasks(self, *texts: str) -> list[int]:
        template = ANSWERS["tasks"]["body"]["tasks"][0]
        numbers = []
        for text in texts:
            number = next(self.numbers)
            new = {"id": number, "data": {"text": text}, "annotations": [], "predictions": []}
            new |= {"total_annotations": 0, "cancelled_annotations": 0}
            self.tasks[number] = copy.deepcopy(template) | new
            numbers.append(number)
        return numbers

    def annotate(self, task: int, mood: str, **changes: Any) -> int:
        """Add an annotation as an import does, which sends no webhook event; return its number."""
        annotation = copy.deepcopy(ANSWERS["tasks"]["body"]["tasks"][0]["annotations"][0])
        annotation |= {"id": next(self.numbers), "task": task, **changes}
        annotation["result"][0]["value"]["choices"] = [mood]
        self.tasks[task]["annotations"].append(annotation)
        return int(annotation["id"])

    def predict(self, task: int, version: str, score: float = 0.5, mood: str = "Glad") -> int:
        """Add a prediction that some model version stored earlier; return its number."""
        prediction = copy.deepcopy(ANSWERS["tasks"]["body"]["tasks"][1]["predictions"][0])
        prediction |= {"id": next(self.numbers), "model_version": version, "score": score}
        prediction["result"] = [region(mood)]
        self.tasks[task]["predictions"].append(prediction)
        return int(prediction["id"])

    def predictions(self) -> list[tuple[int, str, float]]:
        """(task, version, score) of every stored prediction."""
        return [
            (task["id"], prediction["model_version"], prediction["score"])
            for task in self.tasks.values()
            for prediction in task["predictions"]
        ]

    # requests

    def _answer(self, method: str, path: str, query: dict[str, str], body: Any) -> Answer | bytes:
        if (method, path) in self.answers:
            return self.answers[method, path]
        handler = {
            "version": self._version,
            "projects": self._project,
            "ml": self._ml,
            "webhooks": self._webhook,
            "dm": self._tab,
            "tasks": self._tasks,
            "annotations": self._annotation,
            "predictions": self._prediction,
        }[path.split("/")[2]]
        rest = [part for part in path.split("/")[3:] if part]
        return handler(method, rest, query, body)

    def _version(self, *_: Any) -> Answer:
        return 200, ANSWERS["version"]["body"]

    def _project(self, method: str, rest: list[str], query: dict[str, str], body: Any) -> Answer:
        if rest[0] != str(self.project["id"]):
            return _recorded("project_missing")
        if rest[1:] == ["import", "predictions"]:
            return self._import(body)
        if method == "PATCH":
            self.project |= body
        return 200, self.project

    def _import(self, body: list[dict[str, Any]]) -> Answer:
        if any(prediction["task"] not in self.tasks for prediction in body):
            return _recorded("predictions_refused")
        labels = ("Glad", "Sad", "Calm")
        accepted = [
            item for item in body if not item["result"] or item["result"][0]["value"]["choices"][0] in labels
        ]
        for prediction in accepted:
            self._add_prediction(prediction)
        return 201, {"created": len(accepted)}

    def _add_prediction(self, prediction: dict[str, Any]) -> dict[str, Any]:
        stored = {**prediction, "id": next(self.numbers)}
        self.tasks[prediction["task"]]["predictions"].append(stored)
        return stored

    def _ml(self, method: str, rest: list[str], query: dict[str, str], body: Any) -> Answer:
        if rest[1:] == ["predict", "test"]:
            return _recorded("backend_tried")
        if method == "GET":
            return 200, list(self.backends.values())
        if method == "POST":
            backend = copy.deepcopy(ANSWERS["backend_created"]["body"]) | {"description": "", **body}
            backend |= {"id": next(self.numbers), "model_version": "camvo"}
            backend.pop("basic_auth_pass", None)
            self.backends[backend["id"]] = backend
            self._make_webhook(backend["url"])
            if not self.project["model_version"] and self.project["show_collab_predictions"]:
                self.project["model_version"] = backend["title"]
            return 201, backend
        number = int(rest[0])
        if method == "DELETE":
            if self.backends.pop(number)["title"] == self.project["model_version"]:
                self.project["model_version"] = ""
            return 204, None
        assert {"url", "project"} <= set(body), "Label Studio answers 500 without them"
        public = {name: value for name, value in body.items() if name != "basic_auth_pass"}
        self.backends[number] |= public | {"state": "CO"}
        self._make_webhook(body["url"])
        return 200, self.backends[number]

    def _make_webhook(self, url: str) -> None:
        if all(webhook["url"] != f"{url}/webhook" for webhook in self.webhooks.values()):
            fields = {"url": f"{url}/webhook", "headers": {}, "send_for_all_actions": True, "actions": []}
            self._webhook("POST", [], {}, fields)

    def _webhook(self, method: str, rest: list[str], query: dict[str, str], body: Any) -> Answer:
        if method == "GET":
            return 200, list(self.webhooks.values())
        if method == "DELETE":
            del self.webhooks[int(rest[0])]
            return 204, None
        if method == "PATCH":
            self.webhooks[int(rest[0])] |= {"actions": [], **body}
            return 200, self.webhooks[int(rest[0])]
        webhook = copy.deepcopy(ANSWERS["webhook_created"]["body"]) | body | {"id": next(self.numbers)}
        self.webhooks[webhook["id"]] = webhook
        return 201, webhook

    def _tab(self, method: str, rest: list[str], query: dict[str, str], body: Any) -> Answer:
        if rest == ["actions"]:
            return self._accept(body)
        if rest == ["columns"]:
            return 200, {"columns": self.columns}
        if method == "GET":
            return 200, list(self.tabs.values())
        if method == "DELETE":
            del self.tabs[int(rest[1])]
            return 204, None
        number = next(self.numbers) if method == "POST" else int(rest[1])
        self.tabs[number] = {"id": number, "project": body["project"], "data": body["data"]}
        return 201 if method == "POST" else 200, self.tabs[number]

    def _accept(self, body: Any) -> Answer:
        """Make annotations of predictions, as the Data Manager's predictions_to_annotations does."""
        for number in body["selectedItems"]["included"]:
            for prediction in [*self.tasks[number]["predictions"]]:
                if prediction["model_version"] == body["model_version"]:
                    made = {"parent_prediction": prediction["id"], "lead_time": None, "ground_truth": False}
                    self.annotate(number, "Glad", **made)
        return 200, {"processed_items": len(body["selectedItems"]["included"])}

    def _tasks(self, method: str, rest: list[str], query: dict[str, str], body: Any) -> Answer:
        selection = json.loads(query["query"])
        tasks = sorted(self.tasks.values(), key=lambda task: int(task["id"]))
        for item in selection.get("filters", {}).get("items", []):
            if item["filter"] == "filter:tasks:id":
                tasks = [task for task in tasks if task["id"] > item["value"]]
            elif item["filter"] == "filter:tasks:draft_exists":
                tasks = [task for task in tasks if task["id"] in self.drafted]
            else:
                assert item["filter"] == "filter:tasks:annotations_ids"
                tasks = [task for task in tasks if task["annotations"]]
        if "selectedItems" in selection:
            tasks = [task for task in tasks if task["id"] in selection["selectedItems"]["included"]]
        return 200, {"total": len(tasks), "tasks": tasks[: int(query["page_size"])]}

    def _annotation(self, method: str, rest: list[str], query: dict[str, str], body: Any) -> Answer:
        for task in self.tasks.values():
            for annotation in task["annotations"]:
                if annotation["id"] == int(rest[0]):
                    if method == "DELETE":
                        task["annotations"].remove(annotation)
                        return 204, None
                    if method == "PATCH":
                        annotation.update(body)
                    return 200, annotation
        return _recorded("annotation_missing")

    def _prediction(self, method: str, rest: list[str], query: dict[str, str], body: Any) -> Answer:
        if method == "POST":
            return 201, self._add_prediction(body)
        number = int(rest[0])
        for task in self.tasks.values():
            for prediction in task["predictions"]:
                if prediction["id"] == number:
                    if method == "DELETE":
                        task["predictions"].remove(prediction)
                        return 204, None
                    prediction.update(body)
                    return 200, prediction
        return _recorded("annotation_missing")

    def _handler(self) -> type[Handler]:
        api = self

        class Api(Handler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True
            wbufsize = -1

            def respond(self) -> None:
                parts = urlsplit(self.path)
                length = int(self.headers.get("content-length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                api.requests.append((self.command, parts.path, body))
                api.before(self.command, parts.path)
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                answer: Answer | bytes = _recorded("key_wrong")
                if self.headers.get("authorization") == f"Token {KEY}":
                    answer = api._answer(self.command, parts.path, query, body)
                status, content = (200, answer) if isinstance(answer, bytes) else answer
                payload = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("location", "https://elsewhere.test/")
                self.send_header("content-length", str(0 if status == 204 else len(payload)))
                self.end_headers()
                if status != 204:
                    self.wfile.write(payload)

        return Api


def region(mood: str) -> dict[str, Any]:
    """A region of the recorded project's only control."""
    return {"from_name": "mood", "to_name": "note", "type": "choices", "value": {"choices": [mood]}}


def _recorded(name: str) -> Answer:
    return ANSWERS[name]["status"], ANSWERS[name]["body"]

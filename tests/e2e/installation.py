"""A server together with the Label Studio that holds its projects."""

from __future__ import annotations

from collections import Counter
from subprocess import CompletedProcess
from typing import Any

from command_line import called
from label_studio import LabelStudio
from label_studio_requests import SENTIMENT
from rewards import rewards
from server_process import ServerProcess
from sqlalchemy import select

from backend.ledger.database import tables
from backend.ledger.database.packing import with_context

CREDENTIALS = {
    "BASIC_AUTH_USER": "label-studio",
    "BASIC_AUTH_PASS": "a-password-4711",
    "CAMVO_WEBHOOK_SECRET": "a-secret-4711",
}


def variables(studio: LabelStudio) -> dict[str, str]:
    """The environment of the server and of the command line."""
    return {**CREDENTIALS, "LABEL_STUDIO_URL": studio.url, "LABEL_STUDIO_API_KEY": studio.token}


class Installation:
    """The tests' actions in Label Studio, and what they read from it and from the ledger."""

    def __init__(self, studio: LabelStudio, server: ServerProcess) -> None:
        self.studio, self.server = studio, server
        config = server.folder / "camvo.yaml"
        self.variables = variables(studio) | ({"CAMVO_CONFIG": str(config)} if config.exists() else {})

    # projects

    def project(self, *texts: str, **changes: Any) -> int:
        """Create a project with one task for each text; return its number."""
        project = self.studio.ask(
            "POST", "/api/projects/", {"title": "diary", "label_config": SENTIMENT, **changes}
        )
        if texts:
            self.add(project["id"], *({"text": text} for text in texts))
        return int(project["id"])

    def add(self, project: int, *data: dict[str, Any]) -> list[int]:
        """Import one task for each data object; return their numbers."""
        tasks = [{"data": each} for each in data]
        path = f"/api/projects/{project}/import"
        numbers: list[int] = self.studio.ask("POST", path, tasks, return_task_ids="true")["task_ids"]
        return numbers

    def camvo(self, command: str, project: int, *arguments: str, **changes: str) -> CompletedProcess[str]:
        """Run a command of the command line on a project."""
        options = ("--project", str(project), "--backend-url", self.server.url)
        return self._run(command, *options, *arguments, **changes)

    def camvo_alone(self, command: str, *arguments: str) -> CompletedProcess[str]:
        """Run a command that is about no project."""
        return self._run(command, *arguments)

    def review(self, project: int, *arguments: str) -> CompletedProcess[str]:
        """Run ``camvo review``, which must succeed."""
        done = self.on_ledger("review", project, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    def on_ledger(self, command: str, project: int, *arguments: str) -> CompletedProcess[str]:
        """Run a command that reads the server's ledger."""
        database = {"CAMVO_DATABASE_URL": self.server.database_url}
        return self._run(command, "--project", str(project), *arguments, **database)

    def _run(self, *arguments: str, **changes: str) -> CompletedProcess[str]:
        return called(*arguments, cwd=self.server.folder, **(self.variables | changes))

    def connect(self, project: int, *arguments: str) -> None:
        """Run ``camvo connect``, which must succeed."""
        done = self.camvo("connect", project, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr

    def connected(self, *texts: str, **changes: Any) -> int:
        """Create a project with tasks and connect the backend; return its number."""
        project = self.project(*texts, **changes)
        self.connect(project)
        return project

    # Label Studio's state

    def predictions(self, project: int) -> list[tuple[int, str, float]]:
        """(task, version, score) of every prediction, sorted."""
        stored = self.studio.ask("GET", "/api/predictions/", project=project)
        return sorted((each["task"], each["model_version"], each["score"]) for each in stored)

    def per_task(self, project: int) -> list[int]:
        """The number of predictions of each task."""
        counted = Counter(task for task, _, _ in self.predictions(project))
        return [counted[task["id"]] for task in self.tasks(project)]

    def tasks(self, project: int) -> list[dict[str, Any]]:
        """All tasks as Label Studio gives them to its Data Manager."""
        tasks: list[dict[str, Any]] = self.studio.ask(
            "GET", "/api/tasks/", project=project, fields="all", page_size=1000
        )["tasks"]
        return tasks

    # people's actions

    def retrieve(self, project: int) -> None:
        """Use *Retrieve predictions* on all tasks of the Data Manager."""
        body = {"selectedItems": {"all": True, "excluded": []}, "project": project}
        self.studio.ask("POST", "/api/dm/actions", body, id="retrieve_tasks_predictions", project=project)

    def open(self, task: int) -> list[dict[str, Any]]:
        """Open a task; return its predictions."""
        predictions: list[dict[str, Any]] = self.studio.ask("GET", f"/api/tasks/{task}/")["predictions"]
        return predictions

    def annotate(self, task: int, *result: dict[str, Any], **changes: Any) -> int:
        """Submit an annotation; return its number."""
        path = f"/api/tasks/{task}/annotations/"
        return int(self.studio.ask("POST", path, {"result": list(result), **changes})["id"])

    def train(self, project: int) -> None:
        """Use *Start training*."""
        [backend] = self.studio.ask("GET", "/api/ml/", project=project)
        self.studio.ask("POST", f"/api/ml/{backend['id']}/train")

    # the server's state

    def learnt(self, task: int) -> list[tuple[str, str]]:
        """The label that each of the task's rounds taught, and who gave it."""
        query = select(tables.rounds.c.taught, tables.rounds.c.taught_by).where(tables.rounds.c.task == task)
        return [tuple(row) for row in self.server.rows(query)]

    def rewards(self, task: int, control: str = "mood") -> dict[str, tuple[int, float]]:
        """Model → number and sum of its rewards for a task."""
        events, rounds, contexts = tables.events, tables.rounds, tables.contexts
        query = (
            select(events.c.contribution, contexts.c.context)
            .join(rounds, rounds.c.id == events.c.round_id)
            .join(contexts, contexts.c.round_id == rounds.c.id)
            .where(rounds.c.task == task, rounds.c.control == control)
        )
        return rewards(with_context(*row) for row in self.server.rows(query))

    def status(self, project: int) -> dict[str, Any]:
        """A project's part of ``GET /status``."""
        [status] = self.server.get(f"/status?format=json&project={project}").json()["projects"]
        return dict(status)


def choice(label: str, control: str = "mood") -> dict[str, Any]:
    """A region of a Choices control, as the editor writes it."""
    return {
        "id": "chosen",
        "from_name": control,
        "to_name": "note",
        "type": "choices",
        "origin": "manual",
        "value": {"choices": [label]},
    }

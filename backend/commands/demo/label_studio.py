"""Requests as Label Studio 1.23 sends them, for a demo without Label Studio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx

_CREATED = datetime(2026, 11, 1, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class DemoProject:
    """A Label Studio project: its number, title, label config and extra params."""

    number: int
    title: str
    label_config: str
    extra_params: Mapping[str, Any] | None = None

    @property
    def key(self) -> str:
        """The project's key in ``/setup`` and ``/predict``: its id and the Unix time of its creation."""
        return f"{self.number}.{int(_CREATED.timestamp())}"

    def payload(self, model_version: str) -> dict[str, Any]:
        """Return the project as webhooks carry it, with keys a backend reads and keys it must not."""
        return {
            "id": self.number,
            "title": self.title,
            "label_config": self.label_config,
            "model_version": model_version,
            "created_at": _stamp(_CREATED),
            "sampling": "Sequential sampling",
            "show_collab_predictions": True,
            "maximum_annotations": 1,
            "task_data_login": None,
            "task_data_password": None,
        }

    def task(self, number: int, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return a task as ``/predict`` carries it."""
        return {
            "id": number,
            "data": dict(data),
            "meta": {},
            "created_at": _stamp(_CREATED),
            "updated_at": _stamp(_CREATED),
            "is_labeled": False,
            "overlap": 1,
            "inner_id": number,
            "total_annotations": 0,
            "cancelled_annotations": 0,
            "total_predictions": 0,
            "comment_count": 0,
            "unresolved_comment_count": 0,
            "last_comment_updated_at": None,
            "project": self.number,
            "updated_by": None,
            "file_upload": None,
            "comment_authors": [],
            "annotations": [],
            "predictions": [],
        }


class DemoLabelStudio:
    """The part of Label Studio that talks to an ML backend, over real HTTP.

    Args:
        url: the backend's address.
        model_version: the backend's title in Label Studio.
    """

    def __init__(self, url: str, model_version: str = "camvo") -> None:
        self._http = httpx.Client(base_url=url, timeout=100.0)
        self._model_version = model_version

    def connect(self, project: DemoProject) -> None:
        """Send GET /health and POST /setup, as Label Studio does before each use of a backend."""
        self._http.get("/health").raise_for_status()
        body = {"project": project.key, "schema": project.label_config, "extra_params": project.extra_params}
        self._http.post("/setup", json=body).raise_for_status()

    def predict(self, project: DemoProject, tasks: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Send POST /predict and return the results, one for each task."""
        body = {
            "tasks": list(tasks),
            "project": project.key,
            "label_config": project.label_config,
            "params": {"login": None, "password": None, "context": None},
        }
        response = self._http.post("/predict", json=body).raise_for_status()
        results: list[Any] = response.json()["results"]
        return results

    def annotate(
        self, project: DemoProject, task: Mapping[str, Any], number: int, region: Mapping[str, Any]
    ) -> None:
        """Send POST /webhook with ANNOTATION_CREATED: a human label with one region."""
        now = _stamp(datetime.now(UTC))
        annotation = {
            "id": number,
            "result": [{**region, "id": f"region-{number}", "origin": "manual"}],
            "was_cancelled": False,
            "ground_truth": False,
            "created_at": now,
            "updated_at": now,
            "lead_time": 4.2,
            "prediction": {},
            "bulk_created": False,
            "task": task["id"],
            "project": project.number,
            "completed_by": 1,
            "parent_prediction": None,
            "parent_annotation": None,
        }
        body = {
            "action": "ANNOTATION_CREATED",
            "annotation": annotation,
            "task": dict(task),
            "project": project.payload(self._model_version),
        }
        self._http.post("/webhook", json=body).raise_for_status()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

"""Label Studio's API as CaMVo uses it (1.23.2): JSON in, JSON out, every failure one of ours.

label-studio-sdk brings the address, the headers and the key: a personal access token is exchanged for
short-lived ones, a legacy token is sent as it is. Its typed methods are not used: a page of tasks comes out
of them in one of several shapes, by the role of whoever asks, and the test prediction is not among them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import SecretStr

from backend.errors import LabelStudioMissingError
from backend.label_studio.failures import answer_error, failures

QUICK, SLOW = 30.0, 110.0
"""Seconds: for a look-up, and for what makes Label Studio call the backend (it waits 100 s itself)."""

PAGE = 100
"""Tasks in one request."""

_READS = 2
"""Further tries of a request that changes nothing; one that does is never sent twice."""

_ANNOTATED = {
    "filter": "filter:tasks:annotations_ids",
    "operator": "empty",
    "type": "Number",
    "value": "false",
}


def http_client(url: str, key: SecretStr, seconds: float) -> Any:
    """The SDK's own HTTP client, which exchanges a personal access token for one that the server takes.

    Args:
        url: Label Studio's address, without a slash at its end.
        key: a personal access token or a legacy token.
        seconds: how long an answer may take.
    """
    from label_studio_sdk import LabelStudio  # noqa: PLC0415 - a second, and only for who uses it

    # The slash keeps the path where the SDK joins the address of its token refresh. Redirects are not
    # followed: a POST would arrive as a GET, and the key somewhere else.
    sdk = LabelStudio(
        base_url=f"{url}/",
        api_key=key.get_secret_value(),
        timeout=seconds,
        max_retries=0,
        follow_redirects=False,
    )
    return sdk._client_wrapper.httpx_client


class Client:
    """One Label Studio, with one API key.

    Args:
        url: its address, with a path where it has one.
        key: a personal access token or a legacy token.

    Raises:
        LabelStudioKeyError: a personal access token that has expired.
    """

    def __init__(self, url: str, key: SecretStr) -> None:
        self.url = url.rstrip("/")
        with failures(self.url):
            self._http = http_client(self.url, key, QUICK)

    def version(self) -> str:
        """Label Studio's release."""
        return str(self._call("GET", "/api/version")["release"])

    # projects and what is attached to them

    def project(self, number: int) -> dict[str, Any]:
        """A project with its settings.

        Raises:
            LabelStudioMissingError: there is none with that number, or the key's owner cannot see it.
        """
        return self._object("GET", f"/api/projects/{number}/")

    def change_project(self, number: int, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Change settings of a project; Label Studio sends PROJECT_UPDATED, even when nothing is new."""
        return self._object("PATCH", f"/api/projects/{number}/", json=changes)

    def backends(self, project: int) -> list[dict[str, Any]]:
        """A project's ML backends, oldest first; each is asked for its health and set up on the way."""
        found = self._call("GET", "/api/ml/", params={"project": project}, timeout=SLOW)
        return sorted(found, key=lambda backend: backend["id"])

    def add_backend(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Connect an ML backend; Label Studio tries it before and after."""
        return self._object("POST", "/api/ml/", json=values, timeout=SLOW)

    def change_backend(self, number: int, values: Mapping[str, Any]) -> dict[str, Any]:
        """Change an ML backend; ``url`` and ``project`` have to be among ``values`` whatever changes."""
        return self._object("PATCH", f"/api/ml/{number}", json=values, timeout=SLOW)

    def remove_backend(self, number: int) -> None:
        """Disconnect an ML backend; its webhook and its predictions stay."""
        self._call("DELETE", f"/api/ml/{number}", timeout=SLOW)

    def try_backend(self, number: int) -> dict[str, Any]:
        """A prediction for a random task that is not stored: ``{"response": [...], "task": {...}, ...}``."""
        return self._object("POST", f"/api/ml/{number}/predict/test", params={"random": "true"}, timeout=SLOW)

    def webhooks(self, project: int) -> list[dict[str, Any]]:
        """A project's webhooks, oldest first."""
        found = self._call("GET", "/api/webhooks/", params={"project": project})
        return sorted(found, key=lambda webhook: webhook["id"])

    def add_webhook(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Create a webhook."""
        return self._object("POST", "/api/webhooks/", json=values)

    def change_webhook(self, number: int, values: Mapping[str, Any]) -> dict[str, Any]:
        """Change a webhook; ``actions`` that are left out are emptied."""
        return self._object("PATCH", f"/api/webhooks/{number}/", json=values)

    def remove_webhook(self, number: int) -> None:
        """Delete a webhook."""
        self._call("DELETE", f"/api/webhooks/{number}/")

    # tabs of the Data Manager, which its API calls views

    def tabs(self, project: int) -> list[dict[str, Any]]:
        """A project's tabs, from left to right."""
        found: list[dict[str, Any]] = self._call("GET", "/api/dm/views/", params={"project": project})
        return found

    def columns(self, project: int) -> list[dict[str, Any]]:
        """What the tabs of a project can show of a task."""
        found: list[dict[str, Any]] = self._object("GET", "/api/dm/columns/", params={"project": project})[
            "columns"
        ]
        return found

    def add_tab(self, project: int, data: Mapping[str, Any]) -> int:
        """Add a tab on the right; its number."""
        body = {"project": project, "data": data}
        return int(self._object("POST", "/api/dm/views/", json=body)["id"])

    def change_tab(self, number: int, project: int, data: Mapping[str, Any]) -> None:
        """Change what a tab shows."""
        self._call("PATCH", f"/api/dm/views/{number}/", json={"project": project, "data": data})

    def remove_tab(self, number: int) -> None:
        """Close a tab for everybody."""
        self._call("DELETE", f"/api/dm/views/{number}/")

    # tasks

    def count_tasks(self, project: int) -> int:
        """How many tasks a project has."""
        return int(self._tasks(project, {}, size=1)["total"])

    def pages(
        self, project: int, *, annotated: bool = False, size: int = PAGE
    ) -> Iterator[list[dict[str, Any]]]:
        """Every task with its annotations and predictions, by ascending number, a page at a time.

        A page is asked for by the number it starts behind, not by its own: tasks that are deleted meanwhile
        do not shift the following ones out of sight.

        Args:
            project: the project's number.
            annotated: only tasks with an annotation, a skipped one too.
            size: tasks a page.
        """
        last = 0
        while True:
            behind = {"filter": "filter:tasks:id", "operator": "greater", "type": "Number", "value": last}
            items = [behind, _ANNOTATED] if annotated else [behind]
            query = {"filters": {"conjunction": "and", "items": items}, "ordering": ["tasks:id"]}
            page: list[dict[str, Any]] = self._tasks(project, query, size=size)["tasks"]
            if not page:
                return
            yield page
            last = page[-1]["id"]

    def tasks(self, project: int, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """These tasks with their annotations and predictions; those that are gone are absent."""
        query = {"selectedItems": {"all": False, "included": list(numbers)}}
        found: list[dict[str, Any]] = self._tasks(project, query, size=len(numbers))["tasks"]
        return found

    def has_annotation(self, number: int) -> bool:
        """Whether an annotation is there (still)."""
        try:
            self._call("GET", f"/api/annotations/{number}/")
        except LabelStudioMissingError:
            return False
        return True

    # predictions

    def import_predictions(self, project: int, predictions: Sequence[Mapping[str, Any]]) -> int:
        """Store predictions in one request; how many were stored.

        Label Studio passes over one that does not fit the label config, and refuses them all when one task
        is gone.
        """
        stored = self._object(
            "POST", f"/api/projects/{project}/import/predictions", json=predictions, timeout=SLOW
        )
        return int(stored["created"])

    def add_prediction(self, prediction: Mapping[str, Any]) -> None:
        """Store one prediction, which Label Studio does not hold against the label config.

        For those that it could not: the check of :meth:`import_predictions` fails on the paths of nested
        Choices, the only form that the editor fills in.
        """
        self._call("POST", "/api/predictions/", json=prediction)

    def change_prediction(self, number: int, values: Mapping[str, Any]) -> None:
        """Replace a prediction's result and score in its place."""
        self._call("PATCH", f"/api/predictions/{number}/", json=values)

    def remove_prediction(self, number: int) -> None:
        """Delete a prediction."""
        self._call("DELETE", f"/api/predictions/{number}/")

    def _tasks(self, project: int, query: Mapping[str, Any], *, size: int) -> dict[str, Any]:
        # resolve_uri would put signed addresses in the place of the data that /predict gets.
        params = {"project": project, "fields": "all", "page_size": size, "resolve_uri": "false"}
        return self._object("GET", "/api/tasks/", params=params | {"query": json.dumps(query)}, timeout=SLOW)

    def _object(self, method: str, path: str, **given: Any) -> dict[str, Any]:
        answered = self._call(method, path, **given)
        if not isinstance(answered, dict):
            raise answer_error(self.url, path)
        return answered

    def _call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: object = None,
        timeout: float = QUICK,
    ) -> Any:
        options = {"timeout": timeout, "max_retries": _READS if method == "GET" else 0}
        with failures(self.url, path):
            response = self._http.request(
                path, method=method, params=params, json=json, request_options=options
            )
            if response.status_code >= 300:
                raise answer_error(self.url, path, response)
            return response.json() if response.content else None

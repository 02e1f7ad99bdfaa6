"""An HTTP client for CaMVo's own server, which asks it as Label Studio does."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from backend.errors import BackendError, BodyTooLargeError
from backend.settings import Environment

_QUICK, _SLOW = 5.0, 120.0
"""Timeouts in seconds: for short requests, and for predictions, which have the server's deadline."""

_PATIENCE = 600.0
"""Seconds for which requests to a busy server are repeated."""

_RECEIVED = re.compile(r'^camvo_webhooks_total\{action="PROJECT_UPDATED"\} (\S+)$', re.MULTILINE)


def default_url(environment: Environment) -> str:
    """Return the URL of ``camvo serve`` with the same environment, as seen from the same host."""
    host = "127.0.0.1" if environment.host in {"0.0.0.0", "::", ""} else environment.host  # noqa: S104 - only compared
    return f"http://{f'[{host}]' if ':' in host else host}:{environment.port}"


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """Why a task ended without a prediction, and when by the server's clock, in unix seconds."""

    code: str
    failed_at: float


class BackendClient:
    """One running ``camvo serve``.

    Args:
        url: the server's address, as seen from here.
        environment: has the credentials.
        again: whether predictions are asked for with another attempt of models that have made their last one.
        sleep: waits for some seconds; tests replace it.

    Attributes:
        tasks: how many tasks the project has, which the server divides a budget by; ``None`` to say nothing.
    """

    def __init__(
        self,
        url: str,
        environment: Environment,
        *,
        again: bool = False,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        user, password = environment.basic_auth_user, environment.basic_auth_pass
        auth = None if user is None or password is None else (user, password.get_secret_value())
        self.url, self._again, self._sleep = url.rstrip("/"), again, sleep
        self.tasks: int | None = None
        self._http = httpx.Client(base_url=self.url, auth=auth, timeout=_QUICK)

    def reachable(self) -> bool:
        """Whether the server answers; Label Studio may know a host name that this host does not."""
        try:
            self._http.get("/health")
        except httpx.TransportError:
            return False
        return True

    def model_version(self) -> str:
        """Return the model version of its predictions.

        Raises:
            BackendError: nothing answers, or another server does.
        """
        health = self._answer("GET", "/health")
        if not isinstance(health, dict) or health.get("model_class") != "CaMVo":
            raise BackendError("the server there is not CaMVo", where=self.url, fix="correct --backend-url")
        return str(health["model_version"])

    def predict(self, project_key: str, label_config: str, tasks: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Ask for predictions: for each task one prediction, a list of several, or ``[]`` for none (yet).

        Raises:
            BodyTooLargeError: the request is larger than the server accepts.
            BackendError: the server refused, or cannot be reached.
        """
        body = {
            "tasks": [{"id": task["id"], "data": task["data"]} for task in tasks],
            "project": project_key,
            "label_config": label_config,
            "params": {"login": None, "password": None, "context": None, "again": self._again}
            | ({} if self.tasks is None else {"tasks": self.tasks}),
        }
        results: list[Any] = self._answer("POST", "/predict", json=body, timeout=_SLOW)["results"]
        return results

    def failed_tasks(
        self, project_key: str, first: int = 0, last: int | None = None
    ) -> dict[int, TaskFailure]:
        """Return the project's tasks that ended without a prediction, in a range of their numbers.

        Raises:
            BackendError: the server refused, or cannot be reached.
        """
        failures: dict[int, TaskFailure] = {}
        start: int | None = first
        while start is not None:
            query = {"project": project_key, "first": start} | ({} if last is None else {"last": last})
            page = self._answer("GET", "/failed", params=query)
            failures |= {row["task"]: TaskFailure(row["code"], row["failed_at"]) for row in page["tasks"]}
            start = page["next"]
        return failures

    def project_updates(self) -> int:
        """Return how many PROJECT_UPDATED webhooks it has accepted, over all projects.

        Raises:
            BackendError: the server refused, or cannot be reached.
        """
        match = _RECEIVED.search(self._request("GET", "/metrics").text)
        return 0 if match is None else int(float(match[1]))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _answer(self, method: str, path: str, **options: Any) -> Any:
        response = self._request(method, path, **options)
        try:
            return response.json()
        except ValueError:
            raise BackendError(
                "the server there is not CaMVo", where=self.url, fix="correct --backend-url"
            ) from None

    def _request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request; while the server is busy, repeat it as late as the server says."""
        waited = 0.0
        while True:
            response = self._send(method, path, **options)
            seconds = _seconds_to_wait(response)
            if seconds is None or waited >= _PATIENCE:
                break
            self._sleep(seconds)
            waited += seconds
        if not response.is_success:
            raise _refusal(response, f"{self.url}{path}")
        return response

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, **options)
        except httpx.TransportError as error:
            raise BackendError(
                f"CaMVo cannot be reached: {error or type(error).__name__}",
                where=self.url,
                fix="start camvo serve, or correct --backend-url",
            ) from None
        if response.status_code == httpx.codes.UNAUTHORIZED:
            raise BackendError(
                "the server refuses the credentials",
                where=self.url,
                fix="set BASIC_AUTH_USER and BASIC_AUTH_PASS to the server's values",
            )
        if response.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
            raise BodyTooLargeError("too many tasks for one request", where=self.url, fix="lower --batch")
        return response


def _seconds_to_wait(response: httpx.Response) -> float | None:
    """The seconds that a busy server asks for, from 1 to 60; ``None`` if it is not busy."""
    if response.status_code != httpx.codes.SERVICE_UNAVAILABLE or "retry-after" not in response.headers:
        return None
    try:
        seconds = float(response.headers["retry-after"])
    except ValueError:  # a proxy in front may send a date
        seconds = 10.0
    return min(max(seconds, 1.0), 60.0)


def _refusal(response: httpx.Response, where: str) -> BackendError:
    try:
        body = response.json()
    except ValueError:
        body = {}
    message = body.get("message") if isinstance(body, dict) else None
    fix = body.get("fix") if isinstance(body, dict) else None
    return BackendError(
        f"the server refuses: {message or f'status {response.status_code}'}", where=where, fix=fix
    )

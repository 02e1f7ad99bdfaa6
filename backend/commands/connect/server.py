"""CaMVo's own server, asked over HTTP as Label Studio asks it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from backend.errors import BackendError, BodyTooLargeError
from backend.settings import Environment

_QUICK, _SLOW = 5.0, 120.0
"""Seconds: for a look, and for predictions, which the server answers within its own deadline."""

_RECEIVED = re.compile(r'^camvo_webhooks_total\{action="PROJECT_UPDATED"\} (\S+)$', re.MULTILINE)


def default_url(environment: Environment) -> str:
    """Where ``camvo serve`` listens with the same environment, for whoever is on the same host."""
    host = "127.0.0.1" if environment.host in {"0.0.0.0", "::", ""} else environment.host  # noqa: S104 - compared
    return f"http://{f'[{host}]' if ':' in host else host}:{environment.port}"


class Server:
    """One running ``camvo serve``.

    Args:
        url: its address, as it is reached from here.
        environment: holds the credentials.
    """

    def __init__(self, url: str, environment: Environment) -> None:
        user, password = environment.basic_auth_user, environment.basic_auth_pass
        auth = None if user is None or password is None else (user, password.get_secret_value())
        self.url = url.rstrip("/")
        self._http = httpx.Client(base_url=self.url, auth=auth, timeout=_QUICK)

    def reachable(self) -> bool:
        """Whether anything answers from here; Label Studio may know a name that this host does not."""
        try:
            self._http.get("/health")
        except httpx.TransportError:
            return False
        return True

    def model_version(self) -> str:
        """The version that its predictions carry.

        Raises:
            BackendError: nobody answers, or somebody else does.
        """
        health = self._answer("GET", "/health")
        if not isinstance(health, dict) or health.get("model_class") != "CaMVo":
            raise BackendError("what answers there is not CaMVo", where=self.url, fix="correct --backend-url")
        return str(health["model_version"])

    def predict(self, project_key: str, label_config: str, tasks: Sequence[Mapping[str, Any]]) -> list[Any]:
        """One entry for each task: a prediction, several in a list, or ``[]`` for none (yet).

        Raises:
            BodyTooLargeError: more than the server takes in one request.
            BackendError: it is not there, or refused.
        """
        body = {
            "tasks": [{"id": task["id"], "data": task["data"]} for task in tasks],
            "project": project_key,
            "label_config": label_config,
            "params": {"login": None, "password": None, "context": None},
        }
        results: list[Any] = self._answer("POST", "/predict", json=body, timeout=_SLOW)["results"]
        return results

    def project_updates(self) -> int:
        """How many PROJECT_UPDATED webhooks it has let in, of all projects.

        Raises:
            BackendError: it is not there, or refused.
        """
        found = _RECEIVED.search(self._request("GET", "/metrics").text)
        return 0 if found is None else int(float(found[1]))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _answer(self, method: str, path: str, **given: Any) -> Any:
        response = self._request(method, path, **given)
        try:
            return response.json()
        except ValueError:
            raise BackendError(
                "what answers there is not CaMVo", where=self.url, fix="correct --backend-url"
            ) from None

    def _request(self, method: str, path: str, **given: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, **given)
        except httpx.TransportError as error:
            raise BackendError(
                f"CaMVo cannot be reached: {error or type(error).__name__}",
                where=self.url,
                fix="start camvo serve, or correct --backend-url",
            ) from None
        if response.status_code == httpx.codes.UNAUTHORIZED:
            raise BackendError(
                "it refuses the credentials",
                where=self.url,
                fix="set BASIC_AUTH_USER and BASIC_AUTH_PASS to the server's own",
            )
        if response.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
            raise BodyTooLargeError("too many tasks for one request", where=self.url, fix="lower --batch")
        if not response.is_success:
            raise _refusal(response, f"{self.url}{path}")
        return response


def _refusal(response: httpx.Response, where: str) -> BackendError:
    try:
        body = response.json()
    except ValueError:
        body = {}
    said = body.get("message") if isinstance(body, dict) else None
    fix = body.get("fix") if isinstance(body, dict) else None
    return BackendError(f"it refuses: {said or f'status {response.status_code}'}", where=where, fix=fix)

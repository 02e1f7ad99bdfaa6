"""An HTTP client for CaMVo's own server, which asks it as Label Studio does."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from backend.annotation.queue import DEADLINE
from backend.errors import BackendError, BodyTooLargeError, ConfigError, ProjectUnknownError
from backend.label_studio.client import AWAY, Client
from backend.ledger.missing_votes import Mark
from backend.server.status.missing import Missing
from backend.settings import WEBHOOK_HEADER, Environment


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """The server's predictions for one task.

    Attributes:
        code: why there are none, or why a question is missing in them; ``None`` if they are complete.
        fix: what to do about that.
    """

    predictions: list[dict[str, Any]]
    code: str | None = None
    fix: str | None = None

    @classmethod
    def of(cls, result: Any, reason: Mapping[str, Any] | None) -> TaskAnswer:
        """One entry of ``results`` in a body of ``/predict``, with its entry of ``reasons``."""
        predictions = [result] if isinstance(result, dict) else list(result)
        if predictions and reason is None:
            return cls(predictions)
        reason = reason or {"code": DEADLINE}
        return cls(predictions, str(reason["code"]), reason.get("fix"))


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a project is, and what the calls of the process that answers wait for, in words.

    ``patience`` has the seconds for which a job on the project may wait for something.
    """

    tasks: int
    last_round: int
    spent_usd: float
    countings: int = 0
    waiting: str = ""
    patience: float = 0.0


@dataclass(frozen=True, slots=True)
class _RecountedPage:
    """Tasks whose prediction is to be replaced, by the countings up to a number; ``pending`` counts all."""

    tasks: list[int]
    through: int
    pending: int


@dataclass(frozen=True, slots=True)
class _TasksInDoubt:
    """Tasks in doubt, the most right labels per dollar first; each gains ``least`` of them or more."""

    tasks: Sequence[int]
    least: float
    spent_usd: float


_QUICK, _SLOW = 5.0, 120.0
"""Timeouts in seconds: for short requests, and for predictions, which have the server's deadline."""

_PATIENCE = 600.0
"""Seconds for which requests to a busy server are repeated."""

_LONGEST = 6 * 3600.0
"""Seconds for a computation that the server has not finished in one request, such as a quote."""
_LEAST = 1.0
"""Seconds after which such a request is repeated at the earliest."""

_RECEIVED = re.compile(r'^camvo_webhooks_total\{action="PROJECT_UPDATED"\} (\S+)$', re.MULTILINE)


_NO_PROGRESS = {"tasks": 0, "last_round": 0, "last_call": 0, "countings": 0, "spent_usd": 0.0, "waiting": ""}


class BackendAwayError(BackendError):
    """The server cannot be reached, or the proxy in front of it cannot reach it."""


class _ProjectUnknownThereError(BackendError):
    """The server's ledger does not know the project, since nothing was predicted yet."""


def _default_url(environment: Environment) -> str:
    """Return the URL of ``camvo serve`` with the same environment, as seen from the same host."""
    host = "127.0.0.1" if environment.host in {"0.0.0.0", "::", ""} else environment.host  # noqa: S104 - only compared
    return f"http://{f'[{host}]' if ':' in host else host}:{environment.port}"


class BackendClient:
    """One running ``camvo serve``."""

    def __init__(self, url: str, environment: Environment, *, again: bool = False) -> None:
        user, password = environment.basic_auth_user, environment.basic_auth_pass
        self._auth = None if user is None or password is None else (user, password.get_secret_value())
        self.url, self._again = url.rstrip("/"), again
        self._secret = environment.webhook_secret
        self.tasks: int | None = None
        self.job: Mapping[str, float | bool | None] | None = None
        self.instructions: str | None = None
        self.below = 1.0
        self._http = httpx.Client(base_url=self.url, auth=self._auth, timeout=_QUICK)

    @property
    def has_credentials(self) -> bool:
        """Whether requests carry basic auth."""
        return self._auth is not None

    @property
    def has_webhook_secret(self) -> bool:
        """Whether there is a secret for webhooks."""
        return self._secret is not None

    def reachable(self) -> bool:
        """Whether the server answers; Label Studio may know a host name that this host does not."""
        try:
            self._http.get("/health")
        except httpx.TransportError:
            return False
        return True

    def model_version(self) -> str:
        """Return the model version of its predictions."""
        response = self._exchange("GET", "/health")  # which CaMVo answers without credentials, and at once
        try:
            health = response.json() if response.is_success else None
        except ValueError:
            health = None
        if not isinstance(health, dict) or health.get("model_class") != "CaMVo":
            raise BackendError("the server there is not CaMVo", where=self.url, fix="correct --backend-url")
        return str(health["model_version"])

    def check_credentials(self) -> None:
        """Check that the server accepts the credentials."""
        self._answer("GET", "/versions")

    def check_webhook_secret(self) -> None:
        """Check that the server accepts the secret of webhooks, without sending it an event."""
        headers = {} if self._secret is None else {WEBHOOK_HEADER: self._secret.get_secret_value()}
        # As Label Studio does it: without basic auth. The method is one that the endpoint does not have.
        response = self._exchange("GET", "/webhook", headers=headers, auth=None)
        if response.status_code == httpx.codes.UNAUTHORIZED:
            raise BackendError(
                "the server refuses webhooks, and with them every human answer",
                where=self.url,
                fix="set CAMVO_WEBHOOK_SECRET to the server's value",
            )

    def predict(
        self,
        project_key: str,
        label_config: str,
        tasks: Sequence[Mapping[str, Any]],
        *,
        stored_only: bool = False,
    ) -> list[TaskAnswer]:
        """Ask for predictions, and get for each task some, or why there is none (yet)."""
        body = _tasks(project_key, label_config, tasks) | {
            "params": {
                "login": None,
                "password": None,
                "context": None,
                "again": self._again,
                "stored_only": stored_only,
            }
            | ({} if self.tasks is None else {"tasks": self.tasks})
            | ({} if self.job is None else {"job": {**self.job, "below": self.below}})
            | self._instructions_once()
        }
        answer = self._answer("POST", "/predict", json=body, timeout=_SLOW)
        results = answer["results"]
        reasons = answer.get("reasons") or [None] * len(results)
        return [TaskAnswer.of(*pair) for pair in zip(results, reasons, strict=True)]

    def count(
        self, project_key: str, label_config: str, tasks: Sequence[Mapping[str, Any]]
    ) -> tuple[dict[str, int], int | None]:
        """Have tasks counted for a quote; no model is asked."""
        body = _tasks(project_key, label_config, tasks) | self._instructions_once() | {"below": self.below}
        answer = self._answer("POST", "/quote", json=body, timeout=_SLOW)
        return answer["counted"], answer["example"]

    def _instructions_once(self) -> dict[str, str]:
        """The instructions, once: the server keeps them, and a webhook may bring it later ones meanwhile."""
        said, self.instructions = self.instructions, None
        return {} if said is None else {"instructions": said}

    def quote(
        self,
        project_key: str,
        label_config: str,
        example: Sequence[Mapping[str, Any]],
        counted: Mapping[str, int],
    ) -> dict[str, Any]:
        """Return the quote of tasks that were counted (``camvo quote --json``, docs/quote.md)."""
        body = _tasks(project_key, label_config, example) | {"counted": counted}
        quote: dict[str, Any] = self._finished("/quote", body)["quote"]
        return quote

    def progress(
        self, project_key: str, first: int = 0, last: int | None = None, after: int | None = None
    ) -> Progress:
        """Return how far the project is."""
        query = {"project": project_key, "first": first, "last": last, "after": after}
        given = {name: value for name, value in query.items() if value is not None}
        body = self._answer("GET", "/progress", params=given, unknown=_NO_PROGRESS)
        decided, newest, countings = (int(body[name]) for name in ("tasks", "last_round", "countings"))
        spent, patience = float(body["spent_usd"]), 3600.0 * float(body.get("patience_hours", 0.0))
        return Progress(decided, newest, spent, countings, str(body["waiting"]), patience)

    def mark(self, project_key: str) -> Mark:
        """Return the present moment of the server's ledger."""
        body = self._answer("GET", "/progress", params={"project": project_key}, unknown=_NO_PROGRESS)
        return Mark(int(body["last_round"]), int(body["last_call"]))

    def missing(self, project_key: str, after: Mark) -> Missing:
        """Return what the project lacks; its models are judged by what is newer than a moment."""
        query = {"project": project_key, "round": after.round, "call": after.call}
        return Missing.of_json(self._answer("GET", "/missing", params=query))

    def failed_tasks(self, project_key: str) -> list[int]:
        """Return the project's tasks that ended without a prediction."""
        failed: list[int] = []
        start: int | None = 0
        while start is not None:
            query = {"project": project_key, "first": start}
            page = self._answer("GET", "/failed", params=query, unknown={"tasks": [], "next": None})
            failed += [row["task"] for row in page["tasks"]]
            start = _further(page["next"], start, self.url)
        return failed

    def recount(self, project_key: str) -> dict[str, Any] | None:
        """Have the kept votes of a project counted again; no model is asked."""
        counting: dict[str, Any] | None = self._finished("/recount", {"project": project_key})["counting"]
        return counting

    def doubts(self, project_key: str, usd: float) -> _TasksInDoubt:
        """Find the tasks on which further votes are worth most."""
        body = {"project": project_key, "usd": usd}
        answer = self._finished("/doubts", body)
        return _TasksInDoubt(answer["tasks"], answer["least"], answer["spent_usd"])

    def ask_more(
        self,
        project_key: str,
        label_config: str,
        tasks: Sequence[Mapping[str, Any]],
        *,
        usd: float,
        least: float,
    ) -> dict[str, Any]:
        """Have models asked that these tasks' rounds left out."""
        body = _tasks(project_key, label_config, tasks) | {"usd": usd, "least": least}
        portion: dict[str, Any] = self._answer("POST", "/ask_more", json=body, timeout=_SLOW)
        return portion

    def incomplete(self, project_key: str) -> list[int]:
        """Return the tasks whose rounds lack a vote that may still come."""
        tasks: list[int] = self._answer("GET", "/incomplete", params={"project": project_key})["tasks"]
        return tasks

    def complete(
        self,
        project_key: str,
        label_config: str,
        tasks: Sequence[Mapping[str, Any]],
        *,
        usd: float | None,
        further: bool,
    ) -> dict[str, Any]:
        """Have models asked whose votes these tasks' rounds lack."""
        body = _tasks(project_key, label_config, tasks) | {"usd": usd, "further": further}
        portion: dict[str, Any] = self._answer("POST", "/complete", json=body, timeout=_SLOW)
        return portion

    def recounted(self, project_key: str, after: int = 0) -> _RecountedPage:
        """Return tasks whose prediction is to be replaced."""
        page = self._answer("GET", "/recounted", params={"project": project_key, "after": after})
        tasks: list[int] = page["tasks"]
        _further(tasks[-1] if tasks else None, after, self.url)
        return _RecountedPage(tasks, page["through"], page["pending"])

    def delivered(self, project_key: str, tasks: Sequence[int], through: int) -> None:
        """Tell the server that Label Studio shows these tasks' labels by a counting."""
        body = {"project": project_key, "tasks": list(tasks), "through": through}
        self._answer("POST", "/recounted", json=body)

    def project_updates(self) -> int:
        """Return how many PROJECT_UPDATED webhooks it has accepted, over all projects."""
        match = _RECEIVED.search(self._request("GET", "/metrics").text)
        return 0 if match is None else int(float(match[1]))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _finished(self, path: str, body: Mapping[str, Any]) -> Any:
        """The answer of a computation that may take longer than one request, and continues in between."""
        waited = 0.0
        while waited < _LONGEST:
            began = time.monotonic()
            answer = self._answer("POST", path, json=body, timeout=_SLOW)
            if answer["done"]:
                return answer
            took = time.monotonic() - began
            time.sleep(max(_LEAST - took, 0.0))
            waited += max(_LEAST, took)
        raise BackendError(
            f"the server has not finished after {_LONGEST / 3600.0:g} hours",
            where=f"{self.url}{path}",
            fix="look at its log and its processor time; it continues, so the same command can be repeated",
        )

    def _answer(self, method: str, path: str, *, unknown: Any = None, **options: Any) -> Any:
        """The body of an answer; ``unknown`` is that about a project which the ledger does not know."""
        try:
            response = self._request(method, path, **options)
        except _ProjectUnknownThereError:
            if unknown is None:
                raise
            return unknown
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
            response = self._exchange(method, path, **options)
            seconds = _seconds_to_wait(response)
            if seconds is None or waited >= _PATIENCE:
                break
            time.sleep(seconds)
            waited += seconds
        if response.status_code == httpx.codes.UNAUTHORIZED:
            raise BackendError(
                "the server refuses the credentials",
                where=self.url,
                fix="set BASIC_AUTH_USER and BASIC_AUTH_PASS to the server's values",
            )
        if response.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE:
            raise BodyTooLargeError("too many tasks for one request", where=self.url, fix="lower --at-once")
        if not response.is_success:
            raise _refusal(response, f"{self.url}{path}")
        return response

    def _exchange(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            return self._http.request(method, path, **options)
        except httpx.TransportError as error:
            raise BackendAwayError(
                f"CaMVo cannot be reached: {error or type(error).__name__}",
                where=self.url,
                fix="start camvo serve, or correct --backend-url",
            ) from None


def _tasks(project_key: str, label_config: str, tasks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The part of a request's body that says what it is about."""
    return {
        "project": project_key,
        "label_config": label_config,
        "tasks": [{"id": task["id"], "data": task["data"]} for task in tasks],
    }


def _further(following: int | None, before: int, url: str) -> int | None:
    """Where the next page begins; a server whose pages do not go on would be asked for ever."""
    if following is not None and following <= before:
        raise BackendError(
            "its pages do not end", where=url, fix="update the server, or correct --backend-url"
        )
    return following


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
    said = body if isinstance(body, dict) else {}
    message, fix, code = (said.get(name) for name in ("message", "fix", "code"))
    kind = _ProjectUnknownThereError if code == ProjectUnknownError.code else BackendError
    if code is None and response.status_code in AWAY:
        kind = BackendAwayError
    return kind(f"the server refuses: {message or f'status {response.status_code}'}", where=where, fix=fix)


def label_studio_client(option: str | None, environment: Environment) -> Client:
    """Return a client for Label Studio, with the API key of the environment."""
    url = option or environment.label_studio_url
    if url is None:
        raise ConfigError(
            "Label Studio's address is missing",
            where="--label-studio",
            fix="give it, e.g. http://host:8080, or set LABEL_STUDIO_URL",
        )
    key = environment.label_studio_api_key
    if key is None:
        raise ConfigError(
            "the API key is missing",
            where="LABEL_STUDIO_API_KEY",
            fix="set it to a token from Label Studio's Account & Settings; docs/label_studio.md says what to "
            "do by hand without one",
        )
    return Client(_checked_url(url, "--label-studio"), key, environment.label_studio_public_url)


def backend_url(option: str | None, environment: Environment) -> str:
    """Return the URL at which Label Studio reaches the server."""
    return _default_url(environment) if option is None else _checked_url(option, "--backend-url")


def _checked_url(url: str, option: str) -> str:
    """Check an address and return it without trailing slashes."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.query
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(
            "must be an http(s) address without a query", where=option, fix="give e.g. http://host:8080"
        )
    if parts.username is not None:
        raise ConfigError(
            "an address must not contain credentials",
            where=option,
            fix="remove them and set BASIC_AUTH_USER and BASIC_AUTH_PASS, or LABEL_STUDIO_API_KEY",
        )
    return url.rstrip("/")

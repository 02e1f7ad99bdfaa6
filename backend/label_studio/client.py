"""Label Studio's API as CaMVo uses it (1.23.2): JSON in, JSON out, every failure a ``LabelStudioError``.

label-studio-sdk handles the address, the headers and the key: it exchanges a personal access token for
short-lived ones and sends a legacy token as it is. Its typed methods are not used: the shape of a page of
tasks depends on the caller's role there, and there is no method for the test prediction.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import httpx
from pydantic import SecretStr

from backend.errors import (
    LabelStudioError,
    LabelStudioKeyError,
    LabelStudioMissingError,
    LabelStudioUnreachableError,
    PrivateAddressError,
)
from backend.label_studio.payloads import project_key

_MAX_LENGTH = 400
_PRIVATE = re.compile(r"reserved network address|resolves to a (?:private|reserved|local)", re.IGNORECASE)

_VARIABLES = {"/api/ml": "ML_BLOCK_LOCAL_IP", "/api/webhooks": "SSRF_PROTECTION_ENABLED"}
"""The variable of Label Studio's environment that makes it refuse private addresses, by API path."""

_FIXES = {
    "authentication parameters": "set BASIC_AUTH_USER and BASIC_AUTH_PASS to the server's values",
    "health check failed": "start camvo serve, or give an address that Label Studio reaches as --backend-url",
}
"""What to do, by words of the reason that Label Studio gives."""

_QUOTING = ("/import/predictions", "/api/predictions/")
"""Paths whose refusals quote the labels sent, which must not appear in an error message."""

OVERVIEW_TAB: Final = "CaMVo"
NEXT_TAB: Final = "CaMVo: label next"
BLIND_TAB: Final = "CaMVo: blind tasks"
DISPUTED_TAB: Final = "CaMVo: disputed"

AWAY = (httpx.codes.BAD_GATEWAY, httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.GATEWAY_TIMEOUT)
"""What a proxy says whose server is away."""

_TABS: Final = frozenset({OVERVIEW_TAB, NEXT_TAB, BLIND_TAB, DISPUTED_TAB})
_SHOWN_COLUMNS: Final = frozenset({"predictions_results", "predictions_score"})
"""The columns with our label and our score, which Label Studio hides in a new tab."""

_SCORE_COLUMN: Final = "tasks:predictions_score"
_DEFAULT_TAB: Final = "Default"
_NO_TASK: Final = 0


@contextmanager
def _failures(url: str, path: str = "") -> Iterator[None]:
    """Translate exceptions of httpx and label-studio-sdk into errors of ``backend.errors``."""
    from label_studio_sdk.core.api_error import ApiError  # noqa: PLC0415 - slow; the help must not wait

    where = f"{url}{path}"
    try:
        yield
    except ApiError as error:  # from the SDK's exchange of the personal access token
        raise _refused(where, path, error.status_code or 0, error.body) from None
    except httpx.TimeoutException:
        raise LabelStudioUnreachableError(
            "Label Studio does not answer in time", where=where, fix="check whether it is busy, and try again"
        ) from None
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise LabelStudioUnreachableError(
            f"Label Studio cannot be reached: {error}", where=url, fix="start it, or correct the address"
        ) from None
    except json.JSONDecodeError:
        raise _answer_error(url, path) from None


def _answer_error(url: str, path: str, response: httpx.Response | None = None) -> LabelStudioError:
    """The error for an unsuccessful response."""
    where = f"{url}{path}"
    if response is None:
        return LabelStudioError(
            "the server at this address is not Label Studio",
            where=where,
            fix="correct the address, with the path below which Label Studio runs, as in http://host/ls",
        )
    if response.is_redirect:
        return LabelStudioError(
            f"the server redirects to {response.headers.get('location')}", where=where, fix="use that one"
        )
    try:
        body = response.json()
    except ValueError:
        body = None
    if response.status_code == httpx.codes.NOT_FOUND and not isinstance(body, dict):
        return _answer_error(url, path)  # Label Studio itself answers in JSON
    return _refused(where, path, response.status_code, body)


def _refused(where: str, path: str, status: int, body: Any) -> LabelStudioError:
    reason = "" if path.endswith(_QUOTING) else _reason(body)
    detail = f"{status} {reason}" if reason else f"status {status}"
    if status == httpx.codes.UNAUTHORIZED:
        fix = "set LABEL_STUDIO_API_KEY to a token from Account & Settings"
        if "legacy" in reason:
            fix = "use a personal access token, or allow legacy tokens in the organisation's settings"
        return LabelStudioKeyError(f"Label Studio refuses the key: {detail}", where=where, fix=fix)
    if status == httpx.codes.FORBIDDEN:
        return _forbidden(where, path, reason)
    if status == httpx.codes.NOT_FOUND:
        return LabelStudioMissingError(
            f"Label Studio does not find it: {detail}",
            where=where,
            fix="check the project's number, and that the key's owner is a member; if it was deleted,"
            " `camvo ledger erase` erases it here, too",
        )
    if status in AWAY:
        return LabelStudioUnreachableError(
            f"Label Studio is away: {detail}", where=where, fix="start it, or see the log of its proxy"
        )
    fixes = (fix for words, fix in _FIXES.items() if words in reason)
    fix = next(fixes, "see Label Studio's log")
    return LabelStudioError(f"Label Studio refuses: {detail}", where=where, fix=fix)


def _forbidden(where: str, path: str, reason: str) -> LabelStudioError:
    if not _PRIVATE.search(reason):
        return LabelStudioKeyError(
            f"the key's owner may not do this: {reason}",
            where=where,
            fix="use the key of a project's manager",
        )
    names = (name for prefix, name in _VARIABLES.items() if path.startswith(prefix))
    variable = next(names, "ML_BLOCK_LOCAL_IP")
    return PrivateAddressError(
        f"Label Studio does not call private addresses ({variable} is on): {reason}",
        where=where,
        fix="start Label Studio with both ML_BLOCK_LOCAL_IP=false and SSRF_PROTECTION_ENABLED=false",
    )


def _reason(body: Any) -> str:
    """The reason that Label Studio gives, without links and on one line."""
    if not isinstance(body, dict):
        return ""
    listed = body.get("validation_errors")
    parts = [part for value in listed.values() for part in _texts(value)] if isinstance(listed, dict) else []
    text = " ".join(parts) or str(body.get("detail") or "")
    text = " ".join(re.sub(r"<[^>]*>", "", text).split())
    return text if len(text) <= _MAX_LENGTH else f"{text[:_MAX_LENGTH]}…"


def _texts(value: Any) -> list[str]:
    return [str(text) for text in value] if isinstance(value, list) else [str(value)]


_QUICK, _SLOW = 30.0, 110.0
"""Time limits in seconds: for a look-up, and for requests during which Label Studio calls the backend.

Label Studio itself waits 100 s for the backend.
"""

PAGE = 100
"""Tasks per request."""

_READ_RETRIES = 2
"""Retries of a request that changes nothing; requests that change something are never sent twice."""


def _where(column: str, operator: str, kind: str, value: object) -> dict[str, object]:
    """A condition on a column of the Data Manager."""
    return {"filter": f"filter:tasks:{column}", "operator": operator, "type": kind, "value": value}


def http_client(url: str, key: SecretStr, seconds: float) -> Any:
    """The SDK's HTTP client, which exchanges a personal access token for one that the server accepts.

    The address has no trailing slash, and ``seconds`` bounds the wait for a response.
    """
    from label_studio_sdk import LabelStudio  # noqa: PLC0415 - the import takes a second

    # The slash keeps the path when the SDK joins the address of its token refresh. Redirects are not
    # followed: a POST would become a GET, and the key would go to another server.
    sdk = LabelStudio(
        base_url=f"{url}/",
        api_key=key.get_secret_value(),
        timeout=seconds,
        max_retries=0,
        follow_redirects=False,
    )
    return sdk._client_wrapper.httpx_client


class Client:
    """One Label Studio server, accessed with one API key.

    Args:
        url: the server's address, with its path if it has one.
        key: a personal access token or a legacy token.
        public_url: the address for people's browsers, if it differs.

    Raises:
        LabelStudioKeyError: the personal access token has expired.
    """

    def __init__(self, url: str, key: SecretStr, public_url: str | None = None) -> None:
        self.url = url.rstrip("/")
        self.public_url = (public_url or url).rstrip("/")
        with _failures(self.url):
            self._http = http_client(self.url, key, _QUICK)

    def version(self) -> str:
        """Label Studio's release number."""
        return str(self._call("GET", "/api/version")["release"])

    # projects, backends and webhooks

    def project(self, number: int, *, timeout: float = _QUICK) -> dict[str, Any]:
        """Get a project with its settings, within ``timeout`` seconds.

        Raises:
            LabelStudioMissingError: no project has that number, or the key's owner cannot see it.
        """
        return self._object("GET", f"/api/projects/{number}/", timeout=timeout)

    def project_by_key(self, key: str, *, timeout: float = _QUICK) -> dict[str, Any]:
        """Get the project that the ledger knows by this key.

        A key from label-studio-ml's server is the number alone, and is believed.

        Raises:
            LabelStudioError: the project of that number was created at another time, so it is another
                project, or there is none.
        """
        number, _, created = key.partition(".")
        project = self.project(int(number), timeout=timeout)
        if created and project_key(project) != key:
            raise LabelStudioError(
                f"project {number} there is not the project {key} of the ledger",
                where=self.url,
                fix="set LABEL_STUDIO_URL to the Label Studio that CaMVo is connected to",
            )
        return project

    def change_project(self, number: int, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Change settings of a project. Label Studio sends PROJECT_UPDATED even if nothing changes."""
        return self._object("PATCH", f"/api/projects/{number}/", json=changes)

    def backends(self, project: int) -> list[dict[str, Any]]:
        """A project's ML backends, oldest first. Label Studio calls /health and /setup of each meanwhile."""
        backends = self._call("GET", "/api/ml/", params={"project": project}, timeout=_SLOW)
        return sorted(backends, key=lambda backend: backend["id"])

    def add_backend(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Connect an ML backend. Label Studio calls it before and after."""
        return self._object("POST", "/api/ml/", json=values, timeout=_SLOW)

    def change_backend(self, number: int, values: Mapping[str, Any]) -> dict[str, Any]:
        """Change an ML backend; ``values`` must always hold ``url`` and ``project``."""
        return self._object("PATCH", f"/api/ml/{number}", json=values, timeout=_SLOW)

    def remove_backend(self, number: int) -> None:
        """Disconnect an ML backend. Its webhook and its predictions stay."""
        self._call("DELETE", f"/api/ml/{number}", timeout=_SLOW)

    def try_backend(self, number: int) -> dict[str, Any]:
        """Predict a random task without storing the result: ``{"response": [...], "task": {...}, ...}``."""
        return self._object(
            "POST", f"/api/ml/{number}/predict/test", params={"random": "true"}, timeout=_SLOW
        )

    def webhooks(self, project: int) -> list[dict[str, Any]]:
        """A project's webhooks, oldest first."""
        webhooks = self._call("GET", "/api/webhooks/", params={"project": project})
        return sorted(webhooks, key=lambda webhook: webhook["id"])

    def add_webhook(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Create a webhook."""
        return self._object("POST", "/api/webhooks/", json=values)

    def change_webhook(self, number: int, values: Mapping[str, Any]) -> dict[str, Any]:
        """Change a webhook. Label Studio clears ``actions`` if ``values`` does not hold them."""
        return self._object("PATCH", f"/api/webhooks/{number}/", json=values)

    def remove_webhook(self, number: int) -> None:
        """Delete a webhook."""
        self._call("DELETE", f"/api/webhooks/{number}/")

    # tabs of the Data Manager, called views in the API

    def tabs(self, project: int) -> list[dict[str, Any]]:
        """A project's tabs, from left to right."""
        tabs: list[dict[str, Any]] = self._call("GET", "/api/dm/views/", params={"project": project})
        return tabs

    def columns(self, project: int) -> list[dict[str, Any]]:
        """The columns that a project's tabs can show."""
        answer = self._object("GET", "/api/dm/columns/", params={"project": project})
        columns: list[dict[str, Any]] = answer["columns"]
        return columns

    def add_tab(self, project: int, data: Mapping[str, Any]) -> int:
        """Add a tab on the right and return its number."""
        body = {"project": project, "data": data}
        return int(self._object("POST", "/api/dm/views/", json=body)["id"])

    def change_tab(self, number: int, project: int, data: Mapping[str, Any]) -> None:
        """Change a tab's filters, order or columns."""
        self._call("PATCH", f"/api/dm/views/{number}/", json={"project": project, "data": data})

    def remove_tab(self, number: int) -> None:
        """Delete a tab for all users."""
        self._call("DELETE", f"/api/dm/views/{number}/")

    # tasks

    def count_tasks(self, project: int) -> int:
        """The number of tasks in a project."""
        return int(self._tasks(project, {}, size=1)["total"])

    def pages(
        self, project: int, *, annotated: bool = False, size: int = PAGE, after: int = 0
    ) -> Iterator[list[dict[str, Any]]]:
        """All tasks with their annotations and predictions, in ascending order of number, page by page.

        Each page is requested by the last task number of the page before, not by a page number: tasks deleted
        meanwhile cannot shift others out of the listing.

        Args:
            project: the project's number.
            annotated: list only tasks with an annotation; skipped annotations count.
            size: tasks per page.
            after: list only tasks with higher numbers.
        """
        has_annotations = _where("annotations_ids", "empty", "Number", "false")
        yield from self._listed(project, [has_annotations] if annotated else [], size, after)

    def _listed(
        self, project: int, filters: Sequence[Mapping[str, Any]], size: int, after: int = 0
    ) -> Iterator[list[dict[str, Any]]]:
        last = after
        while True:
            items = [_where("id", "greater", "Number", last), *filters]
            query = {"filters": {"conjunction": "and", "items": items}, "ordering": ["tasks:id"]}
            page: list[dict[str, Any]] = self._tasks(project, query, size=size)["tasks"]
            if not page:
                return
            if page[-1]["id"] <= last:
                raise LabelStudioError(
                    "it lists the same tasks again and again",
                    where=f"{self.url}, project {project}",
                    fix="update Label Studio, or look for a proxy that drops queries",
                )
            yield page
            last = page[-1]["id"]

    def tasks(self, project: int, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """Tasks with their annotations and predictions; deleted ones are missing from the result."""
        query = {"selectedItems": {"all": False, "included": list(numbers)}}
        tasks: list[dict[str, Any]] = self._tasks(project, query, size=len(numbers))["tasks"]
        return tasks

    def drafted_tasks(self, project: int) -> set[int]:
        """The tasks on which somebody has begun an annotation that is not submitted, by number."""
        drafted = _where("draft_exists", "equal", "Boolean", True)
        return {task["id"] for page in self._listed(project, [drafted], PAGE) for task in page}

    def accept_predictions(self, project: int, numbers: Sequence[int], model_version: str) -> None:
        """Turn the predictions of one version into annotations of the key's owner."""
        body = {
            "selectedItems": {"all": False, "included": list(numbers)},
            "project": project,
            "model_version": model_version,
        }
        params = {"id": "predictions_to_annotations", "project": project}
        self._call("POST", "/api/dm/actions/", params=params, json=body, timeout=_SLOW)

    def remove_annotation(self, number: int) -> None:
        """Delete an annotation."""
        self._call("DELETE", f"/api/annotations/{number}/")

    def change_annotation(self, number: int, values: Mapping[str, Any]) -> None:
        """Change an annotation."""
        self._call("PATCH", f"/api/annotations/{number}/", json=values)

    def has_annotation(self, number: int) -> bool:
        """Whether an annotation exists."""
        try:
            self._call("GET", f"/api/annotations/{number}/")
        except LabelStudioMissingError:
            return False
        return True

    # predictions

    def import_predictions(self, project: int, predictions: Sequence[Mapping[str, Any]]) -> int:
        """Store predictions in one request and return how many were stored.

        Label Studio skips predictions that do not fit the label config. It refuses all of them if one task
        has been deleted.
        """
        stored = self._object(
            "POST", f"/api/projects/{project}/import/predictions", json=predictions, timeout=_SLOW
        )
        return int(stored["created"])

    def add_prediction(self, prediction: Mapping[str, Any]) -> None:
        """Store one prediction without Label Studio's check against the label config.

        The check of :meth:`import_predictions` wrongly refuses the paths of nested Choices, the only form
        that the editor fills in.
        """
        self._call("POST", "/api/predictions/", json=prediction)

    def change_prediction(self, number: int, values: Mapping[str, Any]) -> None:
        """Replace a prediction's result and score."""
        self._call("PATCH", f"/api/predictions/{number}/", json=values)

    def remove_prediction(self, number: int) -> None:
        """Delete a prediction."""
        self._call("DELETE", f"/api/predictions/{number}/")

    def _tasks(self, project: int, query: Mapping[str, Any], *, size: int) -> dict[str, Any]:
        # With resolve_uri, Label Studio would replace the data that /predict gets by signed addresses.
        params = {"project": project, "fields": "all", "page_size": size, "resolve_uri": "false"}
        return self._object("GET", "/api/tasks/", params=params | {"query": json.dumps(query)}, timeout=_SLOW)

    def _object(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        body = self._call(method, path, **options)
        if not isinstance(body, dict):
            raise _answer_error(self.url, path)
        return body

    def _call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        json: object = None,
        timeout: float = _QUICK,
    ) -> Any:
        options = {"timeout": timeout, "max_retries": _READ_RETRIES if method == "GET" else 0}
        with _failures(self.url, path):
            response = self._http.request(
                path, method=method, params=params, json=json, request_options=options
            )
            if response.status_code >= 300:
                raise _answer_error(self.url, path, response)
            return response.json() if response.content else None


class Tabs:
    """CaMVo's tabs in one project: all tasks with label and score, what to label next, blind tasks."""

    def __init__(self, client: Client, project: int) -> None:
        self._client, self._project = client, project

    def ensure_overview(self, *, first: bool = False) -> tuple[str, bool]:
        """Ensure that there is a tab with all tasks, their label and their score, least confident first.

        It is created once; what people change in it stays.
        """
        tabs = self._client.tabs(self._project)
        number = next((tab["id"] for tab in tabs if _tab_title(tab) == OVERVIEW_TAB), None)
        if number is not None:
            return self._address(number), False
        number = self._add(tabs, {"title": OVERVIEW_TAB, "ordering": [_SCORE_COLUMN]}, first=first)
        return self._address(number), True

    def show(self, tasks: Sequence[int], title: str = NEXT_TAB) -> str:
        """Show these tasks in CaMVo's tab, least confident first, and return the tab's address.

        A task leaves the tab as soon as somebody annotates or skips it, unless it is disputed. The tab is
        created once; what people change in it, such as the columns, stays.
        """
        tabs = self._client.tabs(self._project)
        ours = [tab for tab in tabs if _tab_title(tab) == title]
        for duplicate in ours[1:]:
            self._client.remove_tab(duplicate["id"])
        if ours:
            number = ours[0]["id"]
            self._client.change_tab(number, self._project, ours[0]["data"] | _tab_content(tasks, title))
        else:
            number = self._add(tabs, {"title": title} | _tab_content(tasks, title))
        return self._address(number)

    def show_blind(self, tasks: Sequence[int]) -> str | None:
        """Show the next blind tasks in a tab of their own, and return its address.

        Label Studio cannot order by the queue, so the tab holds the front of the queue only: once all of it
        is labelled, there is no gap.
        """
        if not tasks and all(_tab_title(tab) != BLIND_TAB for tab in self._client.tabs(self._project)):
            return None
        return self.show(tasks, BLIND_TAB)

    def remove(self) -> list[str]:
        """Remove CaMVo's tabs; return their titles."""
        ours = [tab for tab in self._client.tabs(self._project) if _tab_title(tab) in _TABS]
        for tab in ours:
            self._client.remove_tab(tab["id"])
        return [_tab_title(tab) for tab in ours]

    def _add(self, tabs: Sequence[Mapping[str, Any]], content: dict[str, Any], *, first: bool = False) -> int:
        """Add a tab and return its number.

        Label Studio's pages create a tab "Default" only for a project without tabs. Our tab alone would be
        the first that people see, and might hide tasks, so "Default" is created here too.
        """
        defaults = {"type": "list", "target": "tasks", "hiddenColumns": self._hidden()}
        if tabs:
            return self._client.add_tab(self._project, defaults | content)
        titles = [content, {"title": _DEFAULT_TAB}] if first else [{"title": _DEFAULT_TAB}, content]
        numbers = [self._client.add_tab(self._project, defaults | each) for each in titles]
        return numbers[0 if first else 1]

    def _address(self, tab: int) -> str:
        return f"{self._client.public_url}/projects/{self._project}/data?tab={tab}"

    def _hidden(self) -> dict[str, list[str]]:
        """Return the columns that a new tab hides by default, except those of predictions."""
        hidden: dict[str, list[str]] = {"explore": [], "labeling": []}
        for column in self._client.columns(self._project):
            of_data = "data." if column.get("parent") == "data" else ""
            for place, names in hidden.items():
                visible = (column.get("visibility_defaults") or {}).get(place, True)
                if not visible and column["id"] not in _SHOWN_COLUMNS:
                    names.append(f"tasks:{of_data}{column['id']}")
        return hidden


def _tab_title(tab: dict[str, Any]) -> str:
    return str((tab.get("data") or {}).get("title"))


def _tab_content(tasks: Sequence[int], title: str) -> dict[str, Any]:
    """Return the tab's filter and order. Label Studio orders by columns only; blind tasks have no score."""
    order = _SCORE_COLUMN if title == NEXT_TAB else "tasks:id"
    is_task = {"filter": "filter:tasks:id", "operator": "equal", "type": "Number"}
    items = [is_task | {"value": number} for number in tasks or [_NO_TASK]]
    if title != DISPUTED_TAB:  # people have annotated disputed tasks, that is what they are about
        items = [_while_open(item) for item in items]
    return {"ordering": [order], "filters": {"conjunction": "or", "items": items}}


def _while_open(item: dict[str, Any]) -> dict[str, Any]:
    """Return a filter's item that holds only as long as nobody has annotated or skipped the task.

    Label Studio combines the items of a filter with "or" or with "and", not both; an item and its child are
    always combined with "and".
    """
    return item | {
        "child_filter": {
            "filter": "filter:tasks:annotations_ids",
            "operator": "empty",
            "type": "Number",
            "value": True,
        }
    }

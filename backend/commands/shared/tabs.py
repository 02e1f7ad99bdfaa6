"""Tabs of Label Studio's Data Manager: all tasks with label and score, what to label next, blind tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from backend.label_studio.client import Client

OVERVIEW_TITLE: Final = "CaMVo"
TITLE: Final = "CaMVo: label next"
BLIND_TITLE: Final = "CaMVo: blind tasks"
DISPUTED_TITLE: Final = "CaMVo: disputed"

_TITLES: Final = frozenset({OVERVIEW_TITLE, TITLE, BLIND_TITLE, DISPUTED_TITLE})
_SHOWN: Final = frozenset({"predictions_results", "predictions_score"})
"""The columns with our label and our score, which Label Studio hides in a new tab."""

_SCORE: Final = "tasks:predictions_score"
_DEFAULT: Final = "Default"
_NO_TASK: Final = 0


class Tabs:
    """CaMVo's tabs in one project."""

    def __init__(self, client: Client, project: int) -> None:
        self._client, self._project = client, project

    def ensure_overview(self, *, first: bool = False) -> tuple[str, bool]:
        """Ensure that there is a tab with all tasks, their label and their score, least confident first.

        It is created once; what people change in it stays.
        """
        tabs = self._client.tabs(self._project)
        number = next((tab["id"] for tab in tabs if _title(tab) == OVERVIEW_TITLE), None)
        if number is not None:
            return self._address(number), False
        number = self._add(tabs, {"title": OVERVIEW_TITLE, "ordering": [_SCORE]}, first=first)
        return self._address(number), True

    def show(self, tasks: Sequence[int], title: str = TITLE) -> str:
        """Show these tasks in CaMVo's tab, least confident first, and return the tab's address.

        A task leaves the tab as soon as somebody annotates or skips it, unless it is disputed. The tab is
        created once; what people change in it, such as the columns, stays.
        """
        tabs = self._client.tabs(self._project)
        ours = [tab for tab in tabs if _title(tab) == title]
        for duplicate in ours[1:]:
            self._client.remove_tab(duplicate["id"])
        if ours:
            number = ours[0]["id"]
            self._client.change_tab(number, self._project, ours[0]["data"] | _content(tasks, title))
        else:
            number = self._add(tabs, {"title": title} | _content(tasks, title))
        return self._address(number)

    def show_blind(self, tasks: Sequence[int]) -> str | None:
        """Show the next blind tasks in a tab of their own, and return its address.

        Label Studio cannot order by the queue, so the tab holds the front of the queue only: once all of it
        is labelled, there is no gap.
        """
        if not tasks and all(_title(tab) != BLIND_TITLE for tab in self._client.tabs(self._project)):
            return None
        return self.show(tasks, BLIND_TITLE)

    def remove(self) -> list[str]:
        """Remove CaMVo's tabs; return their titles."""
        ours = [tab for tab in self._client.tabs(self._project) if _title(tab) in _TITLES]
        for tab in ours:
            self._client.remove_tab(tab["id"])
        return [_title(tab) for tab in ours]

    def _add(self, tabs: Sequence[Mapping[str, Any]], content: dict[str, Any], *, first: bool = False) -> int:
        """Add a tab and return its number.

        Label Studio's pages create a tab "Default" only for a project without tabs. Our tab alone would be
        the first that people see, and might hide tasks, so "Default" is created here too.
        """
        defaults = {"type": "list", "target": "tasks", "hiddenColumns": self._hidden()}
        if tabs:
            return self._client.add_tab(self._project, defaults | content)
        titles = [content, {"title": _DEFAULT}] if first else [{"title": _DEFAULT}, content]
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
                if not visible and column["id"] not in _SHOWN:
                    names.append(f"tasks:{of_data}{column['id']}")
        return hidden


def _title(tab: dict[str, Any]) -> str:
    return str((tab.get("data") or {}).get("title"))


def _content(tasks: Sequence[int], title: str) -> dict[str, Any]:
    """Return the tab's filter and order. Label Studio orders by columns only; blind tasks have no score."""
    order = _SCORE if title == TITLE else "tasks:id"
    items = [_is_task(number) for number in tasks or [_NO_TASK]]
    if title != DISPUTED_TITLE:  # people have annotated disputed tasks, that is what they are about
        items = [_while_open(item) for item in items]
    return {"ordering": [order], "filters": {"conjunction": "or", "items": items}}


def _is_task(number: int) -> dict[str, Any]:
    return {"filter": "filter:tasks:id", "operator": "equal", "type": "Number", "value": number}


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

"""A tab of Label Studio's Data Manager with the tasks that ``camvo review`` suggests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from backend.label_studio.client import Client

TITLE: Final = "CaMVo: label next"

_DEFAULT: Final = "Default"
_NO_TASK: Final = 0


def show_in_tab(client: Client, project: int, tasks: Sequence[int]) -> str:
    """Show these tasks in CaMVo's tab, least confident first, and return the tab's address.

    The tab is created once; what people change in it, such as the columns, stays. Label Studio's pages create
    a tab "Default" only for a project without tabs. Our tab alone would be the first that people see, and
    would hide all other tasks, so "Default" is created here too.

    Raises:
        LabelStudioError: Label Studio refused, or cannot be reached.
    """
    tabs = client.tabs(project)
    ours = [tab for tab in tabs if _is_ours(tab)]
    for duplicate in ours[1:]:
        client.remove_tab(duplicate["id"])
    if ours:
        number = ours[0]["id"]
        client.change_tab(number, project, ours[0]["data"] | _content(tasks))
    else:
        defaults = {"type": "list", "target": "tasks", "hiddenColumns": _hidden(client, project)}
        if not tabs:
            client.add_tab(project, defaults | {"title": _DEFAULT})
        number = client.add_tab(project, defaults | {"title": TITLE} | _content(tasks))
    return f"{client.url}/projects/{project}/data?tab={number}"


def remove_tab(client: Client, project: int) -> bool:
    """Remove CaMVo's tab; return whether there was one."""
    ours = [tab["id"] for tab in client.tabs(project) if _is_ours(tab)]
    for tab in ours:
        client.remove_tab(tab)
    return bool(ours)


def _is_ours(tab: dict[str, Any]) -> bool:
    return (tab.get("data") or {}).get("title") == TITLE


def _content(tasks: Sequence[int]) -> dict[str, Any]:
    """Return the tab's filter and order. Label Studio can order by columns only, hence by score."""
    items = [_is_task(number) for number in tasks or [_NO_TASK]]
    return {"ordering": ["tasks:predictions_score"], "filters": {"conjunction": "or", "items": items}}


def _hidden(client: Client, project: int) -> dict[str, list[str]]:
    """Return the columns that a new tab hides by default, except the score."""
    hidden: dict[str, list[str]] = {"explore": [], "labeling": []}
    for column in client.columns(project):
        of_data = "data." if column.get("parent") == "data" else ""
        for place, names in hidden.items():
            visible = (column.get("visibility_defaults") or {}).get(place, True)
            if not visible and column["id"] != "predictions_score":
                names.append(f"tasks:{of_data}{column['id']}")
    return hidden


def _is_task(number: int) -> dict[str, Any]:
    return {"filter": "filter:tasks:id", "operator": "equal", "type": "Number", "value": number}

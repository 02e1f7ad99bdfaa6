"""A tab of Label Studio's Data Manager with the tasks that ``camvo review`` suggests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from backend.label_studio.client import Client

TITLE: Final = "CaMVo: label next"

_DEFAULT: Final = "Default"
_NO_TASK: Final = 0


def put(client: Client, project: int, tasks: Sequence[int]) -> str:
    """Make the tab show these tasks, the least confident first; its address. There is only one such tab.

    What people changed in it, such as its columns, stays. Label Studio's own pages make the tab "Default" for
    a project without tabs; with ours alone, it would be the first that people see and hide all other tasks.
    So "Default" is made here, too, where there is none.

    Raises:
        LabelStudioError: Label Studio refused, or is not there.
    """
    tabs = client.tabs(project)
    ours = [tab for tab in tabs if _is_ours(tab)]
    for double in ours[1:]:
        client.remove_tab(double["id"])
    if ours:
        number = ours[0]["id"]
        client.change_tab(number, project, ours[0]["data"] | _content(tasks))
    else:
        usual = {"type": "list", "target": "tasks", "hiddenColumns": _hidden(client, project)}
        if not tabs:
            client.add_tab(project, usual | {"title": _DEFAULT})
        number = client.add_tab(project, usual | {"title": TITLE} | _content(tasks))
    return f"{client.url}/projects/{project}/data?tab={number}"


def remove(client: Client, project: int) -> bool:
    """Take the tab away; whether there was one."""
    ours = [tab["id"] for tab in client.tabs(project) if _is_ours(tab)]
    for tab in ours:
        client.remove_tab(tab)
    return bool(ours)


def _is_ours(tab: dict[str, Any]) -> bool:
    return (tab.get("data") or {}).get("title") == TITLE


def _content(tasks: Sequence[int]) -> dict[str, Any]:
    """These tasks alone. Only columns can order them, so it is by score."""
    items = [_is_task(number) for number in tasks or [_NO_TASK]]
    return {"ordering": ["tasks:predictions_score"], "filters": {"conjunction": "or", "items": items}}


def _hidden(client: Client, project: int) -> dict[str, list[str]]:
    """The columns that a new tab of Label Studio's own does not show, but the score."""
    hidden: dict[str, list[str]] = {"explore": [], "labeling": []}
    for column in client.columns(project):
        of_data = "data." if column.get("parent") == "data" else ""
        for place, names in hidden.items():
            usually = (column.get("visibility_defaults") or {}).get(place, True)
            if not usually and column["id"] != "predictions_score":
                names.append(f"tasks:{of_data}{column['id']}")
    return hidden


def _is_task(number: int) -> dict[str, Any]:
    return {"filter": "filter:tasks:id", "operator": "equal", "type": "Number", "value": number}

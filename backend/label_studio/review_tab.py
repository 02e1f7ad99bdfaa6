"""A tab of Label Studio's Data Manager with the tasks that ``camvo review`` suggests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from backend.label_studio.client import Client

TITLE: Final = "CaMVo: label next"

_DEFAULT: Final = "Default"


def put(client: Client, project: int, tasks: Sequence[int]) -> str:
    """Make the tab show these tasks, the least confident first; its address. There is only one such tab.

    Label Studio's own pages make the tab "Default" for a project without tabs; with ours alone, it would be
    the first that people see and hide all other tasks. So "Default" is made here, too, where there is none.

    Raises:
        LabelStudioError: Label Studio refused, or is not there.
    """
    tabs = client.tabs(project)
    if not tabs:
        client.add_tab(project, _data(_DEFAULT))
    ours, *doubles = [tab["id"] for tab in tabs if _is_ours(tab)] or [None]
    for double in doubles:
        client.remove_tab(double)
    data = _data(TITLE, tasks)
    if ours is None:
        ours = client.add_tab(project, data)
    else:
        client.change_tab(ours, project, data)
    return f"{client.url}/projects/{project}/data?tab={ours}"


def remove(client: Client, project: int) -> bool:
    """Take the tab away; whether there was one."""
    ours = [tab["id"] for tab in client.tabs(project) if _is_ours(tab)]
    for tab in ours:
        client.remove_tab(tab)
    return bool(ours)


def _is_ours(tab: dict[str, Any]) -> bool:
    return (tab.get("data") or {}).get("title") == TITLE


def _data(title: str, tasks: Sequence[int] | None = None) -> dict[str, Any]:
    """What a tab shows: all tasks, or these alone. Only columns can order them, so it is by score."""
    items = [_is_task(number) for number in tasks or [0]] if tasks is not None else []
    return {
        "title": title,
        "type": "list",
        "target": "tasks",
        "ordering": [] if tasks is None else ["tasks:predictions_score"],
        "filters": {"conjunction": "or" if items else "and", "items": items},
        "hiddenColumns": {"explore": [], "labeling": []},
        "columnsWidth": {},
        "columnsDisplayType": {},
        "gridWidth": 4,
    }


def _is_task(number: int) -> dict[str, Any]:
    return {"filter": "filter:tasks:id", "operator": "equal", "type": "Number", "value": number}

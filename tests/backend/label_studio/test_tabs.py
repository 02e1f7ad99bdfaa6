"""The tab of suggested tasks: there is one, it follows the suggestions, and it goes with the backend."""

from __future__ import annotations

from typing import Any

import pytest
from label_studio_api import KEY, PROJECT, LabelStudioApi
from pydantic import SecretStr

from backend.commands import connect
from backend.label_studio.client import BLIND_TAB, NEXT_TAB, OVERVIEW_TAB, Client, Tabs
from backend.settings import Environment


@pytest.fixture
def api(api: LabelStudioApi) -> LabelStudioApi:
    api.tabs[1] = {"id": 1, "data": {"title": "Mine", "filters": {"conjunction": "and", "items": []}}}
    return api


def put(api: LabelStudioApi, *tasks: int) -> str:
    return Tabs(api.client(), PROJECT).show(tasks)


def ours(api: LabelStudioApi) -> list[dict[str, Any]]:
    return [tab for tab in api.tabs.values() if tab["data"]["title"] == NEXT_TAB]


def shown(api: LabelStudioApi) -> list[int]:
    [tab] = ours(api)
    assert tab["data"]["filters"]["conjunction"] == "or"
    return [item["value"] for item in tab["data"]["filters"]["items"]]


def test_it_holds_the_suggested_tasks_and_the_answer_is_its_address(api: LabelStudioApi) -> None:
    address = put(api, 7, 3)
    assert shown(api) == [7, 3]
    assert address == f"{api.url}/projects/{PROJECT}/data?tab={ours(api)[0]['id']}"


def test_a_second_time_the_same_tab_holds_other_tasks(api: LabelStudioApi) -> None:
    assert put(api, 7, 3) == put(api, 4)
    assert shown(api) == [4]


def test_doubles_are_closed(api: LabelStudioApi) -> None:
    for number in (5, 6):
        api.tabs[number] = {"id": number, "data": {"title": NEXT_TAB}}
    put(api, 4)
    assert shown(api) == [4]


def test_without_a_suggestion_it_is_empty_rather_than_full(api: LabelStudioApi) -> None:
    put(api)
    assert shown(api) == [0]


def test_other_tabs_are_left_alone(api: LabelStudioApi) -> None:
    before = dict(api.tabs[1])
    put(api, 7)
    assert api.tabs[1] == before
    assert len(api.tabs) == 2


def test_a_project_without_tabs_gets_its_default_one_first(api: LabelStudioApi) -> None:
    api.tabs.clear()
    put(api, 7)
    assert [tab["data"]["title"] for tab in api.tabs.values()] == ["Default", NEXT_TAB]


def test_it_shows_the_usual_columns_and_the_score(api: LabelStudioApi) -> None:
    rare, usual = ({"explore": shown, "labeling": False} for shown in (False, True))
    api.columns = [
        {"id": "inner_id", "visibility_defaults": rare},
        {"id": "predictions_score", "visibility_defaults": rare},
        {"id": "text", "parent": "data", "visibility_defaults": usual},
    ]
    put(api, 7)
    hidden = {"explore": ["tasks:inner_id"], "labeling": ["tasks:inner_id", "tasks:data.text"]}
    assert ours(api)[0]["data"]["hiddenColumns"] == hidden


def test_what_people_changed_in_it_stays(api: LabelStudioApi) -> None:
    put(api, 7)
    ours(api)[0]["data"]["columnsWidth"] = {"tasks:data.text": 640}
    put(api, 4)
    assert (shown(api), ours(api)[0]["data"]["columnsWidth"]) == ([4], {"tasks:data.text": 640})


def test_blind_tasks_have_a_tab_of_their_own(api: LabelStudioApi) -> None:
    put(api, 7)
    address = Tabs(api.client(), PROJECT).show_blind([4, 2])
    [tab] = [tab for tab in api.tabs.values() if tab["data"]["title"] == BLIND_TAB]
    assert address == f"{api.url}/projects/{PROJECT}/data?tab={tab['id']}"
    assert [item["value"] for item in tab["data"]["filters"]["items"]] == [4, 2]
    assert tab["data"]["ordering"] == ["tasks:id"]
    assert shown(api) == [7]


def test_without_a_blind_task_there_is_no_such_tab_and_an_old_one_is_emptied(api: LabelStudioApi) -> None:
    assert Tabs(api.client(), PROJECT).show_blind([]) is None
    assert len(api.tabs) == 1
    Tabs(api.client(), PROJECT).show_blind([4])
    Tabs(api.client(), PROJECT).show_blind([])
    [tab] = [tab for tab in api.tabs.values() if tab["data"]["title"] == BLIND_TAB]
    assert [item["value"] for item in tab["data"]["filters"]["items"]] == [0]


def test_the_overview_shows_label_and_score_of_all_tasks_least_confident_first(api: LabelStudioApi) -> None:
    hidden = {"explore": False, "labeling": False}
    names = ("predictions_results", "predictions_score", "annotators")
    api.columns = [{"id": name, "visibility_defaults": hidden} for name in names]
    _, added = Tabs(api.client(), PROJECT).ensure_overview()
    [tab] = [tab["data"] for tab in api.tabs.values() if tab["data"]["title"] == OVERVIEW_TAB]
    assert (added, tab["hiddenColumns"]["explore"]) == (True, ["tasks:annotators"])
    assert (tab["ordering"], "filters" in tab) == (["tasks:predictions_score"], False)


@pytest.mark.parametrize(("first", "titles"), [(True, ["CaMVo", "Default"]), (False, ["Default", "CaMVo"])])
def test_the_overview_is_the_first_tab_of_a_review_queue(
    api: LabelStudioApi, first: bool, titles: list[str]
) -> None:
    api.tabs.clear()
    address, _ = Tabs(api.client(), PROJECT).ensure_overview(first=first)
    assert [tab["data"]["title"] for _, tab in sorted(api.tabs.items())] == titles
    [ours] = [number for number, tab in api.tabs.items() if tab["data"]["title"] == OVERVIEW_TAB]
    assert address.endswith(f"?tab={ours}")


def test_links_are_for_a_browser(api: LabelStudioApi) -> None:
    client = Client(api.url, SecretStr(KEY), "http://localhost:8080/")
    address, _ = Tabs(client, PROJECT).ensure_overview()
    assert address.startswith(f"http://localhost:8080/projects/{PROJECT}/data?tab=")


def test_an_overview_that_is_there_is_left_as_people_made_it(api: LabelStudioApi) -> None:
    address, _ = Tabs(api.client(), PROJECT).ensure_overview()
    before = len(api.requests)
    assert Tabs(api.client(), PROJECT).ensure_overview() == (address, False)
    assert all(method == "GET" for method, _, _ in api.requests[before:])


def test_a_task_leaves_the_tab_once_it_is_annotated(api: LabelStudioApi) -> None:
    put(api, 7)
    [item] = ours(api)[0]["data"]["filters"]["items"]
    child = item["child_filter"]
    wanted = ("filter:tasks:annotations_ids", "empty", True)
    assert (child["filter"], child["operator"], child["value"]) == wanted


def test_all_tabs_go_with_the_backend(api: LabelStudioApi) -> None:
    put(api, 7)
    Tabs(api.client(), PROJECT).show_blind([4])
    Tabs(api.client(), PROJECT).ensure_overview()
    said: list[str] = []
    client = api.client()
    wanted = connect.Wanted(PROJECT, "http://127.0.0.1:9090", "camvo", Environment())
    removed = connect.ProjectConnection(client, wanted).disconnect(lambda name, text: said.append(name))
    assert (removed, said, len(api.tabs)) == (True, ["tab", "tab", "tab"], 1)

"""What connecting leaves in a project, once, twice, after a change; and disconnecting: nothing."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from label_studio_api import PROJECT, LabelStudioApi
from pydantic import SecretStr

from backend.commands import connect as connecting
from backend.commands.connect import _ACTIONS, _UNCERTAIN, Wanted
from backend.errors import LabelStudioError, PrivateAddressError
from backend.settings import Environment

URL = "http://127.0.0.1:9090"
GUARDED = Environment(
    basic_auth_user="ls", basic_auth_pass=SecretStr("a-password"), webhook_secret=SecretStr("a-secret")
)


@pytest.fixture
def api(api: LabelStudioApi) -> LabelStudioApi:
    api.project |= {"model_version": "", "show_collab_predictions": True}
    return api


def connect(api: LabelStudioApi, **changes: Any) -> bool:
    arguments = {"project": PROJECT, "url": URL, "title": "camvo", "environment": GUARDED, **changes}
    return connecting.ProjectConnection(api.client(), Wanted(**arguments)).connect(lambda name, text: None)


def disproved(api: LabelStudioApi, **changes: Any) -> None:
    """Connect, and find that the connection does not work."""
    arguments = {"project": PROJECT, "url": URL, "title": "camvo", "environment": GUARDED, **changes}
    with pytest.raises(LabelStudioError, match="left as it was"):
        connecting.ProjectConnection(api.client(), Wanted(**arguments)).connect(
            lambda *_: None, lambda: False
        )


def content(api: LabelStudioApi) -> tuple[Any, ...]:
    return copy.deepcopy((api.project, api.backends, api.webhooks))


def disconnect(api: LabelStudioApi) -> bool:
    return connecting.ProjectConnection(api.client(), Wanted(PROJECT, URL, "camvo", GUARDED)).disconnect(
        lambda name, text: None
    )


def by_hand(api: LabelStudioApi, url: str = URL, title: str = "camvo") -> dict[str, Any]:
    """An ML backend as people add it: with the webhook that Label Studio makes along with it."""
    fields = {"project": PROJECT, "url": url, "title": title, "auth_method": "NONE", "basic_auth_user": ""}
    return api.client().add_backend(fields)


# -- connect


def test_the_title_is_the_model_version_of_backend_and_project(api: LabelStudioApi) -> None:
    connect(api)
    [backend] = api.backends.values()
    assert (backend["title"], backend["url"], api.project["model_version"]) == ("camvo", URL, "camvo")


def test_the_one_webhook_carries_the_secret_and_what_camvo_acts_on(api: LabelStudioApi) -> None:
    connect(api)
    [webhook] = api.webhooks.values()
    assert webhook["url"] == f"{URL}/webhook"
    assert webhook["headers"] == {"X-Camvo-Secret": "a-secret"}
    assert (webhook["send_for_all_actions"], set(webhook["actions"])) == (False, set(_ACTIONS))


def test_credentials_and_extra_params_are_sent_along(api: LabelStudioApi) -> None:
    connect(api, extra_params={"delta": 0.9})
    [sent] = [body for method, path, body in api.requests if (method, path) == ("POST", "/api/ml/")]
    assert (sent["auth_method"], sent["basic_auth_user"]) == ("BASIC_AUTH", "ls")
    assert (sent["basic_auth_pass"], sent["extra_params"]) == ("a-password", {"delta": 0.9})


@pytest.mark.parametrize("review_queue", [False, True])
def test_the_order_of_tasks_changes_on_request_only(api: LabelStudioApi, review_queue: bool) -> None:
    connect(api, review_queue=review_queue)
    assert (api.project["sampling"] == _UNCERTAIN) == review_queue


def test_predictions_that_were_hidden_are_shown(api: LabelStudioApi) -> None:
    api.project["show_collab_predictions"] = False
    connect(api)
    assert api.project["show_collab_predictions"] is True


def test_a_second_connect_changes_nothing_and_says_so(api: LabelStudioApi) -> None:
    assert connect(api, review_queue=True, extra_params={"delta": 0.9})
    api.requests.clear()
    assert not connect(api, review_queue=True, extra_params={"delta": 0.9})
    assert api.writes == []


def test_extra_params_that_are_not_given_stay(api: LabelStudioApi) -> None:
    connect(api, extra_params={"delta": 0.9})
    connect(api)
    assert next(iter(api.backends.values()))["extra_params"] == {"delta": 0.9}


def test_a_backend_that_was_connected_by_hand_is_put_right(api: LabelStudioApi) -> None:
    by_hand(api, title="my model")
    assert connect(api)
    [backend], [webhook] = api.backends.values(), api.webhooks.values()
    assert (backend["title"], backend["auth_method"]) == ("camvo", "BASIC_AUTH")
    assert webhook["headers"] == {"X-Camvo-Secret": "a-secret"}
    assert api.project["model_version"] == "camvo"


def test_a_server_that_moved_takes_its_backend_and_webhook_along(api: LabelStudioApi) -> None:
    connect(api, url="http://127.0.0.1:9001")
    connect(api)
    [backend], [webhook] = api.backends.values(), api.webhooks.values()
    assert (backend["url"], webhook["url"]) == (URL, f"{URL}/webhook")


def test_doubles_of_ours_are_removed_and_others_stay(api: LabelStudioApi) -> None:
    other = by_hand(api, "http://127.0.0.1:7777", "another model")
    by_hand(api)
    by_hand(api)
    connect(api)
    assert len(api.backends) == 2
    assert other["id"] in api.backends
    assert {webhook["url"] for webhook in api.webhooks.values()} == {
        "http://127.0.0.1:7777/webhook",
        f"{URL}/webhook",
    }


def test_a_backend_that_label_studio_cannot_use_is_given_the_password_again(api: LabelStudioApi) -> None:
    connect(api)
    [backend] = api.backends.values()
    backend["state"] = "ER"
    assert connect(api)
    assert api.requests[-2][2]["basic_auth_pass"] == "a-password"


def test_headers_that_somebody_added_to_the_webhook_stay(api: LabelStudioApi) -> None:
    connect(api)
    [webhook] = api.webhooks.values()
    webhook["headers"] = {"X-Route": "blue", "x-camvo-secret": "an older secret"}
    assert connect(api)
    assert next(iter(api.webhooks.values()))["headers"] == {"X-Route": "blue", "X-Camvo-Secret": "a-secret"}


@pytest.mark.parametrize(
    ("path", "answer"), [("/api/ml/", "backend_private"), ("/api/webhooks/", "webhook_private")]
)
def test_a_refused_private_address_leaves_nothing_behind(api: LabelStudioApi, path: str, answer: str) -> None:
    api.says("POST", path, answer)
    with pytest.raises(PrivateAddressError):
        connect(api)
    assert (api.backends, api.webhooks, api.project["model_version"]) == ({}, {}, "")


def test_a_backend_that_is_refused_leaves_an_older_webhook_alone(api: LabelStudioApi) -> None:
    connect(api)
    api.backends.clear()
    api.says("POST", "/api/ml/", "backend_unreachable")
    with pytest.raises(LabelStudioError):
        connect(api)
    assert len(api.webhooks) == 1


# -- a connection that does not work


def test_a_new_connection_that_does_not_work_is_removed_again(api: LabelStudioApi) -> None:
    before = content(api)
    disproved(api)
    assert content(api) == before


def test_a_working_connection_outlives_a_move_to_a_dead_address(api: LabelStudioApi) -> None:
    connect(api)
    before = content(api)
    disproved(api, url="http://127.0.0.1:1")
    assert content(api) == before


def test_an_address_that_label_studio_refuses_changes_nothing(api: LabelStudioApi) -> None:
    connect(api)
    before = content(api)
    api.says("POST", "/api/ml/", "backend_unreachable")
    with pytest.raises(LabelStudioError):
        connect(api, url="http://127.0.0.1:1")
    assert content(api) == before


def test_fields_that_were_changed_in_place_come_back(api: LabelStudioApi) -> None:
    connect(api, extra_params={"delta": 0.9})
    before = content(api)
    wrong = GUARDED.model_copy(update={"webhook_secret": SecretStr("another")})
    disproved(api, extra_params={"delta": 0.1}, environment=wrong)
    assert content(api) == before


def test_the_older_connection_works_while_the_new_one_is_proved(api: LabelStudioApi) -> None:
    connect(api, url="http://127.0.0.1:9001")
    there: list[set[str]] = []

    def proved() -> bool:
        there.append({each["url"] for each in (*api.backends.values(), *api.webhooks.values())})
        return True

    wanted = Wanted(project=PROJECT, url=URL, title="camvo", environment=GUARDED)
    connecting.ProjectConnection(api.client(), wanted).connect(lambda *_: None, proved)
    older = "http://127.0.0.1:9001"
    assert there == [{URL, f"{URL}/webhook", older, f"{older}/webhook"}]
    assert {each["url"] for each in api.backends.values()} == {URL}


def test_a_server_that_moved_keeps_its_extra_params(api: LabelStudioApi) -> None:
    connect(api, url="http://127.0.0.1:9001", extra_params={"delta": 0.9})
    connect(api)
    assert next(iter(api.backends.values()))["extra_params"] == {"delta": 0.9}


# -- disconnect


def test_disconnecting_leaves_the_project_as_it_was(api: LabelStudioApi) -> None:
    api.project |= {"show_collab_predictions": False, "model_version": "older"}
    before = dict(api.project)
    connect(api, review_queue=True)
    assert api.project != before
    assert disconnect(api)
    assert (api.project, api.backends, api.webhooks) == (before, {}, {})


def test_what_was_before_the_first_of_several_connects_comes_back(api: LabelStudioApi) -> None:
    before = dict(api.project)
    connect(api)
    connect(api, review_queue=True, url="http://127.0.0.1:9001")
    disconnect(api)
    assert api.project == before


def test_a_setting_that_somebody_changed_since_is_left(api: LabelStudioApi) -> None:
    connect(api, review_queue=True)
    api.project["sampling"] = "Uniform sampling"
    disconnect(api)
    assert api.project["sampling"] == "Uniform sampling"


def test_what_was_connected_by_hand_is_removed_with_its_webhook(api: LabelStudioApi) -> None:
    by_hand(api)
    assert disconnect(api)
    assert (api.backends, api.webhooks) == ({}, {})


def test_other_backends_and_webhooks_stay(api: LabelStudioApi) -> None:
    by_hand(api, "http://127.0.0.1:7777", "another model")
    connect(api)
    disconnect(api)
    assert [one["title"] for one in api.backends.values()] == ["another model"]
    assert [one["url"] for one in api.webhooks.values()] == ["http://127.0.0.1:7777/webhook"]


def test_where_nothing_is_connected_nothing_is_changed(api: LabelStudioApi) -> None:
    assert not disconnect(api)
    assert api.writes == []


def test_a_webhook_that_was_left_behind_is_removed_too(api: LabelStudioApi) -> None:
    connect(api)
    api.backends.clear()
    assert disconnect(api)
    assert api.webhooks == {}

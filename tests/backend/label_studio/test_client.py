"""The client of Label Studio's API: each page is read once, and each refusal is an error with a fix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from label_studio_api import KEY, PROJECT, LabelStudioApi
from pydantic import SecretStr

from backend.errors import (
    LabelStudioError,
    LabelStudioKeyError,
    LabelStudioMissingError,
    LabelStudioUnreachableError,
    PrivateAddressError,
)
from backend.label_studio.client import Client


def refusal(ask: Callable[[], Any], kind: type[LabelStudioError]) -> LabelStudioError:
    with pytest.raises(LabelStudioError) as caught:
        ask()
    assert type(caught.value) is kind
    assert KEY not in str(caught.value)
    assert caught.value.fix
    return caught.value


# -- pages


@pytest.mark.parametrize("size", [1, 2, 3, 10])
def test_every_task_is_on_exactly_one_page_in_order(api: LabelStudioApi, size: int) -> None:
    numbers = api.add_tasks(*"abcde")
    pages = [[task["id"] for task in page] for page in api.client().pages(PROJECT, size=size)]
    assert [number for page in pages for number in page] == numbers
    assert max(map(len, pages)) <= size


def test_a_task_deleted_meanwhile_shifts_none_out_of_sight(api: LabelStudioApi) -> None:
    numbers = api.add_tasks(*"abcdef")
    fetched: list[int] = []
    for page in api.client().pages(PROJECT, size=2):
        fetched += [task["id"] for task in page]
        api.tasks.pop(numbers[0], None)
    assert fetched == numbers


def test_only_annotated_tasks_are_fetched_when_no_others_are_wanted(api: LabelStudioApi) -> None:
    first, _ = api.add_tasks("a", "b")
    api.annotate(first, "Sad", was_cancelled=True)
    [page] = api.client().pages(PROJECT, annotated=True)
    assert [task["id"] for task in page] == [first]


# -- refusals


def test_a_server_that_cannot_be_reached_is_an_error() -> None:
    client = Client("http://127.0.0.1:1", SecretStr(KEY))
    assert refusal(client.version, LabelStudioUnreachableError).where == "http://127.0.0.1:1"


def test_a_wrong_key(api: LabelStudioApi) -> None:
    error = refusal(lambda: api.client("another-key").project(PROJECT), LabelStudioKeyError)
    assert "LABEL_STUDIO_API_KEY" in str(error)
    assert "another-key" not in str(error)


def test_a_missing_project(api: LabelStudioApi) -> None:
    refusal(lambda: api.client().project(99), LabelStudioMissingError)


@pytest.mark.parametrize(
    ("path", "ask", "answer", "variable"),
    [
        ("/api/ml/", lambda client: client.add_backend({}), "backend_private", "ML_BLOCK_LOCAL_IP"),
        (
            "/api/webhooks/",
            lambda client: client.add_webhook({}),
            "webhook_private",
            "SSRF_PROTECTION_ENABLED",
        ),
    ],
)
def test_a_private_address_names_the_variable_that_refuses_it_and_both_to_set(
    api: LabelStudioApi, path: str, ask: Callable[[Client], Any], answer: str, variable: str
) -> None:
    api.says("POST", path, answer)
    error = refusal(lambda: ask(api.client()), PrivateAddressError)
    assert f"({variable} is on)" in error.message
    assert "ML_BLOCK_LOCAL_IP=false and SSRF_PROTECTION_ENABLED=false" in str(error.fix)


def test_any_other_403_is_about_the_keys_owner(api: LabelStudioApi) -> None:
    api.answers["PATCH", f"/api/projects/{PROJECT}/"] = (403, {"detail": "You do not have permission."})
    refusal(lambda: api.client().change_project(PROJECT, {}), LabelStudioKeyError)


def test_a_backend_that_label_studio_cannot_reach_is_told_in_its_words_without_links(
    api: LabelStudioApi,
) -> None:
    api.says("POST", "/api/ml/", "backend_unreachable")
    error = refusal(lambda: api.client().add_backend({}), LabelStudioError)
    assert "health check failed" in error.message
    assert "<a" not in error.message


def test_refused_predictions_are_not_quoted(api: LabelStudioApi) -> None:
    error = refusal(lambda: api.client().import_predictions(PROJECT, [{"task": 1}]), LabelStudioError)
    assert "400" in error.message
    assert "Sad" not in str(error)


def test_a_redirect_is_not_followed_with_the_key_but_named(api: LabelStudioApi) -> None:
    api.answers["GET", "/api/version"] = (301, {})
    error = refusal(api.client().version, LabelStudioError)
    assert "https://elsewhere.test/" in error.message


@pytest.mark.parametrize("page", [b"<html>Welcome</html>", b"[]"])
def test_something_else_at_that_address_is_said_to_be_it(api: LabelStudioApi, page: bytes) -> None:
    api.answers["GET", f"/api/projects/{PROJECT}/"] = page
    assert "not Label Studio" in refusal(lambda: api.client().project(PROJECT), LabelStudioError).message


def test_a_request_that_changes_something_is_sent_once_even_if_it_fails(api: LabelStudioApi) -> None:
    path = f"/api/projects/{PROJECT}/import/predictions"
    api.answers["POST", path] = (503, {})
    refusal(lambda: api.client().import_predictions(PROJECT, []), LabelStudioUnreachableError)
    assert api.writes == [("POST", path)]

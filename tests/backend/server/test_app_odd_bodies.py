"""Bodies with values that Label Studio does not send, or that no database stores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import (
    SENTIMENT,
    Annotation,
    Project,
    annotated,
    predict,
    project_updated,
    setup,
    task,
)
from whole_backend import Backend, says, votes

from backend.errors import BadBodyError
from backend.label_studio.payloads import project_key
from backend.learning.projects import remember_project
from backend.ledger import Ledger, projects
from backend.server import app


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    script = votes(red="Glad", green="Glad", blue="Sad")
    with Backend(tmp_path_factory.mktemp("odd"), script, environment={"max_tasks": 20}) as backend:
        yield backend


def read(data: bytes) -> Any:
    return app._read(data)


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        (rb'"\u0000 and \ud800, \udc00"', "\ufffd and \ufffd, \ufffd"),
        (rb'"\ud83d\ude00"', "\U0001f600"),
        (b'{"\\u0000": [NaN, Infinity, -Infinity, 1e999, 1.5]}', {"\ufffd": [None] * 4 + [1.5]}),
        ("\u00fcber".join('""').encode(), "\u00fcber"),
        (b"[" * 100 + b"]" * 100, json.loads("[" * 100 + "]" * 100)),
        (b"[" * 101 + b"]" * 101, None),
        (b"9" * 5000, None),
        (b"\xed\xa0\x80".join([b'"', b'"']), None),
    ],
)
def test_what_no_database_stores_is_replaced_or_refused(sent: bytes, stored: object) -> None:
    assert read(sent) == stored


def test_every_text_that_is_let_in_can_be_stored(ledger: Ledger) -> None:
    text = read(rb'"a\u0000b\ud800c\ud83d\ude00"')
    with ledger.write() as connection:
        columns = {"extra_params": {"text": text}, "model_version": text, "label_config": text}
        remember_project(connection, "1.1", columns, 0.0)
    with ledger.read() as connection:
        stored = projects.get(connection, "1.1")
    assert stored is not None
    assert (stored.extra_params, stored.label_config) == ({"text": text}, text)


@pytest.mark.parametrize("text", ["\ud800", "a\0b", "\udfff and \ud800"])
def test_a_text_with_odd_characters_is_predicted(backend: Backend, text: str) -> None:
    number = 100 + len(text)
    assert backend.predict(task(number, f"Odd: {text}"))[0]


@pytest.mark.parametrize("version", [{"a": 1}, ["x"], 5, True])
def test_a_model_version_that_is_no_text_counts_as_none(backend: Backend, version: Any) -> None:
    body = project_updated()
    body["project"]["model_version"] = version
    backend.hook(body)
    backend.hook({**annotated(Annotation(number=1, task=1, mood="Sad")), "project": body["project"]})


def test_a_project_created_in_the_year_1_is_refused_by_its_key_or_has_one() -> None:
    assert project_key({"id": 1, "created_at": "0001-01-01T00:00:00Z"}) == "1.-62135596800"
    with pytest.raises(BadBodyError, match="created_at"):
        project_key({"id": 1, "created_at": "0001-01-01"})  # in local time, which the platform cannot tell


def test_more_tasks_than_one_request_may_have_are_refused_with_the_number(backend: Backend) -> None:
    tasks = [task(number) for number in range(21)]
    response = backend.post("/predict", predict(tasks))
    answer = response.get_json()
    assert (response.status_code, answer["code"], answer["where"]) == (413, "body_too_large", "body.tasks")
    assert "21 tasks" in answer["message"]
    assert "CAMVO_MAX_TASKS" in answer["fix"]


def test_authorization_in_other_characters_is_refused_as_wrong(tmp_path: Path) -> None:
    environment = {"basic_auth_user": "ada", "basic_auth_pass": "lovelace"}
    with Backend(tmp_path, votes(red="Glad"), environment=environment) as backend:
        response = backend.client.post(
            "/setup", json=setup(), headers={"Authorization": "Basic \u00ff\u00ff"}
        )
        assert (response.status_code, response.get_json()["code"]) == (401, "unauthorized")


def test_a_long_name_of_a_control_is_cut_in_metrics(tmp_path: Path) -> None:
    name = "mood" * 2000
    project = Project(label_config=SENTIMENT.replace('name="mood"', f'name="{name}"'))
    with Backend(tmp_path, lambda _: says(**{name: "Glad"})) as backend:
        [prediction] = backend.predict(task(1), project=project)
        assert prediction
        exposition = backend.client.get("/metrics").text
    lines = [line for line in exposition.splitlines() if "moodmood" in line]
    assert lines
    assert max(map(len, lines)) < 300


QUERIES = [
    (path, name)
    for path, names in {
        "/recounted": ["after"],
        "/failed": ["first", "last"],
        "/progress": ["first", "last", "after"],
    }.items()
    for name in names
]


@pytest.mark.parametrize("number", ["99999999999999999999", "-1", "1.5", "x", "", "\u0663", "9" * 5000])
@pytest.mark.parametrize(("path", "name"), QUERIES)
def test_a_query_with_something_other_than_a_64_bit_number_is_refused(
    backend: Backend, path: str, name: str, number: str
) -> None:
    response = backend.client.get(path, query_string={"project": Project().key, name: number})
    assert (response.status_code, response.get_json()["code"]) == (400, "body_invalid")


@pytest.mark.parametrize(("path", "name"), QUERIES)
def test_a_query_with_the_largest_number_is_answered(backend: Backend, path: str, name: str) -> None:
    response = backend.client.get(path, query_string={"project": Project().key, name: "9" * 18})
    assert response.status_code == 200


@pytest.mark.parametrize("usd", [1e300, 1e7, -1, "x"])
@pytest.mark.parametrize("path", ["/doubts", "/ask_more", "/predict"])
def test_an_amount_of_money_that_no_ledger_holds_is_refused(backend: Backend, path: str, usd: object) -> None:
    body = predict([task(1)]) | {"usd": usd, "least": 1.0, "params": {"job": {"usd": usd}}}
    response = backend.post(path, body)
    assert (response.status_code, response.get_json()["code"]) == (400, "body_invalid")


@pytest.mark.parametrize(
    ("params", "where"),
    [
        ({"stored_only": "maybe"}, "body.params.stored_only"),
        ({"again": 1}, "body.params.again"),
        ({"tasks": "12"}, "body.params.tasks"),
        ({"instructions": ["Judge."]}, "body.params.instructions"),
        ({"job": "mine"}, "body.params.job"),
        ({"job": {"everyone": "yes"}}, "body.params.job.everyone"),
        ({"job": {"usd": "x"}}, "body.params.job.usd"),
        ({"job": {"budget": 5}}, "body.params.job.budget"),
        ("none", "body.params"),
    ],
)
def test_params_of_another_type_are_refused_by_the_key_that_the_caller_wrote(
    backend: Backend, params: object, where: str
) -> None:
    response = backend.post("/predict", predict([task(1)]) | {"params": params})
    answer = response.get_json()
    assert (response.status_code, answer["code"], answer["where"]) == (400, "body_invalid", where)
    assert "docs/http.md" in answer["fix"]
    assert not {"JobTerms", "_PredictParams", "dictionary"} & set(answer["message"].split())


@pytest.mark.parametrize("params", [None, {}, {"context": {}, "login": "ada", "project": {"id": 7}}])
def test_params_of_label_studio_are_taken(backend: Backend, params: object) -> None:
    response = backend.post("/predict", predict([task(1)]) | {"params": params})
    assert response.status_code == 200

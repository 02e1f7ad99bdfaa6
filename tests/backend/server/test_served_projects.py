"""What a server remembers of projects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import predict, task
from whole_backend import Backend, votes

from backend.errors import LedgerError
from backend.server.served_projects import _Latest


def test_what_was_set_last_is_kept_and_no_more() -> None:
    latest = _Latest[int](most=2)
    for number, name in enumerate(("a", "b", "a", "c")):
        latest[name] = number
    assert [latest.get(name) for name in "abc"] == [2, None, 3]


def test_a_number_of_tasks_that_cannot_be_stored_costs_no_prediction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Glad")) as backend:
        backend.predict(task(1))

        def refuse(*_: Any) -> None:
            raise LedgerError("the database is down", temporary=True)

        monkeypatch.setattr(backend.runtime.projects, "_write", refuse)
        body = predict([task(2)])
        response = backend.post("/predict", {**body, "params": {**body["params"], "tasks": 9}})
        assert response.status_code == 200
        assert response.get_json()["results"][0]


def test_what_a_first_request_says_is_stored_in_one_transaction(tmp_path: Path) -> None:
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Glad")) as backend:
        write, written = backend.runtime.projects._write, []

        def counted(function: Any) -> None:
            written.append(function)
            write(function)

        backend.runtime.projects._write = counted
        body = predict([task(1)])
        assert backend.post("/predict", {**body, "params": {**body["params"], "tasks": 9}}).status_code == 200
        assert len(written) == 1
        assert backend.post("/predict", {**body, "params": {**body["params"], "tasks": 9}}).status_code == 200
        assert len(written) == 1

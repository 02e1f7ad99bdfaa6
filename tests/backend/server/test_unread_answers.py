"""Answers that gave no vote, at ``/status``: counted for each model, shown only where texts may be seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import task
from whole_backend import Backend

from backend.server.status.build import build_report
from backend.testing import Reply

SORRY = "I'm sorry, but I can't label <b>this</b>."


def script(body: dict[str, Any]) -> Reply:
    if body["model"] == "green":
        return Reply.says(SORRY)
    return Reply.says({"mood": "Glad"})


@pytest.mark.parametrize(("texts", "example"), [(False, None), (True, SORRY)])
def test_they_are_counted_and_an_example_is_shown_only_with_texts(
    tmp_path: Path, texts: bool, example: str | None
) -> None:
    with Backend(tmp_path, script, policy={"name": "majority"}) as backend:
        backend.predict(task(1), task(2, text="Another text."))
        with backend.ledger.read() as connection:
            report = build_report(connection, backend.runtime.settings, now=1.0, texts=texts)
    models = {model.name: (dict(model.unread), model.unread_example) for model in report.projects[0].models}
    assert models == {"red": ({}, None), "green": ({"model_refused": 2}, example), "blue": ({}, None)}

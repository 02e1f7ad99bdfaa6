"""Models that always give the same answer and keep the requests they get."""

from __future__ import annotations

import json
from typing import Any

from whole_backend import says

from backend.testing import Reply


class Models:
    """A script by which every model answers "Glad"; ``sent`` holds the requests' bodies."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def __call__(self, body: dict[str, Any]) -> Reply:
        self.sent.append(body)
        return says(mood="Glad")

    def examples(self) -> list[list[tuple[str, str]]]:
        """The examples of each prompt, as (line of the text, answer) pairs."""
        return [
            [
                (question["content"].splitlines()[1], json.loads(answer["content"])["mood"])
                for question, answer in zip(body["messages"][1:-1:2], body["messages"][2:-1:2], strict=True)
            ]
            for body in self.sent
        ]

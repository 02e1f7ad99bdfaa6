"""Models whose answers stand in the tasks' texts: "red: Glad, green: Sad" is what these two say about it."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import yaml
from server_process import config_for

from backend.testing import OpenAIServer, Reply

LATE = 1.0
"""Seconds until "late" answers."""


class Scripted:
    """ "red", "green" and "blue" follow the text; "late" does so after a second, "broken" always fails, and
    "rambling" never answers in the form that was asked for.

    Of the words given to a model, as in "red: Cross/Glad", it says the first that the prompt offers. Models
    that are held do not answer before :meth:`release`.
    """

    def __init__(self) -> None:
        self._held: str | None = None
        self._released = threading.Event()
        self._before = 0
        self._lock = threading.Lock()

    def hold(self, text: str, before: int = 0) -> None:
        """Hold every call about a text that contains ``text``, after the first ``before`` of them."""
        self._held, self._before, self._released = text, before, threading.Event()

    def release(self) -> None:
        """Answer what is held, and all that comes."""
        self._held = None
        self._released.set()

    def __call__(self, body: dict[str, Any]) -> Reply:
        prompt = "\n".join(message["content"] for message in body["messages"])
        reply = self._reply(body["model"], prompt)
        with self._lock:
            if self._held is None or self._held not in prompt:
                return reply
            self._before -= 1
            return reply if self._before >= 0 else reply.held_until(self._released)

    def _reply(self, model: str, prompt: str) -> Reply:
        if model == "broken":
            return Reply.fails(500)
        if model == "garbled":
            return Reply.broken()
        if model == "rambling":
            return Reply.says("What a day! I could not say, to be honest.")
        said = re.search(rf"\b{model}: ([\w/]+)", prompt)
        words = said[1].split("/") if said else ["Glad"]
        word = next((word for word in words if f'"{word}"' in prompt), words[-1])
        answer = Reply.says(json.dumps({"mood": word, "topic": word}))
        if model != "late":
            return answer
        event = threading.Event()
        threading.Timer(LATE, event.set).start()
        return answer.held_until(event)


def with_unreliable_models(models: OpenAIServer, folder: Path, **settings: object) -> Path:
    """A camvo.yaml with all of them."""
    path = config_for(models, folder, **settings)
    config = yaml.safe_load(path.read_text())
    first = config["models"][0]
    config["models"] += [
        {**first, "name": name, "model": f"openai/{name}"}
        for name in ("late", "broken", "garbled", "rambling")
    ]
    path.write_text(yaml.safe_dump(config))
    return path

"""Models that take their answers from the task's text, such as "red: Glad, green: Sad"."""

from __future__ import annotations

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
    """A script for the models "red", "green", "blue", "late", "broken", "garbled" and "rambling".

    The first three follow the text, and "late" does so after a second. "broken" fails, "garbled" sends
    incomplete JSON, and "rambling" answers in the wrong form. Of several words, as in "red: Cross/Glad", a
    model says the first one that the prompt offers.
    """

    def __init__(self) -> None:
        self._held: str | None = None
        self._released = threading.Event()
        self._before = 0
        self._lock = threading.Lock()

    def hold(self, text: str, before: int = 0) -> None:
        """Hold back the answers about texts that contain ``text``, except the first ``before`` answers."""
        self._held, self._before, self._released = text, before, threading.Event()

    def release(self) -> None:
        """Send the answers held back, and hold back no more."""
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
        script = re.search(rf"\b{model}: ([\w/]+)", prompt)
        words = script[1].split("/") if script else ["Glad"]
        word = next((word for word in words if f'"{word}"' in prompt), words[-1])
        answer = Reply.says({"mood": word, "topic": word})
        if model != "late":
            return answer
        event = threading.Event()
        threading.Timer(LATE, event.set).start()
        return answer.held_until(event)


def with_unreliable_models(models: OpenAIServer, folder: Path, **settings: object) -> Path:
    """Write a camvo.yaml with all these models."""
    path = config_for(models, folder, **settings)
    config = yaml.safe_load(path.read_text())
    first = config["models"][0]
    config["models"] += [
        {**first, "name": name, "model": f"openai/{name}"}
        for name in ("late", "broken", "garbled", "rambling")
    ]
    path.write_text(yaml.safe_dump(config))
    return path

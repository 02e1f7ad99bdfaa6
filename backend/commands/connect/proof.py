"""Proofs that a connected project works: Label Studio's own doing rather than a look at its settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from backend.commands.connect.server import Server
from backend.commands.connect.wanted import Wanted, ours
from backend.errors import LabelStudioError
from backend.label_studio.client import Client
from camvo.errors import CamvoError

_PATIENCE, _PAUSE = 5.0, 0.2
"""Seconds for a webhook to arrive (Label Studio with Redis sends it in the background), and between looks."""

_TRIES = 3
"""Tasks that are tried: one may be blank, or kept blind for an audit."""

_STATES = {
    "DI": "Label Studio cannot reach {url}: give the address that it can reach with --backend-url",
    "ER": "Label Studio reaches it, but POST /setup failed: {error}",
}


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of what was found.

    Attributes:
        name: what it is about.
        text: what is so, and what to do about it.
        holds: ``None`` where it could not be tried.
    """

    name: str
    text: str
    holds: bool | None = True


def prove(client: Client, server: Server, wanted: Wanted) -> Iterator[Fact]:
    """Try each part in turn.

    - *health*: Label Studio itself has just asked the backend for its health and set it up.
    - *version*: the title, what ``/setup`` answered and what the project shows are one text.
    - *prediction*: Label Studio sends a random task to the backend and shows us the answer, storing nothing.
    - *webhook*: the project is saved without a change, on which Label Studio sends PROJECT_UPDATED, and the
      backend must have counted one more that it let in. So address, network and secret are all proved. It
      takes the backend's ``/metrics``: where they cannot be reached from here, nothing is proved.
    """
    yield from _guarded("health", lambda: _health(client, wanted))
    yield from _guarded("version", lambda: _version(client, wanted))
    yield from _guarded("prediction", lambda: _prediction(client, wanted))
    yield from _guarded("webhook", lambda: _webhook(client, server, wanted))


def _guarded(name: str, proof: Callable[[], Fact]) -> Iterator[Fact]:
    try:
        yield proof()
    except CamvoError as error:
        yield Fact(name, str(error), holds=False)


def _health(client: Client, wanted: Wanted) -> Fact:
    backends = client.backends(wanted.project)
    backend = _found(backends, wanted)
    if backends[0]["id"] != backend["id"]:
        first = f"{backends[0]['title']} at {backends[0]['url']}"
        return Fact("health", f"{first} is asked in its place: remove it in Settings > Model", holds=False)
    if backend["state"] in _STATES:
        text = _STATES[backend["state"]].format(url=wanted.url, error=backend.get("error_message"))
        return Fact("health", text, holds=False)
    return Fact("health", "Label Studio reaches the backend, and /setup answered")


def _version(client: Client, wanted: Wanted) -> Fact:
    backend = _found(client.backends(wanted.project), wanted)
    shown = client.project(wanted.project).get("model_version")
    if {backend["title"], backend["model_version"], shown} == {wanted.title}:
        return Fact("version", f"{wanted.title} is the title, the backend's version and the project's")
    text = (
        f"title {backend['title']!r}, backend {backend['model_version']!r}, project {shown!r} must be one: "
    )
    return Fact("version", text + "give camvo connect the --config that the server has", holds=False)


def _prediction(client: Client, wanted: Wanted) -> Fact:
    if not client.count_tasks(wanted.project):
        return Fact(
            "prediction", "the project has no task to try: import some, and connect again", holds=None
        )
    backend = _found(client.backends(wanted.project), wanted)
    for _ in range(_TRIES):
        tried = client.try_backend(backend["id"])
        for answer in tried.get("response") or []:
            predictions = [answer] if isinstance(answer, dict) else answer
            if predictions and predictions[-1].get("result"):
                return Fact("prediction", f"task {tried['task']['id']}: score {predictions[-1]['score']:.2f}")
    text = "the backend answered without a prediction: its log, or GET /metrics, has the reason"
    return Fact("prediction", text, holds=False)


def _webhook(client: Client, server: Server, wanted: Wanted) -> Fact:
    if not server.reachable():
        text = f"not tried: {server.url} cannot be reached from here; run camvo connect where it can"
        return Fact("webhook", text, holds=None)
    before = server.project_updates()
    client.change_project(wanted.project, {"model_version": wanted.title})
    until = time.monotonic() + _PATIENCE
    while server.project_updates() == before:
        if time.monotonic() >= until:
            text = (
                "Label Studio's webhook was not let in: CAMVO_WEBHOOK_SECRET must be the same here and at "
                "the server, and a private address needs SSRF_PROTECTION_ENABLED=false at Label Studio"
            )
            return Fact("webhook", text, holds=False)
        time.sleep(_PAUSE)
    return Fact("webhook", "Label Studio sent one, and the backend let it in")


def _found(backends: list[dict[str, Any]], wanted: Wanted) -> dict[str, Any]:
    for backend in backends:
        if ours(backend, wanted.url, wanted.title):
            return backend
    raise LabelStudioError("the backend is gone from the project", fix="run camvo connect again")

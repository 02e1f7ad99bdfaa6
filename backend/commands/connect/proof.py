"""Proofs that a connected project works: they make Label Studio act, rather than read its settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from backend.commands.connect.backend_client import BackendClient
from backend.commands.connect.wanted import Wanted
from backend.commands.facts import Fact
from backend.errors import LabelStudioError
from backend.label_studio.client import Client
from camvo.errors import CamvoError

_PATIENCE, _PAUSE = 5.0, 0.2
"""Seconds to wait for a webhook (with Redis, Label Studio sends it in the background), and between looks."""

_TRIES = 3
"""Tasks tried at most: a task may have no text, or be blind for an audit."""

_STATES = {
    "DI": "Label Studio cannot reach {url}: give an address that it can reach with --backend-url",
    "ER": "Label Studio reaches the backend, but POST /setup failed: {error}",
}


def prove_reachable(client: Client, backend: BackendClient, wanted: Wanted) -> Iterator[Fact]:
    """Try whether Label Studio and the backend reach each other; an older backend may still be there.

    - *health*: Label Studio has just called the backend's ``/health`` and ``/setup``.
    - *webhook*: saving the unchanged project makes Label Studio send PROJECT_UPDATED, and the backend must
      count one more accepted webhook. This proves the address, the network and the secret. It needs the
      backend's ``/metrics``; if they cannot be reached from here, the webhook is not tried.
    """
    yield from _guarded("health", lambda: _health(client, wanted))
    yield from _guarded("webhook", lambda: _webhook(client, backend, wanted))


def prove_useful(client: Client, wanted: Wanted) -> Iterator[Fact]:
    """Try what a connected backend is good for.

    - *version*: the title, the answer of ``/setup`` and the project's model version are equal, and Label
      Studio asks this backend.
    - *prediction*: Label Studio sends a random task to the backend and returns the answer, unstored.
    """
    yield from _guarded("version", lambda: _version(client, wanted))
    yield from _guarded("prediction", lambda: _prediction(client, wanted))


def _guarded(name: str, proof: Callable[[], Fact]) -> Iterator[Fact]:
    try:
        yield proof()
    except CamvoError as error:
        yield Fact(name, str(error), holds=False)


def _health(client: Client, wanted: Wanted) -> Fact:
    backend = _our_backend(client.backends(wanted.project), wanted)
    if backend["state"] in _STATES:
        text = _STATES[backend["state"]].format(url=wanted.url, error=backend.get("error_message"))
        return Fact("health", text, holds=False)
    return Fact("health", "Label Studio reaches the backend, and /setup answered")


def _version(client: Client, wanted: Wanted) -> Fact:
    backends = client.backends(wanted.project)
    backend = _our_backend(backends, wanted)
    if backends[0]["id"] != backend["id"]:
        first = f"{backends[0]['title']} at {backends[0]['url']}"
        text = f"Label Studio asks {first} instead: remove it in Settings > Model"
        return Fact("version", text, holds=False)
    shown = client.project(wanted.project).get("model_version")
    if {backend["title"], backend["model_version"], shown} == {wanted.title}:
        return Fact(
            "version", f"{wanted.title} is the title, the backend's version and the project's version"
        )
    text = (
        f"title {backend['title']!r}, backend {backend['model_version']!r} and project {shown!r} must be"
        " equal: give camvo connect the server's --config"
    )
    return Fact("version", text, holds=False)


def _prediction(client: Client, wanted: Wanted) -> Fact:
    if not client.count_tasks(wanted.project):
        return Fact(
            "prediction",
            "not tried, because the project has no tasks: import some and run camvo connect again",
            holds=None,
        )
    backend = _our_backend(client.backends(wanted.project), wanted)
    for _ in range(_TRIES):
        trial = client.try_backend(backend["id"])
        for answer in trial.get("response") or []:
            predictions = [answer] if isinstance(answer, dict) else answer
            if predictions and predictions[-1].get("result"):
                return Fact("prediction", f"task {trial['task']['id']}: score {predictions[-1]['score']:.2f}")
    text = "the backend answered without a prediction: its log and GET /metrics have the reason"
    return Fact("prediction", text, holds=False)


def _webhook(client: Client, backend: BackendClient, wanted: Wanted) -> Fact:
    if not backend.reachable():
        text = f"not tried, because {backend.url} cannot be reached from here: use a host that can"
        return Fact("webhook", text, holds=None)
    before = backend.project_updates()
    client.change_project(wanted.project, {"title": client.project(wanted.project)["title"]})
    until = time.monotonic() + _PATIENCE
    while backend.project_updates() == before:
        if time.monotonic() >= until:
            text = (
                "the backend accepted no webhook: CAMVO_WEBHOOK_SECRET must be the same here and for the "
                "server, and a private address needs SSRF_PROTECTION_ENABLED=false in Label Studio"
            )
            return Fact("webhook", text, holds=False)
        time.sleep(_PAUSE)
    return Fact("webhook", "Label Studio sent one, and the backend accepted it")


def _our_backend(backends: list[dict[str, Any]], wanted: Wanted) -> dict[str, Any]:
    for backend in backends:
        if str(backend["url"]).rstrip("/") == wanted.url:
            return backend
    raise LabelStudioError("the project no longer has the backend", fix="run camvo connect again")

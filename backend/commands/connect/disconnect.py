"""``camvo disconnect``: a project as it was before ``camvo connect``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backend.commands.connect import review_tab
from backend.commands.connect.connect import Say
from backend.commands.connect.wanted import UNCERTAIN, differing, ours, remembered, webhook_ours, webhook_url
from backend.errors import LabelStudioError
from backend.label_studio.client import Client


def disconnect(client: Client, project: int, url: str, title: str, say: Say) -> bool:
    """Take away what is ours, and give settings back what they were before; whether there was anything.

    A setting that somebody changed since is left as it is. Predictions stay: they are the project's.

    Raises:
        LabelStudioError: Label Studio refused, or is not there.
    """
    backends = [one for one in client.backends(project) if ours(one, url, title)]
    urls = {webhook_url(url), *(webhook_url(one["url"]) for one in backends)}
    webhooks = [one for one in client.webhooks(project) if webhook_ours(one, urls)]
    for webhook in webhooks:
        client.remove_webhook(webhook["id"])
        say("webhook", f"{webhook['url']} removed")
    if tab := review_tab.remove(client, project):
        say("tab", f"{review_tab.TITLE!r} closed")
    # Before the backends go: one of them remembers what there is to give back.
    _restore(client, project, backends, say)
    for backend in backends:
        client.remove_backend(backend["id"])
        say("backend", f"{backend['title']} at {backend['url']} removed")
    return bool(webhooks or backends or tab)


def _restore(client: Client, project: int, backends: Sequence[Mapping[str, Any]], say: Say) -> None:
    """Give settings back their values from before, unless somebody has changed them since."""
    before: dict[str, Any] = {}
    for backend in backends:
        before = (remembered(backend) or {}) | before
    now = client.project(project)
    ours_still = {
        "show_collab_predictions": now.get("show_collab_predictions") is True,
        "model_version": now.get("model_version") in {one["title"] for one in backends},
        "sampling": now.get("sampling") == UNCERTAIN,
    }
    back = differing({name: value for name, value in before.items() if ours_still.get(name)}, now)
    for name, value in back.items():
        try:
            client.change_project(project, {name: value})
        except LabelStudioError as error:
            say("settings", f"{name} could not be given back {value!r}: {error}")
        else:
            say("settings", f"{name} = {value!r}, as before")

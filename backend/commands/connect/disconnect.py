"""Disconnecting a project: undoing what ``camvo connect`` did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backend.commands.connect import tabs
from backend.commands.connect.undo import Say
from backend.commands.connect.wanted import UNCERTAIN, differing, ours, remembered, webhook_ours, webhook_url
from backend.errors import LabelStudioError
from backend.label_studio.client import Client


def disconnect_project(client: Client, project: int, url: str, title: str, say: Say) -> bool:
    """Remove everything of CaMVo's and restore the settings; return whether anything was removed.

    A setting that was changed since is left alone. Predictions stay, because they belong to the project.

    Args:
        client: Label Studio.
        project: its number of the project.
        url: the backend's address.
        title: the backend's title.
        say: called with what is done.

    Raises:
        LabelStudioError: Label Studio refused, or cannot be reached.
    """
    backends = [backend for backend in client.backends(project) if ours(backend, url, title)]
    urls = {webhook_url(url), *(webhook_url(backend["url"]) for backend in backends)}
    webhooks = [webhook for webhook in client.webhooks(project) if webhook_ours(webhook, urls)]
    for webhook in webhooks:
        client.remove_webhook(webhook["id"])
        say("webhook", f"{webhook['url']} removed")
    removed = tabs.remove_tabs(client, project)
    for tab in removed:
        say("tab", f"{tab!r} removed")
    # Before the backends are removed: the settings to restore are in a backend's description.
    _restore(client, project, backends, say)
    for backend in backends:
        client.remove_backend(backend["id"])
        say("backend", f"{backend['title']} at {backend['url']} removed")
    return bool(webhooks or backends or removed)


def _restore(client: Client, project: int, backends: Sequence[Mapping[str, Any]], say: Say) -> None:
    """Restore the settings from before ``camvo connect``, except those changed since."""
    before: dict[str, Any] = {}
    for backend in backends:
        before = (remembered(backend) or {}) | before
    now = client.project(project)
    unchanged = {
        "show_collab_predictions": now.get("show_collab_predictions") is True,
        "model_version": now.get("model_version") in {backend["title"] for backend in backends},
        "sampling": now.get("sampling") == UNCERTAIN,
    }
    to_restore = differing({name: value for name, value in before.items() if unchanged.get(name)}, now)
    for name, value in to_restore.items():
        try:
            client.change_project(project, {name: value})
        except LabelStudioError as error:
            say("settings", f"{name} could not be restored to {value!r}: {error}")
        else:
            say("settings", f"{name} restored to {value!r}")

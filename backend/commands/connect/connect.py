"""Connecting a project: its webhook, ML backend and settings, set through Label Studio's API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from backend.commands.connect.wanted import (
    Wanted,
    description,
    differing,
    ours,
    remembered,
    webhook_ours,
    webhook_url,
)
from backend.errors import LabelStudioError
from backend.label_studio.client import Client

_CONNECTED = "CO"

Say = Callable[[str, str], None]
"""Called with the name of a part, and what was done to it or that it was up to date."""


def connect_project(client: Client, wanted: Wanted, say: Say) -> bool:
    """Set a project's webhook, ML backend and settings; return whether anything changed.

    The webhook comes first: when Label Studio creates an ML backend, it creates a webhook without our secret,
    unless one exists for that address. If the ML backend is refused, the new webhook is removed again.

    Raises:
        PrivateAddressError: Label Studio refuses to call the backend's address.
        LabelStudioError: Label Studio refused something else, or cannot be reached.
    """
    project = client.project(wanted.project)
    backends = [
        backend for backend in client.backends(wanted.project) if ours(backend, wanted.url, wanted.title)
    ]
    new_webhook, webhook_changed = _set_webhook(client, wanted, backends, say)
    try:
        backend_changed = _set_backend(client, wanted, backends, project, say)
    except LabelStudioError:
        if new_webhook is not None:
            client.remove_webhook(new_webhook)
        raise
    settings_changed = _set_settings(client, wanted, say)
    return webhook_changed or backend_changed or settings_changed


def _set_webhook(
    client: Client, wanted: Wanted, backends: Sequence[Mapping[str, Any]], say: Say
) -> tuple[int | None, bool]:
    """Ensure that exactly one webhook is ours.

    Returns:
        The number of the webhook if it was created, else ``None``, and whether anything changed.
    """
    urls = {wanted.webhook_url, *(webhook_url(backend["url"]) for backend in backends)}
    webhooks = [webhook for webhook in client.webhooks(wanted.project) if webhook_ours(webhook, urls)]
    webhooks.sort(key=lambda webhook: webhook["url"] != wanted.webhook_url)
    for stale in webhooks[1:]:
        client.remove_webhook(stale["id"])
        say("webhook", f"{stale['url']} removed: one is enough")
    if not webhooks:
        created = client.add_webhook(wanted.webhook({}))
        say("webhook", f"{wanted.webhook_url} created")
        return created["id"], True
    current = webhooks[0]
    fields = wanted.webhook(current.get("headers") or {})
    changes = differing(fields, {**current, "actions": sorted(current.get("actions") or [])})
    if changes:
        client.change_webhook(current["id"], fields)
        say("webhook", f"{wanted.webhook_url} corrected: {', '.join(changes)}")
    else:
        say("webhook", f"{wanted.webhook_url} is up to date")
    return None, bool(changes) or len(webhooks) > 1


def _set_backend(
    client: Client,
    wanted: Wanted,
    backends: Sequence[Mapping[str, Any]],
    project: Mapping[str, Any],
    say: Say,
) -> bool:
    """Ensure that exactly one ML backend is ours; return whether anything changed."""
    for duplicate in backends[1:]:
        client.remove_backend(duplicate["id"])
        say(
            "backend", f"{duplicate['title']} at {duplicate['url']} removed: Label Studio asks only the first"
        )
    fields = wanted.backend()
    before = {name: project.get(name) for name in differing(wanted.settings(), project)}
    if not backends:
        client.add_backend(fields | wanted.password() | {"description": description(before)})
        say("backend", f"{wanted.title} at {wanted.url} added")
        return True
    current = backends[0]
    fields["description"] = description(before | (remembered(current) or {}))
    changes = differing(fields, {**current, "url": str(current["url"]).rstrip("/")})
    # Label Studio never shows the password: a wrong one can only be seen in the connection's state.
    if current["state"] != _CONNECTED:
        changes["state"] = current["state"]
    if changes:
        client.change_backend(current["id"], fields | wanted.password())
        say("backend", f"{wanted.title} at {wanted.url} corrected: {', '.join(changes)}")
    else:
        say("backend", f"{wanted.title} at {wanted.url} is up to date")
    return bool(changes) or len(backends) > 1


def _set_settings(client: Client, wanted: Wanted, say: Say) -> bool:
    """Set the project's settings; return whether anything changed."""
    changes = differing(wanted.settings(), client.project(wanted.project))
    if changes:
        client.change_project(wanted.project, changes)
        say("settings", ", ".join(f"{name} = {value}" for name, value in changes.items()))
    else:
        say("settings", "up to date")
    return bool(changes)

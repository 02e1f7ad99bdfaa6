"""Connecting a project: its webhook, ML backend and settings, set through Label Studio's API.

What works is changed last. A webhook and an ML backend for a new address are added beside those of an older
one, tried there, and only then are the older ones removed. If something fails before, all is undone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backend.commands.connect.undo import Say, Undo
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

_WEBHOOK_FIELDS = ("url", "send_payload", "send_for_all_actions", "actions", "headers", "is_active")
_BACKEND_FIELDS = (
    *("url", "title", "description", "auth_method", "basic_auth_user", "extra_params", "auto_update"),
)
_CARRIED = ("extra_params", "is_interactive")
"""Fields of an ML backend that the one at a new address takes over."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What a project has, the current one of each kind first; ``None`` if there is none at the address."""

    project: Mapping[str, Any]
    backends: Sequence[Mapping[str, Any]]
    webhooks: Sequence[Mapping[str, Any]]
    backend: Mapping[str, Any] | None
    webhook: Mapping[str, Any] | None


def connect_project(
    client: Client, wanted: Wanted, say: Say, proved: Callable[[], bool] = lambda: True
) -> bool:
    """Set a project's webhook, ML backend and settings; return whether anything changed.

    The webhook comes first: when Label Studio creates an ML backend, it creates a webhook without our secret,
    unless one exists for that address. Label Studio itself calls the backend before it stores it.

    Args:
        client: Label Studio.
        wanted: how the project is to be connected.
        say: called with what is done.
        proved: tries the new webhook and backend, while those of an older address still work. If it returns
            ``False``, everything is undone.

    Raises:
        PrivateAddressError: Label Studio refuses to call the backend's address.
        LabelStudioError: Label Studio refused something else, cannot be reached, or the proof failed. The
            project is as it was before.
    """
    found, undo = _find(client, wanted), Undo(say)
    try:
        changed = _set_webhook(client, wanted, found, say, undo)
        changed |= _set_backend(client, wanted, found, say, undo)
        if not proved():
            raise LabelStudioError(
                "the connection does not work, so the project is left as it was before",
                fix="mend what failed above, and run camvo connect again",
            )
    except LabelStudioError:
        undo()
        raise
    return any([changed, _retire(client, wanted, found, say), _set_settings(client, wanted, say)])


def _find(client: Client, wanted: Wanted) -> _Found:
    project = client.project(wanted.project)
    backends = [
        backend for backend in client.backends(wanted.project) if ours(backend, wanted.url, wanted.title)
    ]
    urls = {wanted.webhook_url, *(webhook_url(backend["url"]) for backend in backends)}
    webhooks = [webhook for webhook in client.webhooks(wanted.project) if webhook_ours(webhook, urls)]
    return _Found(
        project,
        backends,
        webhooks,
        next((each for each in backends if str(each["url"]).rstrip("/") == wanted.url), None),
        next((each for each in webhooks if each["url"] == wanted.webhook_url), None),
    )


def _set_webhook(client: Client, wanted: Wanted, found: _Found, say: Say, undo: Undo) -> bool:
    """Ensure that the address has our webhook; return whether anything changed."""
    current = found.webhook
    if current is None:
        older = found.webhooks[0] if found.webhooks else {}
        created = client.add_webhook(wanted.webhook(older.get("headers") or {}))
        undo.add(
            "webhook", f"{wanted.webhook_url} removed again", lambda: client.remove_webhook(created["id"])
        )
        say("webhook", f"{wanted.webhook_url} created")
        return True
    fields = wanted.webhook(current.get("headers") or {})
    changes = differing(fields, {**current, "actions": sorted(current.get("actions") or [])})
    if not changes:
        say("webhook", f"{wanted.webhook_url} is up to date")
        return False
    client.change_webhook(current["id"], fields)
    before = {name: current[name] for name in _WEBHOOK_FIELDS if name in current}
    undo.add(
        "webhook",
        f"{wanted.webhook_url} as it was before",
        lambda: client.change_webhook(current["id"], before),
    )
    say("webhook", f"{wanted.webhook_url} corrected: {', '.join(changes)}")
    return True


def _set_backend(client: Client, wanted: Wanted, found: _Found, say: Say, undo: Undo) -> bool:
    """Ensure that the address has our ML backend; return whether anything changed."""
    project, current = found.project, found.backend
    before = {name: project.get(name) for name in differing(wanted.settings(), project)}
    older = current or (found.backends[0] if found.backends else {})
    fields = wanted.backend()
    fields["description"] = description(before | (remembered(older) or {}))
    if current is None:
        carried = {name: older[name] for name in _CARRIED if older.get(name) is not None}
        created = client.add_backend(carried | fields | wanted.password())
        undo.add("settings", "as before", lambda: _restore_settings(client, wanted, project))
        undo.add(
            "backend",
            f"{wanted.title} at {wanted.url} removed again",
            lambda: client.remove_backend(created["id"]),
        )
        say("backend", f"{wanted.title} at {wanted.url} added")
        return True
    changes = differing(fields, {**current, "url": str(current["url"]).rstrip("/")})
    # Label Studio never shows the password: a wrong one can only be seen in the connection's state.
    if current["state"] != _CONNECTED:
        changes["state"] = current["state"]
    if not changes:
        say("backend", f"{wanted.title} at {wanted.url} is up to date")
        return False
    client.change_backend(current["id"], fields | wanted.password())
    earlier = {name: current[name] for name in _BACKEND_FIELDS if name in current}
    undo.add("settings", "as before", lambda: _restore_settings(client, wanted, project))
    undo.add(
        "backend",
        f"{wanted.title} at {wanted.url} as it was before",
        lambda: client.change_backend(
            current["id"], earlier | {"project": wanted.project} | wanted.password()
        ),
    )
    say("backend", f"{wanted.title} at {wanted.url} corrected: {', '.join(changes)}")
    return True


def _restore_settings(client: Client, wanted: Wanted, project: Mapping[str, Any]) -> None:
    """Restore settings that Label Studio changes by itself along with an ML backend."""
    names = ("show_collab_predictions", "model_version")
    now = client.project(wanted.project)
    changes = differing({name: project.get(name) for name in names}, now)
    if changes:
        client.change_project(wanted.project, changes)


def _retire(client: Client, wanted: Wanted, found: _Found, say: Say) -> bool:
    """Remove our other webhooks and ML backends; return whether there were any."""
    webhooks = [each for each in found.webhooks if each is not found.webhook]
    backends = [each for each in found.backends if each is not found.backend]
    for webhook in webhooks:
        client.remove_webhook(webhook["id"])
        say("webhook", f"{webhook['url']} removed: one is enough")
    for backend in backends:
        client.remove_backend(backend["id"])
        say("backend", f"{backend['title']} at {backend['url']} removed: Label Studio asks only the first")
    return bool(webhooks or backends)


def _set_settings(client: Client, wanted: Wanted, say: Say) -> bool:
    """Set the project's settings; return whether anything changed."""
    changes = differing(wanted.settings(), client.project(wanted.project))
    if changes:
        client.change_project(wanted.project, changes)
        say("settings", ", ".join(f"{name} = {value}" for name, value in changes.items()))
    else:
        say("settings", "up to date")
    return bool(changes)

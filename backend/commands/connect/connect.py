"""``camvo connect``: what a project needs, set through the API."""

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
"""Gets the name of a part and what was done to it, or that it was so already."""


def connect(client: Client, wanted: Wanted, say: Say) -> bool:
    """Make a project's webhook, ML backend and settings what they have to be; whether anything changed.

    The webhook comes first: with an ML backend Label Studio makes one without our secret, unless there is one
    for that address. What was made is taken back when the ML backend is refused.

    Raises:
        PrivateAddressError: Label Studio does not call the backend's address.
        LabelStudioError: it refused something else, or is not there.
    """
    project = client.project(wanted.project)
    backends = [one for one in client.backends(wanted.project) if ours(one, wanted.url, wanted.title)]
    made, hooked = _webhook(client, wanted, backends, say)
    try:
        backend = _backend(client, wanted, backends, project, say)
    except LabelStudioError:
        if made is not None:
            client.remove_webhook(made)
        raise
    set_ = _settings(client, wanted, say)
    return hooked or backend or set_


def _webhook(
    client: Client, wanted: Wanted, backends: Sequence[Mapping[str, Any]], say: Say
) -> tuple[int | None, bool]:
    """See to exactly one webhook of ours; the number of one that was made, and whether anything changed."""
    urls = {wanted.webhook_url, *(webhook_url(one["url"]) for one in backends)}
    found = [one for one in client.webhooks(wanted.project) if webhook_ours(one, urls)]
    found.sort(key=lambda one: one["url"] != wanted.webhook_url)
    for stale in found[1:]:
        client.remove_webhook(stale["id"])
        say("webhook", f"{stale['url']} removed: one is enough")
    if not found:
        made = client.add_webhook(wanted.webhook({}))
        say("webhook", f"{wanted.webhook_url} created")
        return made["id"], True
    [kept] = found[:1]
    fields = wanted.webhook(kept.get("headers") or {})
    changes = differing(fields, {**kept, "actions": sorted(kept.get("actions") or [])})
    if changes:
        client.change_webhook(kept["id"], fields)
        say("webhook", f"{wanted.webhook_url} corrected: {', '.join(changes)}")
    else:
        say("webhook", f"{wanted.webhook_url}, as it should be")
    return None, bool(changes) or len(found) > 1


def _backend(
    client: Client,
    wanted: Wanted,
    backends: Sequence[Mapping[str, Any]],
    project: Mapping[str, Any],
    say: Say,
) -> bool:
    """See to exactly one ML backend of ours; whether anything changed."""
    for double in backends[1:]:
        client.remove_backend(double["id"])
        say("backend", f"{double['title']} at {double['url']} removed: Label Studio asks the first one only")
    fields = wanted.backend()
    before = {name: project.get(name) for name in differing(wanted.settings(), project)}
    if not backends:
        client.add_backend(fields | wanted.password() | {"description": description(before)})
        say("backend", f"{wanted.title} at {wanted.url} added")
        return True
    kept = backends[0]
    fields["description"] = description(before | (remembered(kept) or {}))
    changes = differing(fields, {**kept, "url": str(kept["url"]).rstrip("/")})
    # Whether its password is ours shows only in whether Label Studio gets through.
    if kept["state"] != _CONNECTED:
        changes["state"] = kept["state"]
    if changes:
        client.change_backend(kept["id"], fields | wanted.password())
        say("backend", f"{wanted.title} at {wanted.url} corrected: {', '.join(changes)}")
    else:
        say("backend", f"{wanted.title} at {wanted.url}, as it should be")
    return bool(changes) or len(backends) > 1


def _settings(client: Client, wanted: Wanted, say: Say) -> bool:
    """See to the project's settings; whether anything changed."""
    changes = differing(wanted.settings(), client.project(wanted.project))
    if changes:
        client.change_project(wanted.project, changes)
        say("settings", ", ".join(f"{name} = {value}" for name, value in changes.items()))
    else:
        say("settings", "as they should be")
    return bool(changes)

"""What a connected project looks like: the one place that says which settings Label Studio must have."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from backend.label_studio.webhooks import WEBHOOK_HEADER
from backend.settings import Environment

ACTIONS = (
    "ANNOTATION_CREATED",
    "ANNOTATIONS_CREATED",
    "ANNOTATION_UPDATED",
    "ANNOTATIONS_DELETED",
    "TASKS_DELETED",
    "PROJECT_UPDATED",
)
"""What the webhook sends: all that CaMVo acts on. TASKS_CREATED would carry whole imports along, in vain."""

UNCERTAIN = "Uncertainty sampling"
"""Label Studio's name for "least confident first"; its own pages do not offer it."""

_MARK = "Connected by camvo connect; before: "


@dataclass(frozen=True, slots=True)
class Wanted:
    """How one project is to be connected.

    Attributes:
        project: Label Studio's number.
        url: the backend's address as Label Studio reaches it.
        title: the backend's title, which has to be the model version.
        environment: holds the credentials and the webhook's secret.
        extra_params: overrides for this project; ``None`` leaves those that are there.
        review_queue: whether annotators get the least confident task first.
    """

    project: int
    url: str
    title: str
    environment: Environment
    extra_params: Mapping[str, Any] | None = None
    review_queue: bool = False

    @property
    def webhook_url(self) -> str:
        """Where Label Studio would send the webhook that it makes itself."""
        return webhook_url(self.url)

    def backend(self) -> dict[str, Any]:
        """The ML backend's fields, without its password, which Label Studio does not show."""
        user = self.environment.basic_auth_user
        fields: dict[str, Any] = {
            "project": self.project,
            "url": self.url,
            "title": self.title,
            "auth_method": "NONE" if user is None else "BASIC_AUTH",
            "auto_update": True,
        }
        if user is not None:
            fields["basic_auth_user"] = user
        if self.extra_params is not None:
            fields["extra_params"] = dict(self.extra_params)
        return fields

    def password(self) -> dict[str, str]:
        """The field that goes along whenever the backend is written."""
        given = self.environment.basic_auth_pass
        return {} if given is None else {"basic_auth_pass": given.get_secret_value()}

    def webhook(self, headers: Mapping[str, str]) -> dict[str, Any]:
        """The webhook's fields; ``headers`` are those that it has already."""
        secret = self.environment.webhook_secret
        others = {name: value for name, value in headers.items() if name.lower() != WEBHOOK_HEADER.lower()}
        return {
            "project": self.project,
            "url": self.webhook_url,
            "send_payload": True,
            "send_for_all_actions": False,
            "actions": sorted(ACTIONS),
            "headers": others | ({} if secret is None else {WEBHOOK_HEADER: secret.get_secret_value()}),
            "is_active": True,
        }

    def settings(self) -> dict[str, Any]:
        """The project's settings. Without the first, Label Studio neither shows nor asks for predictions."""
        wanted: dict[str, Any] = {"show_collab_predictions": True, "model_version": self.title}
        if self.review_queue:
            wanted["sampling"] = UNCERTAIN
        return wanted


def webhook_url(backend_url: str) -> str:
    """The address of a backend's webhook, as Label Studio puts it together."""
    return f"{backend_url.rstrip('/')}/webhook"


def differing(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """The wanted fields that are not so yet."""
    return {name: value for name, value in wanted.items() if found.get(name) != value}


def description(before: Mapping[str, Any]) -> str:
    """The backend's description: it marks the backend as ours and remembers what the project had before."""
    return _MARK + json.dumps(dict(before), sort_keys=True)


def remembered(backend: Mapping[str, Any]) -> dict[str, Any] | None:
    """The project's settings from before ``camvo connect``; ``None`` for a backend that it did not make."""
    text = backend.get("description") or ""
    if not text.startswith(_MARK):
        return None
    try:
        before = json.loads(text.removeprefix(_MARK))
    except ValueError:
        return {}
    return before if isinstance(before, dict) else {}


def ours(backend: Mapping[str, Any], url: str, title: str) -> bool:
    """Whether an ML backend is CaMVo's: made by us, at our address, or under our title."""
    at = str(backend.get("url") or "").rstrip("/")
    return remembered(backend) is not None or at == url or backend.get("title") == title


def webhook_ours(webhook: Mapping[str, Any], urls: Collection[str]) -> bool:
    """Whether a webhook is CaMVo's: to one of our addresses, or with our header."""
    named = {name.lower() for name in webhook.get("headers") or {}}
    return webhook.get("url") in urls or WEBHOOK_HEADER.lower() in named

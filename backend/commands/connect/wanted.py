"""The fields that Label Studio must have for a connected project."""

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
"""The actions that CaMVo handles. TASKS_CREATED is left out: it carries whole imports."""

UNCERTAIN = "Uncertainty sampling"
"""Label Studio's name for "least confident first"; its pages do not offer it."""

_MARK = "Connected by camvo connect; before: "


@dataclass(frozen=True, slots=True)
class Wanted:
    """How one project is to be connected.

    Attributes:
        project: Label Studio's number of the project.
        url: the URL at which Label Studio reaches the backend.
        title: the backend's title, which must equal the model version.
        environment: has the credentials and the webhook's secret.
        extra_params: overrides for this project; ``None`` keeps the current ones.
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
        """The address of the webhook, the same that Label Studio would choose itself."""
        return webhook_url(self.url)

    def backend(self) -> dict[str, Any]:
        """Return the ML backend's fields, without the password, which Label Studio never shows."""
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
        """Return the field that must be sent with every change of the backend."""
        password = self.environment.basic_auth_pass
        return {} if password is None else {"basic_auth_pass": password.get_secret_value()}

    def webhook(self, headers: Mapping[str, str]) -> dict[str, Any]:
        """Return the webhook's fields; ``headers`` are its current headers."""
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
        """Return the project's settings. Without the first, Label Studio ignores predictions."""
        wanted: dict[str, Any] = {"show_collab_predictions": True, "model_version": self.title}
        if self.review_queue:
            wanted["sampling"] = UNCERTAIN
        return wanted


def webhook_url(backend_url: str) -> str:
    """Return the address of a backend's webhook, built as Label Studio does."""
    return f"{backend_url.rstrip('/')}/webhook"


def differing(wanted: Mapping[str, Any], current: Mapping[str, Any]) -> dict[str, Any]:
    """Return the wanted fields that have another value now."""
    return {name: value for name, value in wanted.items() if current.get(name) != value}


def description(before: Mapping[str, Any]) -> str:
    """Return the backend's description, which marks it as ours and holds the project's earlier settings."""
    return _MARK + json.dumps(dict(before), sort_keys=True)


def remembered(backend: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the settings from before ``camvo connect``, or ``None`` if it did not create the backend."""
    text = backend.get("description") or ""
    if not text.startswith(_MARK):
        return None
    try:
        before = json.loads(text.removeprefix(_MARK))
    except ValueError:
        return {}
    return before if isinstance(before, dict) else {}


def ours(backend: Mapping[str, Any], url: str, title: str) -> bool:
    """Whether an ML backend is CaMVo's: created by it, at its address, or with its title."""
    address = str(backend.get("url") or "").rstrip("/")
    return remembered(backend) is not None or address == url or backend.get("title") == title


def webhook_ours(webhook: Mapping[str, Any], urls: Collection[str]) -> bool:
    """Whether a webhook is CaMVo's: for one of its addresses, or with its header."""
    headers = {name.lower() for name in webhook.get("headers") or {}}
    return webhook.get("url") in urls or WEBHOOK_HEADER.lower() in headers

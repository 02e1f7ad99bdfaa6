"""Connecting a project: its webhook, ML backend and settings, set through Label Studio's API.

The working connection is changed last. A webhook and an ML backend for a new address are added beside those
of an older one, tried there, and only then are the older ones removed. If something fails before, all is
undone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backend.commands.check import config_facts
from backend.commands.shared.backend_client import BackendClient
from backend.commands.shared.output import Fact
from backend.errors import BackendError, LabelStudioError
from backend.label_studio.client import OVERVIEW_TAB, Client, Tabs
from backend.label_studio.payloads import project_instructions
from backend.models import Pool
from backend.models.model import count_text
from backend.questions.objects import FOR_PEOPLE_ONLY, split_instructions
from backend.settings import WEBHOOK_HEADER, Environment, Settings
from camvo.errors import CamvoError

_Say = Callable[[str, str], None]
"""Called with the name of a part, and what was done to it or that it was up to date."""


class _Undo:
    """A list of steps that undo changes."""

    def __init__(self, say: _Say) -> None:
        self._say = say
        self._steps: list[tuple[str, str, Callable[[], object]]] = []

    def add(self, name: str, text: str, step: Callable[[], object]) -> None:
        """Remember how to undo a change that was just made."""
        self._steps.append((name, text, step))

    def __call__(self) -> None:
        """Undo all changes. A step that fails does not prevent the others."""
        while self._steps:
            name, text, step = self._steps.pop()
            try:
                step()
            except LabelStudioError as error:
                self._say(name, f"could not be undone: {error}")
            else:
                self._say(name, f"undone: {text}")


_ACTIONS = (
    "ANNOTATION_CREATED",
    "ANNOTATIONS_CREATED",
    "ANNOTATION_UPDATED",
    "ANNOTATIONS_DELETED",
    "TASKS_DELETED",
    "PROJECT_UPDATED",
)
"""The actions that CaMVo handles. TASKS_CREATED is left out: it carries whole imports."""

_UNCERTAIN = "Uncertainty sampling"
"""Label Studio's name for "least confident first"; its pages do not offer it."""

_MARK = "Connected by camvo connect; before: "
"""Begins the description of our ML backends; the project's earlier settings follow."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """How one project is to be connected. ``extra_params`` that are ``None`` keep the current ones."""

    project: int
    url: str
    title: str
    environment: Environment
    extra_params: Mapping[str, Any] | None = None
    review_queue: bool = False

    @property
    def webhook_url(self) -> str:
        """The address of the webhook, the same that Label Studio would choose itself."""
        return _webhook_url(self.url)

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
            "actions": sorted(_ACTIONS),
            "headers": others | ({} if secret is None else {WEBHOOK_HEADER: secret.get_secret_value()}),
            "is_active": True,
        }

    def settings(self) -> dict[str, Any]:
        """Return the project's settings. Without the first, Label Studio ignores predictions."""
        wanted: dict[str, Any] = {"show_collab_predictions": True, "model_version": self.title}
        if self.review_queue:
            wanted["sampling"] = _UNCERTAIN
        return wanted


def _webhook_url(backend_url: str) -> str:
    """Return the address of a backend's webhook, built as Label Studio does."""
    return f"{backend_url.rstrip('/')}/webhook"


def _differing(wanted: Mapping[str, Any], current: Mapping[str, Any]) -> dict[str, Any]:
    """Return the wanted fields that have another value now."""
    return {name: value for name, value in wanted.items() if current.get(name) != value}


def _remembered(backend: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the settings from before ``camvo connect``, or ``None`` if it did not create the backend."""
    text = backend.get("description") or ""
    if not text.startswith(_MARK):
        return None
    try:
        before = json.loads(text.removeprefix(_MARK))
    except ValueError:
        return {}
    return before if isinstance(before, dict) else {}


def _is_ours(backend: Mapping[str, Any], url: str, title: str) -> bool:
    """Whether an ML backend is CaMVo's: created by it, at its address, or with its title."""
    address = str(backend.get("url") or "").rstrip("/")
    return _remembered(backend) is not None or address == url or backend.get("title") == title


def _webhook_ours(webhook: Mapping[str, Any], urls: Collection[str]) -> bool:
    """Whether a webhook is CaMVo's: for one of its addresses, or with its header."""
    headers = {name.lower() for name in webhook.get("headers") or {}}
    return webhook.get("url") in urls or WEBHOOK_HEADER.lower() in headers


_CONNECTED = "CO"

_WEBHOOK_FIELDS = ("url", "send_payload", "send_for_all_actions", "actions", "headers", "is_active")
_BACKEND_FIELDS = (
    *("url", "title", "description", "auth_method", "basic_auth_user", "extra_params", "auto_update"),
)
_CARRIED = ("extra_params", "is_interactive")
"""Fields of an ML backend that are copied to the one at a new address."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What a project has, the current one of each kind first; ``None`` if there is none at the address."""

    project: Mapping[str, Any]
    backends: Sequence[Mapping[str, Any]]
    webhooks: Sequence[Mapping[str, Any]]
    backend: Mapping[str, Any] | None
    webhook: Mapping[str, Any] | None


def _restore(client: Client, project: int, backends: Sequence[Mapping[str, Any]], say: _Say) -> None:
    """Restore the settings from before ``camvo connect``, except those changed since."""
    before: dict[str, Any] = {}
    for backend in backends:
        before = (_remembered(backend) or {}) | before
    now = client.project(project)
    unchanged = {
        "show_collab_predictions": now.get("show_collab_predictions") is True,
        "model_version": now.get("model_version") in {backend["title"] for backend in backends},
        "sampling": now.get("sampling") == _UNCERTAIN,
    }
    to_restore = _differing({name: value for name, value in before.items() if unchanged.get(name)}, now)
    for name, value in to_restore.items():
        try:
            client.change_project(project, {name: value})
        except LabelStudioError as error:
            say("settings", f"{name} could not be restored to {value!r}: {error}")
        else:
            say("settings", f"{name} restored to {value!r}")


def _server(backend: BackendClient, wanted: Wanted) -> Iterator[Fact]:
    if not backend.reachable():
        yield Fact("server", f"{backend.url} cannot be reached from here; Label Studio will try", holds=None)
        return
    try:
        version = backend.model_version()
        if version != wanted.title:
            raise BackendError(
                f"the server's model_version is {version!r}, and here it is {wanted.title!r}",
                where=backend.url,
                fix="give camvo connect the server's --config",
            )
        yield Fact("server", f"CaMVo answers at {backend.url}")
        backend.check_credentials()
        yield Fact("server", "accepts the credentials" if backend.has_credentials else "needs no credentials")
        backend.check_webhook_secret()
        secret = "the webhook's secret" if backend.has_webhook_secret else "webhooks from anyone"
        yield Fact("server", f"accepts {secret}")
    except BackendError as error:
        yield Fact("server", str(error), holds=False)


_PATIENCE, _PAUSE = 5.0, 0.2
"""Seconds to wait for a webhook (with Redis, Label Studio sends it in the background), and between looks."""

_TRIES = 3
"""Tasks tried at most: a task may have no text, or be blind for an audit."""

_STATES = {
    "DI": "Label Studio cannot reach {url}: give an address that it can reach with --backend-url",
    "ER": "Label Studio reaches the backend, but POST /setup failed: {error}",
}


def _guarded(name: str, proof: Callable[[], Fact]) -> Iterator[Fact]:
    try:
        yield proof()
    except CamvoError as error:
        yield Fact(name, str(error), holds=False)


def _our_backend(backends: list[dict[str, Any]], wanted: Wanted) -> dict[str, Any]:
    for backend in backends:
        if str(backend["url"]).rstrip("/") == wanted.url:
            return backend
    raise LabelStudioError("the project no longer has the backend", fix="run camvo connect again")


_Report = Callable[[Fact], None]
"""Called with each fact as soon as it is known."""


@dataclass(frozen=True, slots=True)
class ProjectConnection:
    """A project of Label Studio, and how it is to be connected."""

    client: Client
    wanted: Wanted

    def connect(self, say: _Say, proved: Callable[[], bool] = lambda: True) -> bool:
        """Set a project's webhook, ML backend and settings; return whether anything changed.

        The webhook comes first: when Label Studio creates an ML backend, it creates a webhook without our
        secret, unless one exists for that address. Label Studio itself calls the backend before it stores it.
        """
        found, undo = self._find(), _Undo(say)
        try:
            changed = self._set_webhook(found, say, undo)
            changed |= self._set_backend(found, say, undo)
            if not proved():
                raise LabelStudioError(
                    "the connection does not work, so the project is left as it was before",
                    fix="mend what failed above, and run camvo connect again",
                )
        except LabelStudioError:
            undo()
            raise
        return any([changed, self._retire(found, say), self._set_settings(say)])

    def _find(self) -> _Found:
        project = self.client.project(self.wanted.project)
        backends, webhooks = self._ours()
        return _Found(
            project,
            backends,
            webhooks,
            next((each for each in backends if str(each["url"]).rstrip("/") == self.wanted.url), None),
            next((each for each in webhooks if each["url"] == self.wanted.webhook_url), None),
        )

    def _ours(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """CaMVo's ML backends and webhooks in the project."""
        wanted = self.wanted
        listed = self.client.backends(wanted.project)
        backends = [backend for backend in listed if _is_ours(backend, wanted.url, wanted.title)]
        urls = {wanted.webhook_url, *(_webhook_url(backend["url"]) for backend in backends)}
        webhooks = self.client.webhooks(wanted.project)
        return backends, [webhook for webhook in webhooks if _webhook_ours(webhook, urls)]

    def _set_webhook(self, found: _Found, say: _Say, undo: _Undo) -> bool:
        """Ensure that the address has our webhook; return whether anything changed."""
        current, named, client = found.webhook, self.wanted.webhook_url, self.client
        if current is None:
            older = found.webhooks[0] if found.webhooks else {}
            created = client.add_webhook(self.wanted.webhook(older.get("headers") or {}))
            undo.add("webhook", f"{named} removed again", lambda: client.remove_webhook(created["id"]))
            say("webhook", f"{named} created")
            return True
        fields = self.wanted.webhook(current.get("headers") or {})
        changes = _differing(fields, {**current, "actions": sorted(current.get("actions") or [])})
        if not changes:
            say("webhook", f"{named} is up to date")
            return False
        client.change_webhook(current["id"], fields)
        before = {name: current[name] for name in _WEBHOOK_FIELDS if name in current}
        undo.add("webhook", f"{named} as it was before", lambda: client.change_webhook(current["id"], before))
        say("webhook", f"{named} corrected: {', '.join(changes)}")
        return True

    def _set_backend(self, found: _Found, say: _Say, undo: _Undo) -> bool:
        """Ensure that the address has our ML backend; return whether anything changed."""
        project, current, client = found.project, found.backend, self.client
        named = f"{self.wanted.title} at {self.wanted.url}"
        before = {name: project.get(name) for name in _differing(self.wanted.settings(), project)}
        older = current or (found.backends[0] if found.backends else {})
        fields = self.wanted.backend()
        fields["description"] = _MARK + json.dumps(before | (_remembered(older) or {}), sort_keys=True)
        if current is None:
            carried = {name: older[name] for name in _CARRIED if older.get(name) is not None}
            created = client.add_backend(carried | fields | self.wanted.password())
            undo.add("settings", "as before", lambda: self._restore_settings(project))
            undo.add("backend", f"{named} removed again", lambda: client.remove_backend(created["id"]))
            say("backend", f"{named} added")
            return True
        changes = _differing(fields, {**current, "url": str(current["url"]).rstrip("/")})
        # Label Studio never shows the password: a wrong one can only be seen in the connection's state.
        if current["state"] != _CONNECTED:
            changes["state"] = current["state"]
        if not changes:
            say("backend", f"{named} is up to date")
            return False
        client.change_backend(current["id"], fields | self.wanted.password())
        earlier = {name: current[name] for name in _BACKEND_FIELDS if name in current}
        earlier |= {"project": self.wanted.project} | self.wanted.password()
        undo.add("settings", "as before", lambda: self._restore_settings(project))
        undo.add(
            "backend", f"{named} as it was before", lambda: client.change_backend(current["id"], earlier)
        )
        say("backend", f"{named} corrected: {', '.join(changes)}")
        return True

    def _restore_settings(self, project: Mapping[str, Any]) -> None:
        """Restore the settings that Label Studio changes when an ML backend is added or changed."""
        names = ("show_collab_predictions", "model_version")
        now = self.client.project(self.wanted.project)
        changes = _differing({name: project.get(name) for name in names}, now)
        if changes:
            self.client.change_project(self.wanted.project, changes)

    def _retire(self, found: _Found, say: _Say) -> bool:
        """Remove our other webhooks and ML backends; return whether there were any."""
        webhooks = [each for each in found.webhooks if each is not found.webhook]
        backends = [each for each in found.backends if each is not found.backend]
        for webhook in webhooks:
            self.client.remove_webhook(webhook["id"])
            say("webhook", f"{webhook['url']} removed: one is enough")
        for backend in backends:
            self.client.remove_backend(backend["id"])
            say(
                "backend", f"{backend['title']} at {backend['url']} removed: Label Studio asks only the first"
            )
        return bool(webhooks or backends)

    def _set_settings(self, say: _Say) -> bool:
        """Set the project's settings; return whether anything changed."""
        changes = _differing(self.wanted.settings(), self.client.project(self.wanted.project))
        if changes:
            self.client.change_project(self.wanted.project, changes)
            say("settings", ", ".join(f"{name} = {value}" for name, value in changes.items()))
        else:
            say("settings", "up to date")
        return bool(changes)

    def check(self, backend: BackendClient, settings: Settings) -> Iterator[Fact]:
        """Try what needs no change in Label Studio.

        - *server*: CaMVo answers there, with the model version of ``settings`` and these credentials and
          secret. It is not tried if the address cannot be reached from here, since Label Studio may know a
          host name that this host does not.
        - *label config*: which controls get predictions.
        - *instructions*: whether prompts hold those of the project, and whether models have room for them.
        """
        yield from _server(backend, self.wanted)
        project = self.client.project(self.wanted.project)
        yield from config_facts(str(project["label_config"]), settings)
        yield from _guarded("instructions", lambda: _instructions(project, settings))

    def prove_reachable(self, backend: BackendClient) -> Iterator[Fact]:
        """Try whether Label Studio and the backend reach each other; an older backend may still be there.

        - *health*: Label Studio has just called the backend's ``/health`` and ``/setup``.
        - *webhook*: saving the unchanged project makes Label Studio send PROJECT_UPDATED, and the backend
          must count one more accepted webhook. This proves the address, the network and the secret. It needs
          the backend's ``/metrics``; if they cannot be reached from here, the webhook is not tried.
        """
        yield from _guarded("health", self._health)
        yield from _guarded("webhook", lambda: self._webhook(backend))

    def prove_useful(self, audit: float) -> Iterator[Fact]:
        """Test what a connected backend can do.

        - *version*: the title, the answer of ``/setup`` and the project's model version are equal, and Label
          Studio asks this backend.
        - *prediction*: Label Studio sends a random task to the backend and returns the answer, unstored.

        ``audit`` is the share of tasks that are kept blind: they get none.
        """
        yield from _guarded("version", self._proof_version)
        yield from _guarded("prediction", lambda: self._prediction(audit))

    def _health(self) -> Fact:
        backend = _our_backend(self.client.backends(self.wanted.project), self.wanted)
        if backend["state"] in _STATES:
            text = _STATES[backend["state"]].format(url=self.wanted.url, error=backend.get("error_message"))
            return Fact("health", text, holds=False)
        return Fact("health", "Label Studio reaches the backend, and /setup answered")

    def _proof_version(self) -> Fact:
        backends = self.client.backends(self.wanted.project)
        backend = _our_backend(backends, self.wanted)
        if backends[0]["id"] != backend["id"]:
            first = f"{backends[0]['title']} at {backends[0]['url']}"
            text = f"Label Studio asks {first} instead: remove it in Settings > Model"
            return Fact("version", text, holds=False)
        shown = self.client.project(self.wanted.project).get("model_version")
        if {backend["title"], backend["model_version"], shown} == {self.wanted.title}:
            return Fact(
                "version",
                f"{self.wanted.title} is the title, the backend's version and the project's version",
            )
        text = (
            f"title {backend['title']!r}, backend {backend['model_version']!r} and project {shown!r} must be"
            " equal: give camvo connect the server's --config"
        )
        return Fact("version", text, holds=False)

    def _prediction(self, audit: float) -> Fact:
        if not self.client.count_tasks(self.wanted.project):
            return Fact(
                "prediction",
                "not tried, because the project has no tasks: import some and run camvo connect again",
                holds=None,
            )
        backend = _our_backend(self.client.backends(self.wanted.project), self.wanted)
        for _ in range(_TRIES):
            trial = self.client.try_backend(backend["id"])
            for answer in trial.get("response") or []:
                predictions = [answer] if isinstance(answer, dict) else answer
                if predictions and predictions[-1].get("score"):  # a doubtful label is not in it
                    return Fact(
                        "prediction", f"task {trial['task']['id']}: score {predictions[-1]['score']:.2f}"
                    )
        text = "the backend answered without a prediction: its log and GET /metrics have the reason"
        if audit:
            text += f", unless the {_TRIES} tasks that were tried are blind (audit: {audit:g})"
        return Fact("prediction", text, holds=None if audit else False)

    def _webhook(self, backend: BackendClient) -> Fact:
        if not backend.reachable():
            text = f"not tried, because {backend.url} cannot be reached from here: use a host that can"
            return Fact("webhook", text, holds=None)
        before = backend.project_updates()
        self.client.change_project(
            self.wanted.project, {"title": self.client.project(self.wanted.project)["title"]}
        )
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

    def connect_and_prove(self, backend: BackendClient, settings: Settings, report: _Report) -> bool | None:
        """Connect a project, and report the findings and the changes."""
        if not _all_hold(self.check(backend, settings), report):
            return None
        changed = self.connect(
            lambda name, text: report(Fact(name, text)),
            proved=lambda: _all_hold(self.prove_reachable(backend), report),
        )
        address, added = Tabs(self.client, self.wanted.project).ensure_overview(
            first=self.wanted.review_queue
        )
        report(Fact("tab", f"{OVERVIEW_TAB!r} {'added' if added else 'is there'}: {address}"))
        _all_hold(self.prove_useful(settings.audit), report)
        return changed or added

    def disconnect(self, say: _Say) -> bool:
        """Remove everything of CaMVo's and restore the settings; return whether anything was removed.

        A setting that was changed since is left alone. Predictions stay, because they belong to the project.
        """
        backends, webhooks = self._ours()
        for webhook in webhooks:
            self.client.remove_webhook(webhook["id"])
            say("webhook", f"{webhook['url']} removed")
        removed = Tabs(self.client, self.wanted.project).remove()
        for tab in removed:
            say("tab", f"{tab!r} removed")
        # Before the backends are removed: the settings to restore are in a backend's description.
        _restore(self.client, self.wanted.project, backends, say)
        for backend in backends:
            self.client.remove_backend(backend["id"])
            say("backend", f"{backend['title']} at {backend['url']} removed")
        return bool(webhooks or backends or removed)


def _instructions(project: Mapping[str, Any], settings: Settings) -> Fact:
    """What becomes of a project's labelling instructions."""
    text = project_instructions(project)
    if not text:
        return Fact("instructions", "the project has none, for annotators or for models")
    if not settings.project_instructions:
        return Fact("instructions", "models do not read them (project_instructions: false)")
    Pool(settings.models).require_room(text, "Settings > Instructions of the project")
    beside = ", before those of camvo.yaml" if (settings.instructions or "").strip() else ""
    _, alone = split_instructions(str(project.get("expert_instruction") or ""))
    part = f" above {FOR_PEOPLE_ONLY!r}" if alone else ""
    words = f"models read what annotators read{part}, {count_text(text):,} tokens{beside}"
    return Fact("instructions", words)


def _all_hold(facts: Iterable[Fact], report: _Report) -> bool:
    """Report facts as they come; return whether none of them fails."""
    hold = True
    for fact in facts:
        report(fact)
        hold &= fact.holds is not False
    return hold

"""The projects that a server predicts: what the ledger knows of each, and what Label Studio says of it."""

from __future__ import annotations

import json
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import Any, Final, TypeVar

import structlog
from sqlalchemy import Connection

from backend.errors import ConfigError, LedgerError
from backend.label_studio.client import Client
from backend.label_studio.payloads import PredictRequest, WebhookEvent, project_instructions
from backend.learning.projects import (
    asked_questions,
    is_new,
    project_settings,
    remember_project,
    require_known_labels,
    shown_instructions,
)
from backend.ledger import Ledger, projects
from backend.ledger.projects import Project, is_of_label_studio
from backend.models import Pool
from backend.questions import LabelConfig, parse_label_config
from backend.settings import Environment, Settings
from camvo.errors import CamvoError

_LOOK_UP: Final = 5.0
"""Seconds that Label Studio may take to say what a project's instructions are."""

_AGAIN: Final = 60.0
"""Seconds until it is asked again if it did not say."""

_REMEMBERED: Final = 1000
"""Projects, and texts of overrides, that a process remembers."""

_log = structlog.get_logger(__name__)

_Value = TypeVar("_Value")


class _Latest(OrderedDict[str, _Value]):
    """Values by name, those that were set last: a server sees new projects and instructions for months."""

    def __init__(self, most: int = _REMEMBERED) -> None:
        super().__init__()
        self._most, self._lock = most, threading.Lock()

    def __setitem__(self, name: str, value: _Value) -> None:
        with self._lock:
            super().__setitem__(name, value)
            self.move_to_end(name)
            while len(self) > self._most:
                self.popitem(last=False)


class ServedProjects:
    """Looks projects up in the ledger. The pool's models must have room for a project's instructions."""

    def __init__(
        self,
        ledger: Ledger,
        settings: Settings,
        *,
        write: Callable[[Callable[[Connection], object]], None],
        clock: Callable[[], float],
        pool: Pool,
        environment: Environment,
    ) -> None:
        self._ledger, self._settings, self._write, self._clock = ledger, settings, write, clock
        self._pool, self._environment = pool, environment
        self._by_overrides = _Latest[Settings]()
        self._looked_up = _Latest[float]()
        self._latest = _Latest[Project | None]()

    def settings(self, project: str) -> Settings:
        """The settings with a project's own overrides; one object for equal overrides.

        While the database is down, they are those of the project's last request.
        """
        try:
            with self._ledger.read() as connection:
                stored = projects.get(connection, project)
        except LedgerError as error:
            if not error.temporary or project not in self._latest:
                raise
            stored = self._latest.get(project)
        self._latest[project] = stored
        if stored is None or (stored.extra_params is None and not stored.instructions):
            return self._settings
        overrides = json.dumps([stored.extra_params, stored.instructions], sort_keys=True)
        own_settings = self._by_overrides.get(overrides)
        if own_settings is None:
            own_settings, problem = project_settings(stored, self._settings)
            if problem is not None:
                raise problem
        self._by_overrides[overrides] = own_settings
        return own_settings

    def to_predict(self, project: str) -> Settings:
        """The settings of a project that is to be predicted, with instructions that no webhook brought."""
        settings = self.settings(project)
        return self.settings(project) if self._look_up_instructions(project) else settings

    def requested(self, request: PredictRequest, config: LabelConfig) -> Settings:
        """Store what a request for predictions says of its project, unless the ledger holds the same.

        Reports and budgets need the questions and the number of tasks, and predictions neither: they do not
        fail while the database is down.
        """
        project, said = request.project, request.params
        if said.instructions is not None:
            self.remember_instructions(project, said.instructions)
        settings = self.to_predict(project)
        with suppress(LedgerError):
            known = self._latest.get(project)
            asked, new = asked_questions(config, shown_instructions(known, settings)), dict[str, Any]()
            if known is None or known.predicted != asked:
                new |= {"predicted": asked, "label_config": request.label_config}
            if said.tasks and (known is None or known.task_number != said.tasks):
                new["task_number"] = said.tasks
            if new:
                self._store(project, new)
        return settings

    def remember_instructions(self, project: str, instructions: str) -> None:
        """Store a project's labelling instructions, unless the ledger holds the same."""
        columns = {"instructions": instructions}
        with self._ledger.read() as connection:
            stored = projects.get(connection, project)
        if is_new(stored, columns):
            self._require_room(instructions)
            self._write(lambda connection: remember_project(connection, project, columns, self._clock()))

    def with_room(self, event: WebhookEvent) -> WebhookEvent:
        """The event, without instructions for which a model has no room: those before stay in force."""
        if event.instructions is None:
            return event
        try:
            self._require_room(event.instructions)
        except ConfigError as error:
            _log.error("instructions_refused", project=event.project_key, reason=str(error))
            return replace(event, instructions=None)
        return event

    def _require_room(self, instructions: str) -> None:
        if self._settings.project_instructions:
            self._pool.require_room(instructions, "the project's instructions in Label Studio")

    def _look_up_instructions(self, project: str) -> bool:
        """Ask Label Studio for the instructions of a project of which no webhook has brought them yet.

        Its ``/predict`` does not have them, and prompts without them would be paid for twice. Failures are
        logged, and the project is predicted without.
        """
        stored = self._latest.get(project)
        if stored is not None and stored.instructions is not None:
            return False
        access = self._environment.label_studio_access
        if access is None or not is_of_label_studio(project):
            return False
        recently = monotonic() - self._looked_up.get(project, -math.inf) < _AGAIN
        if recently or not self._settings.project_instructions:
            return False
        self._looked_up[project] = monotonic()
        try:
            found = Client(*access).project_by_key(project, timeout=_LOOK_UP)
            self.remember_instructions(project, project_instructions(found) or "")
        except CamvoError as error:
            _log.warning("instructions_unknown", project=project, code=error.code, reason=str(error))
            return False
        return True

    def remember(
        self, project: str, extra_params: Any, label_config: str | None = None, hostname: str | None = None
    ) -> None:
        """Store what ``/setup`` says: a project's ``extra_params`` and config, and Label Studio's address."""
        own = self._settings.for_project(extra_params)
        if label_config is not None and own.policy != self._settings.policy:
            require_known_labels(own, parse_label_config(label_config), "extra_params")
        said = {"extra_params": extra_params, "label_config": label_config, "hostname": hostname}
        self._store(project, said)

    def _store(self, project: str, columns: Mapping[str, Any]) -> None:
        """Store what is said of a project, unless the ledger holds the same."""
        with self._ledger.read() as connection:  # fails at once while the database is down, a write waits
            stored = projects.get(connection, project)
        if is_new(stored, columns):
            self._write(lambda connection: remember_project(connection, project, columns, self._clock()))

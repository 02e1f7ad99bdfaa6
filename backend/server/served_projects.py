"""The projects that one process serves: their settings, and what ``/setup`` says of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection

from backend.errors import LedgerError
from backend.learning.projects import asked_questions, is_new, project_settings, remember_project
from backend.ledger import Ledger, projects
from backend.ledger.projects import Project
from backend.questions import LabelConfig
from backend.settings import Settings
from backend.settings.policies import warn_of_implied_policy


class ServedProjects:
    """Looks projects up in the ledger.

    Args:
        ledger: where projects are read.
        settings: the server's settings.
        write: runs a function in a write transaction.
        clock: returns unix seconds.
    """

    def __init__(
        self,
        ledger: Ledger,
        settings: Settings,
        *,
        write: Callable[[Callable[[Connection], object]], None],
        clock: Callable[[], float],
    ) -> None:
        self._ledger, self._settings, self._write, self._clock = ledger, settings, write, clock
        self._by_overrides: dict[str, Settings] = {}
        self._latest: dict[str, Project | None] = {}
        self._predicted: dict[str, dict[str, str]] = {}

    def settings(self, project: str) -> Settings:
        """The settings with a project's own overrides; one object for equal overrides.

        While the database is down, they are those of the project's last request.

        Raises:
            ConfigError: the project's stored ``extra_params`` no longer fit the settings.
            LedgerError: the ledger cannot be read, and the project had no request yet.
        """
        try:
            with self._ledger.read() as connection:
                stored = projects.get(connection, project)
        except LedgerError as error:
            if not error.temporary or project not in self._latest:
                raise
            stored = self._latest[project]
        self._latest[project] = stored
        if stored is None or stored.extra_params is None:
            return self._settings
        overrides = json.dumps(stored.extra_params, sort_keys=True)
        if overrides not in self._by_overrides:
            own_settings, problem = project_settings(stored, self._settings)
            if problem is not None:
                raise problem
            warn_of_implied_policy(own_settings.policy, project)
            self._by_overrides[overrides] = own_settings
        return self._by_overrides[overrides]

    def remember_tasks(self, project: str, tasks: int) -> None:
        """Store how many tasks a project has in Label Studio, unless the ledger holds the same."""
        stored = self._latest.get(project)
        if stored is None or stored.task_number != tasks:
            columns = {"task_number": tasks}
            self._write(lambda connection: remember_project(connection, project, columns, self._clock()))

    def remember(
        self,
        project: str,
        extra_params: Any,
        label_config: str | None = None,
        hostname: str | None = None,
    ) -> None:
        """Store what ``/setup`` says: a project's ``extra_params``, its config, and Label Studio's address.

        Raises:
            ConfigError: the ``extra_params`` do not fit the settings; the stored ones stay.
        """
        self._settings.for_project(extra_params)
        columns = {"extra_params": extra_params, "label_config": label_config, "hostname": hostname}
        with self._ledger.read() as connection:
            stored = projects.get(connection, project)
        if is_new(stored, columns):
            self._write(lambda connection: remember_project(connection, project, columns, self._clock()))

    def note_predicted(self, project: str, config: LabelConfig, label_config: str) -> None:
        """Store the config of the project's latest predictions and its questions, if they are new.

        A report only needs it, so predictions do not fail while the database is down.
        """
        asked = asked_questions(config)
        if self._predicted.get(project) == asked:
            return
        with suppress(LedgerError):
            with self._ledger.read() as connection:
                stored = projects.get(connection, project)
            columns = {"predicted": asked, "label_config": label_config}
            if is_new(stored, columns):
                self._write(lambda connection: remember_project(connection, project, columns, self._clock()))
            self._predicted[project] = asked

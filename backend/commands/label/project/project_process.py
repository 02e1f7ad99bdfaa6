"""The process of a run, and the settings of the project that it labels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from backend.errors import ConfigError
from backend.learning.projects import project_settings, remember_project
from backend.ledger import projects
from backend.models.embedder.embedder import Embedder
from backend.runtime.annotation_process import AnnotationProcess
from backend.settings import Environment, Settings


@contextmanager
def asking_nobody(
    settings: Settings, environment: Environment, embedder: Embedder | None = None
) -> Iterator[AnnotationProcess]:
    """A process that reads the ledger and counts tokens, and needs no keys."""
    process = AnnotationProcess(settings, environment, embedder=embedder)
    try:
        yield process
    finally:
        process.close()


@contextmanager
def annotation_process(
    settings: Settings, environment: Environment, embedder: Embedder | None = None
) -> Iterator[AnnotationProcess]:
    """A started process whose models all have a key.

    Raises:
        ConfigError: a key is missing.
    """
    process = AnnotationProcess(settings, environment, embedder=embedder)
    process.start()
    try:
        if missing := process.pool.missing_keys():
            raise ConfigError(f"not set: {', '.join(missing)}", fix="set these variables")
        process.embedder.load()
        yield process
    finally:
        process.store_paid_answers(0.0)
        process.close()


def remembered_settings(
    process: AnnotationProcess,
    project: str,
    label_config: str,
    settings: Settings,
    tasks: int | None = None,
) -> Settings:
    """Store what is known of a project, and return its own settings.

    Args:
        process: where it is annotated.
        project: its name.
        label_config: its label config, by which people's labels are read later.
        settings: those of every project.
        tasks: how many tasks it has, so that its budget lasts for all of them; ``None`` if that is unknown.

    Raises:
        ConfigError: the project's stored ``extra_params`` no longer fit the settings.
    """
    with process.ledger.write() as connection:
        columns = {"label_config": label_config} | ({} if tasks is None else {"task_number": tasks})
        remember_project(connection, project, columns, process.clock())
        own_settings, problem = project_settings(projects.get(connection, project), settings)
    if problem is not None:
        raise problem
    return own_settings

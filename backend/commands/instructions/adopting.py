"""A text of ``camvo refine`` becomes the project's instructions in Label Studio."""

from __future__ import annotations

import shlex
from contextlib import closing
from pathlib import Path

from rich.console import Console

from backend import settings as settings_module
from backend.commands.instructions.asking import read_instructions
from backend.commands.instructions.writing import change_instructions, with_new_text
from backend.commands.shared import backend_client
from backend.commands.shared.setup import environment_with
from backend.errors import ConfigError
from backend.label_studio.payloads import project_key
from backend.learning.projects import project_settings
from backend.ledger import Ledger, projects
from backend.ledger.projects import Project
from backend.questions.objects import instructions_text
from backend.settings import Environment, Settings


def how_to_adopt(text: str | Path, number: int | None, config: Path | None = None) -> str:
    """What to do to adopt a text.

    Args:
        text: the file.
        number: the project whose instructions in Label Studio models read; ``None`` if they read others.
        config: the settings' file, if one was named.
    """
    if number is not None:
        command = ["camvo", "refine", "--project", str(number), "--adopt", str(text)]
        return f"to adopt it: {shlex.join(command + (['--config', str(config)] if config else []))}"
    return f"to adopt it, set instructions in camvo.yaml to the content of {text}"


def adopt_text(
    number: int,
    path: Path | None,
    config: Path | None,
    label_studio: str | None,
    console: Console,
    *,
    yes: bool,
) -> None:
    """Write a text into a project's instructions in Label Studio, in place of the one that models read.

    Args:
        number: the project's number.
        path: the file of the text; ``None`` for the one before the present one.
        config: the settings' file.
        label_studio: Label Studio's address.
        console: where the change is shown.
        yes: whether it was agreed to.

    Raises:
        ConfigError: the text cannot be read, is empty or is not known; models do not read the project's
            instructions; the change was not agreed to; or Label Studio stores another text.
    """
    option = "--adopt" if path is not None else "--take-back"
    text = None if path is None else read_instructions(path, option)
    environment = environment_with(config)
    client = backend_client.label_studio_client(label_studio, environment)
    project = client.project(number)
    written = str(project.get("expert_instruction") or "")
    own, stored = _stored(project_key(project), environment)
    text = _text_before(stored, written) if text is None else text
    if text is None:
        raise ConfigError(
            f"the ledger knows no earlier instructions of project {number}",
            where=option,
            fix="give a file with them: --adopt FILE",
        )
    if not own.project_instructions:
        raise ConfigError(
            f"models do not read the instructions of project {number} (project_instructions: false); nothing"
            " was changed",
            where=option,
            fix=how_to_adopt(path or "the text before", None).removeprefix("to adopt it, "),
        )
    new = with_new_text(written, text)
    change_instructions(client, number, written, new, text, console, yes=yes, where=option)
    console.print(
        f"project {number}: the instructions are changed, which is another epoch: tasks keep their labels"
        " until models are asked again. Answers and labels that this text has got already cost nothing;"
        f" camvo quote --project {number} says what the others cost",
        highlight=False,
        soft_wrap=True,
    )


def _text_before(stored: Project | None, written: str) -> str | None:
    """The instructions before those that Label Studio has, which the ledger may not have seen yet."""
    if stored is None:
        return None
    return (
        stored.earlier_instructions
        if instructions_text(written) == stored.instructions
        else stored.instructions
    )


def _stored(key: str, environment: Environment) -> tuple[Settings, Project | None]:
    """A project's settings, and what the ledger knows of it; without anything, the settings of the file."""
    settings = settings_module.load(environment.config)
    with closing(Ledger(environment.database_url)) as ledger:
        if not ledger.exists():
            return settings, None
        ledger.migrate()
        with ledger.read() as connection:
            stored = projects.get(connection, key)
            own, _ = project_settings(stored, settings)
            return own, stored

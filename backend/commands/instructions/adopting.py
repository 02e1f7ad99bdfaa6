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
    number: int, path: Path, config: Path | None, label_studio: str | None, console: Console, *, yes: bool
) -> None:
    """Write a text into a project's instructions in Label Studio, in place of the one that models read.

    Raises:
        ConfigError: the text cannot be read or is empty; models do not read the project's instructions; the
            change was not agreed to; or Label Studio stores another text.
    """
    text = read_instructions(path, "--adopt")
    environment = environment_with(config)
    client = backend_client.label_studio_client(label_studio, environment)
    project = client.project(number)
    if not _own_settings(project_key(project), environment).project_instructions:
        raise ConfigError(
            f"models do not read the instructions of project {number} (project_instructions: false); nothing"
            " was changed",
            where="--adopt",
            fix=how_to_adopt(path, None).removeprefix("to adopt it, "),
        )
    written = str(project.get("expert_instruction") or "")
    new = with_new_text(written, text)
    change_instructions(client, number, written, new, text, console, yes=yes, where="--adopt")
    console.print(
        f"project {number}: the instructions are changed, which begins a new epoch: tasks are asked about"
        " again when they are predicted next. Answers that were bought to judge the text are kept;"
        f" camvo quote --project {number} says what the others cost",
        highlight=False,
        soft_wrap=True,
    )


def _own_settings(key: str, environment: Environment) -> Settings:
    """A project's settings; those of ``camvo.yaml`` if the ledger does not know it."""
    settings = settings_module.load(environment.config)
    with closing(Ledger(environment.database_url)) as ledger:
        if not ledger.exists():
            return settings
        ledger.migrate()
        with ledger.read() as connection:
            return project_settings(projects.get(connection, key), settings)[0]

"""A text of ``camvo refine``, or an earlier one, becomes the project's instructions in Label Studio."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from sqlalchemy import Connection

from backend import settings as settings_module
from backend.commands.instructions.asking import read_instructions
from backend.commands.instructions.codebook import change_instructions, with_new_text
from backend.commands.shared import backend_client
from backend.commands.shared.output import plain_table
from backend.commands.shared.setup import environment_with
from backend.errors import ConfigError
from backend.label_studio.payloads import project_key
from backend.learning.projects import project_settings, stored_questions
from backend.ledger import Ledger, projects
from backend.ledger.decided import EpochSummary, epoch_summary
from backend.ledger.projects import DatedText, Project
from backend.ledger.schemes import Schemes
from backend.questions import ConfigQuestion
from backend.questions.label_config import epoch_of
from backend.questions.objects import instructions_text
from backend.questions.redaction import redactor_named
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
    text_id: str | None = None,
) -> None:
    """Write a text into a project's instructions in Label Studio, in place of the one that models read.

    Args:
        number: the project's number.
        path: the file of the text; ``None`` for the one before the present one.
        config: the settings' file.
        label_studio: Label Studio's address.
        console: where the change is shown.
        yes: whether it was agreed to.
        text_id: that of an earlier text; ``None`` for the latest one.

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
    own, earlier = _stored(project_key(project), environment, written)
    if text is None:
        text = _chosen(number, earlier, text_id, console)
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


@dataclass(frozen=True, slots=True)
class _EarlierText:
    """Instructions that a project has had, and the labels that come back with them."""

    dated: DatedText
    found: EpochSummary

    @property
    def row(self) -> list[str]:
        """Its row in the table; the text itself is not shown."""
        labels, scores, judged, right = self.found
        since = datetime.fromtimestamp(self.dated.begun_at, UTC).strftime("%Y-%m-%d %H:%M")
        score = f"{scores / labels:.2f}" if labels else "-"
        return [
            self.dated.id,
            since,
            f"{labels:,}",
            score,
            f"{right / judged:.1%} of {judged:,}" if judged else "-",
        ]


def _chosen(number: int, earlier: Sequence[_EarlierText], text_id: str | None, console: Console) -> str:
    """The text to take back: the latest, or the one with an id. All are listed."""
    if not earlier:
        raise ConfigError(
            f"the ledger knows no earlier instructions of project {number}",
            where="--take-back",
            fix="give a file with them: --adopt FILE",
        )
    table = plain_table("text", "since (UTC)", "labels", "score", "right")
    for each in earlier:
        table.add_row(*each.row)
    console.print(table)
    found = [each for each in earlier if text_id is None or each.dated.id.startswith(text_id)]
    if not found or (text_id is not None and len(found) > 1):
        raise ConfigError(
            f"{text_id!r} is the id of {len(found) or 'none'} of the earlier texts of project {number}",
            where="--text",
            fix=f"one of {', '.join(each.dated.id for each in earlier)}",
        )
    return found[0].dated.text


def _stored(key: str, environment: Environment, written: str) -> tuple[Settings, list[_EarlierText]]:
    """A project's settings, and its texts but the one in Label Studio, which the ledger may not know yet."""
    settings = settings_module.load(environment.config)
    with closing(Ledger(environment.database_url)) as ledger:
        if not ledger.exists():
            return settings, []
        ledger.migrate()
        with ledger.read() as connection:
            stored = projects.get(connection, key)
            own, _ = project_settings(stored, settings)
            if stored is None:
                return own, []
            now = instructions_text(written)
            texts = [dated for dated in projects.dated_texts(connection, key) if dated.text != now]
            return own, [
                _EarlierText(dated, _summary(connection, replace(stored, instructions=dated.text), settings))
                for dated in texts
            ]


def _summary(connection: Connection, stored: Project, settings: Settings) -> EpochSummary:
    """The labels of a project's questions under its instructions, which need not be the present ones."""
    own, _ = project_settings(stored, settings)
    schemes, questions = Schemes(connection, stored.key).latest(), stored_questions(stored) or ()
    found = [
        epoch_summary(connection, stored.key, each.name, _epoch(each, own, schemes[each.name].embedder))
        for each in questions
        if each.name in schemes
    ]
    return EpochSummary(*map(sum, zip(*found, strict=True))) if found else EpochSummary(0, 0.0, 0, 0.0)


def _epoch(question: ConfigQuestion, own: Settings, embedder: str) -> str:
    return epoch_of(question, own.instructions, embedder, redactor_named(own.redact))

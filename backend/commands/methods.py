"""``camvo report --methods``: what a reviewer or an auditor asks about a project's labels, as Markdown.

The page is made of the ledger and the settings alone: the same two give the same bytes. It holds no text of a
task and names no annotator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.markup import escape

from backend import settings as settings_module
from backend.commands.shared.certificate import Contents, contents_of, labelled_project
from backend.commands.shared.setup import existing_ledger
from backend.datasets.sinks import check_writable, whole_file
from backend.errors import TaskError
from backend.learning.projects import project_settings, stored_questions
from backend.ledger.answers import AnsweringVersion, versions_of
from backend.ledger.rounds import ProjectRounds
from backend.questions import ConfigQuestion
from backend.questions.objects import Field
from backend.questions.prompts.messages import content_parts, prompt_messages
from backend.questions.question import asked_together
from backend.server.status import question_reports
from backend.server.status.formats import templates
from backend.server.status.report import ProjectReport
from backend.settings import Environment, Settings


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A prompt, with a placeholder in place of each field of the task."""

    questions: Sequence[str]
    messages: Sequence[tuple[str, str]]


def write_methods(console: Console, environment: Environment, project: str | None, path: Path) -> None:
    """Write the methods page of a project.

    Raises:
        ConfigError: the project is unknown, or has no label; or the file cannot be written.
    """
    check_writable(path)
    settings = settings_module.load(environment.config)
    with existing_ledger(environment, migrated=True) as ledger, ledger.read() as connection:
        stored, found = labelled_project(connection, settings, project, "--methods")
        own, _ = project_settings(stored, settings)
        page = _render(
            found,
            contents_of(connection, stored, settings),
            own,
            versions_of(connection, stored.key),
            _prompts(stored_questions(stored) or (), own),
            ProjectRounds(connection, stored.key).created_between(),
        )
    with whole_file(path) as file:
        file.write(page.encode())
    console.print(f"wrote {escape(str(path))}: the methods of project {escape(found.id)}", highlight=False)


def _prompts(questions: Sequence[ConfigQuestion], settings: Settings) -> list[_Prompt]:
    """The prompts about all questions; none about those whose options come with the task."""
    fields = {field.key: _placeholder(field) for question in questions for field in question.fields}
    about = []
    for question in questions:
        try:
            about.append(question.about(fields))
        except TaskError:
            continue
    return [
        _Prompt(
            [question.name for question in together],
            [
                (message["role"], "\n".join(map(_words, content_parts(message))))
                for message in prompt_messages(together, settings.instructions)
            ],
        )
        for together in asked_together(about)
    ]


def _words(part: dict[str, Any]) -> str:
    return str(part["text"]) if part["type"] == "text" else "(the image)"


def _placeholder(field: Field) -> object:
    """A value of the field's kind that says which field it is."""
    words = f"⟨{field.key}⟩"
    match field.tag:
        case "Paragraphs" | "Chat":
            return [{field.name_key: "⟨speaker⟩", field.text_key: words}]
        case "List":
            return [{"id": str(number), "title": f"{words} {number}"} for number in (1, 2)]
        case "Table":
            return {"⟨key⟩": words}
    return words


_FENCE: Final = "~~~~"


def _render(  # noqa: PLR0917 - the parts of the page
    project: ProjectReport,
    contents: Contents,
    settings: Settings,
    versions: Sequence[AnsweringVersion],
    prompts: Sequence[_Prompt],
    between: tuple[float, float],
) -> str:
    return (
        templates(
            "backend.commands",
            "resources",
            markdown=True,
            beyond_chance=question_reports.beyond_chance,
            points=question_reports.points,
            cell=_cell,
        )
        .get_template("methods.md")
        .render(
            project=project,
            contents=contents,
            audit=settings.audit,
            few_shot=settings.few_shot,
            versions=versions,
            prompts=prompts,
            models={model.name: model for model in project.models},
            between=between,
            questions=project.current,
            fence=_FENCE,
            camvo=metadata.version("camvo"),
            litellm=metadata.version("litellm"),
        )
    )


def _cell(text: object) -> str:
    """A text as a cell of a Markdown table."""
    return str(text).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")

"""Label Studio's own templates, each with a made-up task, scripted answers and the prediction that they give.

Label Studio has a virtual environment of its own (``tests/e2e/label_studio.py``), so its package is looked
for there, too.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from backend.label_studio.predictions import _prediction
from backend.questions import ConfigQuestion, LabelConfig, TaskQuestion, parse_label_config
from backend.questions.objects import Field
from backend.questions.prompts.answers import parse_answer
from backend.questions.prompts.messages import prompt_messages, texts_of
from backend.questions.question import questions_to_ask

MISSING = "label-studio is not installed, which holds the templates: tests/e2e/label_studio.py installs it"
"""Why tests of templates are skipped."""

WORDS = "Anna paid 20 euros in Rome"
"""The text of every task; spans are marked on its first word."""

PICTURE = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"


@dataclass(frozen=True)
class Template:
    """A template: ``name`` is its folder, with ``config.xml`` where that differs from what is offered."""

    name: str
    xml: str

    @property
    def config(self) -> LabelConfig:
        return parse_label_config(self.xml)


def folder() -> Path | None:
    """The folder of the templates; ``None`` if Label Studio is not installed."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    chosen = os.environ.get("CAMVO_LABEL_STUDIO_VENV")
    environments = [Path(chosen)] if chosen else sorted((cache / "camvo").glob("label-studio-*"))
    packages = [each for env in environments for each in env.glob("lib/python*/site-packages/label_studio")]
    found = importlib.util.find_spec("label_studio")
    packages += [Path(each) for each in (found.submodule_search_locations or () if found else ())]
    folders = [each / "annotation_templates" for each in packages]
    return next((each for each in folders if each.is_dir()), None)


def templates() -> Iterator[Template]:
    """All templates, in the order of their folders."""
    root = folder()
    assert root is not None, MISSING
    for path in sorted(root.glob("*/*/config.*"), key=lambda path: (path.parent, path.suffix != ".yml")):
        name = path.parent.relative_to(root).as_posix()
        if path.suffix == ".yml":
            if xml := yaml.safe_load(path.read_text("utf-8")).get("config"):
                yield Template(name, xml)
        elif path.suffix == ".xml":
            yield Template(f"{name}/config.xml", path.read_text("utf-8"))


def task_of(config: LabelConfig) -> dict[str, Any]:
    """A task's data with a value for every field of the page."""
    fields = {field.key: field for question in config.questions for field in question.fields}
    data: dict[str, Any] = {part.text: WORDS for part in config.page if part.kind == "field"}
    return data | {key: _content(field) for key, field in fields.items()}


def _content(field: Field) -> object:
    turn = {field.name_key: "Bob", field.text_key: WORDS}
    match field.tag:
        case "Paragraphs" | "Chat":
            return [turn, turn]
        case "List":
            return [{"id": "1", "title": "One"}, {"id": "2", "title": "Two"}]
        case "Table":
            return {"name": WORDS}
        case "HyperText":
            return f"<p>{WORDS}</p>"
        case "Image":
            return PICTURE
        case _:
            return WORDS


def _answer(schema: Mapping[str, Any], question: TaskQuestion) -> Any:
    """The first answer that a JSON schema allows."""
    return schema["enum"][0] if "enum" in schema else _free_answer(schema, question)


def _free_answer(schema: Mapping[str, Any], question: TaskQuestion) -> Any:
    match schema["type"]:
        case "object":
            return {key: _answer(each, question) for key, each in schema["properties"].items()}
        case "array" if schema["items"].get("properties", {}).keys() >= {"quote", "label"}:
            label = schema["items"]["properties"]["label"]["enum"][0]
            return [{"quote": "Anna", "before": "", "label": label}]
        case "array" if question.config.tag == "Ranker":
            return list(question.options)
        case "array":
            return [_answer(schema["items"], question)]
        case "integer" | "number":
            return schema.get("minimum", 1)
        case _:
            return "2024-05-17" if question.config.tag == "DateTime" else "Two words"


@dataclass(frozen=True)
class Run:
    """What became of a template.

    Attributes:
        prompts: the prompts, in the order in which they were asked.
        asked: the questions that were asked.
        prediction: the prediction.
    """

    prompts: Sequence[str]
    asked: Sequence[str]
    prediction: Mapping[str, Any]


def run(config: LabelConfig) -> Run:
    """Ask a template's questions about a made-up task; every answer is the first that its schema allows."""
    data = task_of(config)
    questions = [question.about(data) for question in config.questions]
    answers: dict[str, str] = {}
    prompts: list[str] = []
    while ready := questions_to_ask(config.questions, answers):
        shown = [question for question in questions if question.name in ready]
        prompts.append("\n".join(texts_of(prompt_messages(shown, None))))
        said = {
            question.name: _answer(question.config.control.answer_format.schema, question)
            for question in shown
        }
        answers |= parse_answer(json.dumps(said), shown)
    decided = [(question, answers[question.name], 0.9) for question in questions if question.name in answers]
    return Run(prompts, list(answers), _prediction(decided, "camvo"))


PAGE = Path(__file__).parents[2] / "docs" / "tags.md"
"""The page with the table of templates."""


_WHOLE = "all controls | –"
"""The cells of a template without a control that stays blank."""


_NEEDS_WORDS = "– | no `camvo_instructions`"
"""The cells of a template that stays blank until an attribute is added."""


def table() -> str:
    """The table of all templates, in Markdown; those that come to the same share a row."""
    rows: dict[str, dict[str, None]] = {}
    offered: dict[str, str] = {}
    for template in templates():
        folder_, cells = template.name.removesuffix("/config.xml"), _cells(template)
        if offered.setdefault(folder_, cells) != cells:
            folder_ = template.name
        if cells == _NEEDS_WORDS or not cells.startswith("–"):
            rows.setdefault(cells, {})[folder_] = None
    head = "| templates | get predictions | stay blank: what is not supported |\n|---|---|---|\n"
    whole_first = sorted(rows.items(), key=lambda row: row[0] != _WHOLE)
    named = [f"| {', '.join(names)} | {cells} |" for cells, names in whole_first]
    return head + "\n".join([*named, "| all others | – | [see above](#what-is-skipped) |"])


def _cells(template: Template) -> str:
    """What gets predictions and what does not; no control is named where all are alike."""
    config = template.config
    if config.questions:
        run(config)  # a template that cannot be predicted has no row
    asked = [f"`{question.name}`" + _condition(question) for question in config.questions]
    blank: dict[str, list[str]] = {}
    for skipped in config.skipped:
        blank.setdefault(_brief(_cell(skipped.reason)), []).append(f"`{skipped.control}`")
    if not blank:
        return _WHOLE
    if not asked:
        return f"– | {'; '.join(blank)}"
    return f"{_few(asked)} | {'; '.join(f'{_few(names)}: {reason}' for reason, names in blank.items())}"


_BRIEF = {
    r"a TextArea is asked only with camvo_instructions.*": "no `camvo_instructions`",
    r'it is attached to "\w+", and (\w+) is not supported yet': r"on \1",
    r"perRegion is not supported for (\w+): regions are only given Choices": r"\1 per region",
    r"perRegion on (\w+) is not supported: only regions of a text are predicted": r"per region of a \1",
    r"choices that come from the task's data are not supported yet": "choices in the task's data",
    r"the messages that annotators add to a Chat are not voted on": "written by annotators",
    r"(.+) is not supported yet": r"\1",
}
"""The reasons of many templates → their form in the table, whose heading says the rest."""


def _brief(reason: str) -> str:
    """A reason as the table writes it."""
    for long, short in _BRIEF.items():
        if (found := re.fullmatch(long, reason)) is not None:
            return found.expand(short)
    return reason


def _condition(question: ConfigQuestion) -> str:
    return f" (if {_cell(' and '.join(map(str, question.conditions)))})" if question.conditions else ""


def _few(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")

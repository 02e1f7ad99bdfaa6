"""One task's prompt, answers and labels, printed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from backend import settings as settings_module
from backend.annotation.inspection import InspectedTask, ShownAnswer, ShownPrompt
from backend.annotation.job import Job
from backend.commands.bulk.process import annotation_process, ledger_to_read
from backend.commands.shared import backend_client
from backend.commands.shared.arguments import ChosenTasks, quiet_environment
from backend.commands.shared.options import LabelOptions
from backend.commands.shared.output import say
from backend.datasets.sources import open_source
from backend.datasets.tasks import DatasetTask
from backend.errors import ConfigError
from backend.label_studio import payloads
from backend.label_studio.client import Client
from backend.learning.projects import project_settings
from backend.ledger import migrate, projects
from backend.questions import LabelConfig, parse_label_config
from backend.server.status.formats import dollars, moment, seconds
from backend.settings import Environment


def show_task(chosen: ChosenTasks, task: str, *, as_json: bool) -> None:
    """Print a task of a file, or of a Label Studio project by its number."""
    source, environment = chosen.source, quiet_environment(chosen.config)
    if isinstance(source, int):
        client = backend_client.label_studio_client(chosen.label_studio, environment)
        found = _inspect_project_task(client, source, task, environment)
        name = f"task {task} of project {source}"
    else:
        found = _inspect_file_task(source, task, chosen.options, environment)
        name = f"{source.name}, task {task}"
    if as_json:
        print(json.dumps(asdict(found), indent=2, ensure_ascii=False))  # noqa: T201 - the output
    else:
        _print_task(Console(), found, name)


def _inspect_project_task(client: Client, number: int, task: str, environment: Environment) -> InspectedTask:
    """Inspect a task of a project of Label Studio."""
    payload = client.project(number)
    raw = client.tasks(number, [int(task)]) if task.isdecimal() else []
    parsed = payloads.parse_task(raw[0]) if raw else None
    if parsed is None:
        raise ConfigError(
            f"project {number} has no task {task!r}",
            where="--task",
            fix="give the number that the Data Manager shows in the column ID",
        )
    config = parse_label_config(payload["label_config"])
    environment = environment.model_copy(update={"label_studio_url": client.url})
    return _inspect(payloads.project_key(payload), *parsed, config, environment)


def _inspect_file_task(
    path: Path, task: str, options: LabelOptions, environment: Environment
) -> InspectedTask:
    """Inspect a row of a file, by its id or its place."""
    source = open_source(path)
    dataset = options.dataset(source)
    found = _row_named(task, dataset.all_tasks())
    if found is None:
        raise ConfigError(
            f"no row has the id {task!r}, and none begins on this line",
            where="--task",
            fix="give an id as in the column camvo_id, or the number of a line",
        )
    project = options.project(source.path)
    return _inspect(project, found.number, found.data, dataset.config, environment)


def _row_named(task: str, tasks: Iterable[DatasetTask]) -> DatasetTask | None:
    """The row with this id; if none has it, the one on this line."""
    on_line = None
    for found in tasks:
        if found.id == task:
            return found
        place = found.row.place  # such as "line 7"
        if on_line is None and task in {place, place.rpartition(" ")[2]}:
            on_line = found
    return on_line


def _inspect(
    project: str, task: int, data: Mapping[str, Any], config: LabelConfig, environment: Environment
) -> InspectedTask:
    settings = settings_module.load(environment.config)
    with ledger_to_read(environment) as of_ledger:
        migrate(of_ledger.database_url)
        with annotation_process(settings, of_ledger, asking=False) as process:
            with process.ledger.read() as connection:
                own, problem = project_settings(projects.get(connection, project), settings)
            if problem is not None:
                raise problem
            job = Job(project, task, data, config, own)
            return asyncio.run(process.inspector.inspect(project, task, job))


def _print_task(console: Console, found: InspectedTask, name: str) -> None:
    """Print a task that was inspected."""
    console.rule(f"[bold]{escape(name)}")
    for label in found.labels:
        votes = ", ".join(f"{model} {vote or '–'}" for model, vote in label.votes.items())
        said = "" if label.human is None else f"; people say {label.human}"
        _print(console, f"{label.question}: {label.label}, score {label.score:.2f}{said}\n  votes: {votes}")
    if found.problem is not None:
        _print(console, found.problem)
    for prompt in found.prompts:
        _print_prompt(console, prompt)
    if found.answers:
        console.rule("answers")
    elif found.problem is None:
        _print(console, f"\n{found.no_answers}")
    for answer in found.answers:
        _print_answer(console, answer)


def _print_prompt(console: Console, prompt: ShownPrompt) -> None:
    models = ", ".join(f"{model} (about {dollars(price)})" for model, price in prompt.models.items())
    console.rule(f"to {escape(models)}" + (", with other tasks" if prompt.together else ""))
    for message in prompt.messages:
        console.print(f"[bold]{escape(message.role)}[/]")
        _print(console, message.text)


def _print_answer(console: Console, answer: ShownAnswer) -> None:
    votes = ", ".join(f"{question} {vote}" for question, vote in answer.votes.items())
    facts = [dollars(answer.price), seconds(answer.seconds), moment(answer.at)]
    if answer.sent != "unknown" and answer.content is not None:
        facts.append(f"to {answer.sent}")
    if answer.shared:
        facts.append("bought for another task with the same prompt")
    read = escape(votes or answer.code or "not read")
    say(console, f"[bold]{escape(answer.model)}[/]: {read}  [dim]{'  '.join(facts)}[/]", markup=True)
    if answer.content is not None:
        _print(console, answer.content)


def _print(console: Console, text: str) -> None:
    """Print a text as it is, but for characters that would steer the terminal."""
    harmless = (
        sign if sign.isprintable() or sign in "\n\t" else "\N{REPLACEMENT CHARACTER}" for sign in text
    )
    say(console, "".join(harmless))

"""The page of all commands, made from what ``--help`` says.

    python docs/site_commands.py            # writes docs/commands.md

``tests/test_commands_page.py`` fails if the page is not what this would write.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer.main

from backend.cli import app
from backend.commands.shared.arguments import TasksOf

PAGE = Path(__file__).with_name("commands.md")

_HEAD = """# Commands

Every command with its options; `camvo COMMAND --help` says more.

An expected error is one line on standard error, with exit code 2, or 5 if a disk is full. Exit code 1 means
that something is left to do, and 130 that the command was interrupted.
"""


_KINDS = {"Path": "PATH", "str": "TEXT", "int": "NUMBER", "float": "NUMBER", "list[str]": "TEXT"}
"""What the help calls the kinds of values."""

_TASKS = {field.name for field in fields(TasksOf)}
"""The options of commands about the tasks of a file or a project."""

_SHARED = 2
"""An option with the same words in so many commands is described once."""


def commands(group: Any = None, path: str = "camvo") -> Iterator[tuple[str, Any]]:
    """Yield each command with its full name, in the order of the help."""
    group = typer.main.get_command(app) if group is None else group
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def page() -> str:
    """Return the page."""
    counted = Counter(
        (each.name, _item(each))
        for _, command in commands()
        for each in _parameters(command)
        if not each.required
    )
    most: dict[str, str] = {}  # one option may mean several things; the most frequent one is shared
    for (name, item), count in counted.most_common():
        if count >= _SHARED:
            most.setdefault(name, item)
    shared = dict.fromkeys(most.values())
    sections = (_section(name, command, shared) for name, command in commands())
    tasks = dict.fromkeys(
        _item(each) for each in _parameters(dict(commands())["camvo quote"]) if each.name in _TASKS
    )
    others = [item for item in shared if item not in tasks]
    options = ["## Options of several commands", "", *others, "", "### Which tasks", "", *tasks, ""]
    return "\n".join([_HEAD, *options, *sections])


def _section(name: str, command: Any, shared: Mapping[str, None]) -> str:
    prose, _, example = command.help.partition("Example:")
    summary = " ".join(prose.strip().partition("\n\n")[0].split())
    lines = [f"## {name}", "", summary, "", "```sh", " ".join(example.split()), "```", ""]
    parameters = _parameters(command)
    if {each.name for each in parameters} >= _TASKS:
        parameters = [each for each in parameters if each.name not in _TASKS]
        lines.append("- [which tasks](#which-tasks)")
    items = {_item(each): each.opts[0] for each in parameters}
    also = ", ".join(f"`{option}`" for item, option in items.items() if item in shared)
    lines += [item for item in items if item not in shared]
    if also:
        lines.append(f"- [also](#options-of-several-commands): {also}")
    return "\n".join([*lines, ""])


def _parameters(command: Any) -> list[Any]:
    """The arguments of a command, then its options."""
    options = [each for each in command.params if each.param_type_name == "option" and not each.hidden]
    return [*(each for each in command.params if each.param_type_name == "argument"), *options]


def _item(parameter: Any) -> str:
    default = _default(parameter)
    meaning = " ".join((parameter.help or "").split())
    return f"- {_form(parameter)}: {meaning}" + (f" [{default}]" if default else "")


def _form(parameter: Any) -> str:
    """An option with the kind of its value, or an argument in capitals."""
    if parameter.param_type_name == "argument":
        return f"`{parameter.name.upper()}`"
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    if parameter.is_flag:
        return names
    return f"{names} {parameter.metavar or _kind(parameter)}"


def _kind(parameter: Any) -> str:
    """What the option takes: its choices, or the kind of its value."""
    annotation = parameter.type_descriptor.annotation
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(f"`{choice}`" for choice in get_args(annotation))
    kind: str = parameter.bare_type()
    return _KINDS.get(kind, kind)


def _default(parameter: Any) -> str:
    shown = parameter.show_default
    if parameter.required:
        return "required"
    if isinstance(shown, str):
        return f"default: {shown}"
    value = parameter.default
    if value is None or callable(value) or value is False or shown is False or value in ((), []):
        return ""
    return "default: " + (", ".join(value) if isinstance(value, list) else f"{value}")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")

"""The page of all commands is what ``--help`` says, and options mean the same everywhere."""

from __future__ import annotations

import importlib.util
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parent.parent / "docs"


def _module() -> Any:
    spec = importlib.util.spec_from_file_location("site_commands", DOCS / "site_commands.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["site_commands"] = module
    spec.loader.exec_module(module)
    return module


SITE = _module()
COMMANDS = dict(SITE.commands())


def test_the_page_is_what_the_help_says() -> None:
    assert (DOCS / "commands.md").read_text("utf-8") == SITE.page(), "run: python docs/site_commands.py"


def test_the_page_lists_the_choices_of_an_option() -> None:
    assert "`--engine` one of `asyncio`, `ray`" in SITE.page()
    assert "typing." not in SITE.page()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_has_an_example_of_the_command(name: str) -> None:
    _, _, example = COMMANDS[name].help.partition("Example:")
    assert name in " ".join(example.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_an_example_has_no_option_that_the_command_lacks(name: str) -> None:
    _, _, example = COMMANDS[name].help.partition("Example:")
    known = {option for parameter in COMMANDS[name].params for option in parameter.opts}
    given = {word for word in example.split() if word.startswith("--")}
    assert given <= known


def test_an_option_takes_the_same_kind_of_value_in_every_command() -> None:
    kinds: dict[str, set[str]] = defaultdict(set)
    for command in COMMANDS.values():
        for parameter in command.params:
            if parameter.param_type_name == "option":
                kind = "flag" if parameter.is_flag else parameter.bare_type()
                kinds[parameter.opts[0]].add(kind)
    assert {option: kind for option, kind in kinds.items() if len(kind) > 1} == KNOWN


KNOWN: dict[str, set[str]] = {
    "--json": {"flag", "Path"},  # a replay keeps its table on the terminal
    "--out": {"Path", "str"},  # with an engine, the address of a folder in an object store
    "--project": {"int", "str"},  # the ledger also knows projects of files, by name
    "--task": {"int", "str"},  # a row of a file has an id
}
"""Options with several kinds of values, each with a reason beside it."""

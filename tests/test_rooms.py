"""The rooms of both packages: their order, imports that only go downwards, and names that are used."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent

ROOMS = {
    "camvo": (
        "errors",
        "typing",
        "numerics",
        "twins",
        "votes",
        "student",
        "state",
        "subsets",
        "annotators",
        "joint",
        "stages",
        "policies",
        "questions",
        "scores",
        "shares",
        "replays",
        "quotes",
    ),
    "backend": (
        "errors",
        "threads",
        "telemetry",
        "charts",
        "settings",
        "ledger",
        "questions",
        "datasets",
        "models",
        "label_studio",
        "learning",
        "annotation",
        "recounting",
        "runtime",
        "quotes",
        "upkeep",
        "server",
        "commands",
        "cli",
    ),
}
"""The rooms of each package, lowest first: a room imports itself and the rooms before it."""

TOP = {
    "camvo": {"__init__", "errors", "typing"},
    "backend": {"__init__", "__main__", "cli", "errors", "notebook", "testing", "threads"},
}
"""The files that may lie beside the rooms; those that are no room of the order are on top of all rooms."""

STAND_ALONE = {"backend.testing": {"backend.errors", "backend.settings"}}
"""Modules outside the order: no room imports them, and they import only the modules given here."""


CIRCLES: Mapping[frozenset[str], str] = {
    frozenset({"backend.questions", "backend.questions.prompts", "backend.questions.tags"}): (
        "tags read a label config, and prompts show it; both are made of questions"
    ),
    frozenset({"backend.models", "backend.models.batches"}): (
        "the pool hands out each model's provider of batches, and a provider sends what a model would be sent"
    ),
}
"""The circles of folders that are known, each with its reason. The list may only shrink."""

MOST_LINES = 450
"""The most lines of code in a module, without docstrings and empty lines."""

LONG: Mapping[str, str] = {
    "backend.ledger.database.tables": "the schema is one table of contents",
    "backend.server.status.report": "the report's schema is one table of contents",
}
"""Modules with more, each with its reason."""

FEW_LINES = 60
"""A module with fewer lines of code, and one importer in its own folder, belongs into that importer."""

SHORT: Mapping[str, str] = {
    "backend.questions.tags": "one file for each tag",
    "backend.ledger.database.bounded_connection": "it needs the extra [postgres]",
}
"""Modules, and folders of them, that may be shorter, each with its reason."""


class Import(NamedTuple):
    """One module of ours imports another."""

    importer: str
    line: int
    imported: str

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


@cache
def modules() -> dict[str, Path]:
    """Every module and package of camvo and backend: dotted name → file."""
    files = (file for package in ROOMS for file in (ROOT / package).rglob("*.py"))
    return {
        ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
        for file in files
    }


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text())


def names_of(node: ast.Import | ast.ImportFrom, importer: str) -> Iterator[str]:
    """The dotted names that one import statement could load."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    source = node.module or ""
    if node.level:
        is_package = modules()[importer].name == "__init__.py"
        parts = importer.split(".")
        parts = parts[: len(parts) - node.level + is_package]
        source = ".".join([*parts, *([source] if source else [])])
    for alias in node.names:
        yield f"{source}.{alias.name}" if f"{source}.{alias.name}" in modules() else source


@cache
def imports() -> tuple[Import, ...]:
    """Every import of ours: at the top, in functions, and under ``TYPE_CHECKING``."""
    return tuple(
        Import(importer, node.lineno, name)
        for importer in modules()
        for node in ast.walk(tree_of(importer))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in names_of(node, importer)
        if name in modules()
    )


def is_within(module: str, folder: str) -> bool:
    """Whether a module is the one named, or inside the package named."""
    return module == folder or module.startswith(f"{folder}.")


def floor(module: str) -> int:
    """The position of a module's room: camvo's rooms and its face first, then backend's."""
    package, *rest = module.split(".")
    rooms = ROOMS[package]
    height = rooms.index(rest[0]) if rest and rest[0] in rooms else len(rooms)
    return height + (package == "backend") * (len(ROOMS["camvo"]) + 1)


def is_stand_alone(module: str) -> bool:
    return any(is_within(module, name) for name in STAND_ALONE)


def loaded_by(item: Import) -> Iterator[str]:
    """The module imported and the packages around it that Python runs first; not those the importer is in."""
    name = item.imported
    yield name
    while name := name.rpartition(".")[0]:
        if not is_within(item.importer, name):
            yield name


def find_circle(edges: Mapping[str, Iterable[str]]) -> list[str]:
    """One circle of imports, the first module again at the end; empty if there is none."""
    try:
        TopologicalSorter(edges).prepare()
    except CycleError as error:
        circle: list[str] = error.args[1]
        return circle
    return []


@pytest.mark.parametrize("package", ROOMS)
def test_the_rooms_in_the_order_and_the_files_beside_them_are_all_there_is(package: str) -> None:
    inside = {path.stem for path in (ROOT / package).iterdir() if path.is_dir() or path.suffix == ".py"}
    assert set(ROOMS[package]) - inside == set()
    assert inside - {"__pycache__", *ROOMS[package], *TOP[package]} == set()


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for path in modules().values()}
    assert {folder for folder in folders if not (folder / "__init__.py").exists()} == set()


def test_no_module_imports_upwards() -> None:
    upwards = [
        str(item)
        for item in imports()
        if not is_stand_alone(item.importer)
        and (is_stand_alone(item.imported) or floor(item.imported) > floor(item.importer))
    ]
    assert upwards == []


@pytest.mark.parametrize("module", STAND_ALONE)
def test_a_stand_alone_module_imports_only_what_it_may(module: str) -> None:
    others = {
        str(item)
        for item in imports()
        if is_within(item.importer, module)
        and not any(is_within(item.imported, allowed) for allowed in (module, *STAND_ALONE[module]))
    }
    assert others == set()


def test_no_import_is_part_of_a_circle() -> None:
    edges: dict[str, set[str]] = {}
    for item in imports():
        edges.setdefault(item.importer, set()).update(loaded_by(item))
    assert find_circle(edges) == []


def test_no_module_imports_the_face_of_a_package_it_is_in() -> None:
    """Python loads a package before its modules, so such an import sees a package that is half loaded."""
    own = [str(item) for item in imports() if is_within(item.importer, item.imported)]
    assert own == []


def folder_of(module: str) -> str:
    return ".".join(modules()[module].relative_to(ROOT).parent.parts)


def circles_of(edges: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """The largest sets of folders that reach one another."""

    def reached(start: str) -> set[str]:
        found: set[str] = set()
        ahead = [start]
        while ahead:
            new = edges.get(ahead.pop(), set()) - found
            found |= new
            ahead += new
        return found

    reach = {folder: reached(folder) for folder in edges}
    return {
        frozenset({other for other in ahead if folder in reach.get(other, ())} | {folder})
        for folder, ahead in reach.items()
        if folder in ahead
    }


def lines_of_code(module: str) -> int:
    text = modules()[module].read_text()
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    strings = [
        ast.get_docstring(node, clean=False)
        for node in ast.walk(tree_of(module))
        if isinstance(node, documented)
    ]
    return sum(bool(line.strip()) for line in text.splitlines()) - sum(
        string.count("\n") + 1 for string in strings if string
    )


def test_folders_form_no_circle_but_the_known_ones() -> None:
    """The two packages themselves are left out: their face and the command line lie there."""
    edges: dict[str, set[str]] = {}
    for item in imports():
        importer, imported = folder_of(item.importer), folder_of(item.imported)
        if importer != imported and "." in importer and "." in imported:
            edges.setdefault(importer, set()).add(imported)
    assert circles_of(edges) == set(CIRCLES)


def test_every_module_that_a_docstring_names_as_a_file_exists() -> None:
    """``_wsgi.py`` is Label Studio's."""
    files = {path.name for path in modules().values()} | {"_wsgi.py"}
    named = {
        (module, name)
        for module, path in modules().items()
        for name in re.findall(r"``(?:[\w/]+/)?(\w+\.py)``", path.read_text())
    }
    assert {each for each in named if each[1] not in files} == set()


def test_no_module_is_long_without_a_reason() -> None:
    assert {module for module in modules() if lines_of_code(module) > MOST_LINES} == set(LONG)


def test_no_module_is_a_sliver_of_its_only_importer() -> None:
    importers: dict[str, set[str]] = {}
    for item in imports():
        importers.setdefault(item.imported, set()).add(item.importer)
    slivers = {
        module
        for module, users in importers.items()
        if len(users) == 1
        and folder_of(module) == folder_of(*users)
        and modules()[module].name != "__init__.py"
        and lines_of_code(module) < FEW_LINES
    }
    assert {module for module in slivers if not {module, folder_of(module)} & set(SHORT)} == set()


USED_UNSEEN: Mapping[str, str] = {
    "backend.__main__": "the command in pyproject.toml",
    "backend.server.camvo_model": "label-studio-ml loads the class from the file",
    "backend.ledger.migrations.versions": "Alembic calls upgrade and downgrade",
}
"""Modules, and folders of them, whose public names are used by somebody who does not name them."""


def code_of_users() -> Iterator[tuple[str, ast.Module]]:
    """The code that may use a public name, and the examples of pages, each with the path of its file."""
    for module, file in modules().items():
        yield str(file), tree_of(module)
    for folder in ("tests", "benchmarks", ".ci"):
        for file in (ROOT / folder).rglob("*.py"):
            yield str(file), ast.parse(file.read_text())
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for example in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
            yield str(page), ast.parse(textwrap.dedent(example))


def names_used(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The module and the name of everything that some code imports by name, or reads from a module."""
    aliases: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield node.module, alias.name
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            yield aliases[node.value.id], node.attr


def public_names(module: str) -> set[str]:
    """The public functions and classes of a module that no framework is handed by a decorator."""
    return {
        node.name
        for node in tree_of(module).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not any(
            isinstance(mark, ast.Call) and isinstance(mark.func, ast.Attribute)
            for mark in node.decorator_list
        )
    }


def test_every_public_name_has_a_user_outside_its_module() -> None:
    users: dict[tuple[str, str], set[str]] = {}
    for path, tree in code_of_users():
        for used in names_used(tree):
            users.setdefault(used, set()).add(path)
    own = {
        module: {
            name
            for name in public_names(module)
            if not users.get((module, name), set()) - {str(modules()[module])}
        }
        for module in modules()
        if not any(is_within(module, folder) for folder in USED_UNSEEN)
    }
    assert {module: names for module, names in own.items() if names} == {}


def test_no_two_public_classes_have_the_same_name() -> None:
    """One word means one thing in the whole repository."""
    places: dict[str, list[str]] = {}
    for module in modules():
        for node in tree_of(module).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(module)
    assert {name: files for name, files in places.items() if len(files) > 1} == {}

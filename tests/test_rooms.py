"""The rooms of both packages: their order, imports that only go downwards, and no circles between modules."""

from __future__ import annotations

import ast
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
    "backend": {"__init__", "__main__", "cli", "errors", "notebook", "testing"},
}
"""The files that may lie beside the rooms; those that are no room of the order are on top of all rooms."""

STAND_ALONE = {"backend.testing": {"backend.errors", "backend.settings"}}
"""Modules outside the order: no room imports them, and they import only the modules given here."""


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
        for importer, file in modules().items()
        for node in ast.walk(ast.parse(file.read_text()))
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

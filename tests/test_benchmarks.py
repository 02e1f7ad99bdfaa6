"""The benchmarks are programs that nobody runs daily, so at least what they import must exist."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAMS = sorted((ROOT / "benchmarks").rglob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_benchmark_imports_from_the_product_exists(program: Path) -> None:
    missing = [
        f"{line.module}.{alias.name}"
        for line in ast.walk(ast.parse(program.read_text()))
        if isinstance(line, ast.ImportFrom) and (line.module or "").startswith(("camvo.", "backend."))
        for alias in line.names
        if not _exists(line.module or "", alias.name)
    ]
    assert not missing


def _exists(module: str, name: str) -> bool:
    try:
        if hasattr(importlib.import_module(module), name):
            return True
        importlib.import_module(f"{module}.{name}")
    except ModuleNotFoundError:
        return False
    return True

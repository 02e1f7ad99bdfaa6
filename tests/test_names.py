"""Every public class has a name of its own, so that one word means one thing in the whole repository."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent


def public_classes() -> dict[str, list[str]]:
    """Each public class of camvo and backend at the top of its module: name → the modules that define it."""
    places: dict[str, list[str]] = defaultdict(list)
    for package in ("camvo", "backend"):
        for file in sorted((ROOT / package).rglob("*.py")):
            for node in ast.parse(file.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(file.relative_to(ROOT).as_posix())
    return places


def test_no_two_public_classes_have_the_same_name() -> None:
    repeated = {name: files for name, files in public_classes().items() if len(files) > 1}
    assert repeated == {}

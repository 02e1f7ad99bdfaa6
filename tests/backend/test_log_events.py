"""Every event that is logged as an error is explained where an operator looks for it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def _events() -> Iterator[str]:
    """The names given to ``log.error(…)``, and to what logs an error under the name that it is given."""
    for module in (ROOT / "backend").rglob("*.py"):
        code = module.read_text("utf-8")
        if re.search(r"\.\s*error\b|\bfailure\s*=", code) is None:
            continue  # parsing all modules takes a second, in each test process
        for node in ast.walk(ast.parse(code)):
            if not isinstance(node, ast.Call):
                continue
            logged = node.args[:1] if getattr(node.func, "attr", None) == "error" else []
            named = [option.value for option in node.keywords if option.arg == "failure"]
            for name in (*logged, *named):
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    yield name.value


EVENTS = sorted({*_events(), "no_prediction"})  # whose level depends on the error
PAGES = "\n".join(page.read_text("utf-8") for page in (ROOT / "docs").glob("*.md"))


def test_the_events_are_found() -> None:
    assert {"ledger_down", "scores_not_fitted"} <= set(EVENTS)


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_at_error_level_is_in_the_docs(event: str) -> None:
    assert re.search(rf"`{event}`", PAGES)

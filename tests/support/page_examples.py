"""The Python examples of a page of documentation, run one after the other as its reader would.

As a program it runs those of the pages that are its arguments, apart from examples that import the backend.
"""

from __future__ import annotations

import doctest
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_BLOCK = re.compile(r"^( *)```(?:python|pycon)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)


def examples(page: Path) -> Iterator[str]:
    """The Python blocks of a page, without the indentation that a list gives them."""
    for block in _BLOCK.finditer(page.read_text("utf-8")):
        yield re.sub(rf"^{block[1]}", "", block[2], flags=re.MULTILINE)


def what_a_reader_has() -> dict[str, Any]:
    """What a page may leave to its reader: an embedding of 384 numbers, and models that answer."""
    return {"embedding": [1.0] + [0.0] * 383, "call": lambda model: "pos"}


def run_example(example: str, names: dict[str, Any], where: str) -> None:
    """Run a block as a program, or as a session where it begins with a prompt."""
    if not example.lstrip().startswith(">>>"):
        exec(compile(example, where, "exec"), names)  # noqa: S102 - our own documentation
        return
    test = doctest.DocTestParser().get_doctest(example, names, where, where, 0)
    report: list[str] = []
    result = doctest.DocTestRunner().run(test, out=report.append, clear_globs=False)
    names |= test.globs
    assert result.failed == 0, "".join(report)


def run_page(page: Path, *, core_only: bool = False) -> int:
    """Run the examples of a page; returns how many there were."""
    chosen = [example for example in examples(page) if not (core_only and "backend" in example)]
    names = what_a_reader_has()
    for number, example in enumerate(chosen, start=1):
        run_example(example, names, f"{page.name}, Python block {number}")
    return len(chosen)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        run_page(Path(argument), core_only=True)

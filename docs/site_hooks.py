"""Checks of the documentation site that ``mkdocs build --strict`` turns into failures.

Every name that ``camvo`` exports must have a docstring of its own, and an entry on the page of the library
reference. Every public method of an exported class must have a docstring, too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).parent.parent
log = logging.getLogger("mkdocs.hooks.public_names")


def undocumented(name: str, value: griffe.Object | griffe.Alias) -> Iterator[str]:
    """Yield the exported name, and the public methods of an exported class, that have no docstring."""
    if not value.has_docstring:
        yield name
    if value.is_class:
        for member, method in value.members.items():
            if not member.startswith("_") and method.is_function and not method.has_docstring:
                yield f"{name}.{member}"


def on_post_build(config: Any) -> None:
    """Warn of public names without a docstring or without an entry on the reference page."""
    page = (Path(config["site_dir"]) / "reference" / "index.html").read_text("utf-8")
    package = griffe.load("camvo", search_paths=[ROOT])
    for export in package.exports or ():
        name = str(export)
        for path in undocumented(name, package[name]):
            log.warning("camvo.%s has no docstring", path)
        if f'id="camvo.{name}"' not in page:
            log.warning("camvo.%s is missing from docs/reference.md", name)

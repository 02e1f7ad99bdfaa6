"""Checks of the documentation site that ``mkdocs build --strict`` turns into failures.

Every name that ``camvo`` exports must have a docstring and an entry on the page of the library reference.
"""

from __future__ import annotations

import importlib
import inspect
import logging
from pathlib import Path
from typing import Any

log = logging.getLogger("mkdocs.hooks.public_names")


def on_post_build(config: Any) -> None:
    """Warn of every public name without a docstring of its own or without an entry on the reference page."""
    page = (Path(config["site_dir"]) / "reference" / "index.html").read_text("utf-8")
    library = importlib.import_module("camvo")
    for name in getattr(library, "__all__", ()):
        value = getattr(library, name)
        if inspect.isroutine(value) or inspect.isclass(value):
            if not inspect.getdoc(value):
                log.warning("camvo.%s has no docstring", name)
            if f'id="camvo.{name}"' not in page:
                log.warning("camvo.%s is missing from docs/reference.md", name)

"""A Griffe extension for the site: docstrings are written for Python's own tools, the site shows Markdown."""

from __future__ import annotations

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"^([ \t]*)>>> .*(?:\n(?![ \t]*$).*)*", re.MULTILINE)
_ROLE = re.compile(r":\w+:`~?([\w.]+)`")
_PUBLIC_NAME = re.compile(r"camvo\.(?:[A-Z]\w*|replay)")


def _fence(doctest: re.Match[str]) -> str:
    return f"{doctest[1]}```pycon\n{doctest[0]}\n{doctest[1]}```"


def _link(role: re.Match[str]) -> str:
    name = role[1]
    return f"[`{name}`][{name}]" if _PUBLIC_NAME.fullmatch(name) else f"`{name}`"


class Markdown(griffe.Extension):
    """Turn doctests into code blocks, and Sphinx roles into links to the library reference or into code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of one module, class or function."""
        if obj.docstring is not None:
            obj.docstring.value = _ROLE.sub(_link, _DOCTEST.sub(_fence, obj.docstring.value))

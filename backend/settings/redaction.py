"""The function that ``redact`` names in ``camvo.yaml``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TypeAlias

from backend.errors import ConfigError

Edit: TypeAlias = tuple[int, int, str]
"""What to replace: where it starts and ends in the text, in characters, and what stands there instead."""

RedactFunction: TypeAlias = Callable[[str], Sequence[Edit]]
"""Takes a text, returns what to replace in it. The edits must not overlap."""


def load_redact_function(name: str) -> RedactFunction:
    """Import the function ``module:function``.

    Raises:
        ConfigError: the name has another form, the module cannot be imported, or there is no such function.
    """
    module, _, function = name.partition(":")
    if not module or not function:
        raise ConfigError(f"{name!r} does not name a function", fix="give it as module:function")
    try:
        loaded = getattr(importlib.import_module(module), function, None)
    except Exception as error:  # a module may raise anything when it is imported
        raise ConfigError(
            f"{module!r} cannot be imported ({type(error).__name__}: {error})",
            fix="install the module, or put its folder on PYTHONPATH; the built-in one needs camvo[redact]",
        ) from None
    if not callable(loaded):
        raise ConfigError(f"{module!r} has no function {function!r}", fix="correct the name")
    return loaded  # type: ignore[no-any-return]  # what a function returns is checked at each call

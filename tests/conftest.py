"""What every test runs under."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from hypothesis import settings

settings.register_profile("any machine", deadline=None)  # how quick it is, no test may ask
settings.load_profile("any machine")


class _Loggers(dict[str, Any]):
    """All loggers, to be walked over while other threads make new ones.

    pytest walks over them before each phase of each test, and fails the test when a library that a backend
    imports in a thread of its own makes a logger meanwhile.
    """

    def values(self) -> Iterator[Any]:  # type: ignore[override]  # whoever asks only walks over them
        return iter(tuple(super().values()))


logging.root.manager.loggerDict = _Loggers(logging.root.manager.loggerDict)

"""How much work something is, counted in calls: two counts compare the same on every machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def count_calls(function: Callable[[], object]) -> int:
    """Count the functions that a call of ``function`` calls in this thread, those written in C included.

    Imports and first uses of a cache count, too: a test that compares two counts calls the function before.
    """
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(before)
    return calls

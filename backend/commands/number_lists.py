"""Comma-separated lists of numbers, as options take them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from backend.errors import ReplayError

_Number = TypeVar("_Number", int, float)


def decimals(text: str, option: str) -> list[float]:
    """Parse a comma-separated list of finite numbers.

    Raises:
        ReplayError: the text is not such a list.
    """
    numbers = _parse(text, option, float, "numbers", "0.9,0.95")
    if not all(math.isfinite(number) for number in numbers):
        raise ReplayError(f"{text!r} has a value that is not finite", where=option, fix="give e.g. 0.9,0.95")
    return numbers


def integers(text: str, option: str) -> list[int]:
    """Parse a comma-separated list of whole numbers.

    Raises:
        ReplayError: the text is not such a list.
    """
    return _parse(text, option, int, "whole numbers", "1,3")


def _parse(
    text: str, option: str, number: Callable[[str], _Number], what: str, example: str
) -> list[_Number]:
    try:
        return [number(part) for part in text.split(",")]
    except ValueError as error:
        raise ReplayError(
            f"{text!r} is not a list of {what}", where=option, fix=f"give e.g. {example}"
        ) from error

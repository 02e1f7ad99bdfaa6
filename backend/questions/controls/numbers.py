"""Numbers, as Rating and Number store them: a vote is the number in digits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backend.questions.controls.control import Item, Request, Shown, content
from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Aggregation
from camvo.votes.numbers import NumericVote, read_number, write_number
from camvo.votes.open_numbers import LARGEST_MAGNITUDE, OpenNumericVote

_STEP_ERROR = 1e-8
"""How far from a step the editor lets a number be."""


@dataclass(frozen=True, slots=True)
class NumberControl:
    """A number within bounds.

    Attributes:
        key: where Label Studio's value keeps it: ``{"number": 7}``.
        low: the least possible value.
        high: the greatest.
        step: numbers are low (or 0) + n·step; ``None`` allows all.
        tolerance: the error that is worth nothing, ``None`` for the aggregation's own.
    """

    key: str
    low: float | None = None
    high: float | None = None
    step: float | None = None
    tolerance: float | None = None

    @property
    def aggregation(self) -> Aggregation:
        """The weighted median; its scale is the range, where there is one."""
        if self.low is None or self.high is None:
            return OpenNumericVote(self.low, self.high, self.step, self.tolerance)
        scale = None if self.tolerance is None else min(self.tolerance, self.high - self.low)
        return NumericVote(self.low, self.high, "median", scale, self.step)

    @property
    def request(self) -> Request:
        """A JSON number. Bounds stand in the words only, as not every provider takes them in a schema."""
        whole = self.step is not None and all(float(end or 0.0).is_integer() for end in (self.low, self.step))
        parts = [
            "Give a whole number" if whole else "Give a number",
            "" if self.low is None else f"from {self.low:.15g}",
            "" if self.high is None else f"up to {self.high:.15g}",
            "" if self.step in {None, 1.0} else f"in steps of {self.step:.15g}",
        ]
        rule = " ".join(part for part in parts if part) + ", in digits and without a unit."
        return Request(rule, "<number>", {"type": "integer" if whole else "number"})

    def options(self, _: Shown) -> tuple[str, ...]:
        """None: numbers are not listed."""
        return ()

    def vote(self, given: object, _: Shown) -> str | None:
        """The number, if it is within the bounds and on a step."""
        return self._canonical(given)

    def items(self, vote: str, _: Shown) -> list[dict[str, Any]]:
        """One item with the number."""
        value = read_number(vote)
        return [{"value": {self.key: int(value) if value.is_integer() else value}}]

    def answer(self, items: Sequence[Item]) -> str | None:
        """The number."""
        given = content(items, self.key)
        return None if isinstance(given, str) else self._canonical(given)

    def _canonical(self, given: object) -> str | None:
        if isinstance(given, bool) or not isinstance(given, int | float | str):
            return None
        try:
            value = read_number(str(given))
        except InvalidParameterError:
            return None
        if not self._allows(value):
            return None
        return write_number(value)

    def _allows(self, value: float) -> bool:
        low, high = (
            (-math.inf if self.low is None else self.low),
            (math.inf if self.high is None else self.high),
        )
        if not low <= value <= high or abs(value) > LARGEST_MAGNITUDE:
            return False
        if self.step is None:
            return True
        above = value - (self.low or 0.0)
        return abs(above - round(above / self.step) * self.step) <= _STEP_ERROR

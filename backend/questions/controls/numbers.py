"""Numbers, as Rating and Number store them; a vote is the number in digits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backend.questions.controls.control import AnswerFormat, ResultItem, TaskContent, item_content
from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Aggregation
from camvo.votes.numbers import LARGEST_MAGNITUDE, NumericVote, read_number, write_number
from camvo.votes.open_numbers import OpenNumericVote

_STEP_ERROR = 1e-8
"""The distance from a step that the editor accepts."""


@dataclass(frozen=True, slots=True)
class NumberControl:
    """A number within bounds.

    Attributes:
        key: the entry of a result item's value that holds the number: ``{"number": 7}``.
        low: the smallest allowed value; ``None`` for no bound.
        high: the largest allowed value; ``None`` for no bound.
        step: numbers are low (or 0) + n·step; ``None`` allows all numbers.
        tolerance: the error at which an answer earns nothing; ``None`` for the aggregation's default.
    """

    key: str
    low: float | None = None
    high: float | None = None
    step: float | None = None
    tolerance: float | None = None

    @property
    def aggregation(self) -> Aggregation:
        """The weighted median. Its scale is the range if both bounds are set."""
        if self.low is None or self.high is None:
            return OpenNumericVote(self.low, self.high, self.step, self.tolerance)
        scale = None if self.tolerance is None else min(self.tolerance, self.high - self.low)
        return NumericVote(self.low, self.high, "median", scale, self.step)

    @property
    def answer_format(self) -> AnswerFormat:
        """A JSON number. The rule states the bounds, as not every provider accepts them in a schema."""
        whole = self.step is not None and all(float(end or 0.0).is_integer() for end in (self.low, self.step))
        parts = [
            "Give a whole number" if whole else "Give a number",
            "" if self.low is None else f"from {self.low:.15g}",
            "" if self.high is None else f"up to {self.high:.15g}",
            "" if self.step in {None, 1.0} else f"in steps of {self.step:.15g}",
        ]
        rule = " ".join(part for part in parts if part) + ", in digits and without a unit."
        return AnswerFormat(rule, "<number>", {"type": "integer" if whole else "number"})

    def options(self, _: TaskContent) -> tuple[str, ...]:
        """Return nothing: numbers are not listed."""
        return ()

    def vote_from_answer(self, answer: object, _: TaskContent) -> str | None:
        """Return the number if it is within the bounds and on a step."""
        return self._canonical(answer)

    def result_items(self, vote: str, _: TaskContent) -> list[dict[str, Any]]:
        """Return one item with the number."""
        value = read_number(vote)
        return [{"value": {self.key: int(value) if value.is_integer() else value}}]

    def vote_from_annotation(self, items: Sequence[ResultItem]) -> str | None:
        """Return the number that the annotator entered."""
        number = item_content(items, self.key)
        return None if isinstance(number, str) else self._canonical(number)

    def _canonical(self, number: object) -> str | None:
        if isinstance(number, bool) or not isinstance(number, int | float | str):
            return None
        try:
            value = read_number(str(number))
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

"""How one task is asked about for the stacked vote; frozen before anyone has voted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from camvo.stages.stack_stops import Stops
from camvo.stages.stages import teachers
from camvo.weights.stacking import StackedVote


@dataclass(frozen=True, slots=True)
class Course:
    """How one question is asked about: the ``stack`` decides, the ``stops`` say where to pause and to stop.

    A question whose votes are no labels has no stack: everyone is asked.
    """

    stack: StackedVote | None
    stops: Stops

    def describe(self) -> dict[str, Any]:
        """As plain JSON; a stage that is never the last has ``null`` for the margin that would be enough."""
        least = [margin if math.isfinite(margin) else None for margin in self.stops.least[:-1]]
        stages = {"upto": list(self.stops.upto), "least": least, "scores": [*map(list, self.stops.scores)]}
        if self.stack is None:
            return {"stops": stages}
        return {"stops": stages, "stack": self.stack.describe()}


@dataclass(frozen=True, slots=True)
class Courses:
    """How all questions of a task are asked about. It goes on while any of them wants to.

    Attributes:
        order: the arms in the order in which they are asked.
        everyone: whether a coin had everyone asked, at once and whatever the votes.
        chance: the probability with which the coin says so.
        of: question → its course.
    """

    order: tuple[str, ...]
    everyone: bool
    chance: float
    of: Mapping[str, Course]

    @property
    def first(self) -> tuple[str, ...]:
        """The arms that are asked whatever the votes."""
        return self.order[: max(course.stops.upto[0] for course in self.of.values())]

    def teachers(self, *, human: bool) -> frozenset[str]:
        """The :func:`camvo.stages.stages.teachers` of a round that is asked about like this."""
        return teachers(self.order, len(self.first), human=human)

    def describe(self, question: str) -> dict[str, Any]:
        """One question's part of a plan's description, as plain JSON."""
        stages = {
            "order": list(self.order),
            "coin": "everyone" if self.everyone else "nobody",
            "propensity": self.chance,
            "first": len(self.first),
            "kept": None if self.of[question].stack is None else "everyone",
        }
        return {"stages": stages, **self.of[question].describe()}

"""The quote for asking again about tasks that have a label: about all, those below a score, or none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from backend.server.status.formats import count, dollars

ALL: Final = 1.0
"""The score below which every task counts, also one that is certain."""

LEVELS: Final = (0.5, 0.7, 0.9, ALL)
"""The scores for which the quote says how many tasks are below."""


def is_below(score: float, level: float) -> bool:
    """Whether a score is below a level; every score is below 1."""
    return score < level or level >= ALL


@dataclass(slots=True)
class ScoreLevels:
    """How many tasks have a score below each level."""

    tasks: Counter[float] = field(default_factory=Counter)

    def add(self, score: float) -> None:
        """Count a task."""
        self.tasks.update(level for level in LEVELS if is_below(score, level))

    def lines(self, usd: float) -> Iterator[str]:
        """The quote as sentences.

        Args:
            usd: the price of a task, in $.
        """
        for level in LEVELS:
            number = self.tasks[level]
            which = "all" if level >= ALL else f"those with a score below {level:g}"
            yield f"  --below {level:g}: {which}, {count(number)} for about {dollars(number * usd)}"

"""Which tasks hold a wanted share of those with a label: what is known of it, as reports say it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from camvo.scores.recall import LabelFound, labels_to_find


@dataclass(frozen=True, slots=True)
class FoundTasks:
    """The tasks that hold a share of those with a label (:mod:`camvo.scores.recall`).

    Attributes:
        target: the share.
        sure: the threshold of the label's score, and what it rests on.
        tasks: the number of tasks from that score on.
    """

    target: float
    sure: LabelFound
    tasks: int


@dataclass(frozen=True, slots=True)
class RecallReport:
    """Which tasks hold the wanted share of those with one label (docs/recall.md).

    Attributes:
        label: the label.
        target: the share that must be found.
        tasks: the tasks that the blind labels speak for.
        beyond: other tasks.
        blind: the blind tasks of the sample.
        labelled: how many of them have the label by people.
        found: the tasks that hold the target; ``None`` while that is not certified.
        easier: those that hold lower shares.
    """

    label: str
    target: float
    tasks: int = 0
    beyond: int = 0
    blind: int = 0
    labelled: int = 0
    found: FoundTasks | None = None
    easier: tuple[FoundTasks, ...] = ()

    @property
    def needed(self) -> int:
        """About how many more blind labels certify the target; 0 if it is certified."""
        if self.found is not None:
            return 0
        missing = max(labels_to_find(self.target) - self.labelled, 1)
        return math.ceil(missing * (self.blind + 2) / (self.labelled + 1))

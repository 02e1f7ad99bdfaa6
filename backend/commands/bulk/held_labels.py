"""Labels that tasks got under earlier instructions, which they keep unless somebody pays for asking again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from backend.annotation.job import JobQuestion
from backend.learning.label_schemes import Asked, earlier_epochs
from backend.ledger.rounds import Round, RoundKey
from backend.questions import LabelConfig
from backend.runtime import AnnotationProcess
from backend.server.status.formats import count, dollars
from backend.settings import Settings

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


@dataclass(frozen=True, slots=True)
class HeldLabels:
    """The labels of earlier instructions that tasks keep.

    Attributes:
        epochs: question → its epochs under earlier instructions, the latest first.
        below: tasks with a lower score are asked about again; 1 for all, 0 for none.
    """

    epochs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    below: float = 0.0

    @classmethod
    def of(
        cls, process: AnnotationProcess, project: str, config: LabelConfig, settings: Settings, below: float
    ) -> HeldLabels:
        """Look up which epochs of a project had other instructions and asked the same."""
        asked = Asked(config, settings.instructions, process.embedder.identity, settings.redact)
        with process.ledger.read() as connection:
            return cls(earlier_epochs(connection, project, asked), below)

    def keys(self, questions: Sequence[JobQuestion]) -> list[RoundKey]:
        """The rounds that questions may have had under earlier instructions."""
        return [
            replace(question.key, epoch=epoch)
            for question in questions
            for epoch in self.epochs.get(question.name, ())
        ]

    def of_task(
        self, questions: Sequence[JobQuestion], found: Mapping[RoundKey, Round]
    ) -> dict[RoundKey, Round]:
        """The rounds of earlier instructions that a task has; none unless all its questions have one."""
        held = {}
        for question in questions:
            earlier = (found[key] for key in self.keys([question]) if key in found)
            if question.key not in found and (round_ := next(earlier, None)) is not None:
                held[question.key] = round_
        return held if all(each.key in found or each.key in held for each in questions) else {}

    def keeps(self, held: Mapping[RoundKey, Round]) -> bool:
        """Whether a task keeps these labels: also a low score if people have labelled it."""
        return self.below < ALL and not any(
            round_.human is None and is_below(round_.score, self.below) for round_ in held.values()
        )


NONE_HELD: Final = HeldLabels()
"""No task keeps a label of earlier instructions."""


def count_held(levels: ScoreLevels, held: Mapping[RoundKey, Round]) -> None:
    """Count a task with labels of earlier instructions by its least certain one that nobody has labelled.

    Tasks that people have labelled keep theirs unless all are asked about again.
    """
    if held:
        levels.add(min((round_.score for round_ in held.values() if round_.human is None), default=ALL))

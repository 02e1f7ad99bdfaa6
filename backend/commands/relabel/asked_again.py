"""Which tasks are asked about again after labels were split or added, and about what that costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from backend.learning.concerned import Concern
from backend.ledger.decided import DecidedTask
from backend.server.status import formats
from camvo.votes.relabelling import Relabelling

LEVELS: Final = (1.0, 0.9, 0.7, 0.5)
"""The scores for which a quote says how many tasks are below."""


@dataclass(frozen=True, slots=True)
class AskedAgain:
    """What is asked about again of a question, and what that costs by what its tasks have cost so far.

    Attributes:
        rounds: the rounds of these tasks.
        named: how many of them have a label that is split or from which a new one takes.
        doubtful: how many others have votes for such a label.
        tasks: how many tasks the question has.
        unclear: how many tasks people have given a label that is split or dropped.
        below: score → how many tasks that nobody has labelled have a lower one.
        usd: the price of a task, in $.
    """

    rounds: frozenset[int]
    named: int
    doubtful: int
    tasks: int
    unclear: int
    below: dict[float, int]
    usd: float

    @classmethod
    def among(
        cls,
        tasks: Iterable[DecidedTask],
        concern: Concern,
        way: Relabelling,
        usd: float,
        below: float | None,
    ) -> AskedAgain:
        """Find the tasks that are asked about again.

        Args:
            tasks: the question's tasks.
            concern: which of them new labels may concern.
            way: how votes are written afterwards.
            usd: the price of a task, in $.
            below: tasks with a lower score are asked about again as well; ``None`` for no others.
        """
        rounds, named, doubtful, number, unclear = set[int](), 0, 0, 0, 0
        counts = dict.fromkeys(LEVELS, 0)
        for task in tasks:
            number += 1
            unclear += task.human is not None and way.vote(task.human) is None
            for level in LEVELS:
                counts[level] += task.human is None and (task.score < level or level >= 1.0)
            lost, concerned = way.vote(task.label) is None, concern(task)
            named += lost or (concerned and concern.names(task.label))
            doubtful += concerned and not lost and not concern.names(task.label)
            low = below is not None and task.human is None and (task.score < below or below >= 1.0)
            if lost or concerned or low:
                rounds.add(task.round_id)
        return cls(frozenset(rounds), named, doubtful, number, unclear, counts, usd)

    def lines(self, how_to_look: str) -> Iterator[str]:
        """The quote as sentences.

        Args:
            how_to_look: where people find the tasks whose label they gave is split.
        """
        asked, low = len(self.rounds), len(self.rounds) - self.named - self.doubtful
        share = f"{asked / self.tasks:.1%}" if self.tasks else "0%"
        yield (
            f"  {asked:,} of {formats.of(self.tasks, 'task')} ({share}) are asked about again, for about"
            f" {formats.dollars(asked * self.usd)}: {self.named:,} have a label that is split, dropped or"
            f" near a new one, {self.doubtful:,} have votes for one, {low:,} a low score"
        )
        for level, number in self.below.items():
            which = "everything" if level >= 1.0 else f"tasks whose score is below {level:g}"
            price = formats.dollars(number * self.usd)
            yield f"    --below {level:g}: {which} that nobody has labelled, {number:,} for about {price}"
        if self.unclear:
            yield f"  {formats.of(self.unclear, 'human label')} to look at, kept as given: {how_to_look}"

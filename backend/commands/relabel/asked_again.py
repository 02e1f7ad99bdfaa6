"""Which tasks are asked about again after labels were split or added, and about what that costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from backend.commands.bulk.held_labels import ScoreLevels, is_below
from backend.learning.concerned import Concern
from backend.learning.label_schemes import Transition
from backend.ledger.decided import DecidedTask, TaskCosts, costs_of_a_task, decided_tasks
from backend.ledger.schemes import Schemes
from backend.questions import ConfigQuestion
from backend.questions.relabelling import LabelFates, label_values
from backend.server.status import formats
from camvo.votes.relabelling import Relabelling


@dataclass(frozen=True, slots=True)
class AskedAgain:
    """What is asked about again of a question, and what that costs by what its tasks have cost so far.

    Attributes:
        rounds: the rounds of these tasks.
        named: how many of them have a label that is split or from which a new one takes.
        doubtful: how many others have votes for such a label.
        tasks: how many tasks the question has.
        unclear: how many tasks people have given a label that is split or dropped.
        levels: how many tasks that are blind, or that nobody has labelled, have which score.
        costs: what a task costs.
    """

    rounds: frozenset[int]
    named: int
    doubtful: int
    tasks: int
    unclear: int
    levels: ScoreLevels
    costs: TaskCosts

    @classmethod
    def among(
        cls,
        tasks: Iterable[DecidedTask],
        concern: Concern,
        way: Relabelling,
        costs: TaskCosts,
        below: float | None,
    ) -> AskedAgain:
        """Find the tasks that are asked about again.

        Args:
            tasks: the question's tasks.
            concern: which of them new labels may concern.
            way: how votes are written afterwards.
            costs: what a task costs.
            below: tasks with a lower score are asked about again as well; ``None`` for no others.
        """
        rounds, named, doubtful, number, unclear = set[int](), 0, 0, 0, 0
        levels = ScoreLevels()
        for task in tasks:
            number += 1
            unclear += task.human is not None and way.vote(task.human) is None
            if task.deciding is None:
                levels.add(task.score)
            lost, concerned = way.vote(task.label) is None, concern(task)
            named += lost or (concerned and concern.names(task.label))
            doubtful += concerned and not lost and not concern.names(task.label)
            low = below is not None and task.deciding is None and is_below(task.score, below)
            if lost or concerned or low:
                rounds.add(task.round_id)
        return cls(frozenset(rounds), named, doubtful, number, unclear, levels, costs)

    def lines(self, how_to_look: str) -> Iterator[str]:
        """The quote as sentences.

        Args:
            how_to_look: where people find the tasks whose label they gave is split.
        """
        asked, low = len(self.rounds), len(self.rounds) - self.named - self.doubtful
        share = f"{asked / self.tasks:.1%}" if self.tasks else "0%"
        about, most = (formats.dollars(asked * usd) for usd in self.costs)
        yield (
            f"  {asked:,} of {formats.of(self.tasks, 'task')} ({share}) are asked about again, for about"
            f" {about}, at most {most}: {self.named:,} have a label that is split, dropped or near a new one,"
            f" {self.doubtful:,} have votes for one, {low:,} a low score"
        )
        yield "  more of those that are blind, or that nobody has labelled, are asked about again with"
        yield from (f"  {line}" for line in self.levels.lines(self.costs.usd))
        if self.unclear:
            yield f"  {formats.of(self.unclear, 'human label')} to look at, kept as given: {how_to_look}"


def asked_again(
    schemes: Schemes,
    found: Transition,
    fates: LabelFates,
    before: Mapping[str, ConfigQuestion],
    below: float | None,
) -> dict[str, AskedAgain]:
    """What is asked about again, of questions with new labels and, with ``below``, of all.

    Args:
        schemes: the project's schemes.
        found: the way to the new ones.
        fates: what becomes of labels.
        before: question → what it was.
        below: tasks with a lower score are asked about again as well; ``None`` for no others.

    Returns:
        Question → what is asked about again.
    """
    again = {}
    for scheme, way in found.carried:
        control, near, question = scheme.control, fates.near(scheme.control), before[scheme.control]
        if fates.new(control) or below is not None:
            place = (schemes.connection, schemes.project, control)
            decided = partial(decided_tasks, *place, scheme.source or "")
            concern = Concern(near, question.control.aggregation, label_values(question), decided())
            again[control] = AskedAgain.among(decided(), concern, way, costs_of_a_task(*place), below)
    return again

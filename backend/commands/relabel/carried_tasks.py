"""What a change of labels carries over, what is asked about again, and about what that costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from backend.commands.bulk.held_labels import ScoreLevels, is_below
from backend.learning.label_schemes import Concern, Transition
from backend.ledger.decided import DecidedTask, TaskCosts, costs_of_a_task, decided_places, decided_tasks
from backend.ledger.schemes import Schemes
from backend.questions import ConfigQuestion
from backend.questions.relabelling import LabelFates, label_values
from backend.server.status import formats
from camvo.votes.relabelling import Relabelling


@dataclass(slots=True)
class CarriedTasks:
    """What becomes of a question's tasks, and what that costs by what they have cost so far.

    Attributes:
        costs: what a task costs.
        chosen: whether it is by votes and scores which tasks are asked about again: labels are split or
            added, or ``--below`` is given.
        rounds: the rounds that are not carried over, so that their tasks are asked about again.
        tasks: how many tasks the question has.
        labels: how many keep their label, or find one that they have under the new labels already.
        held: how many of these have one of earlier instructions.
        people: how many human labels are carried over.
        named: how many tasks have a label that is dropped or split, or from which a new one takes.
        doubtful: how many others have votes for such a label.
        low: how many others have a low score.
        unclear: how many tasks people have given a label that is split or dropped.
        levels: how many tasks that are blind, or that nobody has labelled, have which score.
    """

    costs: TaskCosts
    chosen: bool
    rounds: set[int] = field(default_factory=set)
    tasks: int = 0
    labels: int = 0
    held: int = 0
    people: int = 0
    named: int = 0
    doubtful: int = 0
    low: int = 0
    unclear: int = 0
    levels: ScoreLevels = field(default_factory=ScoreLevels)

    def add(self, task: DecidedTask, way: Relabelling, concern: Concern, below: float | None) -> bool:
        """Count a task by its latest round, and return whether it is asked about again."""
        lost, concerned = way.vote(task.label) is None, concern(task)
        if task.deciding is None:
            self.levels.add(task.score)
        if lost or (concerned and concern.names(task.label)):
            self.named += 1
        elif concerned:
            self.doubtful += 1
        elif below is not None and task.deciding is None and is_below(task.score, below):
            self.low += 1
        else:
            return False
        return True

    def lines(self, how_to_look: str) -> Iterator[str]:
        """What is asked about again, and its price, as sentences.

        Args:
            how_to_look: where people find the tasks whose label they gave is split.
        """
        if self.held:
            yield f"  {self.held:,} of these labels are of earlier instructions"
        asked = self.named + self.doubtful + self.low
        share = f"{asked / self.tasks:.1%}" if self.tasks else "0%"
        about, most = (formats.dollars(asked * usd) for usd in self.costs)
        if asked or self.chosen:
            yield (
                f"  {asked:,} of {formats.of(self.tasks, 'task')} ({share}) are asked about again, for about"
                f" {about}, at most {most}: {self.named:,} have a label that is split, dropped or near a new"
                f" one, {self.doubtful:,} have votes for one, {self.low:,} a low score"
            )
        if self.chosen:
            yield "  more of those that are blind, or that nobody has labelled, are asked about again with"
            yield from (f"  {line}" for line in self.levels.lines(self.costs.usd))
        if self.unclear:
            yield f"  {formats.of(self.unclear, 'human label')} to look at, kept as given: {how_to_look}"


def carried_tasks(
    schemes: Schemes,
    found: Transition,
    fates: LabelFates,
    before: Mapping[str, ConfigQuestion],
    below: float | None,
) -> dict[str, CarriedTasks]:
    """What becomes of the tasks of each question whose rounds are carried over.

    A task is asked about again if its latest label is lost or in doubt; then none of its earlier ones is
    carried over either, or it would keep that one.

    Args:
        schemes: the project's schemes.
        found: the way to the new ones.
        fates: what becomes of labels.
        before: question → what it was.
        below: tasks with a lower score are asked about again as well; ``None`` for no others.
    """
    counted = {}
    for scheme, way in found.present:
        control, question = scheme.control, before[scheme.control]
        place = (schemes.connection, schemes.project, control)
        tasks = CarriedTasks(costs_of_a_task(*place), bool(fates.new(control)) or below is not None)
        made = [each for each, _ in reversed(found.carried) if each.control == control]
        places = [(decided_places(*place, of.source or ""), decided_places(*place, of.epoch)) for of in made]
        there = set[tuple[int, str]]().union(*(after for _, after in places))
        left = dict[tuple[int, str], bool]()
        for number, each in enumerate(made, 1):
            # What was left when labels changed comes back, whatever was asked since then.
            hidden = set[tuple[int, str]]().union(
                *(after - earlier for earlier, after in places[number:] if scheme.undo)
            )
            decided = partial(decided_tasks, *place, each.source or "")
            near, labels = fates.near(control), label_values(question)
            concern = Concern(near, question.control.aggregation, labels, decided())
            for task in decided():
                if (at := task.place) not in left:
                    left[at] = at not in there and tasks.add(task, way, concern, below)
                    tasks.tasks += 1
                    tasks.labels += not left[at]
                    tasks.held += not left[at] and each.beside
                    clear = task.human is None or scheme.undo or way.vote(task.human) is not None
                    tasks.unclear += not clear
                    tasks.people += task.human is not None and clear and not left[at]
                if left[at] or at in hidden:
                    tasks.rounds.add(task.round_id)
        counted[control] = tasks
    return counted

"""Finds the tasks on which further votes are worth most: the most right labels per dollar first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from backend.learning.human_labels import aggregation_of
from backend.learning.states import StateKey
from backend.ledger.recounts.countable_rounds import CountableRound
from backend.recounting.counting import QuestionCounter
from camvo.joint.plans.further_votes import FurtherVotes
from camvo.policies.estimates import Observation
from camvo.policies.joint import Joint
from camvo.stages.asking_order import cheapest_first
from camvo.state.state import State
from camvo.student.taught_texts import STUDENT
from camvo.votes.labels import LABEL_VOTE


@dataclass(slots=True)
class DoubtfulTask:
    """What further votes on one task would bring.

    Attributes:
        break_even: the right labels that asking every model once would have to bring for further votes to be
            worth it, over all its questions.
        full_usd: what asking every model costs, in $.
        next_usd: what the next calls cost, in $.
    """

    break_even: float = 0.0
    full_usd: float = 0.0
    next_usd: float = 0.0

    @property
    def value(self) -> float:
        """The most right labels that one dollar brings."""
        return self.break_even / self.full_usd if self.full_usd > 0.0 else 0.0


@dataclass(frozen=True, slots=True)
class Doubts:
    """The tasks to ask about next, the most right labels per dollar first.

    Attributes:
        tasks: their numbers.
        least: the value of the last one: what a dollar must bring for another vote on any of them, in right
            labels; 0 without tasks.
    """

    tasks: tuple[int, ...] = ()
    least: float = 0.0


@dataclass(slots=True)
class Doubting:
    """Collects the doubtful tasks of a project, question by question.

    Attributes:
        by_task: task → what further votes on it would bring.
        policy: the project's policy; ``None`` if it is another than ``joint``, so that nothing is in doubt.
    """

    by_task: dict[int, DoubtfulTask] = field(default_factory=dict)
    policy: Joint | None = None

    def add(self, counter: QuestionCounter, key: StateKey, state: State) -> None:
        """Go through the rounds of one question; of other policies than ``joint`` there is nothing to say.

        Args:
            counter: reads the rounds.
            key: the question.
            state: its state of now, which must not change meanwhile.
        """
        policy, further = counter.policy, None
        shares: Mapping[str, float] = {}
        if not isinstance(policy, Joint):
            return
        self.policy = policy
        for kept, prices in counter.rounds(key, state):
            if aggregation_of(kept.plan) != LABEL_VOTE:
                return
            if further is None:
                order, parts = cheapest_first(prices)
                shares = dict(zip(order, parts, strict=True))
                observation = Observation(state, kept.context, tuple(kept.plan["labels"]), LABEL_VOTE)
                joint = policy.joint_fit(observation, prices)
                further = None if joint is None else FurtherVotes(joint, shares)
            if further is not None:
                self._add(kept, further, shares)

    def _add(self, kept: CountableRound, further: FurtherVotes, shares: Mapping[str, float]) -> None:
        going_on = further.on(kept.context, kept.votes, kept.confidences)
        task = self.by_task.setdefault(kept.task, DoubtfulTask())
        task.break_even += going_on.break_even
        task.full_usd += kept.full_cost_usd
        task.next_usd += kept.full_cost_usd * sum(shares[arm] for arm in going_on.arms if arm != STUDENT)

    def worthwhile(self, task: DoubtfulTask) -> bool:
        """Whether further votes on the task are worth their price."""
        return self.policy is not None and task.value * self.policy.worth_of(task.full_usd) >= 1.0

    def best(self, usd: float, most: int) -> Doubts:
        """Choose the tasks on which so much money brings the most.

        Args:
            usd: what may be spent, in $. The tasks are those whose next calls it covers.
            most: the most tasks.
        """
        wanted = sorted(
            (-task.value, number) for number, task in self.by_task.items() if self.worthwhile(task)
        )
        chosen: list[int] = []
        for _, number in wanted:
            usd -= self.by_task[number].next_usd
            if len(chosen) == most or (usd < 0.0 and chosen):
                break
            chosen.append(number)
        least = self.by_task[chosen[-1]].value if chosen else 0.0
        return Doubts(tuple(chosen), least)

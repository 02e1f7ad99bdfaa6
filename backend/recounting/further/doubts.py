"""Finds the tasks on which further votes are worth most: the most right labels per dollar first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from backend.learning.states import StateKey
from backend.recounting.counting import QuestionCounter, past_round
from camvo.joint.plans.further_votes import GoingOn
from camvo.policies.past_rounds.going_on import GoesOn, goes_on
from camvo.policies.past_rounds.past_round import PastRound
from camvo.state.state import State
from camvo.twins.same_model import twins, unheard


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

    def add(self, going_on: GoingOn, full_usd: float, prices: Mapping[str, float]) -> None:
        """Add what further votes would bring on one question.

        Args:
            going_on: the best use of them.
            full_usd: the question's part of what asking every model costs, in $.
            prices: arm → its price, in any unit.
        """
        share = sum(prices[arm] for arm in going_on.arms) / (sum(prices.values()) or 1.0)
        self.break_even += going_on.break_even
        self.full_usd += full_usd
        self.next_usd += full_usd * share

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
        policy: what the project's policy says of further votes; ``None`` if it says nothing of them, so that
            nothing is in doubt.
    """

    by_task: dict[int, DoubtfulTask] = field(default_factory=dict)
    policy: GoesOn | None = None

    def add(self, counter: QuestionCounter, key: StateKey, state: State) -> None:
        """Go through the rounds of one question.

        Args:
            counter: reads the rounds.
            key: the question.
            state: its state of now, which must not change meanwhile.
        """
        policy = goes_on(counter.policy)
        if policy is None:
            return
        self.policy = policy
        for kept, prices in counter.rounds(key, state):
            past = _without_absent(past_round(kept, prices), counter.models)
            task = self.by_task.setdefault(kept.task, DoubtfulTask())
            task.add(policy.further_votes(state, past), kept.full_cost_usd, past.costs)

    def worthwhile(self, task: DoubtfulTask) -> bool:
        """Whether further votes on the task are worth their price."""
        if self.policy is None or task.value <= 0.0:
            return False
        return task.value * self.policy.worth_of(task.full_usd) >= 1.0

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


def _without_absent(past: PastRound, models: Sequence[str]) -> PastRound:
    """The round, in which a model that cannot be asked counts like one that gave no vote.

    Models outside today's pool cannot be asked, nor can one whose twin has voted. Further votes are asked for
    singly, so no packed arm is asked either.
    """
    packed = twins(models)
    askable = unheard({arm: past.costs[arm] for arm in models if arm not in packed}, past.votes)
    return replace(past, votes={arm: None for arm in past.costs if arm not in askable} | dict(past.votes))

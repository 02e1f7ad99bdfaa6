"""``camvo predict --recount --ask-more USD``: models that were left out are asked where that pays most."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from backend.commands.connect.backend_answers import TasksInDoubt
from backend.commands.predict.recount_run import RecountRun
from backend.label_studio import stored_predictions


@dataclass(slots=True)
class AskMoreTally:
    """What a run did.

    Attributes:
        tasks: tasks about which a model was asked.
        votes: how many models were asked, over all of them.
        spent_usd: what further votes have cost in all, also in earlier runs, in $.
        exhausted: whether the money does not cover another call.
    """

    tasks: int = 0
    votes: int = 0
    spent_usd: float = 0.0
    exhausted: bool = False

    def summary(self, usd: float) -> str:
        """Return a line with what was asked and why it ended.

        Args:
            usd: the most that further votes may cost in all, in $.
        """
        asked = (
            f"Asked more: {self.votes} votes on {self.tasks} tasks; ${self.spent_usd:.4g} of ${usd:.4g} spent"
        )
        why = "the money does not cover the next" if self.exhausted else "no other vote is worth asking for"
        return f"{asked}, {why}"


@dataclass(frozen=True, slots=True)
class AskMoreRun:
    """One run over one project. The server keeps what was bought, so an interrupted run can be repeated.

    Attributes:
        counting: the recount that it belongs to.
        usd: the most that further votes may cost in all, also in earlier runs, in $.
        tally: what was done.
    """

    counting: RecountRun
    usd: float
    tally: AskMoreTally = field(default_factory=AskMoreTally)

    def __call__(self, show: Callable[[str], object] = lambda line: None) -> AskMoreTally:
        """Ask until no vote is worth asking for or the money is spent.

        Args:
            show: called with a line that says how far it is.

        Raises:
            LabelStudioError: Label Studio refused, or cannot be reached.
            BackendError: the server refused, or cannot be reached.
        """
        tally, seen, of = self.tally, set[int](), self.counting
        while not tally.exhausted:
            doubts = of.backend.doubts(of.key, self.usd)
            tally.spent_usd = doubts.spent_usd
            numbers = [number for number in doubts.tasks if number not in seen]
            if not numbers:
                break
            seen.update(numbers)
            for start in range(0, len(numbers), of.batch):
                show(f"asking more: {tally.votes} votes on {tally.tasks} tasks, ${tally.spent_usd:.4g} spent")
                self._ask(numbers[start : start + of.batch], doubts)
                if tally.exhausted:
                    break
        return tally

    def _ask(self, numbers: list[int], doubts: TasksInDoubt) -> None:
        """Ask about tasks that nobody has annotated or begun to, until all of them were asked about."""
        of = self.counting
        by_number = {task["id"]: task for task in of.client.tasks(of.project, numbers)}
        in_order = [by_number[number] for number in numbers if number in by_number]
        wanted, _ = stored_predictions.untouched(in_order)
        while wanted and not self.tally.exhausted:
            said = of.backend.ask_more(of.key, of.label_config, wanted, usd=self.usd, least=doubts.least)
            self._count(said)
            wanted = wanted[len(wanted) - said["left"] :]

    def _count(self, said: Mapping[str, Any]) -> None:
        self.tally.tasks += said["tasks"]
        self.tally.votes += said["votes"]
        self.tally.spent_usd += said["usd"]
        self.tally.exhausted |= said["exhausted"]

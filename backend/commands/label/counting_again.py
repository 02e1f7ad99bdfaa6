"""``camvo label FILE --recount [--ask-more USD]``: kept votes are counted again, and more models asked."""

from __future__ import annotations

import math
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from rich.console import Console

from backend.annotation.job import Job
from backend.commands.bulk.dataset_jobs import DatasetJobs
from backend.commands.predict.prediction_run import AskMoreTally, RecountTally
from backend.datasets.tasks import IndexedTasks
from backend.ledger import money
from backend.ledger.money import Purse, from_picodollars
from backend.recounting.further import ask_portion
from backend.recounting.recounter import Recounter

_MOST = 1000
"""Tasks that are asked about between two looks at what is in doubt."""

_T = TypeVar("_T")


def count_again(jobs: DatasetJobs, tasks: IndexedTasks, console: Console, ask_more: float | None) -> None:
    """Count a dataset's kept votes again; if asked to, ask models that were left out, and count once more."""
    counted = RecountTally()
    with ThreadPoolExecutor(1) as workers, console.status("counting the kept votes again"):
        again = _CountingAgain(jobs, tasks, workers)
        try:
            again.count(counted)
            if ask_more is not None:
                asked = again.ask(ask_more)
                again.count(counted)
                console.print(asked.summary(ask_more), highlight=False, soft_wrap=True)
        except BaseException:
            jobs.process.stop_asking()
            again.recounter.stop()
            raise
    console.print(counted.summary().partition("\n")[0], highlight=False, soft_wrap=True)


class _CountingAgain:
    def __init__(self, jobs: DatasetJobs, tasks: IndexedTasks, workers: ThreadPoolExecutor) -> None:
        process = jobs.process
        self._jobs, self._tasks, self._process = jobs, tasks, process
        self.recounter = Recounter(
            process.ledger, process.writer, process.states, workers, jobs.settings, clock=process.clock
        )

    def count(self, tally: RecountTally) -> None:
        counting = self._run(self.recounter.recount(self._jobs.project, "command"))
        if counting is not None:
            tally.add({"labels": counting.labels, "scores": counting.scores, "counted": counting.counted})

    def ask(self, usd: float) -> AskMoreTally:
        tally, seen = AskMoreTally(), set[int]()
        while not tally.exhausted:
            tally.spent_usd = self._spent()
            doubts = self._run(self.recounter.doubts(self._jobs.project, usd - tally.spent_usd, _MOST))
            wanted = [number for number in doubts.tasks if number not in seen]
            if not wanted:
                return tally
            seen.update(wanted)
            ask = partial(self._process.further.ask_in_doubt, worth_usd=1.0 / doubts.least)
            portion = self._run(
                ask_portion(
                    [*self._jobs_of(wanted, Purse("further", usd))],
                    ask,
                    at_once=self._jobs.settings.concurrency,
                    deadline=math.inf,
                )
            )
            tally.tasks += portion.tasks
            tally.votes += portion.votes
            tally.exhausted |= portion.exhausted
        tally.spent_usd = self._spent()
        return tally

    def _jobs_of(self, numbers: list[int], purse: Purse) -> Iterator[Job]:
        """The jobs of some tasks, in the order of their numbers' list."""
        wanted = set(numbers)
        found = {
            stored.job.task: stored.job
            for stored in self._jobs.look_up(
                task for task in self._tasks.first_rows() if task.number in wanted
            )
        }
        return (replace(found[number], purse=purse) for number in numbers if number in found)

    def _spent(self) -> float:
        with self._process.ledger.read() as connection:
            return from_picodollars(money.balance(connection, self._jobs.project, "further").spent)

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self._process.thread.submit(work).result()

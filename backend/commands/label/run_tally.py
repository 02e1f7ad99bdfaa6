"""What a run has done so far, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass

from backend.commands.label.labelling import Labelling
from backend.commands.label.run_counts import RunCounts
from backend.commands.label.spending import Spending


@dataclass(slots=True)
class RunTally:
    """Counts of one run.

    Attributes:
        rows: rows of the dataset.
        tasks: tasks, rows of equal content counted once.
        labelling: the tasks that models were asked about.
        spending: the project's account.
        labelled_before: tasks that were labelled already.
        left_out: tasks that ``--retry-failed`` leaves out, because they did not fail.
    """

    rows: int
    tasks: int
    labelling: Labelling
    spending: Spending
    labelled_before: int = 0
    left_out: int = 0

    def begin_sweep(self) -> None:
        """Begin to look at all tasks again: what an earlier sweep left open is counted anew."""
        self.labelled_before = -self.labelling.labelled
        self.left_out = self.labelling.waiting = 0
        self.labelling.failed.clear()

    @property
    def counts(self) -> RunCounts:
        """The numbers by now."""
        labelling = self.labelling
        return RunCounts(
            self.rows,
            self.tasks,
            labelling.labelled,
            self.labelled_before,
            self.left_out,
            labelling.failed.copy(),
            labelling.out_of_money,
            labelling.hopeless,
            labelling.waiting,
        )

    @property
    def failed(self) -> int:
        """How many tasks failed."""
        return self.labelling.failed.total()

    @property
    def left(self) -> int:
        """How many tasks the run has not finished."""
        return self.counts.left

    def outlook(self) -> str:
        """What is spent and to come, for the progress bar."""
        return self.spending.outlook(self.labelling.labelled + self.failed, self.left)

    def summary(self) -> str:
        """What was done and what it cost, and a line for each problem that may need action."""
        return self.counts.summary(self.spending.in_all())

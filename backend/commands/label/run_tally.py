"""What a run did, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass

from backend.commands.label.labelling import HOPELESS, Labelling
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
    def failed(self) -> int:
        """How many tasks failed."""
        return self.labelling.failed.total()

    @property
    def left(self) -> int:
        """How many tasks the run has not finished."""
        done = self.labelled_before + self.left_out + self.labelling.labelled + self.failed
        return self.tasks - done

    def outlook(self) -> str:
        """What is spent and to come, for the progress bar."""
        return self.spending.outlook(self.labelling.labelled + self.failed, self.left)

    def summary(self) -> str:
        """A line with what was done, and a line for each problem that may need action."""
        lines = [
            f"{self.labelling.labelled:,} of {self.tasks:,} tasks labelled now and {self.labelled_before:,}"
            f" before ({self.rows:,} rows); the project has cost ${self.spending.in_all():.4f}"
        ]
        if self.failed:
            codes = ", ".join(f"{code} {tasks:,}" for code, tasks in self.labelling.failed.most_common())
            lines.append(
                f"{self.failed:,} tasks failed ({codes}): docs/errors.md says what to do; then ask again"
                " about them alone with --retry-failed"
            )
        if self.labelling.out_of_money:
            lines.append("the budget does not cover the next task: raise it, and run the same command again")
        if self.labelling.hopeless:
            lines.append(f"no model voted on any of {HOPELESS} tasks: try camvo check, then run it again")
        if self.labelling.waiting:
            lines.append(f"{self.labelling.waiting:,} tasks wait for providers' batches")
        if self.left - self.labelling.waiting > 0:
            left = self.left - self.labelling.waiting
            lines.append(f"{left:,} tasks are left: the same command goes on with them")
        return "\n".join(lines)

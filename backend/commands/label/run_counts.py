"""What a run did with its tasks, in numbers that can be added up and sent between processes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from backend.commands.label.labelling import HOPELESS


@dataclass(frozen=True, slots=True)
class RunCounts:
    """Counts of a run, or of one of its parts.

    Attributes:
        rows: rows of the dataset.
        tasks: tasks, rows of equal content counted once.
        labelled: tasks that were labelled now.
        labelled_before: tasks that were labelled already.
        left_out: tasks that ``--retry-failed`` leaves out, because they did not fail.
        failed: tasks that failed, by the code of the reason.
        out_of_money: whether the budget does not cover the next task, so that the run ended.
        hopeless: whether the run ended because no model voted on any task.
        waiting: tasks that wait for providers' batches; they count as left.
    """

    rows: int = 0
    tasks: int = 0
    labelled: int = 0
    labelled_before: int = 0
    left_out: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    out_of_money: bool = False
    hopeless: bool = False
    waiting: int = 0

    def __add__(self, other: RunCounts) -> RunCounts:
        """The counts of two parts of a run together."""
        return RunCounts(
            self.rows + other.rows,
            self.tasks + other.tasks,
            self.labelled + other.labelled,
            self.labelled_before + other.labelled_before,
            self.left_out + other.left_out,
            self.failed + other.failed,
            self.out_of_money or other.out_of_money,
            self.hopeless or other.hopeless,
            self.waiting + other.waiting,
        )

    @property
    def left(self) -> int:
        """How many tasks the run has not finished or, if it ended early, has not come to."""
        done = self.labelled_before + self.left_out + self.labelled + self.failed.total()
        return self.tasks - done

    def summary(self, spent: float) -> str:
        """A line with what was done, and a line for each problem that may need action.

        Args:
            spent: what the project has cost over all runs, in $.
        """
        lines = [
            f"{self.labelled:,} of {self.tasks:,} tasks labelled now and {self.labelled_before:,}"
            f" before ({self.rows:,} rows); the project has cost ${spent:.4f}"
        ]
        if self.failed:
            codes = ", ".join(f"{code} {tasks:,}" for code, tasks in self.failed.most_common())
            lines.append(
                f"{self.failed.total():,} tasks failed ({codes}): docs/errors.md says what to do; then ask"
                " again about them alone with --retry-failed"
            )
        if self.out_of_money:
            lines.append("the budget does not cover the next task: raise it, and run the same command again")
        if self.hopeless:
            lines.append(f"no model voted on any of {HOPELESS} tasks: try camvo check, then run it again")
        if self.waiting:
            lines.append(f"{self.waiting:,} tasks wait for providers' batches")
        if left := self.left - self.waiting:
            lines.append(f"{left:,} tasks were not reached or have no label: the same command goes on there")
        return "\n".join(lines)

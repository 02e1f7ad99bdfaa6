"""What a run of ``camvo predict`` did."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Tally:
    """Counts of tasks, and of predictions where it says so.

    Attributes:
        created: tasks that had no prediction and got one.
        stored: predictions stored for them; more than tasks if each model's own is shown.
        replaced: predictions changed in place.
        unchanged: tasks whose predictions were up to date, or were skipped with ``--only-missing``.
        blind: tasks that are kept blind for an audit.
        failed: tasks that ended without a prediction, by the code of the reason.
        waiting: tasks whose answers are in providers' batches.
        undecided: tasks for which the server had no prediction yet when the run gave them up.
        too_large: tasks larger than the server accepts in one request.
        refused: predictions that Label Studio did not accept, because they do not fit the label config.
        spent_usd: what the project spent meanwhile, in $.
        fixes: code of a reason → what to do.
    """

    created: int = 0
    stored: int = field(default=0, compare=False)
    replaced: int = 0
    unchanged: int = 0
    blind: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    waiting: int = 0
    undecided: int = 0
    too_large: int = 0
    refused: int = 0
    spent_usd: float = field(default=0.0, compare=False)
    fixes: dict[str, str] = field(default_factory=dict, compare=False)

    def begin_sweep(self) -> None:
        """Begin to look at all tasks again: what an earlier sweep left open is counted anew."""
        self.unchanged = -self.created
        self.blind = self.waiting = self.undecided = self.too_large = self.refused = 0
        self.failed.clear()

    @property
    def left(self) -> int:
        """How many tasks should have got a prediction and did not."""
        return self.failed.total() + self.waiting + self.undecided + self.too_large + self.refused

    def summary(self) -> str:
        """Return a line with what was done, and a line for each problem that may need action."""
        tasks = "" if self.stored in {0, self.created} else f" for {self.created} tasks"
        lines = [
            f"{self.stored or self.created} predictions stored{tasks}, {self.replaced} replaced,"
            f" {self.unchanged} tasks left unchanged"
        ]
        if self.blind:
            lines.append(f"{self.blind} tasks are kept blind for the audit: label them without a prediction")
        lines += [
            f"{tasks} tasks failed ({code}): {self.fixes.get(code, 'look the code up in docs/errors.md')}"
            for code, tasks in self.failed.most_common()
        ]
        if self.failed:
            lines.append("then ask again about the failed tasks alone with --failed")
        if self.waiting:
            lines.append(f"{self.waiting} tasks wait for providers' batches: camvo jobs lists them")
        if self.undecided:
            lines.append(f"{self.undecided} tasks have no prediction yet: models are slow; run it again")
        if self.too_large:
            lines.append(f"{self.too_large} tasks are too large: raise the server's CAMVO_MAX_BODY_MB")
        if self.refused:
            lines.append(
                f"{self.refused} predictions were refused by Label Studio: they do not fit its label config"
            )
        return "\n".join(lines)

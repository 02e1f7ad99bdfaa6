"""What a run of ``camvo predict`` did."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Tally:
    """Counts of predictions, and of tasks where it says so.

    Attributes:
        created: predictions stored for tasks that had none.
        replaced: predictions changed in place.
        unchanged: tasks whose predictions were up to date, or were skipped with ``--only-missing``.
        failed: tasks that ended without a prediction, by the code of the reason.
        undecided: tasks for which the backend had no prediction yet, or none to show.
        too_large: tasks larger than the backend accepts in one request.
        refused: predictions that Label Studio did not accept, because they do not fit the label config.
    """

    created: int = 0
    replaced: int = 0
    unchanged: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    undecided: int = 0
    too_large: int = 0
    refused: int = 0

    def summary(self) -> str:
        """Return a line with what was done, and a line for each problem that may need action."""
        lines = [
            f"{self.created} predictions stored, {self.replaced} replaced,"
            f" {self.unchanged} tasks left unchanged"
        ]
        if self.failed:
            codes = ", ".join(f"{code} {tasks}" for code, tasks in self.failed.most_common())
            lines.append(
                f"{self.failed.total()} tasks failed ({codes}): the server's /status says what to do;"
                " then ask again about them alone with --failed"
            )
        if self.undecided:
            lines.append(
                f"{self.undecided} tasks have no prediction: they are blind for an audit, or models are slow;"
                " in the last case run it again"
            )
        if self.too_large:
            lines.append(f"{self.too_large} tasks are too large: raise the server's CAMVO_MAX_BODY_MB")
        if self.refused:
            lines.append(
                f"{self.refused} predictions were refused by Label Studio: they do not fit its label config"
            )
        return "\n".join(lines)

"""``camvo predict --recount``: kept votes are counted again, and Label Studio shows the new labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from backend.commands.connect.backend_client import BackendClient
from backend.label_studio import stored_predictions
from backend.label_studio.client import Client


@dataclass(slots=True)
class RecountTally:
    """What a run did.

    Attributes:
        counting: the counting as the server says it, with the changes of all of them; ``None`` if nothing
            changed.
        replaced: tasks whose prediction was replaced.
        drafted: tasks that somebody has begun to annotate; they are left until the draft is gone.
    """

    counting: Mapping[str, Any] | None = None
    replaced: int = 0
    drafted: int = 0

    def add(self, counting: Mapping[str, Any]) -> None:
        """Count what a counting changed; a label that two countings change counts twice."""
        before = self.counting or {"labels": 0, "scores": 0}
        sums = {name: before[name] + counting[name] for name in ("labels", "scores")}
        self.counting = {**counting, **sums}

    def summary(self) -> str:
        """Return a line with what changed, and one with what Label Studio shows."""
        if self.counting is None:
            lines = ["Counted again: nothing changed"]
        else:
            labels, scores, counted = (self.counting[name] for name in ("labels", "scores", "counted"))
            lines = [f"Counted again: {labels:,} of {counted:,} labels changed, and {scores:,} more scores"]
        lines.append(f"{self.replaced} predictions replaced in Label Studio")
        if self.drafted:
            lines.append(f"{self.drafted} tasks have a draft, and keep their prediction until it is gone")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class RecountRun:
    """One recount of one project. It keeps no state: an interrupted run can be repeated.

    Attributes:
        client: Label Studio.
        backend: the server.
        project: Label Studio's number of the project.
        key: the project's key.
        label_config: its label config.
        batch: tasks in one request.
        tally: what was done.
    """

    client: Client
    backend: BackendClient
    project: int
    key: str
    label_config: str
    batch: int = 50
    tally: RecountTally = field(default_factory=RecountTally)

    def count(self) -> None:
        """Have the server count again.

        Raises:
            BackendError: the server refused, or cannot be reached.
        """
        counting = self.backend.recount(self.key)
        if counting is not None:
            self.tally.add(counting)

    def deliver(self) -> None:
        """Replace the predictions of changed tasks that nobody has annotated or begun to.

        Raises:
            LabelStudioError: Label Studio refused, or cannot be reached; the rest stays to be delivered.
            BackendError: the server refused, or cannot be reached.
        """
        last = 0
        while True:
            tasks, through = self.backend.recounted(self.key, last)
            if not tasks:
                return
            last = tasks[-1]
            for start in range(0, len(tasks), self.batch):
                self._replace(tasks[start : start + self.batch], through)

    def _replace(self, numbers: Sequence[int], through: int) -> None:
        wanted, drafted = stored_predictions.untouched(self.client.tasks(self.project, numbers))
        results = (
            self.backend.predict(self.key, self.label_config, wanted, stored_only=True) if wanted else []
        )
        for task, answer in zip(wanted, results, strict=True):
            changed = False
            for prediction in answer.predictions:
                existing = stored_predictions.of_version(task, prediction["model_version"])
                if existing:
                    changed |= stored_predictions.replace_prediction(self.client, existing, prediction)
            self.tally.replaced += changed
        self.tally.drafted += len(drafted)
        self.backend.delivered(self.key, [number for number in numbers if number not in drafted], through)

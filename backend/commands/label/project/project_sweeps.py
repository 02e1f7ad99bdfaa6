"""Sweeps over a project of Label Studio: each takes the tasks without a prediction as far as they can go."""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.console import Console

from backend.commands.label.dataset_jobs import DatasetJobs
from backend.commands.label.project.project_predictor import ProjectPredictor
from backend.commands.label.project.project_process import OpenProject
from backend.commands.label.spending import Spending
from backend.commands.predict.prediction_run import PredictionRun
from backend.commands.predict.tally import Tally
from backend.commands.progress import progress_bar

_PAGE = 200
"""Tasks that are fetched and asked about together."""


@dataclass(frozen=True, slots=True)
class ProjectSweeps:
    """The sweeps of one run.

    Attributes:
        project: the project.
        failed: whether to ask only about the tasks that failed before the run.
        console: where progress is shown.
        tally: what the run has done so far.
    """

    project: OpenProject
    failed: bool
    console: Console
    tally: Tally = field(default_factory=Tally)

    def sweep(self, jobs: DatasetJobs, most: int | None) -> None:
        """Ask about the tasks without a prediction, and store the predictions that are there.

        Args:
            jobs: says how the tasks are asked about.
            most: the most tasks to ask about; ``None`` for all.

        Raises:
            CamvoError: Label Studio or the ledger fails; stored predictions stay.
            KeyboardInterrupt: somebody interrupted; the calls under way have ended.
        """
        predictor = ProjectPredictor(jobs)
        self.tally.begin_sweep()
        run = PredictionRun(
            client=self.project.client,
            predictor=predictor,
            project=self.project.number,
            key=jobs.project,
            label_config=self.project.label_config,
            model_version=jobs.settings.model_version,
            failed=self.failed,
            batch=_PAGE,
            most=most,
            tally=self.tally,
        )
        tasks = len(predictor.failed_tasks(jobs.project)) if self.failed else self.project.tasks.tasks
        spending = Spending(jobs.process.ledger, jobs.project)
        with progress_bar(
            self.console, "labelling", tasks, note=lambda done, total: spending.so_far()
        ) as advance:
            run(advance)

"""``camvo label --project N``: a project's tasks labelled in this process, and shown by Label Studio."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from backend import settings as settings_module
from backend.annotation.job import Job
from backend.annotation.queue import AUDIT, UNREADABLE
from backend.commands.bulk.batch_run import BatchRun
from backend.commands.bulk.dataset_jobs import DatasetJobs
from backend.commands.bulk.labelling import Spending, annotate_in_bulk
from backend.commands.bulk.predicting import PredictionRun, Tally
from backend.commands.bulk.process import PAGE, OpenProject, ProjectTasks, await_answers, open_project
from backend.commands.bulk.quoting import agreed
from backend.commands.label.columns import added_kinds
from backend.commands.label.run import complete_and_count, results, write_results
from backend.commands.shared import backend_client
from backend.commands.shared.arguments import quiet_environment
from backend.commands.shared.backend_client import Progress, TaskAnswer
from backend.commands.shared.certificate import print_outcome
from backend.commands.shared.options import LabelOptions
from backend.commands.shared.output import print_ending, progress_bar, say
from backend.commands.shared.setup import interruptible
from backend.datasets.sinks import check_sink
from backend.errors import TaskError
from backend.label_studio.client import Client
from backend.label_studio.payloads import parse_task
from backend.label_studio.predictions import Prediction
from backend.ledger import money, projects
from backend.ledger.money import from_picodollars
from backend.ledger.recounts import Recounts
from backend.ledger.reports import ProjectSums
from backend.questions import parse_label_config
from backend.recounting.automatic import Delivery
from backend.server.status.formats import of
from backend.server.status.missing import Ending
from backend.settings import Environment
from backend.threads import WorkUnderWay

_MOST = 1_000_000
"""The most failed tasks that are listed."""


class _ProjectPredictor:
    """Predicts a project's tasks with the server's ledger and learned state; both may run at once."""

    def __init__(self, jobs: DatasetJobs) -> None:
        self._jobs, self._process = jobs, jobs.process
        # A task learns from those before it, so a page is not planned as a whole.
        self._slots = asyncio.Semaphore(jobs.settings.tasks_at_once)

    def predict(
        self,
        project_key: str,
        label_config: str,
        tasks: Sequence[Mapping[str, Any]],
        *,
        stored_only: bool = False,
    ) -> list[TaskAnswer]:
        """Return for each task its predictions, or why it has none."""
        config = parse_label_config(label_config)
        how = replace(self._jobs, project=project_key, config=config)
        found = [how.job(ProjectTasks.task(*task)) if task else None for task in map(parse_task, tasks)]
        jobs = [job and replace(job, stored_only=stored_only) for job in found]
        answers = [TaskAnswer([], UNREADABLE) for _ in jobs]
        under_way: WorkUnderWay[int, Prediction | None] = WorkUnderWay(self._process.thread.submit)
        try:
            for place, job in enumerate(jobs):
                if job is not None:
                    under_way.start(place, self._annotate(job))
            while under_way:
                place, result = under_way.next_ended()
                answers[place] = _answer(result)
        except KeyboardInterrupt:
            await_answers(self._process, under_way, self._jobs.settings.longest_call, None)
            raise
        return answers

    async def _annotate(self, job: Job) -> Prediction | None:
        async with self._slots:
            return await annotate_in_bulk(self._process.annotator, job)

    def failed_tasks(self, project_key: str) -> list[int]:
        """Return the tasks that ended without a prediction."""
        with self._process.ledger.read() as connection:
            return [
                failed.task
                for failed in projects.list_failures(connection, [project_key], 0, None, limit=_MOST)
            ]

    def progress(
        self, project_key: str, first: int = 0, last: int | None = None, after: int | None = None
    ) -> Progress:
        """Return how far the project is."""
        with self._process.ledger.read() as connection:
            decided = (
                0 if after is None else ProjectSums(connection, project_key).tasks_after(after, first, last)
            )
            spent = money.balance(connection, project_key, money.TOTAL).spent
            newest = ProjectSums(connection, project_key).newest_round()
            countings = Recounts(connection, project_key).latest_number()
            patience = 3600.0 * self._jobs.settings.patience_hours
            return Progress(decided, newest, from_picodollars(spent), countings, patience=patience)


def _answer(future: Future[Prediction | None]) -> TaskAnswer:
    try:
        prediction = future.result()
    except TaskError as error:
        return TaskAnswer.of(error.partial or [], {"code": error.code, "fix": error.fix})
    return TaskAnswer([], AUDIT) if prediction is None else TaskAnswer.of(prediction, None)


def _complete_and_recount(
    project: OpenProject, options: LabelOptions, environment: Environment, console: Console
) -> None:
    """Complete and count a project's votes again, as the options say, and replace what changed."""
    untouched = ProjectTasks(project.client, project.number, project.tasks.tasks, untouched=True)
    complete_and_count(project.jobs, untouched, console, options)
    process = project.jobs.process
    delivery = Delivery(
        access=process.access,
        annotator=process.annotator,
        settings=process.settings,
        environment=environment.model_copy(update={"label_studio_url": project.client.url}),
        share=1.0,
    )
    with console.status("replacing predictions"):
        replaced = process.thread.submit(delivery.deliver(project.jobs.project, _go_on)).result()
    console.print(f"{of(replaced, 'prediction')} replaced in Label Studio", highlight=False)


async def _go_on() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class _ProjectSweeps:
    """The sweeps of one run."""

    project: OpenProject
    options: LabelOptions
    console: Console
    tally: Tally = field(default_factory=Tally)

    def sweep(self, jobs: DatasetJobs, most: int | None) -> None:
        """Ask about the tasks without a prediction, and store the predictions that are there."""
        predictor = _ProjectPredictor(jobs)
        self.tally.begin_sweep()
        run = PredictionRun(
            client=self.project.client,
            predictor=predictor,
            project=self.project.number,
            key=jobs.project,
            label_config=self.project.label_config,
            model_version=jobs.settings.model_version,
            failed=self.options.retry_failed,
            annotated=True,
            in_order=self.options.in_order,
            waits=not self.options.no_wait,
            batch=PAGE,
            most=most,
            tally=self.tally,
        )
        tasks = len(predictor.failed_tasks(jobs.project)) if run.failed else self.project.tasks.tasks
        spending = Spending(jobs.process.ledger, jobs.project)
        with progress_bar(
            self.console,
            "labelling",
            tasks,
            note=lambda done, total: spending.so_far(),
            waiting=lambda: self.tally.awaited or jobs.awaited(),
        ) as advance:
            run(advance)


def label_project(
    number: int, config: Path | None, label_studio: str | None, options: LabelOptions, out: Path | None
) -> Ending:
    """Store predictions for a project in Label Studio, with the ledger of the environment."""
    if out is not None:
        check_sink(out, for_spreadsheet=options.spreadsheet)
    environment = quiet_environment(config)
    client = backend_client.label_studio_client(label_studio, environment)
    console = Console()
    with interruptible():
        tally = _predict_in_process(client, number, options, environment, console, out=out)
    print_ending(console, tally.ending)
    return tally.ending


def _predict_in_process(
    client: Client,
    number: int,
    options: LabelOptions,
    environment: Environment,
    console: Console,
    *,
    out: Path | None = None,
) -> Tally:
    """Predict a project's tasks in this process, and store the predictions in Label Studio."""
    settings = settings_module.load(environment.config)
    with open_project(client, number, options, settings, environment) as project:
        spending = Spending(project.jobs.process.ledger, project.jobs.project)
        jobs, tasks = agreed(project.jobs, project.tasks, options, console), project.tasks
        sweeps = _ProjectSweeps(project, options, console)
        BatchRun(jobs, sweeps.sweep, console, options.wait).run(tasks.tasks)
        tally = sweeps.tally
        if options.recount or options.retry_failed:
            _complete_and_recount(project, options, environment, console)
        tally.missing = spending.missing(jobs.settings.arms)
        say(console, tally.summary())
        if out is not None:
            added = added_kinds(jobs.config)
            rows, marked = results(tasks, jobs), options.spreadsheet
            write_results(out, rows, tasks.columns, added, console, for_spreadsheet=marked)
            say(console, f"written to {out}")
        console.print(f"the project has cost ${spending.in_all():.4f}", highlight=False)
    print_outcome(console, environment, jobs.project)
    return tally

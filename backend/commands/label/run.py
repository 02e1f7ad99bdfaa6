"""One run over a dataset: index it, ask models about what the ledger lacks, and hand out the results.

A run keeps no state of its own. What was paid for is in the ledger, so a run continues where it stopped.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from sqlalchemy import Connection

from backend import settings as settings_module
from backend.annotation.job import Job, JobQuestion, is_audit, random_draw
from backend.commands.bulk.batch_run import batching_of
from backend.commands.bulk.dataset_jobs import DatasetJobs, Stored
from backend.commands.bulk.labelling import RunTally, label_tasks
from backend.commands.bulk.process import annotation_process, await_answers, dataset_jobs
from backend.commands.bulk.quoting import RandomSample, agreed
from backend.commands.bulk.recounting import FurtherTally, RecountTally
from backend.commands.label.columns import ID, PROJECT, TASK, added_kinds, added_values, label_columns
from backend.commands.shared.arguments import quiet_environment
from backend.commands.shared.certificate import print_outcome
from backend.commands.shared.options import LabelOptions
from backend.commands.shared.output import print_ending, progress_bar, say
from backend.commands.shared.setup import interruptible
from backend.datasets.sinks import (
    Kinds,
    Result,
    check_sink,
    open_sink,
    spreadsheet_cell,
    unwritable,
    whole_file,
)
from backend.datasets.sources import Source, open_source
from backend.datasets.tasks import Columns, Dataset, DatasetTask, Index, IndexedTasks, task_name
from backend.errors import ConfigError, DatasetError
from backend.label_studio.predictions import model_predictions, prediction_of
from backend.ledger import migrate, money
from backend.ledger.blind_tasks import BlindQueues
from backend.ledger.money import Purse, from_picodollars, spent_on_tasks
from backend.ledger.projects import FailedTasks
from backend.ledger.recounts import FurtherVotes
from backend.ledger.rounds import IncompleteRounds, ProjectRounds, Round
from backend.questions import LabelConfig
from backend.questions.controls import looks_ordered
from backend.recounting.further import Portion, ask_portion
from backend.recounting.recounter import Recounter
from backend.server.status.formats import of
from backend.server.status.missing import Ending
from backend.settings import Environment
from backend.threads import Threads, WorkUnderWay
from camvo.scores.guarantee import queue_place


def _audit_share(index: Index, project: str, size: int) -> float:
    """The share of tasks to keep blind so that exactly ``size`` of this dataset are."""
    if size > index.tasks:
        raise ConfigError(
            f"{size} is more than the {index.tasks} tasks of the file", where="--blind", fix="give less"
        )
    draws = index.smallest(lambda task: random_draw("audit", project, task) >> 1, size + 1)  # as earlier runs
    last = draws[size - 1]
    following = draws[size] if len(draws) > size else (1 << 63)
    share = (last + following) / 2 / 2**63
    return min(share, math.nextafter(1.0, 0.0))


def _write_blind_sample(path: Path, project: str, config: LabelConfig, sample: Sequence[DatasetTask]) -> None:
    """Write a sample in the order in which it is to be labelled."""
    sample = sorted(sample, key=lambda task: (queue_place(project, task.number), task.number))
    labels = label_columns(config)
    texts = list(dict.fromkeys(key for task in sample for key in task.data))
    # Spreadsheets read UTF-8 by the mark that this encoding begins with.
    with whole_file(path) as file, io.TextIOWrapper(file, "utf-8-sig", errors="replace", newline="") as text:
        writer = csv.writer(text)
        writer.writerow([PROJECT, TASK, ID, *texts, *labels])
        writer.writerows(
            [project, task_name(task.number), spreadsheet_cell(task.id)]
            + [spreadsheet_cell(task.data.get(key)) for key in texts]
            + [""] * len(labels)
            for task in sample
        )


def results(tasks: IndexedTasks, jobs: DatasetJobs) -> Iterator[Result]:
    """Read the rows once more, and join each row with its rounds, its cost and its failure.

    Rows of one task have the same label; the first of them carries the task's cost, so that costs add up. A
    blind task's label of a question is left out until somebody has answered that question.
    """
    costs: dict[int, float] = {}

    def read_costs(connection: Connection, numbers: Sequence[int]) -> None:
        costs.clear()
        costs.update(spent_on_tasks(connection, jobs.project, numbers))

    stored = jobs.look_up(tasks.every_row(), also=read_costs)
    # Tasks of a project may come and go, so it does not say beforehand how many rows it has.
    for found, first in zip(stored, tasks.is_first(), strict=False):
        yield _result(jobs, found, costs.get(found.task.number, 0.0) if first else 0.0)


def _result(jobs: DatasetJobs, stored: Stored, cost: float) -> Result:
    shown = [each for each in stored.decided if not (each[1].audit and each[1].human is None)]
    rounds_shown = {question.name: round_ for question, round_ in shown}
    added = added_values(jobs.config, stored, rounds_shown, cost)
    return Result(stored.task.row.data, added, stored.task.data, _predictions(jobs, shown))


def _predictions(jobs: DatasetJobs, answered: Sequence[tuple[JobQuestion, Round]]) -> list[dict[str, Any]]:
    if not answered:
        return []
    version = jobs.settings.model_version
    each = model_predictions(answered, version) if jobs.settings.show_votes else []
    return [*each, prediction_of(answered, version, jobs.settings.prefill)]


_Write = Callable[[Iterator[Result], Columns, Kinds], None]
"""Takes the result of every row, in order, the columns of the source, and those that are added."""


def run_label(
    source: Source,
    options: LabelOptions,
    environment: Environment,
    console: Console,
    write: _Write,
) -> RunTally:
    """Label a dataset, and hand out what the ledger then says of each row.

    Nothing is spent before the whole source has been read and found right.

    Args:
        source: the rows.
        options: how to label them.
        environment: the ledger's address, ``camvo.yaml`` and the secrets.
        console: where progress is shown.
        write: takes the results; not called after an interruption.

    Raises:
        CamvoError: an option, the settings or the source is wrong, or the run cannot continue.
        KeyboardInterrupt: somebody interrupted the run; calls under way were awaited and stored.
    """
    dataset = options.dataset(source)
    project = options.project(source.path)
    settings = settings_module.load(environment.config)
    with Index(dataset) as index:
        with console.status("reading") as status:
            index.build(lambda rows: status.update(f"reading: {index.rows:,} rows"))
        print_notes(dataset, index, console)
        migrate(environment.database_url)
        with annotation_process(settings, environment) as process:
            jobs = dataset_jobs(process, dataset, project, settings, options, index.tasks_in_all)
            tasks = RandomSample(index, project, options.sample) if options.sample else index
            forget_changed_rows(jobs, index)
            _require_blind(jobs, options)
            if options.blind:
                jobs = _with_blind_sample(jobs, dataset, index, options, console)
            elif not (jobs.settings.audit or options.sample or _has_labels(jobs)):
                say(
                    console,
                    "no task is kept blind, so nothing can be certified later: --blind 300 in this first run"
                    " keeps a sample for people",
                )
            batching = batching_of(jobs.settings, process, everyone=options.batch)
            jobs = agreed(replace(jobs, batching=batching), tasks, options, console)
            tally = label_tasks(jobs, tasks, console, wait=options.wait, in_order=options.in_order)
            complete_and_count(jobs, tasks, console, options)
            write(results(tasks, jobs), index.columns, added_kinds(jobs.config))
            return tally


def forget_changed_rows(jobs: DatasetJobs, index: Index) -> None:
    """Forget the failures of rows that somebody has changed or removed: the new rows are other tasks.

    Those of other files under the same name stay, unless the file is gone, as after it was renamed.
    """
    ledger = jobs.process.ledger
    with ledger.read() as connection:
        of_files = FailedTasks(connection, jobs.project).by_file()
    failed = [
        number
        for file, numbers in of_files.items()
        if file == jobs.file or not Path(file).exists()
        for number in numbers
    ]
    if failed and (gone := index.lacks(failed)):
        with ledger.write() as connection:
            FailedTasks(connection, jobs.project).forget(gone)


def _require_blind(jobs: DatasetJobs, options: LabelOptions) -> None:
    """Refuse a recall that no blind label can ever certify."""
    if not jobs.settings.policy.recall or jobs.settings.audit or options.blind:
        return
    with jobs.process.ledger.read() as connection:
        if BlindQueues(connection, jobs.project).all():
            return
    raise ConfigError(
        "needs blind labels, and no task is kept blind",
        where="policy.recall",
        fix="give --blind 1000 in the project's first run, set audit in camvo.yaml, or remove recall",
    )


def print_notes(dataset: Dataset, index: Index, console: Console) -> None:
    """Say which columns a dataset lacks, or would lose in the output, and which labels look like a scale."""
    added = added_kinds(dataset.config)
    if replaced := [name for name in index.columns.names if name in added]:
        say(
            console,
            f"{dataset.source.path} has {', '.join(replaced)} already: the output has the values of this run"
            " there. To keep those of before, rename the columns first",
        )
    if absent := dataset.absent(index.columns):
        say(
            console,
            f"no row has {', '.join(map(repr, absent))}, which the label config shows among its words: models"
            " are shown a blank there",
        )
    for question in dataset.config.questions:
        if looks_ordered(question.control):
            say(
                console,
                f"the labels of {question.name} look like a scale: if they are one, give --ordered beside"
                ' --labels, or write camvo_ordered="true" into the label config (docs/tags.md)',
            )


def _has_labels(jobs: DatasetJobs) -> bool:
    with jobs.process.ledger.read() as connection:
        return ProjectRounds(connection, jobs.project).count_tasks() > 0


_NONE_LEFT = (
    "no task can be kept blind any more: each has a label already. --name {}-blind begins another project,"
    " whose first run can keep some blind; answers that are paid for are not bought again"
)
_NONE_ASKABLE = "no blind task can be drawn: none of the sample can be asked about"


def _with_blind_sample(
    jobs: DatasetJobs, dataset: Dataset, index: Index, options: LabelOptions, console: Console
) -> DatasetJobs:
    """Keep a random sample blind, and write it to its file unless people may be labelling that already."""
    share = _audit_share(index, jobs.project, options.blind)
    blind = replace(jobs, settings=jobs.settings.model_copy(update={"audit": share}))
    if options.blind_file.exists():
        say(
            console,
            f"{options.blind_file} already exists and stays as it is; move it away to have it written again",
        )
        return blind
    chosen = (task for task in index.first_rows() if is_audit(jobs.project, task.number, share))
    drawn = list(blind.look_up(chosen))
    sample = [
        stored.task
        for stored in drawn
        # A blank text cannot be labelled, and a label that was shown is no longer blind.
        if stored.askable and all(round_.audit for _, round_ in stored.decided)
    ]
    if not sample:
        labelled = any(stored.decided for stored in drawn)
        say(console, _NONE_LEFT.format(jobs.project) if labelled else _NONE_ASKABLE)
        return blind
    _write_blind_sample(options.blind_file, jobs.project, dataset.config, sample)
    left_out = len(drawn) - len(sample)
    fewer = f" ({left_out} more cannot be asked about, or have a label already)" if left_out else ""
    say(
        console,
        f"{of(len(sample), 'blind task')}{fewer} written to {options.blind_file}: label them from the"
        f" top, then run camvo teach {options.blind_file}",
    )
    return blind


def label_file(path: Path, out: Path, options: LabelOptions, config: Path | None) -> Ending:
    """Label a file and write the labels to another."""
    environment = quiet_environment(config)
    console = Console()
    with interruptible():
        tally = label_into(out, path, options, environment, console)
    say(console, tally.summary())
    say(console, f"written to {out}")
    print_outcome(console, environment, options.project(path))
    print_ending(console, tally.ending)
    return tally.ending


def label_into(
    out: Path,
    path: Path,
    options: LabelOptions,
    environment: Environment,
    console: Console,
) -> RunTally:
    """Label a file and write the labels to ``out``; see :func:`run_label`."""
    source = open_source(path)
    if out.exists() and out.samefile(path):
        raise DatasetError("is the file of the tasks", where="--out", fix="give it another name")
    if out.resolve() == options.blind_file.resolve():
        raise DatasetError("is the file that people label", where="--out", fix="give it another name")
    check_sink(out, for_spreadsheet=options.spreadsheet)

    def write(results: Iterator[Result], columns: Columns, added: Kinds) -> None:
        write_results(out, results, columns, added, console, for_spreadsheet=options.spreadsheet)

    return run_label(source, options, environment, console, write)


def write_results(
    out: Path,
    results: Iterator[Result],
    columns: Columns,
    added: Kinds,
    console: Console,
    *,
    for_spreadsheet: bool,
) -> None:
    """Write results to a file."""
    sink = open_sink(out, columns, added, for_spreadsheet=for_spreadsheet)
    try:
        with console.status(f"writing {out}"), sink as write:
            for result in results:
                write(result)
    except OSError as error:
        raise unwritable(error, out) from error


_MOST = 1000
"""Tasks that are asked about between two looks at what is in doubt."""

_T = TypeVar("_T")


def complete_and_count(
    jobs: DatasetJobs, tasks: IndexedTasks, console: Console, options: LabelOptions
) -> None:
    """Ask for missing votes, count kept votes again, and ask for further ones, as the options say.

    Kept votes are counted once more after further votes.
    """
    with Threads(1, "workers") as workers:
        again = _CountingAgain(jobs, tasks, workers, console)
        try:
            if options.retry_failed or options.ask_more is not None:
                further = None if options.ask_more is None else Purse("further", options.ask_more)
                again.complete(further or options.purse)
            if options.recount:
                with console.status("counting the kept votes again"):
                    again.recount(options.ask_more)
        except BaseException:
            jobs.process.stop_asking()
            again.recounter.stop()
            raise


class _CountingAgain:
    def __init__(self, jobs: DatasetJobs, tasks: IndexedTasks, workers: Threads, console: Console) -> None:
        process = jobs.process
        self._jobs, self._tasks, self._process, self._console = jobs, tasks, process, console
        self.recounter = Recounter(process.access, process.states, workers, jobs.settings)

    def complete(self, purse: Purse) -> None:
        """Ask the models whose votes are missing, and decide the tasks anew that get one."""
        process, project = self._process, self._jobs.project
        with process.ledger.read() as connection:
            numbers = IncompleteRounds(connection, project).tasks()
            left = FurtherVotes(connection, project).uncounted()  # by a run that was interrupted
        if not numbers and not left:
            return
        with progress_bar(self._console, "completing", len(numbers), waiting=self._jobs.awaited) as advance:

            async def complete(job: Job) -> Any:
                bought = await process.further.complete(job)
                advance(1)
                return bought

            portion = self._ask(self._jobs_of(numbers, purse), complete)
        counting = self._run(self.recounter.recount_completed(project))
        labels = 0 if counting is None else counting.labels
        tally = FurtherTally(portion.tasks, portion.votes, labels, exhausted=portion.exhausted)
        say(self._console, tally.completed(len(numbers)))

    def recount(self, ask_more: float | None) -> None:
        """Count the kept votes again; if asked to, ask models that were left out, and count once more."""
        counted = RecountTally()
        self.count(counted)
        if ask_more is not None:
            asked = self.ask(ask_more)
            self.count(counted)
            say(self._console, asked.asked(ask_more))
        say(self._console, counted.summary().partition("\n")[0])

    def count(self, tally: RecountTally) -> None:
        counting = self._run(self.recounter.recount(self._jobs.project, "command"))
        if counting is not None:
            tally.add(asdict(counting))

    def ask(self, usd: float) -> FurtherTally:
        tally, seen = FurtherTally(), set[int]()
        while not tally.exhausted:
            tally.spent_usd = self._spent()
            doubts = self._run(self.recounter.doubts(self._jobs.project, usd - tally.spent_usd, _MOST))
            wanted = [number for number in doubts.tasks if number not in seen]
            if not wanted:
                return tally
            seen.update(wanted)
            ask = partial(self._process.further.ask_in_doubt, worth_usd=1.0 / doubts.least)
            portion = self._ask(self._jobs_of(wanted, Purse("further", usd)), ask)
            tally.tasks += portion.tasks
            tally.votes += portion.votes
            tally.exhausted |= portion.exhausted
        tally.spent_usd = self._spent()
        return tally

    def _ask(self, jobs: Iterator[Job], ask: Callable[[Job], Coroutine[Any, Any, Any]]) -> Portion:
        at_once = self._jobs.settings.concurrency
        return self._run(ask_portion([*jobs], ask, at_once=at_once, deadline=math.inf))

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
        """Run some work; after an interruption, let the calls under way end."""
        under_way: WorkUnderWay[None, _T] = WorkUnderWay(self._process.thread.submit)
        try:
            under_way.start(None, work)
            return under_way.next_ended()[1].result()
        except KeyboardInterrupt:
            self.recounter.stop()
            await_answers(self._process, under_way, self._jobs.settings.longest_call, self._console)
            raise

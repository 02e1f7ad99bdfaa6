"""The quote of a dataset, and the consent to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import islice

from rich.console import Console

from backend.commands.label.dataset_jobs import AT_ONCE, DatasetJobs
from backend.commands.label.label_tasks import label_tasks
from backend.commands.label.options import LabelOptions
from backend.commands.progress import progress_bar
from backend.commands.quote.consent import agree_to
from backend.commands.quote.output import print_quote
from backend.commands.quote.samples import RandomSample, SampledTasks
from backend.datasets.shard import WHOLE
from backend.datasets.tasks import DatasetTask
from backend.quotes.quote import Quote
from backend.quotes.quote_maker import QuoteMaker
from camvo.quotes.forecast import KEPT_FROM, REPLAYS


def quote_of(
    jobs: DatasetJobs,
    read: Callable[[], Iterable[DatasetTask]],
    tasks: int,
    console: Console,
    target: float | None = None,
) -> Quote:
    """Count the tasks that have no label yet, and say what they will cost. Spends nothing.

    Args:
        jobs: makes jobs of tasks.
        read: reads the tasks.
        tasks: how many there are, for the progress.
        console: where progress is shown.
        target: the share of all labels that models and people are to get right; ``None`` for none.
    """
    batched = frozenset() if jobs.batching is None else jobs.batching.models
    maker, remaining = QuoteMaker(jobs.process, jobs.settings, jobs.project, batched), iter(read())
    with progress_bar(console, "counting tokens", tasks, transient=True) as advance:
        while some := list(islice(remaining, AT_ONCE)):
            maker.count([jobs.job(task) for task in some])
            advance(len(some))
    with progress_bar(console, "replaying", REPLAYS, transient=True) as advance:
        return maker.quote(advance, target)


def agreed(
    jobs: DatasetJobs, tasks: SampledTasks | RandomSample, options: LabelOptions, console: Console
) -> DatasetJobs:
    """Show the quote, take the pilot if there is to be one, and ask whether to go on.

    Returns:
        The jobs, with what they are to keep to.

    Raises:
        ConfigError: nobody can be asked; nothing was spent, or the pilot alone.
        typer.Exit: the answer is no.
        KeyboardInterrupt: somebody interrupted the pilot.
    """
    quote = quote_of(jobs, tasks.first_rows, tasks.tasks, console)
    print_quote(console, quote)
    if options.pilot and quote.to_come and not isinstance(tasks, RandomSample):
        run_pilot(jobs, tasks, quote, options, console)
        quote = quote_of(jobs, tasks.first_rows, tasks.tasks, console)
        print_quote(console, quote)
    agree_to(quote.bill.high, options, console)
    return kept_to(jobs, quote, options)


def run_pilot(
    jobs: DatasetJobs, index: SampledTasks, quote: Quote, options: LabelOptions, console: Console
) -> None:
    """Ask every model about a random sample of tasks, which are part of the job.

    Args:
        jobs: makes jobs of tasks.
        index: the tasks.
        quote: what asking everyone costs.
        options: how many tasks.
        console: where progress is shown and consent is asked for.

    Raises:
        ConfigError: nobody can be asked; nothing was spent.
        typer.Exit: the answer is no; nothing was spent.
        KeyboardInterrupt: somebody interrupted the pilot.
    """
    agree_to_pilot(quote, options, console)
    sample, at_once = RandomSample(index, jobs.project, options.pilot), replace(jobs, batching=None)
    tally = label_tasks(at_once, sample, console, everyone=True)
    console.print(f"pilot: {tally.summary()}", highlight=False, soft_wrap=True)


def agree_to_pilot(quote: Quote, options: LabelOptions, console: Console) -> None:
    """Ask whether to spend what a pilot may cost; see :func:`agree_to`."""
    missing = max(options.pilot - quote.evidence.rounds, 0)
    share = min(missing / max(quote.to_come, 1), 1.0)
    agree_to(share * quote.everyone.high, options, console)


def kept_to(jobs: DatasetJobs, quote: Quote, options: LabelOptions) -> DatasetJobs:
    """The jobs, whose plans keep to the upper end of a quote that rests on enough rounds."""
    aim = aim_of(quote, options)
    return jobs if aim is None else replace(jobs, aim_usd=aim)


def aim_of(quote: Quote, options: LabelOptions) -> float | None:
    """What the job's account is to be kept to, in $; ``None`` if the quote does not bind its plans.

    A shard's quote is about a part of the job, whose account all shards share, so nothing keeps to it.
    """
    if options.budget is not None or quote.evidence.rounds < KEPT_FROM or options.shard != WHOLE:
        return None
    return quote.spent_by_job + quote.bill.high

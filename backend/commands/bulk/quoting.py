"""The quote of a job: made of a file or a project, printed, and consented to."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import Protocol

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from backend import settings as settings_module
from backend.annotation.job import Job, random_draw
from backend.annotation.job_questions import ALL
from backend.commands.bulk.dataset_jobs import AT_ONCE, DatasetJobs, ScoreLevels
from backend.commands.bulk.labelling import label_tasks
from backend.commands.bulk.process import Source, ledger_to_read, open_source, source_of
from backend.commands.shared.arguments import ChosenTasks, quiet_environment
from backend.commands.shared.options import LabelOptions
from backend.commands.shared.output import progress_bar, say
from backend.commands.shared.setup import interruptible
from backend.datasets.tasks import WHOLE, DatasetTask, IndexedTasks
from backend.errors import ConfigError
from backend.ledger.database.statements import portions
from backend.ledger.epochs import TaskCosts, costs_of_a_task
from backend.ledger.projects import is_of_label_studio, short_name
from backend.ledger.rounds import Round, RoundKey
from backend.quotes.quote import JobTally, Lever, ModelQuote, Quote, Range
from backend.quotes.quote_maker import QuoteMaker
from backend.server.status.formats import amount, of
from backend.settings import Environment, Settings
from camvo.quotes import KEPT_FROM, REPLAYS

_COLUMNS = ("in a prompt", "input tokens", "output tokens", "for all tasks", "hours", "asked about")

_NOTHING = ("", "1")
"""Cells that carry no information if the whole column consists of them."""


def _print_quote(console: Console, quote: Quote) -> None:
    """Print a quote."""
    for line in _lines(quote):
        say(console, line)
    if not quote.to_come:
        return
    console.print(_table(quote))


def _table(quote: Quote) -> Table:
    """What each model costs; columns that say nothing about any model are left out."""
    rows = {escape(name): _cells(model) for name, model in quote.models.items()}
    names = [name for name in _COLUMNS if any(cells[name] not in _NOTHING for cells in rows.values())]
    # Lines between the columns would leave no room for the names on a terminal of 80 columns.
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("model", overflow="fold")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for model, cells in rows.items():
        table.add_row(model, *(cells[name] for name in names))
    return table


def _lines(quote: Quote) -> Iterator[str]:
    """The quote as sentences."""
    done, listed = quote.tasks - quote.to_come - quote.unreadable, of(quote.tasks, "task")
    name = short_name(quote.project)
    name = f"project {name}" if is_of_label_studio(quote.project) else name
    yield f"{name}: {listed}, {done:,} labelled, {quote.to_come:,} to come" + (
        f", {quote.unreadable:,} cannot be asked about" if quote.unreadable else ""
    )
    if quote.spent:
        yield f"spent so far: {_dollars(quote.spent)}"
    if not quote.to_come:
        yield from _target_lines(quote)
        return
    if (long := quote.too_long) is not None:
        place = f" (the first: {long.first})" if long.first else ""
        yield (
            f"! {of(long.tasks, 'task')} longer than the {long.context:,} tokens that {long.model} reads"
            + f"{place}: asking everyone costs {_dollars(long.usd)} where providers accept it, and gives no"
            " label where they refuse it; shorten such texts, or leave them out"
        )
    yield f"asking everyone: {_money(quote.everyone)}{_why_a_range(quote)}"
    yield f"this policy ({quote.policy}): {_money(quote.bill)}{_basis(quote)}"
    if quote.student and quote.evidence.rounds:
        yield "the student is not counted: where texts show their label, it makes the bill smaller"
    if quote.hours is not None:
        yield f"time at the configured limits: {_hours(quote.hours)}"
    evidence = quote.evidence
    if evidence.agreement is not None:
        yield f"labels as everyone together gives them: {evidence.agreement:.1%}"
    if evidence.accuracy is not None and evidence.accuracy.likely is not None:
        right = evidence.accuracy
        yield (
            f"right labels: {right.likely:.1%}, from {right.low:.1%} to {right.high:.1%}, by"
            f" {of(evidence.labelled, 'human label')}"
        )
    if quote.levers and not any(lever.on for lever in quote.levers):
        yield "batches and packing are set at some models only; each line below is about all models"
    batches = any(lever.batch for lever in quote.levers)
    for lever in quote.levers:
        yield (
            f"{_way(lever, batches=batches)}: everyone {_dollars(lever.everyone)},"
            f" this policy about {_dollars(lever.policy)}" + (" (as it is set)" if lever.on else "")
        )
    yield from _target_lines(quote)


def _target_lines(quote: Quote) -> Iterator[str]:
    """How the target can be reached, as sentences; none without a target."""
    if quote.target is None:
        return
    right, mix = f"{quote.target.target:.1%}".replace(".0%", "%"), quote.target.mix
    if mix is None:
        yield f"{right} right: unknown: {quote.target.unknown}"
        return
    labels = _dollars(mix.labels * mix.label_usd)
    yield (
        f"{right} right: {_dollars(mix.models_usd)} for models and {of(mix.labels, 'human label')}"
        f" ({labels}), {_dollars(mix.usd)} in all; people alone {_dollars(mix.people_alone_usd)}"
    )
    yield (
        f"{right} right with a probability of 95%: {of(mix.labels_sure, 'human label')},"
        f" {_dollars(mix.usd_sure)} in all, as far as {of(quote.target.labelled, 'human label')} so far"
        " can tell"
    )
    if mix.setting is not None:
        yield f"models ask as much as that with policy: {{{mix.setting}}}"


def _way(lever: Lever, *, batches: bool) -> str:
    """How the models would be asked; of batches nothing is said if none of them has any."""
    pack = "off" if lever.pack is None else f"up to {lever.pack} tasks in a prompt"
    return (f"batches {'on' if lever.batch else 'off'}, " if batches else "") + f"packing {pack}"


def _dollars(usd: float) -> str:
    """An amount with two significant digits at least."""
    return f"${usd:,.2f}" if usd >= 0.1 or not usd else amount(usd)


def _money(usd: Range) -> str:
    """A range of amounts."""
    low, high = _dollars(usd.low), _dollars(usd.high)
    if low == high:
        return low
    return f"{low} to {high}" if usd.likely is None else f"{_dollars(usd.likely)}, from {low} to {high}"


def _hours(time: Range) -> str:
    """A range of times."""
    likely, low, high = (f"{value:.2g}" for value in (time.middle, time.low, time.high))
    if low == high:
        return f"{low} h"
    return f"{low} to {high} h" if time.likely is None else f"{likely} h, from {low} to {high} h"


def _why_a_range(quote: Quote) -> str:
    unmeasured = [name for name, model in quote.models.items() if not model.measured]
    if not unmeasured or quote.everyone.low == quote.everyone.high:
        return ""
    return f" (no answer of {' or '.join(unmeasured)} measured yet: up to max_tokens)"


_PILOT = 200
"""The tasks of the pilot that a quote suggests; with fewer to come it would ask every model about all."""


def _basis(quote: Quote) -> str:
    if quote.evidence.rounds:
        return f" (95% interval, by {of(quote.evidence.rounds, 'round')} of this project that asked everyone)"
    if quote.bill.low == quote.bill.high or quote.bill.likely is not None:
        return ""
    # A pilot shows the policy's share only if its rounds can be replayed, and always how long answers are.
    unknown = quote.evidence.replayable or not all(model.measured for model in quote.models.values())
    narrows = "; --pilot 200 narrows it" if unknown and quote.to_come > _PILOT else ""
    return f" (by what is documented of other projects{narrows})"


def _cells(model: ModelQuote) -> dict[str, str]:
    low, high = (_thousands(tokens) for tokens in (model.output_tokens.low, model.output_tokens.high))
    cells = [
        "1" if model.pack == 1 else f"up to {model.pack}",
        _thousands(model.input_tokens),
        low if low == high else f"{low} to {high}",
        _money(model.usd),
        "" if model.hours is None else f"{model.hours:.2g}",
        "" if model.asked is None else f"{model.asked:.0%}",
    ]
    return dict(zip(_COLUMNS, cells, strict=True))


def _thousands(tokens: float) -> str:
    """Tokens in thousands, as ``1,197k``; below a thousand, the number itself."""
    return f"{tokens:,.0f}" if tokens < 1000.0 else f"{tokens / 1000.0:,.0f}k"


_WITHOUT_ASKING = 1.0
"""Dollars up to which no confirmation is asked for."""


def agree_to(usd: float, options: LabelOptions, console: Console) -> None:
    """Ask whether to spend this amount, unless it is small or the options already allow it."""
    if usd <= _WITHOUT_ASKING or options.yes or options.budget is not None:
        return
    if not (console.is_terminal and sys.stdin.isatty()):
        raise ConfigError(
            f"the run may cost {_dollars(usd)}, and nobody can be asked; nothing was spent",
            where="--yes",
            fix="give --budget 50 to allow 50 dollars for the job, or --yes for what the quote says",
        )
    if not typer.confirm(f"Spend up to {_dollars(usd)}?"):
        raise typer.Exit(1)


class _SampledTasks(IndexedTasks, Protocol):
    """Tasks from which a sample can be drawn: those of a file, or of a project in Label Studio."""

    def smallest(self, draw: Callable[[int], int], count: int) -> list[int]:
        """The smallest draws of the tasks' numbers, ascending, at most ``count``."""


class RandomSample:
    """A random sample of the tasks: the same for every order of the rows, and part of every larger one.

    The attributes are those of :class:`backend.datasets.tasks.IndexedTasks`.
    """

    def __init__(self, index: _SampledTasks, project: str, size: int) -> None:
        self._index, self._project = index, project
        draws = index.smallest(self._draw, size)
        self._last = draws[-1] if draws else -1
        self.columns = index.columns
        self.tasks = len(draws)
        self.rows = sum(1 for _ in self.every_row())

    def every_row(self) -> Iterator[DatasetTask]:
        """Read the task of each row of the sample, in the order of the rows."""
        return filter(self._holds, self._index.every_row())

    def first_rows(self) -> Iterator[DatasetTask]:
        """Read each task once."""
        return filter(self._holds, self._index.first_rows())

    def is_first(self) -> Iterator[bool]:
        """Whether each row, in its order, is the first of its task."""
        return compress(self._index.is_first(), map(self._holds, self._index.every_row()))

    @staticmethod
    def draw_of(project: str, task: int) -> int:
        """The draw of a task, the same in every process: the tasks with the smallest are a random sample."""
        return random_draw("sample", project, task) >> 1  # as earlier runs drew them

    def _draw(self, task: int) -> int:
        return self.draw_of(self._project, task)

    def _holds(self, task: DatasetTask) -> bool:
        return self._draw(task.number) <= self._last


def _counted_quote(
    jobs: DatasetJobs, tasks: IndexedTasks, console: Console, target: float | None = None
) -> Quote:
    """Count the tasks that have no label yet, and say what they will cost. Spends nothing."""
    batched = frozenset() if jobs.batching is None else jobs.batching.models
    maker = QuoteMaker(jobs.process, jobs.settings, jobs.project, batched)
    levels, place = ScoreLevels(), None
    with progress_bar(console, "counting tokens", tasks.tasks, transient=True) as advance:
        for some in portions(tasks.first_rows(), AT_ONCE):
            maker.count(list(_without_held(jobs, some, levels, maker.tally)))
            place = place or next((task.row.place for task in some if task.number == maker.too_long), None)
            advance(len(some))
    if held := levels.tasks[ALL]:
        _print_held(console, held, levels, jobs.held.below, _costs_of_a_task(jobs))
    with progress_bar(console, "replaying", REPLAYS, transient=True) as advance:
        quote = maker.quote(advance, target)
    return replace(quote, too_long=quote.too_long and replace(quote.too_long, first=place))


def _without_held(
    jobs: DatasetJobs, tasks: Sequence[DatasetTask], levels: ScoreLevels, tally: JobTally
) -> Iterator[Job]:
    """The jobs but those of tasks that keep their labels of earlier instructions, which are counted."""
    if not jobs.held.epochs:
        yield from map(jobs.job, tasks)
        return
    for stored in jobs.look_up(tasks):
        _count_held(levels, stored.held)
        if stored.held and stored.complete:
            tally.listed += 1
        else:
            yield stored.job


def _count_held(levels: ScoreLevels, held: Mapping[RoundKey, Round]) -> None:
    """Count a task with labels of earlier instructions by its least certain one that nobody has labelled.

    Tasks that people have labelled keep theirs unless all are asked about again.
    """
    if held:
        levels.add(min((round_.score for round_ in held.values() if round_.human is None), default=ALL))


def _costs_of_a_task(jobs: DatasetJobs) -> TaskCosts:
    """What the calls about all questions of a task have cost."""
    with jobs.process.ledger.read() as connection:
        of_questions = [
            costs_of_a_task(connection, jobs.project, each.name) for each in jobs.config.questions
        ]
    return TaskCosts(sum(each.usd for each in of_questions), sum(each.everyone_usd for each in of_questions))


def _print_held(console: Console, held: int, levels: ScoreLevels, below: float, costs: TaskCosts) -> None:
    """Say how many tasks have labels of earlier instructions, and what asking about them again costs."""
    again = "none is" if not below else "all are" if below >= ALL else f"those below a score of {below:g} are"
    said = f"{of(held, 'task')} have labels of earlier instructions: {again} asked about again."
    lines = [f"{said} The choice, by what tasks have cost until now:", *levels.lines(costs)]
    for line in lines:
        say(console, line)


def agreed(
    jobs: DatasetJobs, tasks: _SampledTasks | RandomSample, options: LabelOptions, console: Console
) -> DatasetJobs:
    """The jobs, once their quote is agreed to; their plans keep to it. A sample needs no pilot."""
    run_pilot = (
        None if isinstance(tasks, RandomSample) else partial(_run_pilot, jobs, tasks, options, console)
    )
    aim = agree(partial(_counted_quote, jobs, tasks, console), run_pilot, options, console)
    return jobs if aim is None else replace(jobs, aim_usd=aim)


def agree(
    make: Callable[[], Quote], run_pilot: Callable[[], None] | None, options: LabelOptions, console: Console
) -> float | None:
    """Show the quote, run the pilot if one is wanted, and ask whether to continue.

    Returns what the job's account is to be kept to, in $; ``None`` if the quote does not bind its plans.
    """
    quote = _after_pilot(make, run_pilot, options, console)
    _print_quote(console, quote)
    agree_to(quote.bill.high, options, console)
    return _aim_of(quote, options)


def _after_pilot(
    make: Callable[[], Quote], run_pilot: Callable[[], None] | None, options: LabelOptions, console: Console
) -> Quote:
    """The quote, after the pilot if one is wanted and agreed to; see :func:`agree_to`."""
    quote = make()
    if run_pilot is None or not options.pilot or not quote.to_come:
        return quote
    _print_quote(console, quote)
    missing = max(options.pilot - quote.evidence.rounds, 0)
    agree_to(min(missing / quote.to_come, 1.0) * quote.everyone.high, options, console)
    run_pilot()
    return make()


def _run_pilot(jobs: DatasetJobs, index: _SampledTasks, options: LabelOptions, console: Console) -> None:
    """Ask every model about a random sample of tasks, which are part of the job."""
    sample, at_once = RandomSample(index, jobs.project, options.pilot), replace(jobs, batching=None)
    tally = label_tasks(at_once, sample, console, everyone=True)
    say(console, f"pilot: {tally.summary()}")


def _aim_of(quote: Quote, options: LabelOptions) -> float | None:
    """What the job's account is to be kept to, in $; ``None`` if the quote does not bind its plans.

    A shard's quote is about a part of the job, whose account all shards share, so nothing keeps to it.
    """
    if options.budget is not None or quote.evidence.rounds < KEPT_FROM or options.shard != WHOLE:
        return None
    return quote.spent_by_job + quote.bill.high


def print_quote_of(chosen: ChosenTasks, *, as_json: bool, target: float | None) -> None:
    """Print the quote of a file or of a project."""
    environment = quiet_environment(chosen.config)
    console = Console(stderr=as_json)
    with interruptible():
        found = source_of(chosen.source, environment, chosen.label_studio)
        quote = _quote_of(found, chosen.options, environment, console, target)
    if as_json:
        print(json.dumps(quote.to_json(), indent=2))  # noqa: T201 - the output
    else:
        _print_quote(console, quote)


def _quote_of(
    source: Source,
    options: LabelOptions,
    environment: Environment,
    console: Console,
    target: float | None = None,
) -> Quote:
    """The quote of a file or a project, after a pilot if there is to be one."""
    _require_price(settings_module.load(environment.config), target)
    asking = options.pilot > 0
    with (
        ledger_to_read(environment, asking=asking) as of_quote,
        open_source(source, options, of_quote, asking=asking) as (jobs, tasks),
    ):
        make = partial(_counted_quote, jobs, tasks, console, target)
        return _after_pilot(make, partial(_run_pilot, jobs, tasks, options, console), options, console)


def _require_price(settings: Settings, target: float | None) -> None:
    if target is not None and not settings.humans.priced:
        raise ConfigError(
            "needs the price of a person's label",
            where="--target",
            fix="set humans: {price: 0.12} in camvo.yaml, in dollars",
        )

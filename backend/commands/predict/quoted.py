"""The quote of ``camvo predict``: the server counts the tasks that it will be asked about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import nsmallest
from typing import Any

from rich.console import Console

from backend.commands.connect.backend_client import BackendClient
from backend.commands.label.options import LabelOptions
from backend.commands.predict.prediction_run import PredictionRun
from backend.commands.predict.tally import Tally
from backend.commands.predict.terminal import INTERRUPTED, run_on_terminal
from backend.commands.progress import progress_bar
from backend.commands.quote.consent import agree_to
from backend.commands.quote.output import print_quote
from backend.commands.quote.quoting import agree_to_pilot, aim_of
from backend.commands.quote.samples import sample_draw
from backend.errors import BodyTooLargeError
from backend.quotes.quote import Quote

Task = Mapping[str, Any]


def agree_to_quote(
    backend: BackendClient, run: PredictionRun, tasks: int, options: LabelOptions, console: Console
) -> None:
    """Show what the run will cost, and ask whether to go on; its money then goes through the job's account.

    Args:
        backend: the server; it is told the terms of the job.
        run: what is to be asked.
        tasks: how many tasks the run goes through.
        options: ``--yes``, ``--budget`` and ``--pilot``.
        console: where the quote is shown and consent is asked for.

    Raises:
        ConfigError: nobody can be asked; nothing was spent, or the pilot alone.
        typer.Exit: the answer is no.
        KeyboardInterrupt: somebody interrupted the pilot.
        LabelStudioError: Label Studio refused, or cannot be reached.
        BackendError: the server refused, or cannot be reached.
    """
    quote = quote_of_run(backend, run, tasks, console)
    print_quote(console, quote)
    if options.pilot and quote.to_come:
        agree_to_pilot(quote, options, console)
        run_pilot(backend, run, tasks, options, console)
        quote = quote_of_run(backend, run, tasks, console)
        print_quote(console, quote)
    agree_to(quote.bill.high, options, console)
    backend.job = {"usd": options.purse.usd, "aim_usd": aim_of(quote, options)}


def run_pilot(
    backend: BackendClient, run: PredictionRun, tasks: int, options: LabelOptions, console: Console
) -> None:
    """Have every model asked about a random sample of the tasks, and store the predictions of these.

    The sample is that of ``camvo label --pilot``, and the larger one contains the smaller.

    Args:
        backend: the server; the job's account pays.
        run: what is to be asked afterwards.
        tasks: how many tasks that goes through.
        options: how many tasks the pilot is about.
        console: where progress is shown.

    Raises:
        LabelStudioError: Label Studio refused, or cannot be reached; stored predictions stay.
        BackendError: the server refused, or cannot be reached; stored predictions stay.
        KeyboardInterrupt: somebody interrupted the pilot; what was asked is kept.
    """
    sample = _sample(run, tasks, options.pilot, console)
    backend.job = {"usd": options.purse.usd, "aim_usd": None, "everyone": True}
    pilot = replace(run, only=sample, refresh=False, tally=Tally())
    console.print(f"pilot: every model is asked about {len(sample):,} random tasks", highlight=False)
    if run_on_terminal(console, pilot, len(sample)) == INTERRUPTED:
        raise KeyboardInterrupt


def _sample(run: PredictionRun, tasks: int, size: int, console: Console) -> list[int]:
    """The numbers of a random sample of the tasks, ascending."""
    with progress_bar(console, "drawing the pilot", tasks, transient=True) as advance:

        def numbers() -> Iterator[int]:
            for page, _ in run.pages():
                yield from (task["id"] for task in page)
                advance(len(page))

        return sorted(nsmallest(size, numbers(), lambda number: sample_draw(run.key, number)))


def quote_of_run(backend: BackendClient, run: PredictionRun, tasks: int, console: Console) -> Quote:
    """The server's quote of a run; nothing is asked.

    Raises:
        LabelStudioError: Label Studio refused, or cannot be reached.
        BackendError: the server refused, or cannot be reached.
    """
    counted: Counter[str] = Counter()
    example: list[Task] = []
    with progress_bar(console, "counting tokens", tasks, transient=True) as advance:
        for page, wanted in run.pages():
            for sums, task in _counts(backend, run, wanted):
                counted.update(sums)
                example = example or [each for each in wanted if each["id"] == task]
            advance(len(page))
    sums = dict(counted) or backend.count(run.key, run.label_config, [])[0]
    with console.status("replaying"):
        return Quote.of_json(backend.quote(run.key, run.label_config, example, sums))


def _counts(
    backend: BackendClient, run: PredictionRun, tasks: Sequence[Task]
) -> list[tuple[dict[str, int], int | None]]:
    """Have tasks counted, in several requests if one is too large; a task that is too large is left out."""
    if not tasks:
        return []
    try:
        return [backend.count(run.key, run.label_config, tasks)]
    except BodyTooLargeError:
        if len(tasks) == 1:
            return []
        half = len(tasks) // 2
        return _counts(backend, run, tasks[:half]) + _counts(backend, run, tasks[half:])

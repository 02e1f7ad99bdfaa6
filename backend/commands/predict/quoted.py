"""The quote of ``camvo predict``: the server counts the tasks that it will be asked about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console

from backend.commands.connect.backend_client import BackendClient
from backend.commands.label.options import LabelOptions
from backend.commands.predict.prediction_run import PredictionRun
from backend.commands.progress import progress_bar
from backend.commands.quote.consent import agree_to
from backend.commands.quote.output import print_quote
from backend.commands.quote.quoting import aim_of
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
        options: ``--yes`` and ``--budget``.
        console: where the quote is shown and consent is asked for.

    Raises:
        ConfigError: nobody can be asked; nothing was spent.
        typer.Exit: the answer is no; nothing was spent.
        LabelStudioError: Label Studio refused, or cannot be reached.
        BackendError: the server refused, or cannot be reached.
    """
    quote = quote_of_run(backend, run, tasks, console)
    print_quote(console, quote)
    agree_to(quote.bill.high, options, console)
    backend.job = {"usd": options.purse.usd, "aim_usd": aim_of(quote, options)}


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

"""``camvo predict``: the quote, the consent to it, and the run on a terminal."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from heapq import nsmallest
from typing import Any

from rich.console import Console

from backend.commands.bulk.predicting import PredictionRun, Tally, in_requests
from backend.commands.bulk.quoting import RandomSample, agree
from backend.commands.bulk.recounting import RecountRun, complete, count_again
from backend.commands.shared import backend_client
from backend.commands.shared.backend_client import BackendClient
from backend.commands.shared.options import LabelOptions
from backend.commands.shared.output import print_ending, progress_bar, say, to_come
from backend.label_studio import payloads
from backend.label_studio.client import Client
from backend.quotes.quote import Quote
from backend.server.status.formats import dollars, of
from backend.server.status.missing import Ending, Missing
from backend.settings import Environment


def _run_on_terminal(
    console: Console, run: PredictionRun, tasks: int, missing: Callable[[], Missing] | None = None
) -> int:
    """Go through a project, show progress, totals and what is missing, and return the exit code."""
    tally, began = run.tally, time.monotonic()

    def print_totals() -> None:
        minutes, seconds = divmod(round(time.monotonic() - began), 60)
        took = f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
        line = f"{tally.summary()}\n{dollars(tally.spent_usd)} spent in {took}"
        say(console, line)

    try:
        with progress_bar(
            console,
            "tasks",
            tasks,
            note=lambda done, total: _money(tally, done, total),
            waiting=lambda: tally.awaited,
        ) as bar:
            run(bar)
    except KeyboardInterrupt:
        print_totals()
        say(console, f"Stopped. {_kept(run.batch)}")
        raise
    except Exception:
        print_totals()
        say(console, _kept(run.batch))
        raise
    tally.missing = None if missing is None else missing()
    print_totals()
    return tally.ending


def _kept(batch: int) -> str:
    """What stays of a run that ends early, and how to continue it."""
    return (
        f"What is stored stays. The server finishes the tasks that it works on, {batch} at most, and keeps"
        " their answers. Run the same command again: it continues with what is missing, and pays for nothing"
        " twice."
    )


def _money(tally: Tally, done: int, total: int) -> str:
    """What was spent, and what is to come if the tasks left cost what those of finished requests did."""
    if not tally.spent_usd:
        return ""
    return f"{dollars(tally.spent_usd)} spent" + to_come(tally.usd_asked, tally.asked, total - done)


_Task = Mapping[str, Any]


def _agree_to_quote(
    backend: BackendClient, run: PredictionRun, tasks: int, options: LabelOptions, console: Console
) -> None:
    """Show the run's quote, and ask whether to continue; its money is then booked on the job's account."""
    aim = agree(
        partial(_quote_of_run, backend, run, tasks, console),
        partial(_run_pilot, backend, run, tasks, options, console),
        options,
        console,
    )
    backend.job = {"usd": options.purse.usd, "aim_usd": aim, "no_wait": options.no_wait}


def _run_pilot(
    backend: BackendClient, run: PredictionRun, tasks: int, options: LabelOptions, console: Console
) -> None:
    """Have every model asked about a random sample of the tasks, and store the predictions of these."""
    sample = _sample(run, tasks, options.pilot, console)
    backend.job = {"usd": options.purse.usd, "aim_usd": None, "everyone": True, "no_wait": options.no_wait}
    pilot = replace(run, only=sample, refresh=False, tally=Tally())
    console.print(f"pilot: every model is asked about {of(len(sample), 'random task')}", highlight=False)
    _run_on_terminal(console, pilot, len(sample))


def _sample(run: PredictionRun, tasks: int, size: int, console: Console) -> list[int]:
    """The numbers of a random sample of the tasks, ascending."""
    with progress_bar(console, "drawing the pilot", tasks, transient=True) as advance:

        def numbers() -> Iterator[int]:
            for page, _ in run.pages():
                yield from (task["id"] for task in page)
                advance(len(page))

        return sorted(nsmallest(size, numbers(), lambda number: RandomSample.draw_of(run.key, number)))


def _quote_of_run(backend: BackendClient, run: PredictionRun, tasks: int, console: Console) -> Quote:
    """The server's quote of a run; nothing is asked."""
    counted: Counter[str] = Counter()
    example: list[_Task] = []
    with progress_bar(console, "counting tokens", tasks, transient=True) as advance:
        for page, wanted in run.pages():
            for found in in_requests(wanted, partial(backend.count, run.key, run.label_config)):
                if found is not None:
                    counted.update(found[0])
                    example = example or [each for each in wanted if each["id"] == found[1]]
            advance(len(page))
    sums = dict(counted) or backend.count(run.key, run.label_config, [])[0]
    with console.status("replaying"):
        return Quote.of_json(backend.quote(run.key, run.label_config, example, sums))


def predict_project(
    project: int, options: LabelOptions, label_studio: str | None, backend_url: str | None
) -> int:
    """Store the server's predictions of a project; return the exit code."""
    environment = Environment()
    url = backend_client.backend_url(backend_url, environment)
    with closing(BackendClient(url, environment, again=options.retry_failed)) as backend:
        client = backend_client.label_studio_client(label_studio, environment)
        return _predict(client, backend, project, options)


def _predict(client: Client, backend: BackendClient, project: int, options: LabelOptions) -> int:
    console, payload = Console(), client.project(project)
    version = backend.model_version()
    key, label_config = payloads.project_key(payload), payload["label_config"]
    backend.instructions = payloads.project_instructions(payload)
    backend.below = options.below if options.refresh else 0.0
    counting = RecountRun(client, backend, project, key, label_config, options.at_once)
    run = PredictionRun(
        client=client,
        predictor=backend,
        project=project,
        key=key,
        label_config=label_config,
        model_version=version,
        refresh=options.refresh,
        below=options.below,
        failed=options.failed or options.retry_failed,
        annotated=options.annotated,
        in_order=options.in_order,
        waits=not options.no_wait,
        batch=options.at_once,
    )
    if options.recount:
        count_again(console, counting, options.ask_more)
        _deliver(console, counting)
        run.check(counting.delivered)
        return 0
    began, backend.tasks = backend.mark(key), client.count_tasks(project)
    tasks = len(backend.failed_tasks(key)) if run.failed else backend.tasks
    _agree_to_quote(backend, run, tasks, options, console)
    if options.refresh:
        count_again(console, counting, options.ask_more)

    def missing() -> Missing:
        if options.retry_failed:
            run.tally.spent_usd += complete(console, counting, options.purse)
        return backend.missing(key, began)

    code = _run_on_terminal(console, run, tasks, missing=missing)
    if options.refresh or options.retry_failed:
        _deliver(console, counting, changes_only=True)
    print_ending(console, Ending(code))
    return code


def _deliver(console: Console, counting: RecountRun, *, changes_only: bool = False) -> None:
    """Bring the changes to Label Studio, and say what has changed."""
    with progress_bar(console, "replacing predictions", counting.pending(), transient=True) as advance:
        counting.deliver(advance)
    summary = counting.tally.summary()
    said = summary.partition("\n")[0] if changes_only else summary
    say(console, said)

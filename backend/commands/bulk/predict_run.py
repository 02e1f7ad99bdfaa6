"""``camvo predict``: the server predicts a project's tasks, counts kept votes again, and asks for more."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from heapq import nsmallest
from typing import Any

from rich.console import Console

from backend.commands.bulk.prediction_run import PredictionRun, Tally
from backend.commands.bulk.quoting import RandomSample, agree
from backend.commands.shared import backend_client
from backend.commands.shared.backend_client import BackendClient, TasksInDoubt
from backend.commands.shared.options import LabelOptions
from backend.commands.shared.output import Advance, print_ending, progress_bar, say, to_come
from backend.errors import BodyTooLargeError
from backend.label_studio import payloads, predictions
from backend.label_studio.client import Client
from backend.ledger.database.statements import portions
from backend.ledger.money import Purse
from backend.quotes.quote import Quote
from backend.server.status.formats import count, dollars, of
from backend.server.status.missing import Ending, Missing
from backend.settings import Environment


@dataclass(slots=True)
class RecountTally:
    """What a run did."""

    counting: Mapping[str, Any] | None = None
    replaced: int = 0
    drafted: int = 0

    def add(self, counting: Mapping[str, Any]) -> None:
        """Count what a counting changed; a label that two countings change counts twice."""
        before = self.counting or {**counting, "labels": 0, "scores": 0}
        sums = {name: before[name] + counting[name] for name in ("labels", "scores")}
        self.counting = {**counting, **sums, "score_before": before["score_before"]}

    def summary(self) -> str:
        """Return a line with what changed, and one with what Label Studio shows."""
        if self.counting is None:
            lines = ["Counted again: nothing changed"]
        else:
            labels, scores, counted = (self.counting[name] for name in ("labels", "scores", "counted"))
            means = (self.counting[name] for name in ("score_before", "score_after"))
            lines = [
                f"Counted again: {labels:,} of {counted:,} labels changed, and {scores:,} more scores;"
                f" mean score {' → '.join(f'{mean:.3f}' for mean in means)}"
            ]
        lines.append(f"{of(self.replaced, 'prediction')} replaced in Label Studio")
        if self.drafted:
            keep = "has a draft, and keeps its" if self.drafted == 1 else "have a draft, and keep their"
            lines.append(f"{of(self.drafted, 'task')} {keep} prediction until it is gone")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _RecountRun:
    """One recount of one project. It keeps no state: an interrupted run can be repeated."""

    client: Client
    backend: BackendClient
    project: int
    key: str
    label_config: str
    batch: int = 50
    tally: RecountTally = field(default_factory=RecountTally)
    delivered: list[int] = field(default_factory=list)

    def count(self) -> None:
        """Make the server recount."""
        counting = self.backend.recount(self.key)
        if counting is not None:
            self.tally.add(counting)

    def pending(self) -> int:
        """Count the tasks whose prediction is to be replaced."""
        return self.backend.recounted(self.key).pending

    def deliver(self, advance: Advance = lambda tasks: None) -> None:
        """Replace the predictions of changed tasks that nobody has annotated or begun to."""
        last = 0
        while (page := self.backend.recounted(self.key, last)).tasks:
            last = page.tasks[-1]
            for numbers in portions(page.tasks, self.batch):
                self._replace(numbers, page.through)
                self.delivered.extend(numbers)
                advance(len(numbers))

    def _replace(self, numbers: Sequence[int], through: int) -> None:
        wanted, drafted = predictions.untouched(self.client.tasks(self.project, numbers))
        results = (
            self.backend.predict(self.key, self.label_config, wanted, stored_only=True) if wanted else []
        )
        found = [
            outdated
            for task, answer in zip(wanted, results, strict=True)
            for outdated in predictions.outdated(task, answer.predictions)
        ]
        predictions.replace_all(self.client, found)
        self.tally.replaced += len(found)
        self.tally.drafted += len(drafted)
        self.backend.delivered(self.key, [number for number in numbers if number not in drafted], through)


@dataclass(slots=True)
class AskMoreTally:
    """What a run did."""

    tasks: int = 0
    votes: int = 0
    spent_usd: float = 0.0
    exhausted: bool = False

    def summary(self, usd: float) -> str:
        """Return a line with what was asked and why it ended."""
        asked = (
            f"Asked more: {of(self.votes, 'vote')} on {of(self.tasks, 'task')};"
            f" ${self.spent_usd:.4g} of ${usd:.4g} spent"
        )
        why = "the money does not cover the next" if self.exhausted else "no other vote is worth asking for"
        return f"{asked}, {why}"


@dataclass(frozen=True, slots=True)
class _AskMoreRun:
    """One run over one project. The server keeps what was bought, so an interrupted run can be repeated."""

    counting: _RecountRun
    usd: float
    tally: AskMoreTally = field(default_factory=AskMoreTally)

    def __call__(self, show: Callable[[str], object] = lambda line: None) -> AskMoreTally:
        """Ask until no vote is worth asking for or the money is spent."""
        tally, seen, of = self.tally, set[int](), self.counting
        while not tally.exhausted:
            doubts = of.backend.doubts(of.key, self.usd)
            tally.spent_usd = doubts.spent_usd
            numbers = [number for number in doubts.tasks if number not in seen]
            if not numbers:
                break
            seen.update(numbers)
            for portion in portions(numbers, of.batch):
                show(f"asking more: {tally.votes} votes on {tally.tasks} tasks, ${tally.spent_usd:.4g} spent")
                self._ask(portion, doubts)
                if tally.exhausted:
                    break
        return tally

    def _ask(self, numbers: Sequence[int], doubts: TasksInDoubt) -> None:
        """Ask about tasks that nobody has annotated or begun to, until all of them were asked about."""
        of = self.counting
        by_number = {task["id"]: task for task in of.client.tasks(of.project, numbers)}
        in_order = [by_number[number] for number in numbers if number in by_number]
        wanted, _ = predictions.untouched(in_order)
        ask = partial(of.backend.ask_more, of.key, of.label_config, usd=self.usd, least=doubts.least)
        for said in _asked(wanted, ask):
            self.tally.tasks += said["tasks"]
            self.tally.votes += said["votes"]
            self.tally.spent_usd += said["usd"]
            self.tally.exhausted |= said["exhausted"]


@dataclass(slots=True)
class CompletingTally:
    """What came of asking for missing votes."""

    tasks: int = 0
    votes: int = 0
    labels: int = 0
    exhausted: bool = False

    def summary(self, incomplete: int) -> str:
        """Return a line with what came.

        Args:
            incomplete: how many tasks lacked votes.
        """
        line = (
            f"Completed: {of(self.votes, 'missing vote')} on {count(self.tasks)} of"
            f" {of(incomplete, 'task')} came, and changed {of(self.labels, 'label')}"
        )
        return f"{line}; the money does not cover the next" if self.exhausted else line


@dataclass(frozen=True, slots=True)
class _CompletingRun:
    """Asks for the missing votes of one project. The server keeps what was bought."""

    counting: _RecountRun
    purse: Purse
    tally: CompletingTally = field(default_factory=CompletingTally)

    def tasks(self) -> list[int]:
        """The tasks that lack votes."""
        return self.counting.backend.incomplete(self.counting.key)

    def __call__(self, numbers: Sequence[int], advance: Advance) -> None:
        """Ask about these tasks, each once."""
        for portion in portions(numbers, self.counting.batch):
            self._ask(self.counting.client.tasks(self.counting.project, portion))
            advance(len(portion))
            if self.tally.exhausted:
                return

    def _ask(self, wanted: Sequence[Mapping[str, Any]]) -> None:
        of, further = self.counting, self.purse.name == "further"
        ask = partial(of.backend.complete, of.key, of.label_config, usd=self.purse.usd, further=further)
        for said in _asked(wanted, ask):
            self.tally.tasks += said["tasks"]
            self.tally.votes += said["votes"]
            self.tally.labels += said["labels"]
            self.tally.exhausted |= said["exhausted"]


def _asked(
    wanted: Sequence[Mapping[str, Any]],
    ask: Callable[[Sequence[Mapping[str, Any]]], Mapping[str, Any]],
) -> Iterator[Mapping[str, Any]]:
    """Ask the server about tasks, again about those that are left each time; yield what came."""
    while wanted:
        said = ask(wanted)
        yield said
        if said["exhausted"]:
            return
        wanted = wanted[len(wanted) - said["left"] :]


INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it."""


def _run_on_terminal(
    console: Console,
    run: PredictionRun,
    tasks: int,
    clock: Callable[[], float] = time.monotonic,
    missing: Callable[[], Missing] | None = None,
) -> int:
    """Go through a project, show progress, totals and what is missing, and return the exit code."""
    tally, began = run.tally, clock()

    def print_totals() -> None:
        minutes, seconds = divmod(round(clock() - began), 60)
        took = f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
        line = f"{tally.summary()}\n{dollars(tally.spent_usd)} spent in {took}"
        say(console, line, markup=False)

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
        say(
            console,
            f"Stopped. What is stored stays. The server finishes the tasks that it works on, {run.batch} at"
            " most, and keeps their answers. Run the same command again: it continues with what is missing,"
            " and pays for nothing twice.",
        )
        return INTERRUPTED
    except Exception:
        print_totals()
        raise
    tally.missing = None if missing is None else missing()
    print_totals()
    return tally.ending


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
    console.print(f"pilot: every model is asked about {len(sample):,} random tasks", highlight=False)
    if _run_on_terminal(console, pilot, len(sample)) == INTERRUPTED:
        raise KeyboardInterrupt


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
            for sums, task in _counts(backend, run, wanted):
                counted.update(sums)
                example = example or [each for each in wanted if each["id"] == task]
            advance(len(page))
    sums = dict(counted) or backend.count(run.key, run.label_config, [])[0]
    with console.status("replaying"):
        return Quote.of_json(backend.quote(run.key, run.label_config, example, sums))


def _counts(
    backend: BackendClient, run: PredictionRun, tasks: Sequence[_Task]
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


def predict_project(
    project: int,
    options: LabelOptions,
    label_studio: str | None,
    backend_url: str | None,
    *,
    refresh: bool,
    failed: bool,
    at_once: int,
    annotated: bool = False,
) -> int:
    """Store the server's predictions of a project."""
    console, environment = Console(), Environment()
    url = backend_client.backend_url(backend_url, environment)
    backend = BackendClient(url, environment, again=options.retry_failed)
    try:
        client = backend_client.label_studio_client(label_studio, environment)
        payload = client.project(project)
        version = backend.model_version()
        key, label_config = payloads.project_key(payload), payload["label_config"]
        backend.instructions = payloads.project_instructions(payload)
        counting = _RecountRun(client, backend, project, key, label_config, at_once)
        run = PredictionRun(
            client=client,
            predictor=backend,
            project=project,
            key=key,
            label_config=label_config,
            model_version=version,
            refresh=refresh,
            below=options.below,
            failed=failed or options.retry_failed,
            annotated=annotated,
            batch=at_once,
        )
        if options.recount:
            _count_again(console, counting, options.ask_more)
            _deliver(console, counting)
            run.check(counting.delivered)
            return 0
        began, backend.tasks = backend.mark(key), client.count_tasks(project)
        tasks = len(backend.failed_tasks(key)) if run.failed else backend.tasks
        _agree_to_quote(backend, run, tasks, options, console)
        if refresh:
            _count_again(console, counting, options.ask_more)

        def missing() -> Missing:
            if options.retry_failed:
                _complete(console, counting, options.purse)
            return backend.missing(key, began)

        code = _run_on_terminal(console, run, tasks, missing=missing)
        if code != INTERRUPTED and (refresh or options.retry_failed):
            _deliver(console, counting, changes_only=True)
        if code != INTERRUPTED:
            print_ending(console, Ending(code))
        return code
    finally:
        backend.close()


def _count_again(console: Console, counting: _RecountRun, ask_more: float | None) -> None:
    """Have kept votes counted again, after further votes where they are worth most if they may cost money."""
    if ask_more is not None:
        _complete(console, counting, Purse("further", ask_more))
    with console.status("counting the kept votes again") as status:
        counting.count()
        if ask_more is None:
            return
        run = _AskMoreRun(counting, ask_more)
        run(status.update)
        counting.count()
        say(console, run.tally.summary(ask_more))


def _complete(console: Console, counting: _RecountRun, purse: Purse) -> None:
    """Have the votes asked for that are missing, and say what came of it."""
    run = _CompletingRun(counting, purse)
    if not (tasks := run.tasks()):
        return
    with progress_bar(console, "completing", len(tasks), transient=True) as advance:
        run(tasks, advance)
    say(console, run.tally.summary(len(tasks)))


def _deliver(console: Console, counting: _RecountRun, *, changes_only: bool = False) -> None:
    with progress_bar(console, "replacing predictions", counting.pending(), transient=True) as advance:
        counting.deliver(advance)
    summary = counting.tally.summary()
    said = summary.partition("\n")[0] if changes_only else summary
    say(console, said)

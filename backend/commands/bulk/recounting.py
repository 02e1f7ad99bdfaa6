"""Kept votes counted again by the server, after further or missing ones, and brought to Label Studio."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rich.console import Console

from backend.commands.shared.backend_client import BackendClient, TasksInDoubt
from backend.commands.shared.output import Advance, progress_bar, say
from backend.label_studio import predictions
from backend.label_studio.client import Client
from backend.ledger.database.statements import portions
from backend.ledger.money import Purse
from backend.server.status.formats import count, of


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
        if self.counting is None or not self.counting["counted"]:
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
class RecountRun:
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

    counting: RecountRun
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
        """Return a line with what came, where so many tasks lacked votes."""
        line = (
            f"Completed: {of(self.votes, 'missing vote')} on {count(self.tasks)} of"
            f" {of(incomplete, 'task')} came, and changed {of(self.labels, 'label')}"
        )
        return f"{line}; the money does not cover the next" if self.exhausted else line


@dataclass(frozen=True, slots=True)
class _CompletingRun:
    """Asks for the missing votes of one project. The server keeps what was bought."""

    counting: RecountRun
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


def count_again(console: Console, counting: RecountRun, ask_more: float | None) -> None:
    """Have kept votes counted again, after further votes where they are worth most if they may cost money."""
    if ask_more is not None:
        complete(console, counting, Purse("further", ask_more))
    with console.status("counting the kept votes again") as status:
        counting.count()
        if ask_more is None:
            return
        run = _AskMoreRun(counting, ask_more)
        run(status.update)
        counting.count()
        say(console, run.tally.summary(ask_more))


def complete(console: Console, counting: RecountRun, purse: Purse) -> None:
    """Have the votes asked for that are missing, and say what came of it."""
    run = _CompletingRun(counting, purse)
    if not (tasks := run.tasks()):
        return
    with progress_bar(console, "completing", len(tasks), transient=True) as advance:
        run(tasks, advance)
    say(console, run.tally.summary(len(tasks)))

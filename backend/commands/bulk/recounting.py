"""Kept votes counted again by the server, after further or missing ones, and brought to Label Studio."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rich.console import Console

from backend.commands.shared.backend_client import BackendClient
from backend.commands.shared.output import Advance, progress_bar, say
from backend.label_studio import predictions
from backend.label_studio.client import Client
from backend.ledger.database.statements import portions
from backend.ledger.money import Purse
from backend.server.status.formats import amount, count, dollars, of


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
                f"Counted again: {labels:,} of {of(counted, 'label')} changed, and"
                f" {of(scores, 'more score')}; mean score {' → '.join(f'{mean:.3f}' for mean in means)}"
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
class FurtherTally:
    """What came of asking for further or missing votes."""

    tasks: int = 0
    votes: int = 0
    labels: int = 0
    spent_usd: float = 0.0
    exhausted: bool = False

    def asked(self, usd: float) -> str:
        """Return a line with what was asked and why it ended."""
        asked = (
            f"Asked more: {of(self.votes, 'vote')} on {of(self.tasks, 'task')};"
            f" {dollars(self.spent_usd)} of {amount(usd)} spent"
        )
        why = "the money does not cover the next" if self.exhausted else "no other vote is worth asking for"
        return f"{asked}, {why}"

    def completed(self, incomplete: int) -> str:
        """Return a line with what came, where so many tasks lacked votes."""
        line = (
            f"Completed: {of(self.votes, 'missing vote')} on {count(self.tasks)} of"
            f" {of(incomplete, 'task')} came, and changed {of(self.labels, 'label')}"
        )
        return f"{line}; the money does not cover the next" if self.exhausted else line

    def ask(
        self,
        wanted: Sequence[Mapping[str, Any]],
        ask: Callable[[Sequence[Mapping[str, Any]]], Mapping[str, Any]],
    ) -> None:
        """Ask the server about tasks, again about those that are left each time, and count what came."""
        while wanted and not self.exhausted:
            said = ask(wanted)
            self.tasks += said["tasks"]
            self.votes += said["votes"]
            self.labels += said.get("labels", 0)
            self.spent_usd += said.get("usd", 0.0)
            self.exhausted = said["exhausted"]
            wanted = wanted[len(wanted) - said["left"] :]


def _ask_for_more(counting: RecountRun, usd: float, show: Callable[[str], object]) -> FurtherTally:
    """Ask until no vote is worth asking for or the money is spent; the server keeps what was bought."""
    tally, seen, backend = FurtherTally(), set[int](), counting.backend
    while not tally.exhausted:
        doubts = backend.doubts(counting.key, usd)
        tally.spent_usd = doubts.spent_usd
        numbers = [number for number in doubts.tasks if number not in seen]
        if not numbers:
            break
        seen.update(numbers)
        ask = partial(backend.ask_more, counting.key, counting.label_config, usd=usd, least=doubts.least)
        for portion in portions(numbers, counting.batch):
            if tally.exhausted:
                break
            votes, tasks = of(tally.votes, "vote"), of(tally.tasks, "task")
            show(f"asking more: {votes} on {tasks}, {dollars(tally.spent_usd)} spent")
            found = counting.client.tasks(counting.project, portion)
            wanted, _ = predictions.untouched(sorted(found, key=lambda task: portion.index(task["id"])))
            tally.ask(wanted, ask)
    return tally


def count_again(console: Console, counting: RecountRun, ask_more: float | None) -> None:
    """Have kept votes counted again, after further votes where they are worth most if they may cost money."""
    if ask_more is not None:
        complete(console, counting, Purse("further", ask_more))
    with console.status("counting the kept votes again") as status:
        counting.count()
        if ask_more is None:
            return
        tally = _ask_for_more(counting, ask_more, status.update)
        counting.count()
        say(console, tally.asked(ask_more))


def complete(console: Console, counting: RecountRun, purse: Purse) -> float:
    """Have the votes asked for that are missing, and say what came of it; return what they cost, in $."""
    if not (tasks := counting.backend.incomplete(counting.key)):
        return 0.0
    ask = partial(
        counting.backend.complete,
        counting.key,
        counting.label_config,
        usd=purse.usd,
        further=purse.name == "further",
    )
    tally = FurtherTally()
    with progress_bar(console, "completing", len(tasks), transient=True) as advance:
        for portion in portions(tasks, counting.batch):
            if tally.exhausted:
                break
            tally.ask(counting.client.tasks(counting.project, portion), ask)
            advance(len(portion))
    say(console, tally.completed(len(tasks)))
    return tally.spent_usd

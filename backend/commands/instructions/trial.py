"""``camvo try``: another text or label config, tried on tasks beside the present one."""

from __future__ import annotations

import heapq
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape

from backend.annotation.job import random_draw
from backend.commands.bulk.dataset_jobs import DatasetJobs
from backend.commands.bulk.quoting import agree_to
from backend.commands.instructions.asking import (
    annotated_tasks,
    ask_about,
    kept_blind,
    opened_on_terminal,
    price_of,
    read_instructions,
    read_text,
    with_text,
)
from backend.commands.instructions.comparison import Comparison, change, compare_texts, verdict, write_page
from backend.commands.shared.options import LabelOptions
from backend.commands.shared.output import plain_table, progress_bar
from backend.datasets.sinks import check_writable
from backend.datasets.tasks import DatasetTask, IndexedTasks
from backend.errors import ConfigError
from backend.ledger.money import Purse
from backend.questions import LabelConfig, parse_label_config
from backend.questions.label_config import require_questions
from backend.server.status import formats
from camvo.numerics.paired import Paired

_LABELLED: Final = 0.8
"""The largest share of the sample that is drawn from the tasks that people have labelled."""


@dataclass(frozen=True, slots=True)
class TrialOptions:
    """What is tried.

    Attributes:
        instructions: a file with the new instructions; ``None`` for the present ones.
        label_config: a file with the new label config; ``None`` for the present one.
        sample: about how many tasks.
        out: where the page goes.
    """

    instructions: Path | None
    label_config: Path | None
    sample: int
    out: Path


def run_trial(
    source: Path | int,
    trial: TrialOptions,
    options: LabelOptions,
    config: Path | None,
    label_studio: str | None,
    *,
    as_json: bool,
) -> None:
    """Try a text on a file or on a project of Label Studio, and print what changes."""
    with opened_on_terminal(source, options, config, label_studio, as_json=as_json) as (jobs, tasks, console):
        found = try_on(jobs, tasks, trial, options, console)
    if as_json:
        print(json.dumps(found.to_json(), indent=2))  # noqa: T201 - the output
    else:
        _print_comparison(console, found)


def try_on(
    jobs: DatasetJobs, tasks: IndexedTasks, trial: TrialOptions, options: LabelOptions, console: Console
) -> Comparison:
    """Ask every model about a sample of the tasks with both texts, and compare the labels.

    Raises:
        ConfigError: what is to be tried cannot be; nothing was asked.
    """
    check_writable(trial.out)
    purse = Purse("try", options.purse.usd)
    before = replace(jobs, purse=purse, batching=None, waits=False)
    after = _after(before, trial)
    annotated = annotated_tasks(before)
    sample = _sample(before, tasks, annotated, trial.sample)
    if not sample:
        raise ConfigError("there is no task to try it on", where="--sample", fix="import tasks first")
    _quote((before, after), sample, options, console)
    with progress_bar(console, "asking", 2 * len(sample), waiting=before.process.awaited) as advance:
        asked = ask_about((before, after), sample, advance)
    names = [question.name for question in jobs.config.questions]
    found = compare_texts(jobs.project, names, sample, annotated, [(one, other) for one, other in asked])
    write_page(found, trial.out)
    console.print(f"wrote {escape(str(trial.out))}", highlight=False, soft_wrap=True)
    return found


def _after(jobs: DatasetJobs, trial: TrialOptions) -> DatasetJobs:
    """The jobs with the new text and label config."""
    changed, config = jobs, jobs.config
    if trial.instructions is not None:
        text = read_instructions(trial.instructions, "--instructions")
        changed = with_text(jobs, text)
        jobs.process.pool.require_room(changed.settings.instructions or "", "--instructions")
    if trial.label_config is not None:
        config = parse_label_config(read_text(trial.label_config, "--label-config"))
        require_questions(config)
        _require_same_questions(jobs.config, config)
    if (changed.settings.instructions or "") == (jobs.settings.instructions or "") and [
        question.digest for question in config.questions
    ] == [question.digest for question in jobs.config.questions]:
        raise ConfigError(
            "is what the project has already, so there is nothing to compare",
            where="--instructions" if trial.instructions is not None else "--label-config",
            fix="change the text in a copy of it",
        )
    return replace(changed, config=config)


def _require_same_questions(before: LabelConfig, after: LabelConfig) -> None:
    """Check that a label config asks the same questions, perhaps with other labels and hints."""
    old = {each.name: (each.tag, {field.key for field in each.fields}) for each in before.questions}
    new = {each.name: (each.tag, {field.key for field in each.fields}) for each in after.questions}
    if old == new:
        return
    others = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    raise ConfigError(
        f"asks other questions than the project: {', '.join(others)} differ in tag, name or fields",
        where="--label-config",
        fix="change labels, hints and camvo_instructions only; keep names, tags and fields",
    )


def _sample(
    jobs: DatasetJobs, tasks: IndexedTasks, annotated: Mapping[int, object], size: int
) -> list[DatasetTask]:
    """Random tasks, most of them labelled; those that are kept blind for people are left out."""
    blind = kept_blind(jobs)

    def draw(task: DatasetTask) -> int:
        return random_draw("try", jobs.project, task.number)

    def unlabelled(task: DatasetTask) -> bool:
        return not (task.number in annotated or blind(task.number))

    labelled = heapq.nsmallest(
        size, (task for task in tasks.first_rows() if task.number in annotated), key=draw
    )
    others = heapq.nsmallest(size, filter(unlabelled, tasks.first_rows()), key=draw)
    most = min(len(labelled), max(round(size * _LABELLED), size - len(others)))
    return [*labelled[:most], *others[: size - most]]


_Sides = tuple[DatasetJobs, DatasetJobs]


def _quote(sides: _Sides, sample: Sequence[DatasetTask], options: LabelOptions, console: Console) -> None:
    """Say what the answers that are missing cost, and ask whether to buy them."""
    with progress_bar(console, "counting tokens", 2 * len(sample), transient=True) as advance:
        prices = [price_of(side, sample, advance) for side in sides]
    for name, price in zip(("present text", "new text"), prices, strict=True):
        console.print(
            f"{name}: {price.answers:,} answers about {formats.of(len(sample), 'task')},"
            f" {price.missing:,} to buy for about {formats.dollars(price.usd)}",
            highlight=False,
            soft_wrap=True,
        )
    agree_to(prices[0].usd + prices[1].usd, options, console)


def _print_comparison(console: Console, found: Comparison) -> None:
    """Print the totals of a comparison."""
    lines = [
        f"{formats.of(found.tasks, 'task')}, {found.labelled:,} labelled by people; the trial paid"
        f" {formats.dollars(found.paid)}",
        f"every model, per task: {formats.dollars(found.before_usd)} before,"
        f" {formats.dollars(found.after_usd)} after",
        *(f"{formats.of(number, 'task')} left out: {code}" for code, number in found.failed.items()),
        *(f"{formats.of(number, 'vote')} missing: {code}" for code, number in found.missing.items()),
    ]
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True, markup=False)
    for question in found.questions:
        table = plain_table(question.question, "before", "after", "difference", "changed")
        changed = sum(question.changed.values())
        table.add_row("vote", *_cells(question.vote), f"{changed:,} of {len(question.tasks):,}")
        for model, accuracy in question.models.items():
            table.add_row(escape(model), *_cells(accuracy), f"{question.votes_changed[model]:,}")
        for label, accuracy in question.labels.items():
            table.add_row(f"on {escape(label)}", *_cells(accuracy), "")
        console.print(table)
        console.print(verdict(question.vote), highlight=False, soft_wrap=True)


def _cells(found: Paired | None) -> tuple[str, str, str]:
    if found is None:
        return ("", "", "")
    return formats.percent(found.before), formats.percent(found.after), change(found)

"""``camvo try``: another text or label config, tried on tasks beside the present one."""

from __future__ import annotations

import heapq
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from rich.console import Console
from rich.markup import escape

from backend.annotation.job import random_draw
from backend.annotation.replies import PASSING
from backend.annotation.trials import TriedTask
from backend.commands.bulk.dataset_jobs import DatasetJobs
from backend.commands.bulk.quoting import agree_to
from backend.commands.instructions.asking import (
    Outcome,
    annotated_tasks,
    ask_about,
    kept_blind,
    opened_on_terminal,
    peoples_label,
    price_of,
    read_instructions,
    with_text,
)
from backend.commands.shared.arguments import ChosenTasks, read_text
from backend.commands.shared.options import LabelOptions
from backend.commands.shared.output import plain_table, progress_bar, say
from backend.datasets.sinks import check_writable, whole_file
from backend.datasets.tasks import DatasetTask, IndexedTasks
from backend.errors import ConfigError
from backend.ledger.human_annotations import Annotation
from backend.ledger.money import Purse
from backend.ledger.projects import short_name
from backend.questions import LabelConfig, parse_label_config
from backend.questions.label_config import require_questions
from backend.server.status import formats
from camvo.numerics.sequential_tests import Paired, compare_paired
from camvo.votes.aggregation import Aggregation
from camvo.votes.registry import is_answer


@dataclass(frozen=True, slots=True)
class _Side:
    """One question of one task with one of the texts."""

    label: str | None
    votes: Mapping[str, str]
    failures: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _ComparedTask:
    """One question of one task, before and after."""

    task: str
    texts: Mapping[str, str]
    human: str | None
    before: _Side
    after: _Side
    changed: bool


@dataclass(frozen=True, slots=True)
class _ComparedQuestion:
    """One question, before and after."""

    question: str
    tasks: Sequence[_ComparedTask]
    vote: Paired | None
    models: Mapping[str, Paired | None]
    votes_changed: Mapping[str, int]
    labels: Mapping[str, Paired | None]
    changed: Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class _Comparison:
    """What a trial has shown on the tasks that both texts were tried on.

    ``failed`` has the tasks that could not be asked about and ``missing`` the votes, by code. ``before_usd``
    and ``after_usd`` are what asking every model about a task costs at full price, in $.
    """

    project: str
    tasks: int
    labelled: int
    failed: Mapping[str, int]
    missing: Mapping[str, int]
    before_usd: float
    after_usd: float
    paid: float
    questions: Sequence[_ComparedQuestion]

    def write_page(self, path: Path) -> None:
        """Write the page that shows both texts side by side."""
        templates = formats.templates("backend.commands", "resources", verdict=_verdict, change=change)
        page = templates.get_template("trial.html")
        with whole_file(path) as file:
            file.write(page.render(found=self, version=metadata.version("camvo")).encode())

    def to_json(self) -> dict[str, Any]:
        """The comparison as JSON values."""
        found = asdict(self)
        for question in found["questions"]:
            question["changed"] = [
                {"before": before, "after": after, "tasks": tasks}
                for (before, after), tasks in question["changed"].items()
            ]
        return found


def compare_texts(
    jobs: DatasetJobs,
    sample: Sequence[DatasetTask],
    annotated: Mapping[int, Sequence[Annotation]],
    outcomes: Sequence[tuple[Outcome, Outcome]],
) -> _Comparison:
    """Compare what models say about tasks with two texts."""
    pairs: list[tuple[DatasetTask, TriedTask, TriedTask]] = []
    failed: Counter[str] = Counter()
    for task, (before, after) in zip(sample, outcomes, strict=True):
        if isinstance(before, TriedTask) and isinstance(after, TriedTask):
            pairs.append((task, before, after))
        else:
            failed[before if isinstance(before, str) else str(after)] += 1
    before_usd, after_usd = _costs([(before.prices, after.prices) for _, before, after in pairs])
    paid = [one.paid for pair in outcomes for one in pair if isinstance(one, TriedTask)]
    return _Comparison(
        project=short_name(jobs.project),
        tasks=len(pairs),
        labelled=sum(task.number in annotated for task, _, _ in pairs),
        failed=dict(failed),
        missing=dict(Counter(code for _, *both in pairs for one in both for code in one.failures.values())),
        before_usd=before_usd,
        after_usd=after_usd,
        paid=sum(paid),
        questions=[_question(question.name, pairs, annotated) for question in jobs.config.questions],
    )


def _costs(prices: Sequence[tuple[Mapping[str, float], Mapping[str, float]]]) -> tuple[float, float]:
    """What every model costs a task with each text; each by the tasks about which it answered both."""
    both: dict[str, list[tuple[float, float]]] = {}
    for before, after in prices:
        for arm in before.keys() & after.keys():
            both.setdefault(arm, []).append((before[arm], after[arm]))
    return (
        math.fsum(fmean(one for one, _ in of_arm) for of_arm in both.values()),
        math.fsum(fmean(other for _, other in of_arm) for of_arm in both.values()),
    )


def _question(
    name: str,
    pairs: Sequence[tuple[DatasetTask, TriedTask, TriedTask]],
    annotated: Mapping[int, Sequence[Annotation]],
) -> _ComparedQuestion:
    """Compare the answers to one question."""
    tasks: list[_ComparedTask] = []
    vote: list[tuple[float, float]] = []
    by_label: dict[str, list[tuple[float, float]]] = {}
    by_model: dict[str, list[tuple[float, float]]] = {}
    votes_changed: Counter[str] = Counter()
    changed: Counter[tuple[str, str]] = Counter()
    for task, before, after in pairs:
        if name not in before.questions or name not in after.questions:
            continue
        question, aggregation = before.questions[name], before.questions[name].aggregation
        human = peoples_label(annotated.get(task.number, ()), question)
        if not is_answer(after.questions[name].aggregation, human, after.questions[name].options):
            human = None
        one, other = (_side(name, tried) for tried in (before, after))
        moved = one.label is not None and other.label is not None and one.label != other.label
        tasks.append(_ComparedTask(task.id, question.texts, human, one, other, moved))
        if moved:
            changed[str(one.label), str(other.label)] += 1
        models = _answered(one) & _answered(other)
        for model in models:
            by_model.setdefault(model, [])
            votes_changed[model] += one.votes.get(model) != other.votes.get(model)
        if human is None or one.label is None or other.label is None:
            continue
        vote.append(_rewards(aggregation, (one.label, other.label), human))
        by_label.setdefault(human, []).append(vote[-1])
        for model in models:
            by_model[model].append(
                _rewards(aggregation, (one.votes.get(model), other.votes.get(model)), human)
            )
    return _ComparedQuestion(
        question=name,
        tasks=sorted(tasks, key=lambda compared: not compared.changed),
        vote=compare_paired(vote),
        models={model: compare_paired(by_model[model]) for model in sorted(by_model)},
        votes_changed=dict(votes_changed),
        labels={label: compare_paired(by_label[label]) for label in sorted(by_label)},
        changed=dict(changed.most_common()),
    )


def _answered(side: _Side) -> set[str]:
    """The models that answered, perhaps without a vote. Others were down, or the budget was spent."""
    return side.votes.keys() | {model for model, code in side.failures.items() if code not in PASSING}


def _rewards(
    aggregation: Aggregation, votes: tuple[str | None, str | None], human: str
) -> tuple[float, float]:
    """How right two votes are; a missing one is wrong."""
    before, after = (0.0 if vote is None else aggregation.reward(vote, human) for vote in votes)
    return before, after


def _side(name: str, tried: TriedTask) -> _Side:
    votes = tried.votes.get(name, {})
    failures = {arm: code for arm, code in tried.failures.items() if arm not in votes}
    return _Side(tried.labels.get(name), votes, failures)


def _verdict(found: Paired | None) -> str:
    """Which text is better, as far as people's labels tell."""
    if found is None:
        return "no label of people to judge by"
    if not found.more and found.more is not None:
        return "the new text is better" if found.difference > 0.0 else "the present text is better"
    if found.more is None:
        return "no difference on these tasks"
    return f"not told apart yet: {formats.of(found.more, 'more labelled task')} would"


def change(found: Paired) -> str:
    """The difference with its interval, in percentage points."""
    low, high, difference = (100.0 * value for value in (found.low, found.high, found.difference))
    return f"{difference:+.1f} ({low:+.1f} to {high:+.1f}) points"


_LABELLED: Final = 0.8
"""The largest share of the sample that is drawn from the tasks that people have labelled."""


@dataclass(frozen=True, slots=True)
class TrialOptions:
    """What is tried on how many tasks, and where the page goes; what is ``None`` stays as it is."""

    instructions: Path | None
    label_config: Path | None
    sample: int
    out: Path


def run_trial(chosen: ChosenTasks, trial: TrialOptions, *, as_json: bool) -> None:
    """Try a text on a file or on a project of Label Studio, and print what changes."""
    with opened_on_terminal(chosen, as_json=as_json) as (jobs, tasks, console):
        found = _try_on(jobs, tasks, trial, chosen.options, console)
    if as_json:
        print(json.dumps(found.to_json(), indent=2))  # noqa: T201 - the output
    else:
        _print_comparison(console, found)


def _try_on(
    jobs: DatasetJobs, tasks: IndexedTasks, trial: TrialOptions, options: LabelOptions, console: Console
) -> _Comparison:
    """Ask every model about a sample of the tasks with both texts, and compare the labels."""
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
        asked = ask_about((before, after), sample, console, advance)
    found = compare_texts(jobs, sample, annotated, [(one, other) for one, other in asked])
    found.write_page(trial.out)
    say(console, f"wrote {trial.out}")
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


def _quote(
    sides: Sequence[DatasetJobs], sample: Sequence[DatasetTask], options: LabelOptions, console: Console
) -> None:
    """Say what the answers that are missing cost, and ask whether to buy them."""
    with progress_bar(console, "counting tokens", 2 * len(sample), transient=True) as advance:
        prices = [price_of(side, sample, advance) for side in sides]
    for name, price in zip(("present text", "new text"), prices, strict=True):
        say(
            console,
            f"{name}: {price.answers:,} answers about {formats.of(len(sample), 'task')},"
            f" {price.missing:,} to buy for about {formats.dollars(price.usd)}",
        )
    agree_to(prices[0].usd + prices[1].usd, options, console)


def _print_comparison(console: Console, found: _Comparison) -> None:
    """Print the totals of a comparison."""
    lines = [
        f"{formats.of(found.tasks, 'task')}, {found.labelled:,} labelled by people; the trial paid"
        f" {formats.dollars(found.paid)}",
        f"every model, per task, at full price: {formats.dollars(found.before_usd)} before,"
        f" {formats.dollars(found.after_usd)} after",
        *(f"{formats.of(number, 'task')} left out: {code}" for code, number in found.failed.items()),
        *(f"{formats.of(number, 'vote')} missing: {code}" for code, number in found.missing.items()),
    ]
    for line in lines:
        say(console, line)
    for question in found.questions:
        table = plain_table(question.question, "before", "after", "difference", "changed")
        changed = sum(question.changed.values())
        table.add_row("vote", *_cells(question.vote), f"{changed:,} of {len(question.tasks):,}")
        for model, accuracy in question.models.items():
            table.add_row(escape(model), *_cells(accuracy), f"{question.votes_changed[model]:,}")
        for label, accuracy in question.labels.items():
            table.add_row(f"on {escape(label)}", *_cells(accuracy), "")
        console.print(table)
        say(console, _verdict(question.vote))


def _cells(found: Paired | None) -> tuple[str, str, str]:
    if found is None:
        return ("", "", "")
    return formats.percent(found.before), formats.percent(found.after), change(found)

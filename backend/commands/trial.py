"""``camvo try``: another text or label config, tried on tasks beside the present one."""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import structlog
from jinja2 import Environment as Jinja2Environment
from jinja2 import PackageLoader, StrictUndefined
from rich.console import Console
from rich.markup import escape

from backend import settings as settings_module
from backend.annotation.job import JobQuestion, is_audit, random_draw
from backend.annotation.replies import PASSING
from backend.annotation.trials import TrialPrice, TriedTask
from backend.commands.bulk.dataset_jobs import DatasetJobs
from backend.commands.bulk.process import annotation_process, open_project, remembered_settings
from backend.commands.bulk.quoting import agree_to
from backend.commands.shared import backend_client
from backend.commands.shared.options import LabelOptions
from backend.commands.shared.output import plain_table, progress_bar
from backend.commands.shared.setup import environment_with, interruptible, quiet_logs
from backend.datasets.index import Index
from backend.datasets.sinks import check_writable, whole_file
from backend.datasets.sources import open_source
from backend.datasets.tasks import DatasetTask, IndexedTasks
from backend.errors import ConfigError, TaskError
from backend.learning.projects import project_settings
from backend.learning.teaching import answering, person
from backend.ledger import migrate, projects
from backend.ledger.human_annotations import Annotation, Annotations
from backend.ledger.money import Purse
from backend.ledger.projects import is_of_label_studio, short_name
from backend.ledger.rounds import ProjectRounds
from backend.models.embedder import Embedder
from backend.questions import LabelConfig, parse_label_config
from backend.questions.label_config import require_questions
from backend.questions.objects import instructions_text
from backend.server.status import formats
from backend.settings import Environment, Settings
from camvo.errors import CamvoError
from camvo.numerics.paired import Paired, compare_paired
from camvo.votes.aggregation import Aggregation
from camvo.votes.registry import agreed_answer, is_answer

_LABELLED: Final = 0.8
"""The largest share of the sample that is drawn from the tasks that people have labelled."""

_log = structlog.get_logger(__name__)


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


@dataclass(frozen=True, slots=True)
class _Side:
    """One question of one task with one of the texts."""

    label: str | None
    votes: Mapping[str, str]
    failures: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _ComparedTask:
    """One question of one task, before and after.

    Attributes:
        task: the task's id.
        texts: what the question is about, by field.
        human: what people say; ``None`` if they say nothing, or nothing that both label configs allow.
        before: with the present text.
        after: with the new one.
        changed: whether the vote is another.
    """

    task: str
    texts: Mapping[str, str]
    human: str | None
    before: _Side
    after: _Side
    changed: bool


@dataclass(frozen=True, slots=True)
class _ComparedQuestion:
    """One question, before and after.

    Attributes:
        question: the name of its control.
        tasks: the tasks, those whose label changed first.
        vote: the accuracy of the vote; ``None`` without any label of people.
        models: model → its accuracy.
        votes_changed: model → how many of its votes changed.
        labels: people's label → the accuracy of the vote on it.
        changed: (label before, label after) → number of tasks.
    """

    question: str
    tasks: Sequence[_ComparedTask]
    vote: Paired | None
    models: Mapping[str, Paired | None]
    votes_changed: Mapping[str, int]
    labels: Mapping[str, Paired | None]
    changed: Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class _Comparison:
    """What a trial has shown.

    Attributes:
        project: the project's name.
        tasks: the number of tasks that both texts were tried on.
        labelled: how many of them people have labelled.
        failed: code → the number of tasks that could not be asked about.
        missing: code → the number of votes that models did not give.
        before_usd: what the answers to the present text cost per task, in $.
        after_usd: what those to the new one cost per task, in $.
        paid: what the trial has paid, in $.
        questions: the questions.
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

    def to_json(self) -> dict[str, Any]:
        """The comparison as JSON values."""
        found = asdict(self)
        for question in found["questions"]:
            question["changed"] = [
                {"before": before, "after": after, "tasks": tasks}
                for (before, after), tasks in question["changed"].items()
            ]
        return found


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
    environment = environment_with(config)
    quiet_logs(environment)
    console = Console(stderr=as_json)
    with interruptible():
        if isinstance(source, int):
            client = backend_client.label_studio_client(label_studio, environment)
            with opened_project(client, source, options, environment) as (jobs, tasks):
                found = try_on(jobs, tasks, trial, options, console)
        else:
            with opened_file(source, options, environment) as (jobs, tasks):
                found = try_on(jobs, tasks, trial, options, console)
    if as_json:
        print(json.dumps(found.to_json(), indent=2))  # noqa: T201 - the output
    else:
        _print_comparison(console, found)


@contextmanager
def opened_file(
    path: Path, options: LabelOptions, environment: Environment, embedder: Embedder | None = None
) -> Iterator[tuple[DatasetJobs, IndexedTasks]]:
    """A file's jobs and tasks."""
    source = open_source(path)
    dataset, project = options.dataset(source), options.project(source.path)
    settings = settings_module.load(environment.config)
    with Index(dataset) as index:
        index.build()
        migrate(environment.database_url)
        with annotation_process(settings, environment, embedder) as process:
            own = remembered_settings(
                process, project, dataset.label_config, settings, task_number=index.tasks
            )
            yield DatasetJobs(process, project, dataset.config, own), index


@contextmanager
def opened_project(
    client: Any,
    number: int,
    options: LabelOptions,
    environment: Environment,
    embedder: Embedder | None = None,
) -> Iterator[tuple[DatasetJobs, IndexedTasks]]:
    """A project's jobs and tasks."""
    settings = settings_module.load(environment.config)
    with open_project(client, number, options, settings, environment, embedder) as project:
        yield project.jobs, project.tasks


def try_on(
    jobs: DatasetJobs, tasks: IndexedTasks, trial: TrialOptions, options: LabelOptions, console: Console
) -> _Comparison:
    """Ask every model about a sample of the tasks with both texts, and compare the labels.

    Raises:
        ConfigError: what is to be tried cannot be; nothing was asked.
    """
    check_writable(trial.out)
    purse = Purse("try", options.purse.usd)
    before = replace(jobs, purse=purse, batching=None, waits=False)
    after = _after(before, trial)
    annotated = _annotated(before)
    sample = _sample(before, tasks, annotated, trial.sample)
    if not sample:
        raise ConfigError("there is no task to try it on", where="--sample", fix="import tasks first")
    _quote((before, after), sample, options, console)
    outcomes = _ask((before, after), sample, console)
    found = _compare(before, sample, annotated, outcomes)
    with whole_file(trial.out) as file:
        file.write(_render(found).encode())
    console.print(f"wrote {escape(str(trial.out))}", highlight=False, soft_wrap=True)
    return found


def _after(jobs: DatasetJobs, trial: TrialOptions) -> DatasetJobs:
    """The jobs with the new text and label config."""
    settings, config = jobs.settings, jobs.config
    if trial.instructions is not None:
        text = instructions_text(_read(trial.instructions, "--instructions"))
        if not text:
            raise ConfigError(
                f"{trial.instructions} has no text",
                where="--instructions",
                fix="write the instructions into it",
            )
        settings = _with_text(jobs, text)
        jobs.process.pool.require_room(settings.instructions or "", "--instructions")
    if trial.label_config is not None:
        config = parse_label_config(_read(trial.label_config, "--label-config"))
        require_questions(config)
        _require_same_questions(jobs.config, config)
    if (settings.instructions or "") == (jobs.settings.instructions or "") and [
        question.digest for question in config.questions
    ] == [question.digest for question in jobs.config.questions]:
        raise ConfigError(
            "is what the project has already, so there is nothing to compare",
            where="--instructions" if trial.instructions is not None else "--label-config",
            fix="change the text in a copy of it",
        )
    return replace(jobs, settings=settings, config=config)


def _with_text(jobs: DatasetJobs, text: str) -> Settings:
    """The project's settings with the new text where its instructions are now.

    A project of Label Studio has them there; otherwise they are those of the settings.
    """
    if not (is_of_label_studio(jobs.project) and jobs.settings.project_instructions):
        return jobs.settings.model_copy(update={"instructions": text})
    with jobs.process.ledger.read() as connection:
        stored = projects.get(connection, jobs.project)
    assert stored is not None, "the project was stored when it was opened"  # noqa: S101
    own, problem = project_settings(replace(stored, instructions=text), jobs.process.settings)
    if problem is not None:
        raise problem
    return own


def _read(path: Path, option: str) -> str:
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} cannot be read: {type(error).__name__}", where=option, fix="check the path"
        ) from None


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


def _annotated(jobs: DatasetJobs) -> dict[int, list[Annotation]]:
    """The annotations that say something, by task."""
    names = {question.name for question in jobs.config.questions}
    found: dict[int, list[Annotation]] = {}
    with jobs.process.ledger.read() as connection:
        for annotation in Annotations(connection, jobs.project).all():
            says = annotation.teaches and not annotation.withdrawn and names & annotation.labels.keys()
            if says and annotation.task is not None:
                found.setdefault(annotation.task, []).append(annotation)
    return found


def _sample(
    jobs: DatasetJobs, tasks: IndexedTasks, annotated: Mapping[int, object], size: int
) -> list[DatasetTask]:
    """Random tasks, most of them labelled; those that are kept blind for people are left out."""
    with jobs.process.ledger.read() as connection:
        blind = ProjectRounds(connection, jobs.project).blind_tasks()
    audit = jobs.settings.audit if is_of_label_studio(jobs.project) else 0.0

    def draw(task: DatasetTask) -> int:
        return random_draw("try", jobs.project, task.number)

    def unlabelled(task: DatasetTask) -> bool:
        number = task.number
        return not (number in annotated or number in blind or is_audit(jobs.project, number, audit))

    labelled = heapq.nsmallest(
        size, (task for task in tasks.first_rows() if task.number in annotated), key=draw
    )
    others = heapq.nsmallest(size, filter(unlabelled, tasks.first_rows()), key=draw)
    most = min(len(labelled), max(round(size * _LABELLED), size - len(others)))
    return [*labelled[:most], *others[: size - most]]


_Sides = tuple[DatasetJobs, DatasetJobs]


def _quote(sides: _Sides, sample: Sequence[DatasetTask], options: LabelOptions, console: Console) -> None:
    """Say what the answers that are missing cost, and ask whether to buy them."""
    process = sides[0].process
    prices = [TrialPrice(), TrialPrice()]
    with progress_bar(console, "counting tokens", 2 * len(sample), transient=True) as advance:
        for place, side in enumerate(sides):
            for job in map(side.job, sample):
                try:
                    prices[place] += process.thread.submit(process.trials.price(job)).result()
                except TaskError:
                    _log.debug("task_not_priced", task=job.task)
                advance(1)
    for name, price in zip(("present text", "new text"), prices, strict=True):
        console.print(
            f"{name}: {price.answers:,} answers about {formats.of(len(sample), 'task')},"
            f" {price.missing:,} to buy for about {formats.dollars(price.usd)}",
            highlight=False,
            soft_wrap=True,
        )
    agree_to(prices[0].usd + prices[1].usd, options, console)


_Outcome = TriedTask | str
"""What models say about a task, or the code of the reason why they were not asked."""


def _ask(sides: _Sides, sample: Sequence[DatasetTask], console: Console) -> list[tuple[_Outcome, _Outcome]]:
    """Ask about each task with both texts. What is bought is kept if the command is interrupted."""
    process = sides[0].process
    asked: list[list[_Outcome]] = [["", ""] for _ in sample]
    waiting = [
        (row, place, side.job(task)) for row, task in enumerate(sample) for place, side in enumerate(sides)
    ]
    running: dict[Future[TriedTask], tuple[int, int]] = {}
    try:
        with progress_bar(console, "asking", len(waiting), waiting=process.awaited) as advance:
            while waiting or running:
                while waiting and len(running) < sides[0].settings.tasks_at_once:
                    row, place, job = waiting.pop(0)
                    running[process.thread.submit(process.trials.ask(job))] = (row, place)
                done = next(as_completed(running))
                row, place = running.pop(done)
                asked[row][place] = _outcome(done)
                advance(1)
    except BaseException:
        process.stop_asking()
        wait(running, timeout=sides[0].settings.longest_call)
        raise
    return [(before, after) for before, after in asked]


def _outcome(done: Future[TriedTask]) -> _Outcome:
    error = done.exception()
    if error is None:
        return done.result()
    if isinstance(error, CamvoError) and not isinstance(error, TaskError):
        raise error
    if isinstance(error, TaskError):
        return error.code
    _log.error("task_failed", kind=type(error).__name__)  # the text of the error might quote the task
    return "internal"


def _compare(
    jobs: DatasetJobs,
    sample: Sequence[DatasetTask],
    annotated: Mapping[int, Sequence[Annotation]],
    outcomes: Sequence[tuple[_Outcome, _Outcome]],
) -> _Comparison:
    pairs: list[tuple[DatasetTask, TriedTask, TriedTask]] = []
    failed: Counter[str] = Counter()
    for task, (before, after) in zip(sample, outcomes, strict=True):
        if isinstance(before, TriedTask) and isinstance(after, TriedTask):
            pairs.append((task, before, after))
        else:
            failed[before if isinstance(before, str) else str(after)] += 1
    number = max(len(pairs), 1)
    paid = [one.paid for pair in outcomes for one in pair if isinstance(one, TriedTask)]
    return _Comparison(
        project=short_name(jobs.project),
        tasks=len(pairs),
        labelled=sum(task.number in annotated for task, _, _ in pairs),
        failed=dict(failed),
        missing=dict(Counter(code for _, *both in pairs for one in both for code in one.failures.values())),
        before_usd=sum(before.usd for _, before, _ in pairs) / number,
        after_usd=sum(after.usd for _, _, after in pairs) / number,
        paid=sum(paid),
        questions=[_question(each.name, pairs, annotated) for each in jobs.config.questions],
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
        human = _human(annotated.get(task.number, ()), question, after.questions[name])
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


def _human(annotations: Iterable[Annotation], before: JobQuestion, after: JobQuestion) -> str | None:
    """What people say, where both label configs allow it; tied people say nothing."""
    counted = answering(annotations, before.name, before.aggregation, before.options)
    said = {person(each): each.labels[before.name] for each in counted}
    answer = agreed_answer(before.aggregation, list(said.values()), before.options)
    return answer if is_answer(after.aggregation, answer, after.options) else None


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


def _change(found: Paired) -> str:
    """The difference with its interval, in percentage points."""
    low, high, difference = (100.0 * value for value in (found.low, found.high, found.difference))
    return f"{difference:+.1f} ({low:+.1f} to {high:+.1f}) points"


def _print_comparison(console: Console, found: _Comparison) -> None:
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
        console.print(_verdict(question.vote), highlight=False, soft_wrap=True)


def _cells(found: Paired | None) -> tuple[str, str, str]:
    if found is None:
        return ("", "", "")
    return formats.percent(found.before), formats.percent(found.after), _change(found)


def _render(found: _Comparison) -> str:
    page = _environment().get_template("trial.html")
    return page.render(found=found, version=metadata.version("camvo"))


@cache
def _environment() -> Jinja2Environment:
    environment = Jinja2Environment(
        loader=PackageLoader("backend.commands", "resources"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= formats.FILTERS
    environment.filters |= {"verdict": _verdict, "change": _change}
    return environment

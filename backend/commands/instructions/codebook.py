"""``camvo codebook``: each label's definition, examples that people confirmed, and what it is taken for."""

from __future__ import annotations

import html
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from difflib import unified_diff
from importlib import metadata
from itertools import product
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from sqlalchemy import Connection

from backend import settings as settings_module
from backend.annotation.job import JobQuestion, random_draw
from backend.commands.bulk.dataset_jobs import DatasetJobs
from backend.commands.bulk.process import ledger_to_read, source_of
from backend.commands.instructions.asking import (
    annotated_tasks,
    kept_blind,
    opened,
    peoples_label,
    read_instructions,
)
from backend.commands.shared import backend_client
from backend.commands.shared.arguments import ChosenTasks, quiet_environment
from backend.commands.shared.output import plain_table, progress_bar, say
from backend.commands.shared.setup import interruptible
from backend.datasets.sinks import check_writable, whole_file
from backend.datasets.tasks import DatasetTask, IndexedTasks
from backend.errors import ConfigError
from backend.label_studio.client import Client
from backend.label_studio.payloads import project_key
from backend.learning.projects import project_settings, stored_questions
from backend.ledger import Ledger, projects
from backend.ledger.epochs import DecidedRounds, EpochSummary
from backend.ledger.projects import DatedText, Project, Schemes, short_name
from backend.ledger.rounds import Round
from backend.questions import ConfigQuestion
from backend.questions.controls import AnyOf, OneOf
from backend.questions.label_config import epoch_of
from backend.questions.objects import FOR_PEOPLE_ONLY, instructions_text, split_instructions
from backend.questions.redaction import redactor_named
from backend.server.status import formats
from backend.settings import Environment, Settings
from camvo.student import STUDENT
from camvo.twins import twins


def _change_instructions(
    client: Client,
    project: Mapping[str, Any],
    new: str,
    read: str,
    console: Console,
    *,
    where: str,
    yes: bool,
) -> None:
    """Show how a project's instructions change, and change them if that is agreed to.

    Models are to read ``read`` of them; ``where`` is the option that wants to change them.
    """
    number, written = project["id"], _written(project)
    for line in unified_diff(written.splitlines(), new.splitlines(), n=1, lineterm=""):
        if not line.startswith(("---", "+++", "@@")):
            say(console, line)
    if not yes:
        raise ConfigError(
            f"would change the instructions of project {number} as shown; nothing was changed",
            where=where,
            fix="add --yes to write them",
        )
    stored = client.change_project(number, {"expert_instruction": new})
    if instructions_text(_written(stored)) != read:
        client.change_project(number, {"expert_instruction": written})
        raise ConfigError(
            "Label Studio stores another text for models than the one that was agreed to, so the"
            " instructions were put back",
            where=where,
            fix="change them by hand in Settings > Instructions",
        )


def _written(project: Mapping[str, Any]) -> str:
    """A project's instructions in Label Studio, as HTML."""
    return str(project.get("expert_instruction") or "")


def _with_new_text(written: str, text: str) -> str:
    """The instructions, as HTML, with a new text for models; what is for annotators alone stays."""
    _, below = split_instructions(written)
    paragraphs = "\n".join(f"<p>{html.escape(line, quote=False)}</p>" for line in text.splitlines())
    kept = instructions_text(paragraphs) == text
    above = paragraphs if kept else html.escape(text, quote=False)
    return f"{above}\n{below}" if below else above


_CONFUSIONS: Final = 3
"""The confusions of a label that are shown."""

_LONGEST: Final = 600
"""The most characters of a text that are quoted."""


@dataclass(frozen=True, slots=True)
class CodebookOptions:
    """What is written, and where. The help texts of ``camvo codebook`` explain it."""

    out: Path
    examples: int = 3
    quote_blind: bool = False
    into_project: bool = False
    yes: bool = False


@dataclass(frozen=True, slots=True)
class _Example:
    """A task that is quoted, with its ``texts`` by field, what people say, and voter → its answer."""

    number: int
    task: str
    texts: Mapping[str, str]
    human: str | None
    votes: Mapping[str, str]


@dataclass(slots=True)
class _Kept:
    """The examples that come first in an order, at most ``most``."""

    most: int
    _kept: list[tuple[tuple[int, int], _Example]] = field(default_factory=list)

    def add(self, place: tuple[int, int], example: _Example) -> None:
        self._kept.append((place, example))
        self._kept.sort(key=lambda kept: kept[0])
        del self._kept[self.most :]

    def __iter__(self) -> Iterator[_Example]:
        return iter(example for _, example in self._kept)

    def __len__(self) -> int:
        return len(self._kept)


@dataclass(slots=True)
class _Confusion:
    """A label that is given in place of another: voter → on how many tasks it contradicts people so.

    On tasks that nobody has labelled, models contradict the vote.
    """

    examples: _Kept
    against_people: Counter[str] = field(default_factory=Counter)
    against_vote: Counter[str] = field(default_factory=Counter)
    people_tasks: int = 0
    vote_tasks: int = 0

    @property
    def weight(self) -> tuple[int, int]:
        """The order of confusions: what people contradict comes first."""
        return self.people_tasks, self.vote_tasks


@dataclass(slots=True)
class _LabelEntry:
    """One label, ``confirmed`` by people on so many tasks, and what was given in its place or ``None``."""

    text: str
    definition: str | None
    examples: _Kept
    confirmed: int = 0
    confusions: dict[str | None, _Confusion] = field(default_factory=dict)

    @property
    def frequent(self) -> list[tuple[str | None, _Confusion]]:
        """The most frequent confusions."""
        return sorted(self.confusions.items(), key=lambda item: item[1].weight, reverse=True)[:_CONFUSIONS]


@dataclass(slots=True)
class _QuestionEntry:
    """One question: its instructions and its labels, by their values."""

    name: str
    instructions: str | None
    labels: dict[str, _LabelEntry]
    labelled: int = 0
    voted: int = 0

    def named(self, value: str | None) -> str:
        """A label as annotators see it."""
        if value is None:
            return "no label"
        return self.labels[value].text if value in self.labels else value


@dataclass(slots=True)
class Codebook:
    """What people and votes have shown about the labels of a project.

    Questions that list no labels are ``left_out``; ``unquoted`` blind tasks are counted and not quoted.
    """

    project: str
    instructions: str
    questions: Mapping[str, _QuestionEntry]
    left_out: Sequence[str]
    unquoted: int = 0


def run_codebook(chosen: ChosenTasks, wanted: CodebookOptions) -> None:
    """Write the codebook of a file or of a project of Label Studio."""
    environment = quiet_environment(chosen.config)
    check_writable(wanted.out)
    console, found = Console(), source_of(chosen.source, environment, chosen.label_studio)
    with (
        interruptible(),
        ledger_to_read(environment) as of_ledger,
        opened(found, chosen.options, of_ledger, asking=False) as (jobs, tasks),
        progress_bar(console, "reading", tasks.tasks, transient=True) as advance,
    ):
        book = collect(jobs, tasks, wanted, advance)
    _write_codebook(book, wanted, console)
    if wanted.into_project and not isinstance(found, Path):
        _write_into_project(*found, book, console, yes=wanted.yes)


def collect(
    jobs: DatasetJobs,
    tasks: IndexedTasks,
    wanted: CodebookOptions,
    advance: Callable[[int], object] = lambda number: None,
    quotable: Callable[[int], bool] = lambda number: True,
) -> Codebook:
    """Read every task with its labels and votes. No model is asked.

    A blind task that nobody has labelled yet is left out. One that people have labelled is counted, and
    quoted only if that is wanted: a text that shows models its label would void what it certifies.
    """
    listed = [each for each in jobs.config.questions if isinstance(each.control, OneOf | AnyOf)]
    entries = {each.name: _entry(each, wanted.examples) for each in listed}
    others = [each.name for each in jobs.config.questions if each not in listed]
    if not entries:
        raise ConfigError(
            "no question chooses among labels of the label config",
            where="--label-config",
            fix="a codebook is about labels, such as those of Choices",
        )
    book = Codebook(short_name(jobs.project), jobs.settings.instructions or "", entries, others)
    annotated, blind = annotated_tasks(jobs), kept_blind(jobs)
    for stored in jobs.look_up(tasks.first_rows()):
        advance(1)
        number = stored.task.number
        if blind(number) and number not in annotated:
            continue
        shown = wanted.quote_blind or not blind(number)
        book.unquoted += not shown
        quoted = shown and (number not in annotated or quotable(number))
        decided: Iterable[tuple[JobQuestion, Round | None]] = stored.decided
        for question, round_ in [*decided, *((question, None) for question in stored.open)]:
            if question.name in entries:
                human = peoples_label(annotated.get(number, ()), question)
                votes = {} if round_ is None else _votes(jobs, round_)
                _add(entries[question.name], stored.task, question, human, votes, quoted=quoted)
    if not any(entry.labelled or entry.voted for entry in entries.values()):
        raise ConfigError(
            "it has no label of people and no vote that the codebook could show",
            where=f"project {book.project}",
            fix="label tasks first; after a change of the instructions, predict some again",
        )
    return book


def _entry(question: ConfigQuestion, most: int) -> _QuestionEntry:
    assert isinstance(question.control, OneOf | AnyOf)  # noqa: S101 - the caller chose it so
    labels = {
        label.value: _LabelEntry(label.text, label.hint, _Kept(most)) for label in question.control.labels
    }
    return _QuestionEntry(question.name, question.instructions, labels)


VOTE: Final = "the vote"


def _votes(jobs: DatasetJobs, round_: Round) -> dict[str, str]:
    """Voter → its answer: the vote, and each model that gave one."""
    singly = twins(jobs.settings.arms)
    cast = {
        singly.get(arm, arm): vote
        for arm, vote in round_.votes.items()
        if vote is not None and arm != STUDENT
    }
    return {VOTE: round_.label, **cast}


def _add(
    entry: _QuestionEntry,
    task: DatasetTask,
    question: JobQuestion,
    human: str | None,
    votes: Mapping[str, str],
    *,
    quoted: bool,
) -> None:
    """Add one task's answers to one question."""
    reference = votes.get(VOTE) if human is None else human
    if reference is None:
        return
    entry.labelled += human is not None
    entry.voted += bool(votes)
    most = next(iter(entry.labels.values())).examples.most
    chosen = question.config.chosen
    example = _Example(task.number, task.id, _quotable(question.texts), human, votes)
    draw = random_draw("codebook", question.key.project, task.number)
    given: dict[tuple[str, str | None], list[str]] = {}
    for voter, vote in votes.items():
        for pair in _confused(chosen(reference), chosen(vote)):
            given.setdefault(pair, []).append(voter)
    wrong = {label for label, _ in given}
    if human is not None:
        for label in chosen(human) & entry.labels.keys():
            entry.labels[label].confirmed += 1
            if quoted:
                entry.labels[label].examples.add((label in wrong, draw), example)
    for (label, instead), voters in given.items():
        if label not in entry.labels:
            continue
        confusion = entry.labels[label].confusions.setdefault(instead, _Confusion(_Kept(most)))
        of_people = human is not None
        confusion.people_tasks += of_people
        confusion.vote_tasks += not of_people
        (confusion.against_people if of_people else confusion.against_vote).update(voters)
        if quoted:
            confusion.examples.add((not of_people, draw), example)


def _confused(right: frozenset[str], given: frozenset[str]) -> Iterator[tuple[str, str | None]]:
    """Each label that is missing, with each that is given in its place, or with nothing."""
    instead: list[str | None] = [*sorted(given - right)]
    yield from product(sorted(right - given), instead or [None])


def _quotable(texts: Mapping[str, str]) -> dict[str, str]:
    return {
        key: text if len(text) <= _LONGEST else f"{text[:_LONGEST].rstrip()}…" for key, text in texts.items()
    }


def _write_codebook(book: Codebook, wanted: CodebookOptions, console: Console) -> None:
    """Write a codebook as Markdown, and say what is missing in it."""
    with whole_file(wanted.out) as file:
        file.write(_render("codebook.md", book).encode())
    say(console, f"wrote {wanted.out}")
    if book.unquoted:
        say(
            console,
            f"{formats.of(book.unquoted, 'blind task')} counted and not quoted, so that models may read this"
            " codebook; --quote-blind quotes them, too",
        )
    for entry in book.questions.values():
        undefined = [label.text for label in entry.labels.values() if not label.definition]
        if undefined:
            listed = ", ".join(undefined[:10])
            say(
                console,
                f"{entry.name}: no hint says what {listed} {formats.verb_of(len(undefined), 'mean')}",
            )


def _write_into_project(client: Client, number: int, book: Codebook, console: Console, *, yes: bool) -> None:
    """Write a codebook below the project's instructions in Label Studio, for annotators alone.

    It replaces what stands below :data:`FOR_PEOPLE_ONLY` there. What models read stays as it is, so no epoch
    begins and nothing is paid for again.
    """
    project = client.project(number)
    above, _ = split_instructions(_written(project))
    new = f"{above.rstrip()}\n<p>{FOR_PEOPLE_ONLY}</p>\n{_render('codebook.html', book)}".lstrip()
    read = instructions_text(_written(project))
    _change_instructions(client, project, new, read, console, where="--into-project", yes=yes)
    say(
        console,
        f"project {number}: annotators read the codebook below the instructions; models read the same text as"
        " before, so nothing is asked again",
    )


def _render(template: str, book: Codebook) -> str:
    return (
        formats.templates(
            "backend.commands",
            "resources",
            markdown=template.endswith(".md"),
            literal=_literal,
            quoted=_quoted,
            voters=_voters,
        )
        .get_template(template)
        .render(book=book, vote=VOTE, version=metadata.version("camvo"))
    )


_SIGNS: Final = str.maketrans({sign: f"\\{sign}" for sign in r"\`*_[]<>#|~"})


def _literal(text: object) -> str:
    """A text that Markdown shows as it is."""
    return str(text).translate(_SIGNS).replace("&", "&amp;")


def _quoted(text: str) -> str:
    """A text as a quotation in a list of Markdown."""
    return "\n".join(f"  > {_literal(line)}".rstrip() for line in text.splitlines())


def _voters(counts: Counter[str]) -> str:
    """Who it was and how often, the most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (item[0] != VOTE, -item[1], item[0]))
    return ", ".join(f"{name} {number}" for name, number in ordered)


def how_to_adopt(text: str | Path, number: int | None, config: Path | None = None) -> str:
    """What to do to adopt a text."""
    if number is not None:
        command = ["camvo", "refine", "--project", str(number), "--adopt", str(text)]
        return f"to adopt it: {shlex.join(command + (['--config', str(config)] if config else []))}"
    return f"to adopt it, set instructions in camvo.yaml to the content of {text}"


def adopt_text(
    number: int,
    path: Path | None,
    config: Path | None,
    label_studio: str | None,
    console: Console,
    *,
    yes: bool,
    text_id: str | None,
) -> None:
    """Write a text into a project's instructions in Label Studio, in place of the one that models read."""
    option = "--adopt" if path is not None else "--take-back"
    text = None if path is None else read_instructions(path, option)
    environment = quiet_environment(config)
    client = backend_client.label_studio_client(label_studio, environment)
    project = client.project(number)
    written = _written(project)
    own, earlier = _stored(project_key(project), environment, written)
    if text is None:
        text = _chosen(number, earlier, text_id, console)
    if not own.project_instructions:
        raise ConfigError(
            f"models do not read the instructions of project {number} (project_instructions: false); nothing"
            " was changed",
            where=option,
            fix=how_to_adopt(path or "the text before", None).removeprefix("to adopt it, "),
        )
    new = _with_new_text(written, text)
    _change_instructions(client, project, new, text, console, where=option, yes=yes)
    say(
        console,
        f"project {number}: the instructions are changed, which is another epoch: tasks keep their labels"
        " until models are asked again. Answers and labels that this text has got already cost nothing;"
        f" camvo quote --project {number} says what the others cost",
    )


@dataclass(frozen=True, slots=True)
class _EarlierText:
    """Instructions that a project has had, and the labels that come back with them."""

    dated: DatedText
    found: EpochSummary

    @property
    def row(self) -> list[str]:
        """Its row in the table; the text itself is not shown."""
        labels, scores, judged, right = self.found
        since = datetime.fromtimestamp(self.dated.begun_at, UTC).strftime("%Y-%m-%d %H:%M")
        score = f"{scores / labels:.2f}" if labels else "-"
        return [
            self.dated.id,
            since,
            f"{labels:,}",
            score,
            f"{right / judged:.1%} of {judged:,}" if judged else "-",
        ]


def _chosen(number: int, earlier: Sequence[_EarlierText], text_id: str | None, console: Console) -> str:
    """The text to take back: the latest, or the one with an id. All are listed."""
    if not earlier:
        raise ConfigError(
            f"the ledger knows no earlier instructions of project {number}",
            where="--take-back",
            fix="give a file with them: --adopt FILE",
        )
    table = plain_table("text", "since (UTC)", "labels", "score", "right")
    for each in earlier:
        table.add_row(*each.row)
    console.print(table)
    found = [each for each in earlier if text_id is None or each.dated.id.startswith(text_id)]
    if not found or (text_id is not None and len(found) > 1):
        raise ConfigError(
            f"{text_id!r} is the id of {len(found) or 'none'} of the earlier texts of project {number}",
            where="--text",
            fix=f"one of {', '.join(each.dated.id for each in earlier)}",
        )
    return found[0].dated.text


def _stored(key: str, environment: Environment, written: str) -> tuple[Settings, list[_EarlierText]]:
    """A project's settings, and its texts but the one in Label Studio, which the ledger may not know yet."""
    settings = settings_module.load(environment.config)
    with closing(Ledger(environment.database_url)) as ledger:
        if not ledger.exists():
            return settings, []
        ledger.migrate()
        with ledger.read() as connection:
            stored = projects.get(connection, key)
            own, _ = project_settings(stored, settings)
            if stored is None:
                return own, []
            now = instructions_text(written)
            texts = [dated for dated in projects.dated_texts(connection, key) if dated.text != now]
            return own, [
                _EarlierText(dated, _summary(connection, replace(stored, instructions=dated.text), settings))
                for dated in texts
            ]


def _summary(connection: Connection, stored: Project, settings: Settings) -> EpochSummary:
    """The labels of a project's questions under its instructions, which need not be the present ones."""
    own, _ = project_settings(stored, settings)
    schemes, redactor, found = Schemes(connection, stored.key).latest(), redactor_named(own.redact), []
    for each in stored_questions(stored) or ():
        if each.name in schemes:
            epoch = epoch_of(each, own.instructions, schemes[each.name].embedder, redactor)
            found.append(DecidedRounds(connection, stored.key, each.name, epoch).summary())
    return EpochSummary(*map(sum, zip(*found, strict=True))) if found else EpochSummary(0, 0.0, 0, 0.0)

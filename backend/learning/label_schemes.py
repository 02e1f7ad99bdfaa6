"""The label scheme of each of a project's questions, and what a label config with another one means.

**Concerned tasks**: the tasks that new labels may concern, by what the votes say, the student's among them.

A label that is split, or from whose tasks a new one takes some, is *near* the new labels. A task is concerned
if the votes leave room for a label that is near: only then may its label be another one now.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import fmean
from typing import Final, Literal

import structlog
from sqlalchemy import Connection

from backend.errors import BadLabelConfigError, ConfigError
from backend.learning.carrying import Carrying, Transactions, carry_prior
from backend.ledger import LedgerAccess, Writer
from backend.ledger.epochs import JudgedTwice, asked_by_score, judged_twice
from backend.ledger.events import ProjectEvents
from backend.ledger.projects import Scheme, Schemes, is_of_label_studio, latest_of, short_name
from backend.models.embedder import Embedder
from backend.questions import ConfigQuestion, LabelConfig, parse_label_config
from backend.questions.label_config import epoch_of
from backend.questions.redaction import redactor_named
from backend.questions.relabelling import (
    AS_THEY_ARE,
    LabelFates,
    OpenLabels,
    label_values,
    read_change,
    with_own_instructions,
)
from backend.settings import Settings
from camvo.numerics.sequential_tests import Race
from camvo.votes.relabelling import LabelMap, Relabelling

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """A label config with what else is part of the epochs of its questions."""

    config: LabelConfig
    instructions: str | None
    embedder: str
    redact: str | None

    @classmethod
    def under(cls, settings: Settings, config: LabelConfig, embedder: str) -> Asked:
        """A label config under a project's settings, beside the identity of the embedder."""
        return cls(config, settings.instructions, embedder, settings.redact)

    def epoch(self, question: ConfigQuestion) -> str:
        """The epoch of a question."""
        return epoch_of(question, self.instructions, self.embedder, redactor_named(self.redact))

    def scheme(self, question: ConfigQuestion, now: float) -> Scheme:
        """The scheme of a question that begins with nothing."""
        return Scheme(
            question.name,
            self.epoch(question),
            self.config.xml,
            self.embedder,
            instructions=self.instructions,
            created_at=now,
        )

    def like(self, new: ConfigQuestion, earlier: Scheme) -> tuple[str, str]:
        """The label config and epoch in which a question is asked with the instructions of an earlier scheme.

        If redaction or the wording of prompts was another one, this is an epoch of its own.
        """
        old = question_of(earlier)
        own = None if old is None else old.instructions
        xml = with_own_instructions(self.config.xml, new.name, own)
        asked = replace(self, instructions=earlier.instructions)
        if old is not None and asked.epoch(old) == earlier.epoch:
            return xml, asked.epoch(replace(new, instructions=own))
        return xml, hashlib.sha256(f"{earlier.epoch} {self.epoch(new)}".encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Transition:
    """The way from a project's label schemes to those of a label config.

    Attributes:
        before: question → what it was, of those that have a scheme and are asked otherwise now.
        carried: the schemes to which rounds are carried over, each with the way votes are written in it; of a
            question first those of earlier instructions, whose labels tasks may keep.
        anew: the schemes that begin with nothing.
        open: question → labels of which nobody has said what becomes of them, or where they come from.
        priors: question → the epoch whose votes say what models are worth, where instructions are all that
            has changed.
        originals: question → annotation → what it says, of those whose labels become one.
        everyone: whether every annotated task is learnt from again.
        again: the rounds whose tasks are asked about again although their label stays.
        first: the schemes of labels before under instructions of which nothing was asked yet: they begin
            before anything is carried over.
    """

    before: Mapping[str, ConfigQuestion] = field(default_factory=dict)
    carried: Sequence[tuple[Scheme, Relabelling]] = ()
    anew: Sequence[Scheme] = ()
    open: Mapping[str, OpenLabels] = field(default_factory=dict)
    priors: Mapping[str, str] = field(default_factory=dict)
    originals: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    everyone: bool = False
    again: Set[int] = frozenset()
    first: Sequence[Scheme] = ()

    @property
    def present(self) -> list[tuple[Scheme, Relabelling]]:
        """The schemes to which rounds are carried over, without those of earlier instructions."""
        return [(scheme, way) for scheme, way in self.carried if not scheme.beside]

    def under_old_labels(self, config: LabelConfig) -> LabelConfig:
        """The label config with the questions that it asked before."""
        return replace(config, questions=tuple(self.before.get(each.name, each) for each in config.questions))


def transition(
    connection: Connection, project: str, asked: Asked, now: float, fates: LabelFates = AS_THEY_ARE
) -> Transition:
    """Compare a project's label schemes with a label config.

    Args:
        connection: a read transaction.
        project: the project's key.
        asked: the label config.
        now: unix seconds.
        fates: what becomes of labels; without it each is expected to stay.
    """
    history = Schemes(connection, project).all()
    latest = latest_of(history)
    epochs = {question.name: asked.epoch(question) for question in asked.config.questions}
    changed = [name for name, epoch in epochs.items() if name not in latest or latest[name].epoch != epoch]
    before = {name: old for name in changed if (old := question_of(latest.get(name))) is not None}
    edited = {
        question.name: scheme
        for question in asked.config.questions
        if question.name in before
        and (scheme := _edited(latest[question.name], before[question.name], question, asked, now))
    }
    now_asked = latest | edited
    # Where prompt or embedder have changed as well, votes say nothing about the new question.
    same = {
        name: question
        for name in before
        if (question := question_of(now_asked[name])) is not None
        and asked.epoch(question) == now_asked[name].epoch
    }
    change = read_change(same, asked.config, fates)
    known = {(scheme.control, scheme.epoch) for scheme in history}
    back = {
        name for name in change.open if (name, epochs[name]) in known and not latest[name].labels
    }  # a config that was there before finds its own rounds
    open_ = {name: labels for name, labels in change.open.items() if name not in back}
    carried = {name: way for name, way in change.carried.items() if name in changed}
    first = [scheme for name, scheme in edited.items() if name in carried]
    made = _made(carried, [*history, *first], asked, now, fates)
    left = [name for name in changed if name not in change.carried and name not in open_]
    anew = [asked.scheme(question, now) for question in asked.config.questions if question.name in left]
    priors = {
        question.name: latest[question.name].epoch
        for question in asked.config.questions
        if question.name in left
        and question.name in before
        and latest[question.name].embedder == asked.embedder
        and _but_instructions(before[question.name]) == _but_instructions(question)
    }
    priors |= {scheme.control: latest[scheme.control].epoch for scheme in first}
    everyone = any(scheme.labels and (scheme.control, scheme.epoch) in known for scheme, _ in made)
    return Transition(before, made, anew, open_, priors, everyone=everyone, first=first)


def config_with_rounds(connection: Connection, project: str, asked: Asked, now: float) -> LabelConfig:
    """A label config with the questions under which the rounds are that its tasks will keep.

    These are those before, as long as nobody has said what becomes of labels, and those whose rounds
    are carried over once the first task is asked about. Nothing is changed here.
    """
    found = transition(connection, project, asked, now)
    if found.open:
        return found.under_old_labels(asked.config)
    kept = {scheme.control: found.before[scheme.control] for scheme, _ in found.present}
    return replace(found, before=kept).under_old_labels(asked.config)


def _edited(
    latest: Scheme, old: ConfigQuestion, new: ConfigQuestion, asked: Asked, now: float
) -> Scheme | None:
    """The scheme of a question's labels before under the instructions of now, if both have changed.

    The labels before under instructions that nothing was asked under yet: the step between the two changes.
    """
    question = replace(old, instructions=new.instructions)
    epoch = asked.epoch(question)
    if latest.embedder != asked.embedder or epoch in {latest.epoch, asked.epoch(new)}:
        return None
    xml = with_own_instructions(latest.label_config, new.name, new.instructions)
    return replace(asked.scheme(question, now), label_config=xml)


def epochs_with_other_instructions(history: Sequence[Scheme], scheme: Scheme) -> list[str]:
    """The epochs of a scheme's question where only the instructions were others, the latest first."""
    return list(dict.fromkeys(each.epoch for each in _with_other_instructions(history, scheme)))


def _with_other_instructions(history: Sequence[Scheme], scheme: Scheme) -> list[Scheme]:
    """The schemes of a scheme's question where only the instructions were others, the latest first."""
    question = question_of(scheme)
    return [
        earlier
        for earlier in reversed(history)
        if (earlier.control, earlier.embedder) == (scheme.control, scheme.embedder)
        and earlier.epoch != scheme.epoch
        and question is not None
        and (old := question_of(earlier)) is not None
        and _but_instructions(old) == _but_instructions(question)
    ]


def _but_instructions(question: ConfigQuestion) -> str:
    """A hash of all that a question asks but its instructions."""
    return replace(question, instructions=None).digest


def _made(
    carried: Mapping[str, Relabelling], history: Sequence[Scheme], asked: Asked, now: float, fates: LabelFates
) -> list[tuple[Scheme, Relabelling]]:
    questions, latest = {question.name: question for question in asked.config.questions}, latest_of(history)
    made: list[tuple[Scheme, Relabelling]] = []
    for name, way in carried.items():
        labels, parts = _changed(way.labels, fates.new(name)), fates.parts.get(name, {})
        scheme = replace(
            asked.scheme(questions[name], now), source=latest[name].epoch, labels=labels, parts=parts
        )
        beside = _beside(history, latest[name], scheme, lambda each: asked.like(questions[name], each))  # noqa: B023
        made += [(each, way) for each in [*beside, scheme]]
    return made


def _beside(
    history: Sequence[Scheme], latest: Scheme, scheme: Scheme, like: Callable[[Scheme], tuple[str, str]]
) -> list[Scheme]:
    """The schemes of earlier instructions to make beside one of the present ones, the earliest first."""
    found = dict[str, Scheme]()
    for each in _with_other_instructions(history, latest):
        found.setdefault(each.epoch, each)
    made = []
    for each in reversed(found.values()):
        xml, epoch = like(each)
        beside = {"source": each.epoch, "instructions": each.instructions, "beside": True}
        made.append(replace(scheme, epoch=epoch, label_config=xml, **beside))  # type: ignore[arg-type]
    return made


def _changed(labels: LabelMap, new: Sequence[str]) -> LabelMap:
    """The labels of a change; none if all stay and there is no new one."""
    return labels if new or any(old != to for old, to in labels.items()) else {}


def undone(history: Sequence[Scheme], changes: Sequence[Scheme], asked: Asked, now: float) -> Transition:
    """The way back from changes of labels that were made together.

    Labels that became one are apart again. What was asked about or labelled since then under their common
    name cannot be told apart, and is asked about again. Instructions stay what they are now.

    Args:
        history: the project's schemes, the earliest first.
        changes: those of them that are taken back; each is its question's latest change of labels.
        asked: the label config with the labels before them.
        now: unix seconds.
    """
    before, made = dict[str, ConfigQuestion](), list[tuple[Scheme, Relabelling]]()
    questions = {question.name: question for question in asked.config.questions}
    for change in changes:
        old, new = questions.get(change.control), question_of(change)
        if old is None or new is None:
            continue
        before[change.control] = new
        way = _way_back(change, old, new)
        latest = latest_of(history)[change.control]
        like = partial(_like_before, old, asked, _sources(history, change))
        scheme = replace(
            latest,
            epoch=like(latest)[1],
            label_config=asked.config.xml,
            source=latest.epoch,
            labels=way.labels if change.labels else {},
            parts={},
            created_at=now,
            undo=True,
        )
        made += [(each, way) for each in [*_beside(history, latest, scheme, like), scheme]]
    return Transition(before, made, everyone=True)


def _sources(history: Sequence[Scheme], change: Scheme) -> dict[str, str]:
    """Epoch of a change of labels, or of one that was made beside it → the epoch that it was made of."""
    of = (change.control, change.created_at)
    return {
        each.epoch: each.source
        for each in history
        if each.source is not None and (each.control, each.created_at) == of
    }


def _like_before(
    old: ConfigQuestion, asked: Asked, sources: Mapping[str, str], scheme: Scheme
) -> tuple[str, str]:
    """The label config and epoch of a scheme once its question has its old labels again."""
    xml, epoch = asked.like(old, scheme)
    return xml, sources.get(scheme.epoch, epoch)


def _way_back(change: Scheme, old: ConfigQuestion, new: ConfigQuestion) -> Relabelling:
    """How votes on a question are written once a change of its labels is taken back."""
    whole = {part: label for label, parts in change.parts.items() for part in parts}
    options = label_values(old)
    back = {label: whole.get(label, _only_source(change.labels, label)) for label in label_values(new)}
    back = {label: source if source in options else None for label, source in back.items()}
    apart = frozenset(label for label, to in back.items() if to is None)
    return Relabelling(old.control.aggregation, back, options, apart)


def back_from(labels: Mapping[str, str | None]) -> dict[str, str | None]:
    """New label → the old one that became it, ``None`` if several did."""
    return {new: _only_source(labels, new) for new in labels.values() if new is not None}


def _only_source(labels: Mapping[str, str | None], new: str) -> str | None:
    """The label that became a new one; ``None`` if several did."""
    sources = [old for old, to in labels.items() if to == new] or [new]
    return sources[0] if len(sources) == 1 else None


def question_of(scheme: Scheme | None) -> ConfigQuestion | None:
    """The question of a scheme; ``None`` if its config cannot be read any more."""
    if scheme is None:
        return None
    try:
        questions = parse_label_config(scheme.label_config).questions
    except BadLabelConfigError:
        return None
    return next((question for question in questions if question.name == scheme.control), None)


def open_labels(connection: Connection, project: str, config: LabelConfig) -> dict[str, OpenLabels]:
    """The labels of a label config of which nobody has said what becomes of them, by question.

    Whether instructions or embedder have changed too is not looked at: nothing is changed here.
    """
    history = Schemes(connection, project).all()
    schemes, known = latest_of(history), {(scheme.control, scheme.label_config) for scheme in history}
    before = {name: old for name, scheme in schemes.items() if (old := question_of(scheme)) is not None}
    found = read_change(before, config).open
    return {
        name: labels
        for name, labels in found.items()
        if (name, config.xml) not in known or schemes[name].labels
    }


def require_clear_labels(project: str, open_: Mapping[str, OpenLabels]) -> None:
    """Refuse labels of which nobody has said what becomes of them, or where they come from.

    Args:
        project: the key of the project, which the command that says so names.
        open_: question → these labels.
    """
    for control, labels in open_.items():
        source = f"--project {short_name(project)}" if is_of_label_studio(project) else f"--name {project}"
        gone, added = (", ".join(map(repr, names)) for names in (labels.gone, labels.added))
        if gone:
            what = f"what becomes of {gone}, which earlier labels name"
            how = "--rename old=new, --merge a,b=c, --split old=a,b or --drop x"
            if not is_of_label_studio(project):
                how += "; if it has renamed them already, give their new names"
        else:
            what = f"from which labels {added} takes tasks"
            how = "--add new=a,b, or --add new for none"
        raise ConfigError(
            f"{control}: nobody has said {what}",
            where="label_config",
            fix=f"run `camvo relabel {source}` with {how}",
        )


def carryings(found: Transition, project: str, settings: Settings) -> list[Carrying]:
    """What carries a project's rounds over, of each question those of earlier instructions too."""
    made, beside = list[Carrying](), list[Carrying]()
    for scheme, relabelling in found.carried:
        carrying = Carrying(
            project,
            scheme,
            relabelling,
            settings,
            scheme.created_at,
            originals={} if scheme.beside else found.originals.get(scheme.control, {}),
            everyone=found.everyone,
            again=found.again,
        )
        if scheme.beside:
            beside.append(carrying)
        else:
            made.append(replace(carrying, beside=tuple(beside)))
            beside.clear()
    return made


def begin_first(project: str, found: Transition) -> Transactions:
    """The transactions that store the schemes that begin before rounds are carried over."""
    return _begun(project, found.first, found.priors)


def begin_anew(project: str, found: Transition) -> Transactions:
    """The transactions that store schemes to which no rounds are carried over."""
    return _begun(project, found.anew, found.priors)


def _begun(project: str, new: Sequence[Scheme], priors: Mapping[str, str]) -> Transactions:
    """The transactions that store schemes without rounds, unless another process was faster.

    Where only instructions have changed, their states begin with what is known of the models.
    """

    def begin(scheme: Scheme, connection: Connection) -> None:
        ProjectEvents(connection, project).lock()  # before it is read whether another process was faster
        schemes = Schemes(connection, project)
        if schemes.epochs().get(scheme.control) == scheme.epoch:
            return
        if (source := priors.get(scheme.control)) is not None:
            carry_prior(connection, project, scheme, source)
        schemes.append(scheme)

    for scheme in new:
        yield partial(begin, scheme)


class LabelSchemes:
    """Carries rounds over when a project's label config changes. Used from one event loop only."""

    def __init__(self, access: LedgerAccess, embedder: Embedder) -> None:
        self._access, self._embedder = access, embedder
        self._settled: dict[str, Asked] = {}
        self._turns: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def settled(self, project: str, config: LabelConfig, settings: Settings) -> LabelConfig:
        """The label config under which a task is asked about, with its rounds carried over from the last one.

        It is the one before as long as labels are gone or new, and nobody has said what becomes of them.
        """
        asked = Asked.under(settings, config, self._embedder.identity)
        if self._settled.get(project) == asked:
            return config
        async with self._turns[project]:
            found = await self._access.read(
                lambda connection: transition(connection, project, asked, self._access.clock())
            )
            if found.open:
                return found.under_old_labels(config)
            await _run_each_with(begin_first(project, found), self._access.writer)
            for carrying in carryings(found, project, settings):
                await _run_each_with(carrying.transactions(), self._access.writer)
                _log.info(
                    "rounds_carried", project=project, control=carrying.scheme.control, rounds=carrying.rounds
                )
            await _run_each_with(begin_anew(project, found), self._access.writer)
            self._settled[project] = asked
        return config


async def _run_each_with(transactions: Transactions, writer: Writer) -> None:
    """Run transactions by the process's writer, so that others get their turns between them."""
    result = None
    with suppress(StopIteration):
        while True:
            result = await writer.run(transactions.send(result))


_Verdict = Literal["better", "worse", "undecided", "selected"]

_BEFORE: Final = "before"
_AFTER: Final = "after"


@dataclass(frozen=True, slots=True)
class TextComparison:
    """What the labels of two texts say.

    Attributes:
        control: the question.
        tasks: how many tasks both texts have labelled and people have judged.
        before: the mean reward under the earlier text; ``None`` without such a task.
        after: that under the present one.
        verdict: whether the present text is ``better`` or ``worse``, each with a probability of error of 5%
            over all looks; ``undecided``; or ``selected``, if only tasks with low scores were asked about
            again, which says nothing of a text.
    """

    control: str
    tasks: int
    before: float | None
    after: float | None
    verdict: _Verdict

    @property
    def said(self) -> str:
        """The comparison as a sentence."""
        if self.before is None or self.after is None:
            return "no task that people have judged without a suggestion has a label under both texts yet"
        right = f"{self.after:.1%} right now and {self.before:.1%} before, on {self.tasks:,} tasks"
        return f"{right}: {_VERDICTS[self.verdict]}"


_VERDICTS: Final[Mapping[_Verdict, str]] = {
    "better": "the present text is better",
    "worse": "the present text is worse; the one before and its labels can come back for nothing",
    "undecided": "not told apart yet",
    "selected": "not compared, since only tasks with low scores were asked about again; camvo try compares",
}


def compare_texts_so_far(connection: Connection, project: str) -> list[TextComparison]:
    """Compare each question's present instructions with the latest ones before that models read."""
    schemes = Schemes(connection, project).all()
    found = []
    for control, scheme in {scheme.control: scheme for scheme in schemes}.items():
        for epoch in epochs_with_other_instructions(schemes, scheme):
            place = (connection, project, control, epoch, scheme.epoch)
            asked = asked_by_score(*place)
            if asked.again:
                found.append(_compared(control, judged_twice(*place), selected=asked.selected))
                break
    return found


def _compared(control: str, tasks: Sequence[JudgedTwice], *, selected: bool) -> TextComparison:
    better, worse = Race([_BEFORE, _AFTER]), Race([_AFTER, _BEFORE])
    for task in tasks:
        rewards: Mapping[str, float] = {_BEFORE: task.before, _AFTER: task.after}
        for race in (better, worse):
            if not race.is_over:
                race.add(rewards)
    verdict: _Verdict = "better" if better.proven else "worse" if worse.proven else "undecided"
    before = fmean(task.before for task in tasks) if tasks else None
    after = fmean(task.after for task in tasks) if tasks else None
    return TextComparison(control, len(tasks), before, after, "selected" if selected else verdict)

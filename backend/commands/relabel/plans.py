"""What a change of labels means, worked out before anything is changed."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from backend.annotation.job_questions import is_below
from backend.commands.relabel.label_changes import CarriedTasks, carried_tasks, fates_of
from backend.commands.shared.arguments import LabelChanges, read_text
from backend.errors import BadLabelConfigError, ConfigError
from backend.label_studio.client import Client
from backend.learning.label_schemes import (
    Asked,
    Transition,
    back_from,
    epochs_with_other_instructions,
    question_of,
    transition,
    undone,
)
from backend.learning.teaching import answering
from backend.ledger import Ledger
from backend.ledger.epochs import DecidedRounds
from backend.ledger.human_annotations import Annotations
from backend.ledger.projects import Project, Scheme, Schemes, is_of_label_studio, latest_of, short_name
from backend.questions import ConfigQuestion, parse_label_config
from backend.questions.relabelling import (
    AS_THEY_ARE,
    LabelFates,
    LabelMaps,
    OpenLabels,
    label_values,
    relabelled_config,
    restored_config,
)
from backend.server.status.formats import of, verb_of
from backend.settings import Settings
from camvo.votes.registry import is_answer
from camvo.votes.relabelling import Relabelling


@dataclass(frozen=True, slots=True)
class Opened:
    """A project whose labels are to change.

    ``config`` is the label config in Label Studio; for a file, without a client, that of the latest labels.
    """

    ledger: Ledger
    stored: Project
    settings: Settings
    embedder: str
    client: Client | None
    config: str

    @property
    def options(self) -> str:
        """The options of ``camvo relabel`` that name it."""
        key = self.stored.key
        return f"--project {short_name(key)}" if is_of_label_studio(key) else f"--name {key}"

    def asked(self, xml: str) -> Asked:
        """A label config with what else is part of its questions' epochs."""
        return Asked.under(self.settings, parse_label_config(xml), self.embedder)


@dataclass(frozen=True, slots=True)
class RelabelPlan:
    """What is to be done.

    Attributes:
        xml: the label config afterwards.
        originals: question → annotation → what it said before labels became one, where that is taken back.
        kept: the same, of what is said now and kept, so that it can be taken back.
        back: question → what becomes of its labels on the way back.
        done: the schemes that the same command has carried rounds to before it failed.
        late: question → annotation → what it says, of those that came since then and are not kept yet.
    """

    found: Transition
    xml: str
    tasks: Mapping[str, CarriedTasks] = field(default_factory=dict)
    done: Sequence[Scheme] = ()
    late: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    originals: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    kept: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    back: LabelMaps = field(default_factory=dict)

    @property
    def schemes(self) -> list[Scheme]:
        """The schemes that Label Studio is to show."""
        return [*self.done, *(scheme for scheme, _ in self.found.present)]

    def lines(self, opened: Opened) -> Iterator[str]:
        """The plan as sentences."""
        for scheme in self.done:
            yield f"{scheme.control}: its labels are carried over already; what people say is learnt again"
        for scheme, way in self.found.present:
            tasks = self.tasks[scheme.control]
            yield (
                f"{scheme.control}: {of(tasks.labels, 'label')} and {of(tasks.people, 'human label')} are"
                " carried over, 0 calls"
            )
            if scheme.labels:
                yield from self._becoming(scheme, way.options)
            yield from tasks.lines(_how_to_look(opened, scheme))
        for scheme in self.found.anew:
            again = "its tasks are asked about again when they are predicted next"
            yield f"{scheme.control}: begins anew; {again}"
        yield "Certificates of the labels before are void."

    def _becoming(self, scheme: Scheme, options: Sequence[str]) -> Iterator[str]:
        """What becomes of each label, and which labels are new; or are back, once a change is taken back."""
        was = self.back.get(scheme.control, {}) if scheme.undo else {}
        known = {*scheme.labels.values(), *(part for of in scheme.parts.values() for part in of)}
        for old, to in scheme.labels.items():
            apart = [label for label, merged in was.items() if merged == old and label in options]
            if old in scheme.parts:
                yield f"  {old} → {' or '.join(scheme.parts[old])}"
            elif to is None and len(apart) > 1:
                known.update(apart)
                yield f"  {old} → {' and '.join(apart)} again"
            elif old != to:
                yield f"  {old} → {'(dropped)' if to is None else to}"
        how = "back" if scheme.undo else "new"
        yield from (f"  {label} is {how}" for label in options if label not in known)


def planned(opened: Opened, wanted: LabelChanges, schemes: Schemes) -> RelabelPlan:
    """Work out what is wanted."""
    history = schemes.all()
    latest = latest_of(history)
    if not latest:
        raise ConfigError(
            "nothing was labelled yet, so no label can change", where=opened.options, fix="label it first"
        )
    if wanted.undo:
        return _undo(opened, schemes, history)
    if (plan := _resumed(opened, wanted, schemes, history)) is not None:
        return plan
    before = {name: old for name, scheme in latest.items() if (old := question_of(scheme)) is not None}
    fates = fates_of(wanted, before)
    xml = _target(opened, wanted, before, fates)
    found = transition(schemes.connection, schemes.project, opened.asked(xml), time.time(), fates)
    if wanted.anew:
        return RelabelPlan(_begun_anew(found, xml, opened), xml)
    _require_clear(found, before, fates, latest, opened.asked(xml))
    _require_new_names(history, found)
    originals = {
        scheme.control: _originals(schemes, before[scheme.control], each) for scheme, each in found.present
    }
    back = {scheme.control: back_from(scheme.labels) for scheme, _ in found.present}
    made = {(scheme.control, scheme.epoch) for scheme in history}
    again = [scheme for scheme, _ in found.present if (scheme.control, scheme.epoch) in made]
    _require_asked_again(schemes, history, again, wanted.below)
    tasks = carried_tasks(schemes, found, fates, before, wanted.below)
    found = replace(found, originals=originals, again=_rounds_of(tasks))
    return RelabelPlan(found, xml, kept=originals, back=back, tasks=tasks)


def _rounds_of(tasks: Mapping[str, CarriedTasks]) -> frozenset[int]:
    """The rounds that are left, so that their tasks are asked about again."""
    return frozenset(number for each in tasks.values() for number in each.rounds)


def _begun_anew(found: Transition, xml: str, opened: Opened) -> Transition:
    """The questions whose labels are not clear begin anew, and nothing of them is carried."""
    asked = opened.asked(xml)
    questions = {question.name: question for question in asked.config.questions}
    new = [asked.scheme(questions[name], time.time()) for name in found.open]
    return replace(found, anew=[*found.anew, *new], open={})


def _target(
    opened: Opened, wanted: LabelChanges, before: Mapping[str, ConfigQuestion], fates: LabelFates
) -> str:
    """The label config afterwards: the given one, the one that Label Studio has already, or a changed one."""
    if wanted.label_config is not None:
        return read_text(wanted.label_config, "--label-config")
    now = {question.name: question.digest for question in parse_label_config(opened.config).questions}
    if any(now.get(name) != question.digest for name, question in before.items()):
        return opened.config
    if fates == AS_THEY_ARE:
        raise ConfigError(
            "says of no label what becomes of it",
            where="camvo relabel",
            fix="give --rename old=new, --merge a,b=c, --split old=a,b, --add new, --drop x or --label-config"
            " new.xml",
        )
    return relabelled_config(opened.config, fates)


def _require_clear(
    found: Transition,
    before: Mapping[str, ConfigQuestion],
    fates: LabelFates,
    latest: Mapping[str, Scheme],
    asked: Asked,
) -> None:
    """Check that every label has a place, and that the config asks what was asked before."""
    skipped = {control.control: control.reason for control in asked.config.skipped}
    for name in sorted(before.keys() - {question.name for question in asked.config.questions}):
        raise _wrong_config(
            f"{name}: {skipped.get(name, 'the label config lacks it')}",
            fix="keep every question, with two labels or more",
        )
    for question in asked.config.questions:
        said = fates.maps.get(question.name, {})
        given_up = {old for old, new in said.items() if old != new} - {*said.values()}
        if still := [label for label in label_values(question) if label in given_up]:
            raise _wrong_config(
                f"{question.name}: the label config still has {_quoted(still)}",
                fix="give the config afterwards, or none: the command then changes the present one",
            )
    for name, labels in found.open.items():
        raise _unclear(name, labels, fates)
    for name in sorted({scheme.control for scheme in found.anew} & before.keys()):
        if asked.epoch(before[name]) != latest[name].epoch:
            raise ConfigError(
                f"{name}: instructions, redaction or embedder have changed since its latest labels",
                where="camvo.yaml",
                fix="change the labels first, and the instructions afterwards",
            )
        raise _wrong_config(
            f"{name}: the label config asks another question",
            fix="change labels and hints only; keep names, tags, fields and camvo_instructions",
        )
    if not found.carried:
        raise ConfigError("no label changes", where="camvo relabel", fix="say which one becomes which")


_wrong_config = partial(ConfigError, where="--label-config")


def _unclear(name: str, labels: OpenLabels, fates: LabelFates) -> ConfigError:
    """Why it is not known what becomes of a question's labels."""
    said = fates.maps.get(name, {})
    missing = [new for label in labels.gone if (new := said.get(label)) is not None]
    missing += [label for label in fates.new(name) if label in labels.gone]
    if missing:
        return _wrong_config(
            f"{name}: the label config has no label {_quoted(missing)}",
            fix="add it to the config, or name a label that it has",
        )
    if labels.gone:
        return ConfigError(
            f"{name}: says nothing of {_quoted(labels.gone)}, which the label config lacks",
            where="camvo relabel",
            fix="say what becomes of each: --rename old=new, --merge a,b=c, --split old=a,b or --drop x",
        )
    added = labels.added
    return _wrong_config(
        f"{name}: the label config adds {_quoted(added)}, and no label becomes it",
        fix=f"say where it comes from: --add '{added[0]}=a,b', --split old=a,b or --rename old=new",
    )


def _require_new_names(history: Sequence[Scheme], found: Transition) -> None:
    """Check that no label gets the name that another one had: answers under the old name could be either."""
    for scheme, way in found.present:
        if any(_is_the_same(scheme, way, each) for each in history):
            continue  # its names mean what they meant
        earlier = {label for each in history if each.control == scheme.control for label in each.labels}
        fresh = [(None, label) for label in way.options if label not in way.labels.values()]
        for old, new in [*scheme.labels.items(), *fresh]:
            if new is None or new == old or _was_named(old, new, scheme.control, history):
                continue
            if scheme.labels.get(new, new) != new or new in earlier - scheme.labels.keys():
                raise ConfigError(
                    f"{scheme.control}: {new!r} was the name of another label",
                    where="--rename",
                    fix="take a name that no label had, or take the earlier change back with --undo",
                )


def _was_named(old: str | None, new: str, control: str, history: Sequence[Scheme]) -> bool:
    """Whether a label is to get a name that it had, and that no other one had."""
    names = {new}
    for each in history:
        if each.control == control and each.labels and not each.beside:
            names |= {to for label, to in each.labels.items() if label in names and to is not None}
            into = {label for label, to in each.labels.items() if to in names}
            if not into <= names or any(each.labels[label] is None for label in names & each.labels.keys()):
                return False
    present = {label for each in history if each.control == control for label in _labels_of(each)}
    return old in names and new in present


def _labels_of(scheme: Scheme) -> tuple[str, ...]:
    """The labels of a scheme; none if its config cannot be read any more."""
    question = question_of(scheme)
    return () if question is None else label_values(question)


def _is_the_same(scheme: Scheme, way: Relabelling, earlier: Scheme) -> bool:
    """Whether an earlier change of labels, which was taken back since, was the same."""
    return (
        (scheme.control, scheme.labels) == (earlier.control, earlier.labels)
        and {old: {*parts} for old, parts in scheme.parts.items()}
        == {old: {*parts} for old, parts in earlier.parts.items()}
        and {*_labels_of(earlier)} == {*way.options}
    )


def _originals(
    schemes: Schemes, question: ConfigQuestion, way: Relabelling, *, kept: bool = False
) -> dict[int, str]:
    """Annotation → what it says, of those whose labels change, whether they count or not.

    With ``kept``, what was kept of an annotation counts too.
    """
    if way.is_exact:
        return {}
    aggregation, options = question.control.aggregation, label_values(question)
    found = {}
    for each in Annotations(schemes.connection, schemes.project).all():
        counted = replace(each, teaches=True, withdrawn=False)
        [said] = answering([counted], question.name, aggregation, options) or [counted]
        earlier = (each.originals or {}).get(question.name, ()) if kept else ()
        for answer in [said.labels.get(question.name), *reversed(earlier)]:
            if is_answer(aggregation, answer, options) and way.vote(str(answer)) != answer:
                found[each.annotation_id] = str(answer)
                break
    return found


def taken_back() -> ConfigError:
    """The error where there is nothing left to take back."""
    return ConfigError(
        "the latest change is taken back already",
        where="--undo",
        fix="change the labels anew; only the latest change can be taken back",
    )


def _resumed(
    opened: Opened, wanted: LabelChanges, schemes: Schemes, history: Sequence[Scheme]
) -> RelabelPlan | None:
    """The rest of the latest change, if that is what is wanted: it failed before it reached its end.

    Repeating a change that did reach its end does nothing.
    """
    latest = latest_of(history)
    done = _together(history, max(latest.values(), key=lambda scheme: scheme.id))
    done = [scheme for scheme in done if latest[scheme.control].id == scheme.id and not scheme.undo]
    sources = {scheme.control: _source_of(scheme, history) for scheme in done}
    before = {name: old for name, scheme in (latest | sources).items() if (old := question_of(scheme))}
    after = {scheme.control: new for scheme in done if (new := question_of(scheme))}
    if not done or before.keys() != latest.keys() or len(after) < len(done) or wanted.anew:
        return None
    try:
        fates = fates_of(wanted, before)
        xml = _target(opened, wanted, before, fates)
    except ConfigError:
        return None
    left = fates.of([name for name in before if name not in after])
    found = transition(schemes.connection, schemes.project, opened.asked(xml), done[0].created_at, left)
    if any(name in found.before for name in after) or not all(
        _is_made(scheme, fates, after[scheme.control]) for scheme in done
    ):
        return None
    if found.open or {scheme.control for scheme in found.anew} & before.keys():
        return None
    tasks = carried_tasks(schemes, found, left, before, wanted.below)
    _require_asked_again(schemes, history, done, wanted.below)
    return _rest_of(schemes, RelabelPlan(found, xml, tasks, done), before, after)


def _rest_of(
    schemes: Schemes,
    plan: RelabelPlan,
    before: Mapping[str, ConfigQuestion],
    after: Mapping[str, ConfigQuestion],
) -> RelabelPlan:
    """The plan for the rest of a change, with what people say under the labels ``before`` it.

    ``after`` has the questions whose schemes are made, under the labels that they have now.
    """
    found, done = plan.found, plan.done
    ways = [*found.present, *((each, _way(each, before[each.control], after[each.control])) for each in done)]
    kept = {
        scheme.control: _originals(schemes, before[scheme.control], way, kept=True) for scheme, way in ways
    }
    stored = _stored_originals(schemes, after)
    late = {
        name: {number: said for number, said in kept[name].items() if number not in stored[name]}
        for name in after
    }
    found = replace(
        found,
        before={**found.before, **{name: before[name] for name in after}},
        originals={scheme.control: kept[scheme.control] for scheme, _ in found.present},
        again=_rounds_of(plan.tasks),
    )
    back = {scheme.control: back_from(scheme.labels) for scheme, _ in ways}
    return replace(plan, found=found, kept=kept, back=back, late=late)


def _require_asked_again(
    schemes: Schemes, history: Sequence[Scheme], done: Sequence[Scheme], below: float | None
) -> None:
    """Check that no task that was carried over already has a score below the one that is given now."""
    for scheme in done if below is not None else ():
        place = (schemes.connection, schemes.project, scheme.control)
        epochs = [scheme.epoch, *epochs_with_other_instructions(history, scheme)]
        low = len(
            {
                task.place
                for epoch in epochs
                for task in DecidedRounds(*place, epoch).tasks()
                if task.carried and task.deciding is None and is_below(task.score, below or 0.0)
            }
        )
        if low:
            raise ConfigError(
                f"{scheme.control}: this change is made already, and {of(low, 'label')} with a lower"
                f" score {verb_of(low, 'were')} carried over",
                where="--below",
                fix="after --undo, make it with --below and new names",
            )


def _is_made(scheme: Scheme, fates: LabelFates, after: ConfigQuestion) -> bool:
    """Whether a scheme is what comes of these fates."""
    maps, new = fates.maps.get(scheme.control, {}), fates.new(scheme.control)
    if not scheme.labels:
        return not maps and not new
    fresh = {*label_values(after)} - {*scheme.labels.values()}
    return fresh == {*new} and all(maps.get(label, label) == to for label, to in scheme.labels.items())


def _together(history: Sequence[Scheme], change: Scheme) -> list[Scheme]:
    """The schemes that one command made."""
    return [
        scheme
        for scheme in history
        if scheme.source is not None and scheme.created_at == change.created_at and not scheme.beside
    ]


def _source_of(scheme: Scheme, history: Sequence[Scheme]) -> Scheme:
    """The scheme whose rounds were carried over to this one."""
    earlier = (each for each in reversed(history) if each.control == scheme.control and each.id < scheme.id)
    return next(each for each in earlier if each.epoch == scheme.source)


def _way(scheme: Scheme, before: ConfigQuestion, after: ConfigQuestion) -> Relabelling:
    """How votes are written under a scheme that rounds were carried to."""
    labels = scheme.labels or {label: label for label in label_values(before)}
    return Relabelling(after.control.aggregation, labels, label_values(after), frozenset(scheme.parts))


def _stored_originals(schemes: Schemes, names: Collection[str]) -> dict[str, dict[int, str]]:
    """Question → annotation → what it said before its labels became one, as far as that is kept."""
    people = Annotations(schemes.connection, schemes.project).all()
    return {
        name: {
            each.annotation_id: each.originals[name][-1]
            for each in people
            if each.originals and name in each.originals
        }
        for name in names
    }


def _undo(opened: Opened, schemes: Schemes, history: Sequence[Scheme]) -> RelabelPlan:
    """The way back from the latest change of labels, or its rest if it failed before it reached its end."""
    latest = latest_of(scheme for scheme in history if scheme.labels)
    newest = max(latest.values(), key=lambda each: each.id, default=None)
    if newest is None:
        raise ConfigError("no label was changed", where="--undo", fix="there is nothing to take back")
    change = (_taken_back_by(newest, history) if newest.undo else None) or newest
    together = _together(history, change)
    done = [
        each
        for each in history
        if each.undo and not each.beside and each.id > change.id and each.created_at == newest.created_at
    ]
    if len(done) == len(together) and opened.client is None:
        raise taken_back()
    before = {each.control: question for each in together if (question := question_of(each)) is not None}
    try:
        earlier = _source_of(change, history).label_config
        xml = _restored(opened.config, earlier, before, together)
        names = {each.control for each in done}
        found = undone(
            history, [each for each in together if each.control not in names], opened.asked(xml), time.time()
        )
    except BadLabelConfigError as error:
        raise ConfigError("the earlier label config cannot be read", where="--undo", fix=error.fix) from error
    found = replace(found, before=before)
    originals = _stored_originals(schemes, [scheme.control for scheme in together])
    back = {scheme.control: scheme.labels for scheme in together}
    tasks = carried_tasks(schemes, found, AS_THEY_ARE, before, None)
    found = replace(found, again=_rounds_of(tasks))
    return RelabelPlan(found, xml, tasks=tasks, originals=originals, back=back, done=done)


def _taken_back_by(scheme: Scheme, history: Sequence[Scheme]) -> Scheme | None:
    """The earlier change of labels that a scheme was made to take back; ``None`` if it was not."""
    found = (
        each
        for each in reversed(history)
        if (each.control, each.epoch, each.source) == (scheme.control, scheme.source, scheme.epoch)
        and each.id < scheme.id
    )
    return next(found, None)


def _restored(
    present: str, earlier: str, before: Mapping[str, ConfigQuestion], changes: Sequence[Scheme]
) -> str:
    """The present label config with the earlier labels, and with all else that people have added to it."""
    labels = {scheme.control: scheme.labels for scheme in changes}
    parts = {scheme.control: scheme.parts for scheme in changes}
    xml = restored_config(present, earlier, LabelFates(labels, parts))
    now, then, after = (
        {question.name: question.digest for question in parse_label_config(each).questions}
        for each in (present, earlier, xml)
    )
    if all(now.get(name) == then[name] for name in before):
        return present
    for name, changed in before.items():
        if now.get(name) != changed.digest or after.get(name) != then[name]:
            raise ConfigError(
                f"{name}: the label config asks another question since the change of labels",
                where="--undo",
                fix="take that edit back first, and make it again afterwards",
            )
    return xml


def _how_to_look(opened: Opened, scheme: Scheme) -> str:
    """Where people find the tasks whose label they gave is split or dropped."""
    if opened.client is None:
        gone = [old for old, to in scheme.labels.items() if to is None]
        return f"label the rows again where they say {_quoted(gone)}, and run camvo teach"
    return f"camvo review {opened.options} --disputed --tab"


def _quoted(labels: Sequence[str]) -> str:
    return ", ".join(map(repr, labels))

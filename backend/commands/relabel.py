"""``camvo relabel``: labels renamed, put together or dropped, without asking anybody again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from backend import settings as settings_module
from backend.commands.bulk.process import annotation_process
from backend.commands.label_changes import LabelChanges
from backend.commands.shared import backend_client
from backend.commands.shared.options import LabelOptions
from backend.commands.shared.setup import environment_with, existing_ledger, quiet_logs
from backend.errors import BadLabelConfigError, ConfigError
from backend.label_studio import payloads
from backend.label_studio.client import Client
from backend.label_studio.predictions import relabelled_result
from backend.learning.carrying import run_each
from backend.learning.label_schemes import (
    Asked,
    Transition,
    back_from,
    begin_anew,
    carryings,
    is_undo,
    question_of,
    transition,
    undone,
)
from backend.learning.projects import (
    asked_questions,
    project_settings,
    remember_project,
    shown_instructions,
)
from backend.learning.teaching import answering
from backend.ledger import Ledger, projects
from backend.ledger.human_annotations import Annotations
from backend.ledger.projects import Project, is_of_label_studio, short_name
from backend.ledger.reports import QuestionSums
from backend.ledger.schemes import Scheme, Schemes
from backend.models.embedder import Embedder
from backend.questions import ConfigQuestion, parse_label_config
from backend.questions.relabelling import LabelMaps, label_values, relabelled_config, restored_config
from backend.runtime.annotation_process import AnnotationProcess
from backend.settings import Environment, Settings
from camvo.votes.relabelling import Relabelling


@dataclass(frozen=True, slots=True)
class _Opened:
    """A project whose labels are to change.

    Attributes:
        ledger: its ledger.
        stored: the project.
        settings: its settings.
        embedder: the identity of the embedder.
        client: Label Studio's API; ``None`` for a file's project.
        config: the label config in Label Studio; for a file, that of the latest labels.
    """

    ledger: Ledger
    stored: Project
    settings: Settings
    embedder: str
    client: Client | None
    config: str

    def asked(self, xml: str) -> Asked:
        """A label config with what else is part of its questions' epochs."""
        return Asked(parse_label_config(xml), self.settings.instructions, self.embedder, self.settings.redact)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be done.

    Attributes:
        found: the schemes.
        xml: the label config afterwards.
        originals: question → annotation → what it said before labels became one, where that is taken back.
        kept: the same, of what is said now and kept, so that it can be taken back.
        back: question → what becomes of its labels on the way back.
    """

    found: Transition
    xml: str
    originals: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    kept: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    back: LabelMaps = field(default_factory=dict)


def run_relabel(
    source: Path | int,
    wanted: LabelChanges,
    *,
    name: str | None,
    config: Path | None,
    label_studio: str | None,
    agreed: Callable[[str], bool] | None,
) -> None:
    """Change the labels of a file's project or of one of Label Studio, once its plan is agreed to.

    Args:
        source: the file, or the project's number.
        wanted: what is to become of labels.
        name: the file's project in the ledger; ``None`` for the file's name.
        config: the settings' file.
        label_studio: Label Studio's address.
        agreed: asks whether to go on; ``None`` to print the plan only.
    """
    environment = environment_with(config)
    quiet_logs(environment)
    with existing_ledger(environment):
        client = None
        if isinstance(source, int):
            client = backend_client.label_studio_client(label_studio, environment)
        with opened_project(source, environment, client=client, name=name) as opened:
            relabel(opened, wanted, Console(), agreed)


@contextmanager
def opened_project(
    source: Path | int,
    environment: Environment,
    *,
    client: Client | None = None,
    name: str | None = None,
    embedder: Embedder | None = None,
) -> Iterator[_Opened]:
    """Open a project whose labels are to change."""
    settings = settings_module.load(environment.config)
    with annotation_process(settings, environment, embedder, asking=False) as process:
        payload = client.project(source) if client is not None and isinstance(source, int) else None
        key = LabelOptions(name=name).project(Path(str(source)))
        if payload is not None:
            key = payloads.project_key(payload)
        yield _opened(process, key, settings, payload, client)


def _opened(
    process: AnnotationProcess,
    key: str,
    settings: Settings,
    payload: Mapping[str, Any] | None,
    client: Client | None,
) -> _Opened:
    with process.ledger.read() as connection:
        stored = projects.get(connection, key)
    if stored is None:
        raise ConfigError(
            f"the ledger has no project {short_name(key)!r}",
            where="SOURCE" if client is None else "--project",
            fix="label it first; the ledger is that of CAMVO_DATABASE_URL",
        )
    if payload is not None:
        stored = replace(stored, instructions=payloads.project_instructions(payload))
    own, problem = project_settings(stored, settings)
    if problem is not None:
        raise problem
    xml = stored.label_config or "" if payload is None else str(payload["label_config"])
    return _Opened(process.ledger, stored, own, process.embedder.identity, client, xml)


def relabel(
    opened: _Opened, wanted: LabelChanges, console: Console, agreed: Callable[[str], bool] | None
) -> None:
    """Plan the change of labels, and make it once it is agreed to.

    Raises:
        ConfigError: what is wanted loses a label, or is not clear; nothing was changed.
    """
    with opened.ledger.read() as connection:
        plan = _planned(opened, wanted, Schemes(connection, opened.stored.key))
        for line in _lines(opened, plan):
            console.print(escape(line), highlight=False, soft_wrap=True)
    if agreed is None or not agreed("Go on?"):
        return
    key = opened.stored.key

    def write(transaction: Callable[[Any], Any]) -> Any:
        with opened.ledger.write() as connection:
            return transaction(connection)

    for carrying in carryings(plan.found, key, opened.settings):
        run_each(carrying.transactions(), write)
        console.print(
            f"{escape(carrying.scheme.control)}: {carrying.rounds:,} labels carried over, 0 calls"
            + (f"; {carrying.left:,} left to be asked about again" if carrying.left else ""),
            highlight=False,
        )
    run_each(begin_anew(key, plan.found), write)
    columns: dict[str, Any] = {"label_config": plan.xml}
    if not plan.found.anew:  # what is predicted has the new labels
        instructions = shown_instructions(opened.stored, opened.settings)
        columns["predicted"] = asked_questions(parse_label_config(plan.xml), instructions)
    write(lambda connection: remember_project(connection, key, columns, time.time()))
    _deliver(opened, plan, console)
    if plan.found.carried:
        console.print(f"Take it back with: camvo relabel {_source(opened)} --undo", highlight=False)


def _source(opened: _Opened) -> str:
    key = opened.stored.key
    return f"--project {short_name(key)}" if is_of_label_studio(key) else f"--name {key}"


def _planned(opened: _Opened, wanted: LabelChanges, schemes: Schemes) -> _Plan:
    history = schemes.all()
    latest = {scheme.control: scheme for scheme in history}
    if not latest:
        raise ConfigError(
            "nothing was labelled yet, so no label can change", where=_source(opened), fix="label it first"
        )
    if wanted.undo:
        return _undo(opened, schemes, history)
    before = {name: old for name, scheme in latest.items() if (old := question_of(scheme)) is not None}
    maps = wanted.maps(before)
    xml = _target(opened, wanted, before, maps)
    found = transition(schemes.connection, schemes.project, opened.asked(xml), time.time(), maps)
    if wanted.anew:
        return _Plan(_begun_anew(found, xml, opened), xml)
    _require_clear(found, before, maps, latest, opened.asked(xml))
    _require_new_names(history, found)
    originals = {
        scheme.control: _originals(schemes, before[scheme.control], each) for scheme, each in found.carried
    }
    back = {scheme.control: back_from(scheme.labels) for scheme, _ in found.carried}
    return _Plan(replace(found, originals=originals), xml, kept=originals, back=back)


def _begun_anew(found: Transition, xml: str, opened: _Opened) -> Transition:
    """The questions whose labels are not clear begin anew, and nothing of them is carried."""
    asked = opened.asked(xml)
    questions = {question.name: question for question in asked.config.questions}
    new = [
        Scheme(name, asked.epoch(questions[name]), xml, asked.embedder, created_at=time.time())
        for name in found.open
    ]
    return replace(found, anew=[*found.anew, *new], open={})


def _target(
    opened: _Opened,
    wanted: LabelChanges,
    before: Mapping[str, ConfigQuestion],
    maps: LabelMaps,
) -> str:
    """The label config afterwards: the given one, the one that Label Studio has already, or a changed one."""
    if wanted.label_config is not None:
        try:
            return wanted.label_config.read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{wanted.label_config} cannot be read: {type(error).__name__}",
                where="--label-config",
                fix="check the path",
            ) from None
    now = {question.name: question.digest for question in parse_label_config(opened.config).questions}
    if any(now.get(name) != question.digest for name, question in before.items()):
        return opened.config
    if not maps:
        raise ConfigError(
            "says of no label what becomes of it",
            where="camvo relabel",
            fix="give --rename old=new, --merge a,b=c, --drop x or --label-config new.xml",
        )
    return relabelled_config(opened.config, maps)


def _require_clear(
    found: Transition,
    before: Mapping[str, ConfigQuestion],
    maps: LabelMaps,
    latest: Mapping[str, Scheme],
    asked: Asked,
) -> None:
    """Check that every label has a place, and that the config asks what was asked before."""
    skipped = {control.control: control.reason for control in asked.config.skipped}
    for name in sorted(before.keys() - {question.name for question in asked.config.questions}):
        raise ConfigError(
            f"{name}: {skipped.get(name, 'the label config lacks it')}",
            where="--label-config",
            fix="keep every question, with two labels or more",
        )
    for name, labels in found.open.items():
        said = maps.get(name, {})
        missing = [new for label in labels.gone if (new := said.get(label)) is not None]
        if missing:
            raise ConfigError(
                f"{name}: the label config has no label {_quoted(missing)}",
                where="--label-config",
                fix="add it to the config, or name a label that it has",
            )
        raise ConfigError(
            f"{name}: says nothing of {_quoted(labels.gone)}, which the label config lacks",
            where="camvo relabel",
            fix="say what becomes of each: --rename old=new, --merge a,b=c or --drop x",
        )
    for name, added in found.added.items():
        raise ConfigError(
            f"{name}: the label config adds {_quoted(added)}, and no label becomes it",
            where="--label-config",
            fix="rename a label to it, or add it later: a label that is added is asked about anew",
        )
    other = sorted({scheme.control for scheme in found.anew} & before.keys())
    for name in other:
        if asked.epoch(before[name]) != latest[name].epoch:
            raise ConfigError(
                f"{name}: instructions, redaction or embedder have changed since its latest labels",
                where="camvo.yaml",
                fix="change the labels first, and the instructions afterwards",
            )
        raise ConfigError(
            f"{name}: the label config asks another question",
            where="--label-config",
            fix="change labels and hints only; keep names, tags, fields and camvo_instructions",
        )
    if not found.carried:
        raise ConfigError("no label changes", where="camvo relabel", fix="say which one becomes which")


def _require_new_names(history: Sequence[Scheme], found: Transition) -> None:
    """Check that no label gets the name that another one had: answers under the old name could be either."""
    for scheme, _ in found.carried:
        earlier = {label for each in history if each.control == scheme.control for label in each.labels}
        for old, new in scheme.labels.items():
            if new is None or new == old:
                continue
            if scheme.labels.get(new, new) != new or new in earlier - scheme.labels.keys():
                raise ConfigError(
                    f"{scheme.control}: {new!r} was the name of another label",
                    where="--rename",
                    fix="take a name that no label had, or take the earlier change back with --undo",
                )


def _originals(schemes: Schemes, question: ConfigQuestion, relabelling: Relabelling) -> dict[int, str]:
    """Annotation → what it says, of those whose labels change, whether they count or not."""
    if relabelling.is_exact:
        return {}
    people = Annotations(schemes.connection, schemes.project).all()
    counted = [replace(each, teaches=True, withdrawn=False) for each in people]
    said = answering(counted, question.name, question.control.aggregation, label_values(question))
    return {
        each.annotation_id: answer
        for each in said
        if relabelling.vote(answer := each.labels[question.name]) != answer
    }


def _undo(opened: _Opened, schemes: Schemes, history: Sequence[Scheme]) -> _Plan:
    """The way back from the latest change of labels."""
    latest = {scheme.control: scheme for scheme in history}
    newest = max(
        (scheme for scheme in latest.values() if scheme.labels), key=lambda each: each.id, default=None
    )
    if newest is None:
        raise ConfigError("no label was changed", where="--undo", fix="there is nothing to take back")
    if is_undo(newest, history):  # its labels have no place for those that became one
        raise ConfigError(
            "the latest change is taken back already",
            where="--undo",
            fix="change the labels anew; only the latest change can be taken back",
        )
    together = [
        scheme
        for scheme in latest.values()
        if scheme.source is not None and scheme.created_at == newest.created_at
    ]
    try:
        found, xml = undone(history, together, time.time())
    except BadLabelConfigError as error:
        raise ConfigError("the earlier label config cannot be read", where="--undo", fix=error.fix) from error
    xml = _restored(opened.config, xml, found, together)
    found = replace(
        found, carried=[(replace(scheme, label_config=xml), how) for scheme, how in found.carried]
    )
    people = Annotations(schemes.connection, schemes.project).all()
    originals = {
        scheme.control: {
            each.annotation_id: each.originals[scheme.control][-1]
            for each in people
            if each.originals and scheme.control in each.originals
        }
        for scheme in together
    }
    return _Plan(found, xml, originals, back={scheme.control: scheme.labels for scheme in together})


def _restored(present: str, earlier: str, found: Transition, changes: Sequence[Scheme]) -> str:
    """The present label config with the earlier labels, and with all else that people have added to it."""
    xml = restored_config(present, earlier, {scheme.control: scheme.labels for scheme in changes})
    now, then, after = (
        {question.name: question.digest for question in parse_label_config(each).questions}
        for each in (present, earlier, xml)
    )
    for name, changed in found.before.items():
        if now.get(name) != changed.digest or after.get(name) != then[name]:
            raise ConfigError(
                f"{name}: the label config asks another question since the change of labels",
                where="--undo",
                fix="take that edit back first, and make it again afterwards",
            )
    return xml


def _lines(opened: _Opened, plan: _Plan) -> Iterator[str]:
    """The plan as sentences."""
    with opened.ledger.read() as connection:
        for scheme, relabelling in plan.found.carried:
            sums = QuestionSums(connection, opened.stored.key, scheme.control, scheme.source or "")
            counts = sums.labels()
            kept = [row for row in counts if relabelling.vote(row.label) is not None]
            labels, people = sum(row.rounds for row in kept), sum(row.people for row in counts)
            yield f"{scheme.control}: {labels:,} labels and {people:,} human labels are carried over, 0 calls"
            for old, new in scheme.labels.items():
                if old != new:
                    yield f"  {old} → {'(dropped)' if new is None else new}"
            if left := sum(row.rounds for row in counts) - labels:
                yield f"  {left:,} tasks have a label that is dropped: they are asked about again"
    for scheme in plan.found.anew:
        yield f"{scheme.control}: begins anew; its tasks are asked about again when they are predicted next"
    yield "Certificates of the labels before are void."


def _unordered(value: Any) -> Any:
    """A result, whatever the order of the labels that an item lists."""
    if isinstance(value, Mapping):
        return {key: _unordered(each) for key, each in value.items()}
    return sorted(map(_unordered, value), key=repr) if isinstance(value, list) else value


def _quoted(labels: Sequence[str]) -> str:
    return ", ".join(map(repr, labels))


def _deliver(opened: _Opened, plan: _Plan, console: Console) -> None:
    """Tell Label Studio the label config, and the new labels of its annotations."""
    if opened.client is None:
        return
    number = int(short_name(opened.stored.key))
    if plan.xml != opened.config:
        opened.client.change_project(number, {"label_config": plan.xml})
    if not plan.found.carried:
        return
    change = _change_of(plan)
    annotations = predictions = left = 0
    for page in opened.client.pages(number):
        for task in page:
            for each in task["annotations"]:
                if (result := change(each["result"], each["id"])) is None:
                    left += 1
                elif result != each["result"]:
                    opened.client.change_annotation(each["id"], {"result": result})
                    annotations += 1
            for each in task["predictions"]:
                if (result := change(each["result"], None)) != each["result"]:
                    opened.client.change_prediction(each["id"], {"result": result})
                    predictions += 1
    console.print(
        f"Label Studio: {annotations:,} annotations and {predictions:,} predictions have the new labels",
        highlight=False,
    )
    if left:
        console.print(
            f"{left:,} annotations are left as they are: the ledger does not know what they say, so --undo "
            "could not bring it back",
            highlight=False,
            soft_wrap=True,
        )
    if any(None in scheme.labels.values() for scheme, _ in plan.found.carried):
        console.print(
            "Predictions of labels that are dropped or apart again follow with: "
            f"camvo predict --project {number} --refresh",
            highlight=False,
            soft_wrap=True,
        )


def _change_of(plan: _Plan) -> Callable[[Sequence[Any], int | None], list[Any] | None]:
    """The way from a result to the one with the new labels, of an annotation or (``None``) a prediction.

    It is ``None`` for an annotation whose labels could not be brought back afterwards.
    """
    after = {question.name: question for question in parse_label_config(plan.xml).questions}

    def change(result: Sequence[Any], annotation: int | None) -> list[Any] | None:
        changed = list(result)
        for scheme, _ in plan.found.carried:
            name, number = scheme.control, -1 if annotation is None else annotation
            old, new = plan.found.before[name], after[name]
            original, kept = (said.get(name, {}).get(number) for said in (plan.originals, plan.kept))
            step = relabelled_result(changed, old, new, scheme.labels, original)
            back = relabelled_result(step, new, old, plan.back.get(name, {}), kept)
            if annotation is not None and _unordered(back) != _unordered(changed):
                return None
            changed = step
        return changed

    return change

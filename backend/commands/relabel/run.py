"""``camvo relabel``: labels renamed, put together or dropped, without asking anybody again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from backend import settings as settings_module
from backend.commands.bulk.process import annotation_process
from backend.commands.relabel.plans import Opened, RelabelPlan, planned, taken_back
from backend.commands.shared import backend_client
from backend.commands.shared.arguments import LabelChanges, quiet_environment
from backend.commands.shared.options import LabelOptions
from backend.commands.shared.output import say
from backend.commands.shared.setup import existing_ledger
from backend.errors import ConfigError
from backend.label_studio import payloads
from backend.label_studio.client import Client
from backend.label_studio.predictions import relabelled_result
from backend.learning.carrying import corrections, run_each
from backend.learning.label_schemes import begin_anew, begin_first, carryings
from backend.learning.projects import asked_questions, project_settings, remember_project, shown_instructions
from backend.ledger import projects
from backend.ledger.epochs import DecidedRounds
from backend.ledger.human_annotations import Annotations
from backend.ledger.projects import Schemes, is_of_label_studio, short_name
from backend.questions import parse_label_config
from backend.questions.relabelling import labels_of
from backend.runtime import AnnotationProcess
from backend.server.status.formats import of
from backend.settings import Environment, Settings


def _unordered(value: Any) -> Any:
    """A result, whatever the order of the labels that an item lists."""
    if isinstance(value, Mapping):
        return {key: _unordered(each) for key, each in value.items()}
    return sorted(map(_unordered, value), key=repr) if isinstance(value, list) else value


def _deliver(opened: Opened, plan: RelabelPlan, console: Console) -> bool:
    """Tell Label Studio the label config and its annotations' new labels; return whether anything changed."""
    if opened.client is None:
        return False
    number = int(short_name(opened.stored.key))
    if plan.xml != opened.config:
        opened.client.change_project(number, {"label_config": plan.xml})
    if not plan.schemes:
        return plan.xml != opened.config
    change, decided, version = _change_of(plan), _apart_again(opened, plan), opened.settings.model_version
    annotations = predictions = left = 0
    for page in opened.client.pages(number):
        for task in page:
            for each in task["annotations"]:
                known = {name: said.get(each["id"]) for name, said in plan.originals.items()}
                if (result := change(each["result"], each["id"], known)) is None:
                    left += 1
                elif result != each["result"]:
                    opened.client.change_annotation(each["id"], {"result": result})
                    annotations += 1
            for each in task["predictions"]:
                known = decided.get(task["id"], {}) if each["model_version"] == version else {}
                if (result := change(each["result"], None, known)) != each["result"]:
                    opened.client.change_prediction(each["id"], {"result": result})
                    predictions += 1
    console.print(
        f"Label Studio: {of(annotations, 'annotation')} and {of(predictions, 'prediction')} have the new"
        " labels",
        highlight=False,
    )
    if left:
        say(
            console,
            f"{of(left, 'annotation', 'are')} left unchanged: the ledger does not know what people said,"
            " so --undo could not bring it back",
        )
    if any(None in scheme.labels.values() for scheme in plan.schemes):
        say(
            console,
            "Predictions of labels that are dropped or apart again follow with: "
            f"camvo predict --project {number} --refresh",
        )
    return plan.xml != opened.config or annotations + predictions > 0


def _apart_again(opened: Opened, plan: RelabelPlan) -> dict[int, dict[str, str | None]]:
    """Task → question → its label, where labels that had become one are apart again.

    ``camvo predict --refresh`` leaves out the tasks that people have annotated.
    """
    found: dict[int, dict[str, str | None]] = {}
    with opened.ledger.read() as connection:
        for scheme in plan.schemes:
            if scheme.undo and None in scheme.labels.values():
                decided = DecidedRounds(connection, opened.stored.key, scheme.control, scheme.epoch)
                for task in decided.tasks():
                    found.setdefault(task.place[0], {})[scheme.control] = task.label
    return found


def _change_of(
    plan: RelabelPlan,
) -> Callable[[Sequence[Any], int | None, Mapping[str, str | None]], list[Any] | None]:
    """The way from a result to the one with the new labels, of an annotation or (``None``) a prediction.

    The last argument is what it says of questions whose labels are apart again. It is ``None`` for an
    annotation whose labels could not be brought back afterwards.
    """
    after = {question.name: question for question in parse_label_config(plan.xml).questions}

    def change(
        result: Sequence[Any], annotation: int | None, known: Mapping[str, str | None]
    ) -> list[Any] | None:
        changed = list(result)
        for scheme in plan.schemes:
            name, number = scheme.control, -1 if annotation is None else annotation
            old, new = plan.found.before[name], after[name]
            kept = plan.kept.get(name, {}).get(number)
            step = relabelled_result(changed, old, new, scheme.labels, known.get(name))
            if step == changed:
                continue
            back = relabelled_result(step, new, old, plan.back.get(name, {}), kept)
            if annotation is not None and _unordered(back) != _unordered(changed):
                return None
            changed = step
        return changed

    return change


def run_relabel(
    source: Path | int,
    wanted: LabelChanges,
    *,
    name: str | None,
    config: Path | None,
    label_studio: str | None,
    agreed: Callable[[str], bool],
) -> None:
    """Change the labels of a file's project or of one of Label Studio, once its plan is agreed to."""
    environment = quiet_environment(config)
    with existing_ledger(environment):
        client = None
        if isinstance(source, int):
            client = backend_client.label_studio_client(label_studio, environment)
        with opened_project(source, environment, client=client, name=name) as opened:
            relabel(opened, wanted, Console(), agreed)


@contextmanager
def opened_project(
    source: Path | int, environment: Environment, *, client: Client | None = None, name: str | None = None
) -> Iterator[Opened]:
    """Open a project whose labels are to change."""
    settings = settings_module.load(environment.config)
    with annotation_process(settings, environment, asking=False) as process:
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
) -> Opened:
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
    return Opened(process.ledger, stored, own, process.embedder.identity, client, xml)


def relabel(opened: Opened, wanted: LabelChanges, console: Console, agreed: Callable[[str], bool]) -> None:
    """Plan the change of labels, and make it once it is agreed to."""
    with opened.ledger.read() as connection:
        plan = planned(opened, wanted, Schemes(connection, opened.stored.key))
        for line in plan.lines(opened):
            say(console, line)
    if not agreed("Go on?"):
        return
    key = opened.stored.key

    def write(transaction: Callable[[Any], Any]) -> Any:
        with opened.ledger.write() as connection:
            return transaction(connection)

    run_each(begin_first(key, plan.found), write)
    for carrying in carryings(plan.found, key, opened.settings):
        run_each(carrying.transactions(), write)
        earlier = sum(each.rounds for each in carrying.beside)
        console.print(
            f"{escape(carrying.scheme.control)}: {of(carrying.rounds, 'label')} carried over"
            + (f", and {earlier:,} of earlier instructions" if earlier else "")
            + ", 0 calls"
            + (f"; {carrying.left:,} left to be asked about again" if carrying.left else ""),
            highlight=False,
        )
    run_each(begin_anew(key, plan.found), write)
    columns: dict[str, Any] = {"label_config": plan.xml}
    if not plan.found.anew:  # what is predicted has the new labels
        instructions = shown_instructions(opened.stored, opened.settings)
        columns["predicted"] = asked_questions(parse_label_config(plan.xml), instructions)
    write(lambda connection: remember_project(connection, key, columns, time.time()))
    if plan.done:
        _learn_again(opened, plan, write)
    changed = _deliver(opened, plan, console)
    if wanted.undo and not plan.found.present and not changed:
        raise taken_back()
    if plan.schemes:
        if not is_of_label_studio(key):
            _name_labels(plan, console)
        if not wanted.undo:  # only once
            console.print(f"Take it back with: camvo relabel {opened.options} --undo", highlight=False)


def _name_labels(plan: RelabelPlan, console: Console) -> None:
    """Say which labels the commands about a file are to be given from now on."""
    changed = {scheme.control for scheme in plan.schemes}
    for question in parse_label_config(plan.xml).questions:
        if question.name in changed:
            names = ", ".join(map(repr, (label.value for label in labels_of(question))))
            say(console, f"From now on give --labels or the label config these labels: {names}")


def _learn_again(opened: Opened, plan: RelabelPlan, write: Callable[[Callable[[Any], Any]], Any]) -> None:
    """Learn what people say about labels that were carried over before, and keep what they said of them."""
    key = opened.stored.key

    def keep(connection: Any) -> list[int]:
        people = Annotations(connection, key)
        for control, said in plan.late.items():
            people.keep_originals(control, said)
        return people.tasks()

    run_each(corrections(key, write(keep), opened.settings, time.time()), write)

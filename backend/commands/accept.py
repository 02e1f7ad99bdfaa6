"""``camvo accept``: confident predictions become annotations, as far as blind labels certify them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from sqlalchemy import Connection

from backend import settings as settings_module
from backend.commands.shared.output import say
from backend.commands.shared.setup import existing_ledger, stored_project
from backend.errors import ConfigError
from backend.label_studio.client import PAGE, Client
from backend.label_studio.payloads import project_key
from backend.learning.label_schemes import open_labels, require_clear_labels
from backend.learning.projects import stored_questions
from backend.ledger import Ledger, projects
from backend.ledger.blind_tasks import BlindQueue, BlindQueues
from backend.ledger.database.statements import now, portions
from backend.ledger.projects import Project
from backend.ledger.recounts import CountedRounds, OpenRound
from backend.ledger.rounds import Accepted, AcceptedTasks, ProjectRounds
from backend.questions import ConfigQuestion, parse_label_config
from backend.questions.question import questions_to_ask, visible_answers
from backend.server.status.formats import of, verb_of
from backend.server.status.promises import covered_rounds
from backend.settings import Environment
from camvo.errors import CamvoError


@dataclass(frozen=True, slots=True)
class _Decided:
    """One task's decided questions, and those that annotators see and that have no answer."""

    score: float
    labels: Mapping[str, str]
    certified: bool
    open: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What is known about a project's tasks: those decided that nobody annotated, and those that are blind.

    ``threshold`` is the lowest score that the certificates of all questions cover; ``None`` without one.
    """

    decided: Mapping[int, _Decided]
    blind: frozenset[int]
    threshold: float | None

    @classmethod
    def load(cls, connection: Connection, project: Project, target: float) -> _Evidence:
        """Read what the ledger knows about a project's tasks."""
        epochs = ProjectRounds(connection, project.key).latest_epochs()
        queues = BlindQueues(connection, project.key).all()
        covers = {
            control: covered_rounds(queues.get((control, epoch), BlindQueue()), target)
            for control, epoch in epochs.items()
        }
        unrepresented = BlindQueues(connection, project.key).unrepresented()
        rounds: dict[int, dict[str, OpenRound]] = {}
        for control, epoch in epochs.items():
            for round_ in CountedRounds(connection, project.key, control, epoch).open():
                rounds.setdefault(round_.task, {})[control] = round_

        questions = stored_questions(project) or ()

        def is_certified(control: str, round_: OpenRound) -> bool:
            if (cover := covers[control]) is None:
                return False
            certified, after, through = cover
            covered = after < round_.id <= through and round_.task not in unrepresented
            return round_.score >= certified.threshold and covered

        decided = {
            task: _Decided(
                score=math.prod(round_.score for round_ in of_task.values()),
                labels={control: round_.label for control, round_ in of_task.items()},
                certified=all(is_certified(*item) for item in of_task.items()),
                open=questions_to_ask(
                    questions, {control: round_.label for control, round_ in of_task.items()}
                ),
            )
            for task, of_task in ((task, _visible(questions, of_task)) for task, of_task in rounds.items())
        }
        thresholds = [None if cover is None else cover[0].threshold for cover in covers.values()]
        return cls(
            decided,
            frozenset(blind.task for queue in queues.values() for blind in queue),
            max((each for each in thresholds if each is not None), default=None)
            if all(covers.values())
            else None,
        )

    def require_certificate(self, above: float) -> None:
        """Refuse to accept labels that no blind label certifies."""
        if self.threshold is None:
            raise ConfigError(
                "no label is certified yet",
                where="--above",
                fix=(
                    "label blind tasks (camvo review lists them)"
                    if self.blind
                    else "no task is blind: set audit in camvo.yaml before further tasks are predicted, since"
                    " a task whose prediction was shown certifies nothing"
                )
                + ", or accept on your own responsibility with --uncertified",
            )
        if above < self.threshold:
            raise ConfigError(
                f"labels with a score of {above:g} are not certified, only those from {self.threshold:g} on",
                where="--above",
                fix=f"give --above {self.threshold:g}, label more blind tasks, or use --uncertified",
            )


def _visible(questions: Sequence[ConfigQuestion], rounds: Mapping[str, OpenRound]) -> dict[str, OpenRound]:
    """The rounds of a task, by control, whose answers its prediction has."""
    seen = visible_answers(questions, {control: round_.label for control, round_ in rounds.items()})
    return {control: round_ for control, round_ in rounds.items() if control in seen}


_SAME = 1e-6
"""Scores that differ by less are the same; Label Studio stores them as JSON numbers."""


@dataclass(frozen=True, slots=True)
class _Acceptance:
    """One run of ``camvo accept``."""

    client: Client
    ledger: Ledger
    project: int
    key: str
    model_version: str
    evidence: _Evidence
    above: float
    uncertified: bool

    def chosen(self) -> tuple[list[int], Counter[str]]:
        """Return the tasks to accept, in ascending order, and how many are left out, by reason."""
        drafted = self.client.drafted_tasks(self.project)
        tasks: list[int] = []
        left: Counter[str] = Counter()
        for page in self.client.pages(self.project):
            for task in page:
                reason = self._obstacle(task, drafted)
                if reason is None:
                    tasks.append(task["id"])
                else:
                    left[reason] += 1
        return tasks, left

    def accept(self, tasks: Sequence[int]) -> int:
        """Accept the predictions of tasks, as far as they still may be, and return how many were accepted.

        Each portion is checked again right before: somebody may have begun to label it meanwhile. Accepted
        tasks are recorded before Label Studio sends its webhooks, so that none of them is ever learnt.
        """
        done = 0
        for portion in portions(tasks, PAGE):
            drafted = self.client.drafted_tasks(self.project)
            fit = [
                task["id"]
                for task in self.client.tasks(self.project, portion)
                if self._obstacle(task, drafted) is None
            ]
            if fit:
                self._note(fit)
                try:
                    self.client.accept_predictions(self.project, fit, self.model_version)
                except CamvoError:
                    # Else what people say of tasks that were not accepted would pass for a machine's label.
                    with suppress(CamvoError):
                        self._note_annotations(fit)
                    raise
                done += self._note_annotations(fit)
        return done

    def _obstacle(self, task: Mapping[str, Any], drafted: set[int]) -> str | None:
        """Return why a task is not accepted, or ``None``."""
        number = task["id"]
        if number in self.evidence.blind:
            return "blind"
        if task["annotations"] or task.get("total_annotations") or task.get("cancelled_annotations"):
            return "annotated or skipped"
        if number in drafted:
            return "begun by somebody"
        return self._doubt(self._predictions(task), self.evidence.decided.get(number))

    def _doubt(self, ours: Sequence[Mapping[str, Any]], known: _Decided | None) -> str | None:
        """Return why a task's prediction is not accepted, or ``None``."""
        if not ours or ours[0]["score"] is None:
            return "without a prediction"
        if not ours[0]["result"]:
            return "with a prediction that fills in nothing (see prefill)"
        if ours[0]["score"] < self.above:
            return f"below {self.above:g}"
        if len(ours) > 1 or known is None or abs(ours[0]["score"] - known.score) > _SAME:
            return "with another prediction than the ledger's: run camvo predict --refresh"
        if known.open or known.labels.keys() - {item["from_name"] for item in ours[0]["result"]}:
            return "with a question that is not filled in"
        return None if known.certified or self.uncertified else "not covered by the certificate"

    def _predictions(self, task: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        return [stored for stored in task["predictions"] if stored["model_version"] == self.model_version]

    def _note(self, tasks: Sequence[int]) -> None:
        decided = {task: self.evidence.decided[task] for task in tasks}
        with self.ledger.write() as connection:
            at = now(connection)
            accepted = [
                Accepted(self.key, task, None, known.labels, known.score, known.certified, at)
                for task, known in decided.items()
            ]
            AcceptedTasks(connection, self.key).store(accepted)

    def _note_annotations(self, tasks: Sequence[int]) -> int:
        """Note the annotations that Label Studio made; forget tasks of which it made none."""
        made = {
            task["id"]: annotation["id"]
            for task in self.client.tasks(self.project, tasks)
            for annotation in task["annotations"]
            if annotation.get("parent_prediction") in {stored["id"] for stored in self._predictions(task)}
        }
        with self.ledger.write() as connection:
            for task, annotation in made.items():
                AcceptedTasks(connection, self.key).set_annotation(task, annotation)
            AcceptedTasks(connection, self.key).forget([task for task in tasks if task not in made])
        return len(made)


def _undo_accepted(
    client: Client, ledger: Ledger, project: int, key: str, *, dry_run: bool = False
) -> Counter[str]:
    """Delete the annotations of ``camvo accept`` that nobody has changed since, or only count them."""
    outcome: Counter[str] = Counter()
    with ledger.read() as connection:
        records = AcceptedTasks(connection, key).all()
        stored = projects.get(connection, key)
    questions = (stored_questions(stored) if stored is not None else None) or ()
    for portion in portions(records, PAGE):
        listed = {task["id"]: task for task in client.tasks(project, [record.task for record in portion])}
        for record in portion:
            what, annotation = _standing(record, listed.get(record.task), questions)
            if what == "deleted" and annotation is not None and not dry_run:
                client.remove_annotation(annotation)
            outcome[what] += 1
        if dry_run:
            continue
        with ledger.write() as connection:
            AcceptedTasks(connection, key).forget([record.task for record in portion])
    return outcome


def _standing(
    record: Accepted, task: Mapping[str, Any] | None, questions: Sequence[ConfigQuestion]
) -> tuple[str, int | None]:
    """The state of an accepted annotation, and its number if it still exists."""
    if task is None:
        return "gone", None
    # A run that ended early noted no annotation: it is the one that Label Studio made of the prediction.
    noted = record.annotation_id is not None
    made_of = (
        set() if noted else {each["id"] for each in task["predictions"] if _has_score(each, record.score)}
    )
    for annotation in task["annotations"]:
        if annotation["id"] == record.annotation_id or annotation.get("parent_prediction") in made_of:
            marks = (annotation.get(name) for name in ("ground_truth", "was_cancelled"))
            touched = annotation.get("lead_time") is not None or any(marks)
            kept = touched or not _says_the_same(annotation, record, task, questions)
            return ("kept" if kept else "deleted"), annotation["id"]
    return "gone", None


def _says_the_same(
    annotation: Mapping[str, Any],
    record: Accepted,
    task: Mapping[str, Any],
    questions: Sequence[ConfigQuestion],
) -> bool:
    """Whether an annotation says what was accepted: a program that changes it leaves no lead time.

    It is compared with the prediction, whose labels ``camvo relabel`` changes along with it; if that is gone,
    with the labels that were noted.
    """
    said, parent = _filled(annotation), annotation.get("parent_prediction")
    if any(_filled(stored) == said for stored in task["predictions"] if stored["id"] == parent):
        return True
    if {name for name, _ in said} != record.labels.keys():
        return False
    labels = {each.name: each.vote_from_annotation(annotation["result"]) for each in questions}
    return all(labels.get(name) == label for name, label in record.labels.items())


def _filled(form: Mapping[str, Any]) -> list[tuple[object, object]]:
    """The controls that an annotation or a prediction fills in, each with its value."""
    return [(item.get("from_name"), item.get("value")) for item in form["result"]]


def _has_score(stored: Mapping[str, Any], score: float) -> bool:
    return stored["score"] is not None and abs(stored["score"] - score) <= _SAME


def run_accept(
    console: Console,
    environment: Environment,
    client: Client,
    project: int,
    above: float,
    *,
    uncertified: bool,
    dry_run: bool,
) -> None:
    """Accept a project's predictions with at least this score, and say what was left out and why."""
    settings = settings_module.load(environment.config)
    known_there = client.project(project)
    key, config = project_key(known_there), parse_label_config(known_there["label_config"])
    with existing_ledger(environment) as ledger:
        with ledger.read() as connection:
            stored = stored_project(connection, key)
            require_clear_labels(key, open_labels(connection, key, config))
            known = _Evidence.load(connection, stored, settings.guarantee)
        if not uncertified:
            known.require_certificate(above)
        run = _Acceptance(client, ledger, project, key, settings.model_version, known, above, uncertified)
        tasks, left = run.chosen()
        count = len(tasks) if dry_run else run.accept(tasks)
    verb = "would be accepted" if dry_run else "accepted"
    console.print(f"{of(count, 'task')} {verb}", highlight=False)
    for reason, number in left.most_common():
        say(console, f"{number} left out: {reason}")
    if count and not dry_run:
        console.print(f"Take it back with: camvo accept --project {project} --undo", highlight=False)


def run_undo(
    console: Console, environment: Environment, client: Client, project: int, *, dry_run: bool
) -> None:
    """Take back what ``camvo accept`` has made in a project, and say what is left of it."""
    key = project_key(client.project(project))
    with existing_ledger(environment) as ledger:
        outcome = _undo_accepted(client, ledger, project, key, dry_run=dry_run)
    deleted = "would be deleted" if dry_run else "deleted"
    lines = [f"{of(outcome['deleted'], 'annotation')} {deleted}; their predictions are shown again"]
    if outcome["kept"]:
        lines.append(f"{outcome['kept']} kept, because somebody has changed or confirmed them since")
    if outcome["gone"]:
        lines.append(f"{outcome['gone']} {verb_of(outcome['gone'], 'were')} gone already")
    console.print("\n".join(lines), highlight=False)

"""Label Studio's webhook actions, and what each of them changes in the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import structlog
from sqlalchemy import Connection

from backend.errors import BadLabelConfigError, TaskError
from backend.label_studio import payloads
from backend.label_studio.client import Client
from backend.label_studio.payloads import WebhookEvent
from backend.label_studio.predictions import annotations_in
from backend.learning import teaching
from backend.learning.examples import label_texts
from backend.learning.projects import project_settings, remember_project
from backend.ledger import LedgerAccess, deletions, human_annotations, projects
from backend.ledger.human_annotations import Annotation, Annotations, Withdrawal, is_withdrawn
from backend.ledger.learning_data import ExampleTexts
from backend.ledger.rounds import AcceptedTasks, ProjectRounds
from backend.questions import ConfigQuestion, LabelConfig, parse_label_config
from backend.questions.label_config import question_hash
from backend.settings import Environment, Settings
from camvo.errors import CamvoError


def _keep_texts(connection: Connection, event: WebhookEvent, config: LabelConfig, settings: Settings) -> None:
    """Keep the texts of the event's tasks that have a human label, if the project wants examples.

    If the project does not want examples, all its texts are deleted.
    """
    project = event.project_key
    if not settings.few_shot:
        ExampleTexts(connection, project).forget_all()
        return
    for task in event.data:
        if _forget_texts(connection, project, task) or projects.is_deleted(connection, project, task):
            continue
        for question in config.questions:
            if label_texts(question) is not None:
                _keep(connection, event, task, question)


def _forget_texts(connection: Connection, project: str, task: int) -> bool:
    """Delete a task's texts if none of its annotations teaches; return whether that is the case."""
    annotations = Annotations(connection, project).of_task(task)
    if any(annotation.teaches for annotation in annotations):
        return False
    ExampleTexts(connection, project).forget([task])
    return True


def _keep(connection: Connection, event: WebhookEvent, task: int, question: ConfigQuestion) -> None:
    try:
        task_question = question.about(event.data[task])
    except TaskError:
        return
    if not task_question.images:
        text_hash = question_hash(task_question.texts)
        ExampleTexts(connection, event.project_key).store(task, question.name, text_hash, task_question.texts)


_log = structlog.get_logger(__name__)

PART = 20
"""Annotations, or ids of deleted ones, that one transaction takes."""

_MARKED = 5_000
"""Deleted tasks that one transaction marks."""

_FORGOTTEN = 500
"""Deleted tasks that one transaction forgets, if no human label is to be taken out of the rewards."""

_UNTAUGHT = 100
"""Deleted tasks that one transaction forgets, if the student has learnt from their texts."""

_CORRECTED = 20
"""Deleted tasks with human labels that one transaction forgets."""


@dataclass(frozen=True, slots=True)
class _Answers:
    """The human answers of an event; ``config`` is ``None`` if the event's label config cannot be read."""

    config: LabelConfig | None = None
    annotations: Sequence[Annotation] = ()


def parts(event: WebhookEvent) -> Iterator[WebhookEvent]:
    """The parts of an event that are stored in a transaction each."""
    return event.split(_MARKED if ACTIONS.get(event.action) is _tasks_deleted else PART)


_Transaction = Callable[[Connection], None]
"""A function to call in a write transaction."""


def prepare_event(event: WebhookEvent, settings: Settings, clock: Callable[[], float]) -> _Transaction:
    """Prepare what a webhook changes: what it says is stored, and the rewards it affects are corrected.

    The label config is parsed here, so that the transaction does not wait for it. Repeated and late webhooks
    change nothing: an annotation is identified by its id and ``updated_at``, a deleted one does not come
    back, and an earlier state of the project is passed over. Unknown actions are ignored, since Label Studio
    sends many.

    Args:
        event: the webhook, or a part of it.
        settings: the server's settings.
        clock: returns unix seconds.

    Returns:
        The change, to be made in a write transaction.
    """
    action = ACTIONS.get(event.action)
    answers = _read_answers(event) if action is _annotated else _Answers()

    def apply(connection: Connection) -> None:
        if action is None:
            return
        now = clock()
        columns = {
            "label_config": event.label_config,
            "model_version": event.model_version,
            "title": event.title,
            "task_number": event.task_number,
            "instructions": event.instructions,
            "changed_at": event.project_changed_at,
        }
        stored = remember_project(connection, event.project_key, columns, now)
        own_settings, _ = project_settings(stored, settings)
        action(connection, event, answers, own_settings, now)

    return apply


def _read_answers(event: WebhookEvent) -> _Answers:
    try:
        config = parse_label_config(event.label_config)
    except BadLabelConfigError as error:
        _log.warning("annotation_ignored", project=event.project_key, code=error.code, reason=str(error))
        return _Answers()
    return _Answers(config, list(annotations_in(event, config)))


def _annotated(
    connection: Connection, event: WebhookEvent, answers: _Answers, settings: Settings, now: float
) -> None:
    """ANNOTATION_CREATED, ANNOTATION_UPDATED, ANNOTATIONS_CREATED."""
    if answers.config is None:
        return
    for annotation in answers.annotations:
        task = annotation.task
        if task is not None and projects.is_deleted(connection, event.project_key, task):
            continue
        heard = _as_machine_label(connection, annotation) if annotation.teaches else annotation
        if human_annotations.store(connection, heard, now) and task is not None:
            teaching.correct_rewards(connection, event.project_key, task, settings, now)
    _keep_texts(connection, event, answers.config, settings)


def _as_machine_label(connection: Connection, annotation: Annotation) -> Annotation:
    """The annotation, which teaches nothing if ``camvo accept`` made it and nobody has changed it since."""
    if annotation.task is None or annotation.ground_truth:
        return annotation
    machine = AcceptedTasks(connection, annotation.project).has_label(
        annotation.task, annotation.annotation_id, annotation.labels
    )
    return replace(annotation, teaches=False) if machine else annotation


def _annotations_deleted(
    connection: Connection, event: WebhookEvent, answers: _Answers, settings: Settings, now: float
) -> None:
    """ANNOTATIONS_DELETED, which carries ids only, and label-studio-ml's ANNOTATION_DELETED."""
    for task in Annotations(connection, event.project_key).delete(event.annotation_ids, now):
        teaching.correct_rewards(connection, event.project_key, task, settings, now)
        _forget_texts(connection, event.project_key, task)


def _tasks_deleted(
    connection: Connection, event: WebhookEvent, answers: _Answers, settings: Settings, now: float
) -> None:
    """TASKS_DELETED: Label Studio sends no event for the annotations; stored texts and answers go too.

    The records of many tasks are forgotten in the background, by :func:`forget_next`.
    """
    deletions.mark_deleted(connection, event.project_key, event.task_ids, now)
    if len(event.task_ids) <= _CORRECTED:
        _forget(connection, event.project_key, event.task_ids, settings, now)


def forget_next(connection: Connection, settings: Settings, now: float) -> bool:
    """Forget the next deleted tasks, as many as one quick transaction can.

    Args:
        connection: a write transaction.
        settings: the server's settings.
        now: unix seconds.

    Returns:
        Whether there were any, so that there may be more.
    """
    left = deletions.left_to_forget(connection, _FORGOTTEN)
    if left is None:
        return False
    project, tasks = left
    own_settings, _ = project_settings(projects.get(connection, project), settings)
    _forget(connection, project, tasks, own_settings, now)
    return True


def _forget(
    connection: Connection, project: str, tasks: Sequence[int], settings: Settings, now: float
) -> None:
    """Remove human labels from the rewards and texts from the student, and forget the tasks.

    Labels take milliseconds per task, and texts nearly one. If many of the tasks have human labels or
    texts that taught, only the first of those are forgotten.
    """
    taught = ProjectRounds(connection, project).tasks_with_texts(tasks)
    if len(taught) > _UNTAUGHT:
        tasks = taught[:_UNTAUGHT]
    labelled = ProjectRounds(connection, project).labelled_tasks(tasks)
    if len(labelled) > _CORRECTED:
        tasks = labelled = labelled[:_CORRECTED]
    Annotations(connection, project).forget_tasks(labelled)
    for task in labelled:
        teaching.correct_rewards(connection, project, task, settings, now)
    teaching.forget_texts(connection, project, tasks, now)
    deletions.forget_deleted(connection, project, tasks)


def _project_updated(
    connection: Connection, event: WebhookEvent, answers: _Answers, settings: Settings, now: float
) -> None:
    """PROJECT_UPDATED: changed labels need no action, since the epoch is a hash of them."""
    if event.model_version not in (None, settings.model_version):
        _log.warning(
            "model_version_differs",
            project=event.project_key,
            label_studio=event.model_version,
            backend=settings.model_version,
            fix="set the backend's title in Label Studio to model_version, or the scores stay blank",
        )


def _tasks_created(
    connection: Connection, event: WebhookEvent, answers: _Answers, settings: Settings, now: float
) -> None:
    """TASKS_CREATED: only the number of the project's tasks has changed."""


_Action = Callable[[Connection, WebhookEvent, _Answers, Settings, float], None]

ACTIONS: Mapping[str, _Action] = {
    "ANNOTATION_CREATED": _annotated,
    "ANNOTATION_UPDATED": _annotated,
    "ANNOTATIONS_CREATED": _annotated,
    "ANNOTATIONS_DELETED": _annotations_deleted,
    "ANNOTATION_DELETED": _annotations_deleted,
    "TASKS_CREATED": _tasks_created,
    "TASKS_DELETED": _tasks_deleted,
    "PROJECT_UPDATED": _project_updated,
}
"""The function for each of Label Studio's actions that CaMVo handles."""


@dataclass(frozen=True, slots=True)
class CatchUp:
    """A training step that fetches the annotations which the ledger lacks."""

    access: LedgerAccess
    settings: Settings
    environment: Environment

    async def __call__(self, event: WebhookEvent) -> None:
        """Learn all annotations of the event's project, and unlearn the deleted ones.

        Failures are logged: nobody awaits the result. Without Label Studio's address and key nothing is
        fetched; the log says what to set.
        """
        url, key = self.environment.label_studio_url, self.environment.label_studio_api_key
        if url is None or key is None:
            missing = [
                name
                for name, value in (("LABEL_STUDIO_URL", url), ("LABEL_STUDIO_API_KEY", key))
                if value is None
            ]
            fix = f"set {' and '.join(missing)}, so that imported annotations are learnt"
            _log.warning("catch_up_impossible", project=event.project_key, missing=missing, fix=fix)
            return
        try:
            client = await asyncio.to_thread(Client, url, key)
            number = (await asyncio.to_thread(client.project_by_key, event.project_key))["id"]
            count, deleted = await self._learn(client, number, event)
        except CamvoError as error:
            _log.error("catch_up_failed", project=event.project_key, code=error.code, reason=str(error))
        else:
            _log.info("caught_up", project=event.project_key, annotations=count, deleted=deleted)

    async def _learn(self, client: Client, number: int, event: WebhookEvent) -> tuple[int, int]:
        """Apply the differences; return the number of annotations, and of known ones that were deleted."""
        # Read before the first page: annotations learnt later from a webhook may be missing in the pages.
        known = await self.access.read_once(
            lambda connection: Annotations(connection, event.project_key).ids()
        )
        listed: set[int] = set()
        pages = client.pages(number, annotated=True)
        while (page := await asyncio.to_thread(next, pages, None)) is not None:
            annotations = [annotation for task in page for annotation in task["annotations"]]
            listed |= {annotation["id"] for annotation in annotations}
            created = replace(event, action="ANNOTATIONS_CREATED", annotations=annotations)
            await self._apply(replace(created, data=payloads.task_data(page)))
        deleted = await asyncio.to_thread(_deleted, client, sorted(known - listed))
        await self._apply(replace(event, action="ANNOTATIONS_DELETED", annotation_ids=deleted))
        return len(listed), len(deleted)

    async def _apply(self, event: WebhookEvent) -> None:
        for part in parts(event):
            apply = await asyncio.to_thread(prepare_event, part, self.settings, self.access.clock)
            await self.access.writer.persist(apply)


def _deleted(client: Client, numbers: Sequence[int]) -> list[int]:
    """Of annotations that no page listed, those that no longer exist.

    Each is checked, since a deleted annotation is never learnt again.
    """
    return [number for number in numbers if not client.has_annotation(number)]


@dataclass(frozen=True, slots=True)
class AffectedLabels:
    """The effects of a withdrawal."""

    tasks: Mapping[str, Sequence[int]]
    annotations: int
    ground_truths: int
    rounds: int

    @property
    def task_count(self) -> int:
        """How many tasks change."""
        return sum(map(len, self.tasks.values()))

    @classmethod
    def of(cls, connection: Connection, withdrawal: Withdrawal) -> AffectedLabels:
        """Return what a withdrawal will change, or still has to change if an earlier run was interrupted."""
        commands: dict[str, list[Withdrawal]] = {}
        changing = []
        for annotation in _in_scope(connection, withdrawal):
            project = annotation.project
            if project not in commands:
                commands[project] = [*Annotations(connection, project).withdrawals(), withdrawal]
            if is_withdrawn(commands[project], annotation) != annotation.withdrawn:
                changing.append(annotation)
        tasks = {
            project: sorted({a.task for a in changing if a.project == project and a.task is not None})
            for project in dict.fromkeys(annotation.project for annotation in changing)
        }
        return cls(
            tasks,
            annotations=len(changing),
            ground_truths=sum(annotation.ground_truth for annotation in changing),
            rounds=sum(ProjectRounds(connection, project).count_of(of) for project, of in tasks.items()),
        )


def bounded(connection: Connection, withdrawal: Withdrawal) -> Withdrawal:
    """The withdrawal, limited to the annotations that were made up to now."""
    updates = [annotation.updated_at for annotation in _in_scope(connection, withdrawal)]
    return withdrawal.up_to(updates)


def _in_scope(connection: Connection, withdrawal: Withdrawal) -> list[Annotation]:
    return human_annotations.in_scope(connection, withdrawal.project, withdrawal.task, withdrawal.annotator)


_Step = Callable[[WebhookEvent], Awaitable[None]]


class Training:
    """The steps that a START_TRAINING triggers. Used from one event loop only.

    Label Studio may send the event more often than a large project can be processed. All events for a
    project that arrive during one run are served by a single run after it.
    """

    def __init__(self, steps: Sequence[_Step]) -> None:
        self._steps = tuple(steps)
        self._pending: dict[str, WebhookEvent] = {}
        self._under_way: set[str] = set()

    async def train(self, event: WebhookEvent) -> None:
        """Run the steps for the event's project, or have the run under way repeated for the event."""
        project = event.project_key
        self._pending[project] = event
        if project in self._under_way:
            return
        self._under_way.add(project)
        try:
            while (pending := self._pending.pop(project, None)) is not None:
                for step in self._steps:
                    await _take(step, pending)
        finally:
            self._under_way.discard(project)


async def _take(step: _Step, event: WebhookEvent) -> None:
    try:
        await step(event)
    except Exception as error:  # nobody awaits the result, and the next step must still run
        _log.error("training_step_failed", project=event.project_key, kind=type(error).__name__)

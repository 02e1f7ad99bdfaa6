"""The fit hook: human answers become rewards (see DESIGN §3: every correction is a signed contribution)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import structlog
from sqlalchemy import Connection

from backend import labels, metrics
from backend.ledger import deleted_tasks, events, human_annotations, projects, rounds
from backend.ledger.events import Kind
from backend.ledger.rounds import Round, RoundKey, Teacher
from backend.settings import Settings
from backend.webhooks import WebhookEvent, annotations_in
from camvo import aggregations
from camvo.ensemble import lesson
from camvo.errors import BadLabelConfigError
from camvo.state import Contribution, revision

_log = structlog.get_logger(__name__)


def apply(connection: Connection, event: WebhookEvent, settings: Settings, now: float) -> None:
    """Store what a webhook says and correct the rewards it touches, in the caller's transaction.

    Repeats and late arrivals change nothing: an annotation is identified by its id and ``updated_at``, a
    deleted one does not come back. Unknown actions are ignored, as Label Studio sends many.
    """
    action = ACTIONS.get(event.action)
    if action is not None:
        projects.ensure(connection, event.project_key, now)
        action(connection, event, settings, now)


def human_label(
    connection: Connection, key: RoundKey, plan: Mapping[str, Any], settings: Settings
) -> str | None:
    """What the humans say about the question of a round: ground truth first, else all of them together.

    Several are counted as the question's votes are, each with the same weight. ``None`` when nobody answered,
    when the answers are tied, or when human rewards are switched off. Skipped annotations and those made from
    predictions in bulk do not count, nor does an answer outside the plan's own options: what the models could
    not answer says nothing about them.
    """
    if not settings.human_rewards:
        return None
    aggregation, options = aggregations.restore(plan.get("aggregation")), plan["labels"]
    given = [
        annotation
        for annotation in human_annotations.of_task(connection, key.project, key.task)
        if annotation.teaches and aggregations.fits(aggregation, annotation.labels.get(key.control), options)
    ]
    truths = [annotation for annotation in given if annotation.ground_truth]
    answers = [annotation.labels[key.control] for annotation in truths or given]
    return aggregations.consensus(aggregation, answers, options)


def teacher(voted: str, human: str | None) -> tuple[str, Teacher]:
    """The label that rewards are computed with, and whose it is: a human's in place of the voted one."""
    return (voted, "vote") if human is None else (human, "human")


def teach(connection: Connection, round_: Round, contribution: Contribution, *, now: float) -> None:
    """Store a finished round and what it teaches."""
    round_id = rounds.insert(connection, round_)
    _append(connection, round_.key, "round", contribution, round_id, now)


def correct(connection: Connection, project: str, task: int, settings: Settings, now: float) -> None:
    """Make the rewards of a task's rounds agree with what the humans say of it by now."""
    for round_ in rounds.of_task(connection, project, task):
        human = human_label(connection, round_.key, round_.plan, settings)
        label, by = teacher(round_.label, human)
        if (label, by) == (round_.taught, round_.taught_by):
            continue
        change = revision(_lesson(round_, round_.taught, round_.taught_by), _lesson(round_, label, by))
        if change.changes:
            _append(connection, round_.key, "revision", change, round_.id, now)
            metrics.feedback.labels(project=project).inc()
        rounds.set_taught(connection, round_.id, label, by)


def _append(  # noqa: PLR0917 - the columns of one event
    connection: Connection, key: RoundKey, kind: Kind, contribution: Contribution, round_id: int, now: float
) -> None:
    events.append(
        connection,
        key.project,
        control=key.control,
        epoch=key.epoch,
        kind=kind,
        contribution=contribution.pack(),
        round_id=round_id,
        now=now,
    )


def _lesson(round_: Round, label: str | None, by: str | None) -> Contribution:
    q = {arm: row["q"] for arm, row in round_.plan["arms"].items()}
    votes = {arm: vote for arm, vote in round_.votes.items() if vote is not None}
    reward = aggregations.restore(round_.plan.get("aggregation")).reward
    return lesson(round_.context, q, votes, label or round_.label, human=by == "human", reward=reward)


def _annotated(connection: Connection, event: WebhookEvent, settings: Settings, now: float) -> None:
    """ANNOTATION_CREATED, ANNOTATION_UPDATED, ANNOTATIONS_CREATED."""
    try:
        config = labels.parse(event.label_config)
    except BadLabelConfigError as error:
        _log.warning("annotation_ignored", project=event.project_key, code=error.code, reason=str(error))
        return
    for annotation in annotations_in(event, config):
        task = annotation.task
        if task is not None and deleted_tasks.contain(connection, event.project_key, task):
            continue
        if human_annotations.put(connection, annotation, now) and task is not None:
            correct(connection, event.project_key, task, settings, now)


def _annotations_deleted(connection: Connection, event: WebhookEvent, settings: Settings, now: float) -> None:
    """ANNOTATIONS_DELETED, which carries ids only, and upstream's ANNOTATION_DELETED."""
    for task in human_annotations.delete(connection, event.project_key, event.annotation_ids, now):
        correct(connection, event.project_key, task, settings, now)


def _tasks_deleted(connection: Connection, event: WebhookEvent, settings: Settings, now: float) -> None:
    """TASKS_DELETED: the annotations vanish without an event of their own; texts and answers go with them."""
    for task in event.task_ids:
        human_annotations.forget_task(connection, event.project_key, task)
        correct(connection, event.project_key, task, settings, now)
        deleted_tasks.delete(connection, event.project_key, task, now)


def _project_updated(connection: Connection, event: WebhookEvent, settings: Settings, now: float) -> None:
    """PROJECT_UPDATED: a changed label set starts a new epoch by itself, since the epoch is its hash."""
    projects.remember(
        connection,
        event.project_key,
        label_config=event.label_config,
        model_version=event.model_version,
        now=now,
    )
    if event.model_version not in (None, settings.model_version):
        _log.warning(
            "model_version_differs",
            project=event.project_key,
            label_studio=event.model_version,
            backend=settings.model_version,
            fix="give the backend in Label Studio the title that equals model_version, or scores stay blank",
        )


_Action = Callable[[Connection, WebhookEvent, Settings, float], None]

ACTIONS: Mapping[str, _Action] = {
    "ANNOTATION_CREATED": _annotated,
    "ANNOTATION_UPDATED": _annotated,
    "ANNOTATIONS_CREATED": _annotated,
    "ANNOTATIONS_DELETED": _annotations_deleted,
    "ANNOTATION_DELETED": _annotations_deleted,
    "TASKS_DELETED": _tasks_deleted,
    "PROJECT_UPDATED": _project_updated,
}
"""Label Studio's actions that CaMVo acts on."""

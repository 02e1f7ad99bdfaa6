"""The fit hook: human answers become rewards (see DESIGN §3: every correction is a signed contribution)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import structlog
from sqlalchemy import Connection

from backend.errors import BadLabelConfigError, ConfigError
from backend.label_studio.webhooks import WebhookEvent, annotations_in
from backend.learning import exemplary
from backend.ledger import deleted_tasks, events, human_annotations, projects, rounds, votes
from backend.ledger.events import Kind
from backend.ledger.rounds import Round, RoundKey, Teacher
from backend.questions import parse_label_config
from backend.settings import Settings
from backend.telemetry import metrics
from camvo.policies.teaching import lesson
from camvo.stages.stages import teachers
from camvo.state.contribution import Contribution, revision
from camvo.state.kept_rounds import KeptRound
from camvo.votes import consensus, registry
from camvo.votes.aggregation import Aggregation

_WEIGHTS_KEPT: Final = {"labelled": "agreement", "everyone": "weight"}
"""What goes along as the votes' weights where a policy keeps rounds whole, by which rounds it keeps."""

_log = structlog.get_logger(__name__)


def apply(connection: Connection, event: WebhookEvent, settings: Settings, now: float) -> None:
    """Store what a webhook says and correct the rewards it touches, in the caller's transaction.

    Repeats and late arrivals change nothing: an annotation is identified by its id and ``updated_at``, a
    deleted one does not come back. Unknown actions are ignored, as Label Studio sends many.
    """
    action = ACTIONS.get(event.action)
    if action is not None:
        known = _remember(connection, event, now)
        action(connection, event, _own(settings, known), now)


def human_label(connection: Connection, key: RoundKey, plan: Mapping[str, Any]) -> str | None:
    """What the humans say about the question of a round: ground truth first, else all of them together.

    Several are counted as the question's votes are, each with the same weight. ``None`` when nobody answered
    or when the answers are tied. Skipped annotations and those made from predictions in bulk do not count,
    nor does an answer outside the plan's own options: what the models could not answer says nothing about
    them.
    """
    aggregation, options = _aggregation(plan), plan["labels"]
    given = [
        annotation
        for annotation in human_annotations.of_task(connection, key.project, key.task)
        if annotation.teaches
        and consensus.is_answer(aggregation, annotation.labels.get(key.control), options)
    ]
    truths = [annotation for annotation in given if annotation.ground_truth]
    answers = [annotation.labels[key.control] for annotation in truths or given]
    return consensus.agreed_answer(aggregation, answers, options)


def teacher(voted: str, human: str | None, settings: Settings) -> tuple[str, Teacher]:
    """The label that rewards are computed with, and whose it is: a human's in place of the voted one.

    Always the voted one where human rewards are switched off.
    """
    return (voted, "vote") if human is None or not settings.human_rewards else (human, "human")


def confirmation(voted: str, human: str | None, plan: Mapping[str, Any]) -> float | None:
    """How right the voted label is by the humans', in [0, 1]; ``None`` without one."""
    return None if human is None else _aggregation(plan).reward(voted, human)


def teach(
    connection: Connection,
    round_: Round,
    contribution: Contribution,
    *,
    now: float,
    examples: Mapping[str, int],
) -> None:
    """Store a finished round, what came of its votes (with or without examples) and what it teaches."""
    round_id = rounds.insert(connection, round_)
    agreed = _rewards(_taught(round_, round_.label, "vote"))
    confirmed = _confirmed(round_, round_.human)
    votes.store(connection, round_, round_id, agreed=agreed, confirmed=confirmed, examples=examples)
    _append(connection, round_.key, "round", contribution, round_id, now)


def correct(connection: Connection, project: str, task: int, settings: Settings, now: float) -> None:
    """Make the rewards of a task's rounds, and what came of them, agree with what the humans say by now."""
    for round_ in rounds.of_task(connection, project, task):
        human = human_label(connection, round_.key, round_.plan)
        if human != round_.human:
            rounds.set_human(connection, round_.id, human, confirmation(round_.label, human, round_.plan))
            votes.set_confirmed(connection, round_, _confirmed(round_, human))
        label, by = teacher(round_.label, human, settings)
        if (label, by) == (round_.taught, round_.taught_by):
            continue
        change = revision(_taught(round_, round_.taught, round_.taught_by), _taught(round_, label, by))
        if change.changes or change.kept or change.dropped:
            _append(connection, round_.key, "revision", change, round_.id, now)
            metrics.revisions.labels(project=project).inc()
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


def _taught(round_: Round, label: str | None, by: str | None) -> Contribution:
    """What the round taught: the rewards of the models that its policy learns from, and itself where kept.

    Models that were asked because of the votes are left out: they were asked where it was hard.
    """
    plan, human = round_.plan, by == "human"
    stages = plan.get("stages")
    among = stages and teachers(stages["order"], stages["first"], human=human)
    given = {
        arm: vote
        for arm, vote in round_.votes.items()
        if vote is not None and (among is None or arm in among)
    }
    q = {arm: row["q"] for arm, row in plan["arms"].items()}
    reward = _aggregation(plan).reward
    taught = lesson(round_.context, q, given, label or round_.label, human=human, reward=reward)
    # Rounds of before "kept" was said: of the stacked vote they are those with a stack.
    kept = None if stages is None else stages.get("kept", "everyone" if "stack" in plan else None)
    if stages is None or kept is None:
        return taught
    weights = {arm: row[_WEIGHTS_KEPT[kept]] for arm, row in plan["arms"].items()}
    everyone = kept == "everyone" and stages["coin"] == "everyone"
    return replace(
        taught, kept=KeptRound.of(round_.votes, weights, label if human else None, everyone=everyone)
    )


def _aggregation(plan: Mapping[str, Any]) -> Aggregation:
    """How the votes of a round were counted."""
    return registry.restore_aggregation(plan.get("aggregation"))


def _rewards(contribution: Contribution) -> dict[str, float]:
    return {change.arm: change.added for change in contribution.changes if change.added is not None}


def _confirmed(round_: Round, human: str | None) -> dict[str, float]:
    """How right each vote of a round is by the humans' label."""
    return {} if human is None else _rewards(_taught(round_, human, "human"))


def _own(settings: Settings, project: projects.Project | None) -> Settings:
    """The project's settings; those of all where its overrides do not fit any more."""
    try:
        return settings.for_project(project.extra_params if project else None)
    except ConfigError:
        return settings


def _remember(connection: Connection, event: WebhookEvent, now: float) -> projects.Project | None:
    """Keep what the event says of its project, which comes along with every one; what was known before."""
    known = projects.get(connection, event.project_key)
    label_config = event.label_config or (known.label_config if known else None)
    if known is None or (known.label_config, known.model_version) != (label_config, event.model_version):
        projects.remember(
            connection,
            event.project_key,
            label_config=label_config,
            model_version=event.model_version,
            now=now,
        )
    return known


def _annotated(connection: Connection, event: WebhookEvent, settings: Settings, now: float) -> None:
    """ANNOTATION_CREATED, ANNOTATION_UPDATED, ANNOTATIONS_CREATED."""
    try:
        config = parse_label_config(event.label_config)
    except BadLabelConfigError as error:
        _log.warning("annotation_ignored", project=event.project_key, code=error.code, reason=str(error))
        return
    for annotation in annotations_in(event, config):
        task = annotation.task
        if task is not None and deleted_tasks.is_deleted(connection, event.project_key, task):
            continue
        if human_annotations.store(connection, annotation, now) and task is not None:
            correct(connection, event.project_key, task, settings, now)
    exemplary.keep(connection, event, config, settings)


def _annotations_deleted(connection: Connection, event: WebhookEvent, settings: Settings, now: float) -> None:
    """ANNOTATIONS_DELETED, which carries ids only, and upstream's ANNOTATION_DELETED."""
    for task in human_annotations.delete(connection, event.project_key, event.annotation_ids, now):
        correct(connection, event.project_key, task, settings, now)
        exemplary.forget(connection, event.project_key, task)


def _tasks_deleted(connection: Connection, event: WebhookEvent, settings: Settings, now: float) -> None:
    """TASKS_DELETED: the annotations vanish without an event of their own; texts and answers go with them."""
    for task in event.task_ids:
        human_annotations.forget_task(connection, event.project_key, task)
        correct(connection, event.project_key, task, settings, now)
        deleted_tasks.delete_task(connection, event.project_key, task, now)


def _project_updated(connection: Connection, event: WebhookEvent, settings: Settings, now: float) -> None:
    """PROJECT_UPDATED: a changed label set starts a new epoch by itself, since the epoch is its hash."""
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

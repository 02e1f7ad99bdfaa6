"""The lessons of rounds: rewards by the vote at first, corrected by signed contributions as humans answer.

Every correction and every restart is an event of its own, so each process's state can catch up by addition.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import structlog
from sqlalchemy import Connection

from backend.errors import LedgerError
from backend.label_studio.payloads import WebhookEvent
from backend.ledger import LedgerAccess, blind_tasks, projects, recounts, rounds
from backend.ledger.database.statements import portions
from backend.ledger.events import Kind, NewEvent, ProjectEvents
from backend.ledger.human_annotations import Annotation, Annotations
from backend.ledger.learning_data import Reliabilities
from backend.ledger.recounts import FurtherVote, Recounts
from backend.ledger.rounds import ProjectRounds, Round, RoundKey, Teacher
from backend.settings import Settings
from backend.telemetry import metrics
from camvo.annotators import PRIOR_PERSON, weighed_label
from camvo.policies.teaching import TaughtRound
from camvo.state.contribution import Contribution, revision
from camvo.student import sealed
from camvo.votes import registry
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import LABEL_VOTE
from camvo.votes.relabelling import steps_since


def aggregation_of(plan: Mapping[str, Any]) -> Aggregation:
    """The aggregation that counted the votes of a round, read from its stored plan."""
    return registry.restore_aggregation(plan["aggregation"])


def human_label(
    connection: Connection,
    key: RoundKey,
    plan: Mapping[str, Any],
    annotations: Sequence[Annotation] | None = None,
) -> str | None:
    """The humans' label for the question of a round.

    Ground truth annotations count alone if there are any. Several answers are counted by the question's own
    aggregation, each with the same weight. Labels are weighed by how often each annotator is right, once that
    is known (:mod:`backend.learning.annotators`). Not counted are:

    - skipped annotations and those made from predictions in bulk;
    - annotations that are withdrawn (``camvo ledger forget``);
    - answers that are not among the plan's options: the models could not give them either.

    Args:
        connection: a transaction.
        key: the round's key.
        plan: the round's stored plan.
        annotations: those of the task that are not deleted, by id; ``None`` to read them.

    Returns:
        The label; ``None`` if no answer counts, or if none is ahead of the others.
    """
    if annotations is not None and not annotations:
        return None  # of most new rounds
    aggregation = aggregation_of(plan)
    counted = (
        _counted_answers(connection, key, plan)
        if annotations is None
        else answering(annotations, key.control, aggregation, plan["labels"])
    )
    truths = [annotation for annotation in counted if annotation.ground_truth]
    if counted and not truths and aggregation == LABEL_VOTE:
        for fit in Reliabilities(connection, key.project).latest(key.control):
            return weigh(counted, key.control, fit.accuracies, len(plan["labels"]))
    answers = [annotation.labels[key.control] for annotation in truths or counted]
    return registry.agreed_answer(aggregation, answers, plan["labels"])


def weigh(
    counted: Sequence[Annotation], control: str, accuracies: Mapping[str, float], labels: int
) -> str | None:
    """The label of several people, each weighed by their accuracy.

    Each person counts once, with the annotation that was made last.
    """
    answers = {person(annotation): annotation.labels[control] for annotation in counted}
    return weighed_label(
        [(label, accuracies.get(name, PRIOR_PERSON)) for name, label in answers.items()], labels
    )


def person(annotation: Annotation) -> str:
    """The id of the annotator; each unknown one counts as a different person."""
    by = annotation.completed_by
    return f"annotation {annotation.annotation_id}" if by is None else str(by)


def _counted_answers(connection: Connection, key: RoundKey, plan: Mapping[str, Any]) -> list[Annotation]:
    """The annotations that answer the question of a round and count, by id."""
    of_task = Annotations(connection, key.project).of_task(key.task)
    return answering(of_task, key.control, aggregation_of(plan), plan["labels"])


def answering(
    annotations: Iterable[Annotation], control: str, aggregation: Aggregation, options: Sequence[str]
) -> list[Annotation]:
    """Those of the annotations that answer a question and count."""
    return [
        said
        for annotation in annotations
        if annotation.teaches
        and not annotation.withdrawn
        and (said := _in_scheme(annotation, control, aggregation, options)) is not None
    ]


def _in_scheme(
    annotation: Annotation, control: str, aggregation: Aggregation, options: Sequence[str]
) -> Annotation | None:
    """The annotation with its answer in the labels of a question; ``None`` if it has none there.

    The labels may have changed since it was made. Then the first reading that answers the question counts:
    the answer with its labels followed from scheme to scheme, or what it was before labels became one.
    """
    answer = annotation.labels.get(control)
    if registry.is_answer(aggregation, answer, options):
        return annotation
    steps = steps_since(aggregation, annotation.relabelled.get(control, ()), options)
    earlier = (annotation.originals or {}).get(control, ())
    for begin in [answer, *reversed(earlier)] if steps else ():
        readings = [begin]
        for reading in readings:  # grows while it is read
            if registry.is_answer(aggregation, reading, options):
                return replace(annotation, labels={**annotation.labels, control: str(reading)})
            known = dict.fromkeys(step.vote_if_valid(reading) for step in steps if reading is not None)
            readings += [new for new in known if new not in readings]
    return None


def record_blind_answer(connection: Connection, round_: Round, round_id: int) -> None:
    """Tell the queue of blind tasks what people say about a blind round, if anybody has annotated its task.

    A task whose annotations are skipped, deleted or withdrawn has no valid answer, and counts as wrong.
    If the votes were counted again before an answer, the answer is about the label by that counting.
    """
    key = round_.key
    if not Annotations(connection, key.project).is_annotated(key.task):
        return
    counted = _counted_answers(connection, key, round_.plan)
    aggregation = aggregation_of(round_.plan)
    recount = recounts.latest(connection, [round_id]).get(round_id)
    label = round_.label if recount is None else recount.label
    rewards = {
        annotation.annotation_id: aggregation.reward(label, annotation.labels[key.control])
        for annotation in counted
    }
    said = json.dumps([[annotation.annotation_id, annotation.labels[key.control]] for annotation in counted])
    blind_tasks.record_answer(connection, round_, round_id, rewards, said)


def teacher(voted: str, human: str | None, settings: Settings, *, blind: bool) -> tuple[str, Teacher]:
    """The label that rewards are computed with, and its source.

    It is the human label if there is one, ``human_rewards`` is on and the task is not blind; else the voted
    label. Blind labels certify labels and scores, so they must not teach what these are counted from.
    """
    if human is None or blind or not settings.human_rewards:
        return voted, "vote"
    return human, "human"


def confirmation(voted: str, human: str | None, plan: Mapping[str, Any]) -> float | None:
    """The reward in [0, 1] of the voted label against the human one; ``None`` without a human label."""
    return None if human is None else aggregation_of(plan).reward(voted, human)


@dataclass(frozen=True, slots=True, eq=False)
class NewRound:
    """A round that is to be stored.

    Attributes:
        round: the round.
        contribution: what it teaches.
        examples: how many examples each model's prompt had, for the models that were offered examples.
        failures: arm → the code of the reason why it gave no vote.
    """

    round: Round
    contribution: Contribution
    examples: Mapping[str, int]
    failures: Mapping[str, str | None]


def store_rounds(connection: Connection, finished: Sequence[NewRound], now: float) -> None:
    """Store new rounds, the outcome of each vote, and what the rounds teach; blind ones are queued.

    Args:
        connection: a write transaction.
        finished: the rounds.
        now: unix seconds.
    """
    new_events: dict[str, list[NewEvent]] = {}
    events = insert_rounds(connection, finished)
    stored = [(each, int(event.round_id or 0)) for each, event in zip(finished, events, strict=True)]
    for (each, _), event in zip(stored, events, strict=True):
        new_events.setdefault(each.round.key.project, []).append(event)
    for project, of_project in new_events.items():
        ProjectEvents(connection, project).append(of_project, now)
    for each, round_id in stored:
        if each.round.audit:
            blind_tasks.enter(connection, each.round, round_id)
            record_blind_answer(connection, each.round, round_id)


def insert_rounds(connection: Connection, finished: Sequence[NewRound]) -> list[NewEvent]:
    """Store new rounds and the outcome of each vote, and return the events of what they teach, to append."""
    ids = rounds.insert_each(connection, [each.round for each in finished])
    rows: list[dict[str, Any]] = []
    new: list[NewEvent] = []
    for each, round_id in zip(finished, ids, strict=True):
        round_ = each.round
        agreed = _rewards(contribution_of(round_, round_.label, "vote"))
        confirmed = _confirmed(round_, round_.human)
        rows += rounds.vote_rows_of(
            round_,
            round_id,
            agreed=agreed,
            confirmed=confirmed,
            examples=each.examples,
            failures=each.failures,
        )
        new.append(_event(round_, "round", each.contribution, round_id))
    rounds.add_votes(connection, rows)
    return new


def correct_rewards(connection: Connection, project: str, task: int, settings: Settings, now: float) -> int:
    """Make the rewards and vote outcomes of a task's rounds agree with the current human labels.

    What people say about pruned rounds is counted, and changes nothing that was learnt.

    Returns:
        How many rounds are now taught by another label, or by somebody else.
    """
    corrected = 0
    of_task = ProjectRounds(connection, project).of_task(task)
    further = recounts.further_votes_of(connection, [round_.id for round_ in of_task])
    annotations = Annotations(connection, project).of_task(task)
    for round_ in of_task:
        later = further.get(round_.id, ())
        human = human_label(connection, round_.key, round_.plan, _about(round_, of_task, annotations))
        if round_.audit:  # of a pruned one too: a certificate may rest on what was said
            record_blind_answer(connection, round_, round_.id)
        if round_.pruned:
            if human != round_.human:
                _refuse_feedback(connection, round_, human)
            continue
        if human != round_.human:
            rounds.set_human(connection, round_.id, human, confirmation(round_.label, human, round_.plan))
            rounds.set_votes_confirmed(connection, round_, _confirmed(round_, human))
            confirm = partial(confirmation, human=human, plan=round_.plan)
            Recounts(connection, project).record_answer(task, round_.id, confirm)
        label, by = teacher(round_.label, human, settings, blind=round_.audit)
        # Further votes were asked for because of a label or of votes, so they teach with a human label only.
        teaching = {vote.model for vote in later if by == "human" and vote.model in round_.plan["arms"]}
        taught = {vote.model for vote in later if vote.taught}
        if (label, by, teaching) == (round_.taught, round_.taught_by, taught):
            continue
        before = _with_further(round_, [vote for vote in later if vote.model in taught])
        after = _with_further(round_, [vote for vote in later if vote.model in teaching])
        change = revision(
            contribution_of(before, round_.taught, round_.taught_by), contribution_of(after, label, by)
        )
        if teaching != taught:
            recounts.set_further_taught(connection, round_.id, teaching)
        if change.changes or change.kept or change.dropped or change.taught or change.untaught:
            event = _event(round_, "revision", change, round_.id)
            ProjectEvents(connection, project).append([event], now)
            metrics.revisions.labels(project=project).inc()
        rounds.set_taught(connection, round_.id, label, by)
        corrected += 1
    return corrected


def _about(
    round_: Round, of_task: Sequence[Round], annotations: Sequence[Annotation]
) -> Sequence[Annotation]:
    """The annotations of a task that may be about what models were shown in a round.

    Once the task was predicted with another text, later annotations are about that text.
    """
    edited_at = min(
        (
            other.created_at
            for other in of_task
            if other.created_at > round_.created_at
            and other.key.control == round_.key.control
            and other.key.question != round_.key.question
        ),
        default=math.inf,
    )
    return [annotation for annotation in annotations if annotation.received_at < edited_at]


def forget_texts(connection: Connection, project: str, tasks: Sequence[int], now: float) -> None:
    """Undo what the texts of tasks taught the student, and seal their n-grams permanently.

    Each lesson has an event of its own, so that every process forgets it. The event has the seal, and from
    now on so do the earlier events of the round.
    """
    known = ProjectRounds(connection, project).with_texts(tasks)
    rounds.seal_texts(connection, known)
    new: list[NewEvent] = []
    for round_ in known:
        lesson = contribution_of(round_, round_.taught, round_.taught_by).taught
        if lesson is not None:
            back = Contribution(round_.context, (), rounds=0, untaught=lesson.sealed)
            beside = replace(round_, text=sealed(round_.text)) if round_.text else round_
            new.append(_event(beside, "revision", back, round_.id))
    if new:
        ProjectEvents(connection, project).append(new, now)


def unanswered(round_: Round, further: Sequence[FurtherVote]) -> Contribution:
    """The contribution that removes a round's human label from a state, so that the voted label teaches.

    Args:
        round_: the round.
        further: its further votes.
    """
    before = _with_further(round_, [vote for vote in further if vote.taught])
    return revision(
        contribution_of(before, round_.taught, round_.taught_by),
        contribution_of(round_, round_.label, "vote"),
    )


def _refuse_feedback(connection: Connection, round_: Round, human: str | None) -> None:
    """Record what people say about a pruned round. It teaches nothing, because its context is deleted.

    A round that nobody had answered counts as unanswered. Of another one it is said how right it is now.
    """
    confirmed = None if round_.confirmed is None else confirmation(round_.label, human, round_.plan)
    rounds.set_human(connection, round_.id, human, confirmed)
    projects.count_refused_feedback(connection, round_.key.project)
    metrics.feedback_refused.labels(project=round_.key.project).inc()


def _event(round_: Round, kind: Kind, contribution: Contribution, round_id: int) -> NewEvent:
    return NewEvent(
        control=round_.key.control,
        epoch=round_.key.epoch,
        kind=kind,
        contribution=contribution.pack(round_.text),
        round_id=round_id,
        context_of_round=True,
    )


def _with_further(round_: Round, further: Sequence[FurtherVote]) -> Round:
    """The round as if these models had been asked in it."""
    if not further:
        return round_
    sure = recounts.all_confidences(round_.plan.get("confidences", {}), further)
    plan = {**round_.plan, "confidences": sure} if sure else round_.plan
    return replace(round_, plan=plan, votes=recounts.all_votes(round_.votes, further))


def contribution_of(round_: Round, label: str | None, by: str | None) -> Contribution:
    """What the stored round teaches by a label, which is a vote's or a human's."""
    record = TaughtRound.stored(round_.plan, round_.context, round_.votes, round_.text)
    return record.contribution(label or round_.label, human=by == "human")


def _rewards(contribution: Contribution) -> dict[str, float]:
    return {change.arm: change.added for change in contribution.changes if change.added is not None}


def _confirmed(round_: Round, human: str | None) -> dict[str, float]:
    """The reward of each vote against the human label; empty without one."""
    return {} if human is None else _rewards(contribution_of(round_, human, "human"))


_TASKS_PER_TRANSACTION = 20
"""Bounds how long other writers wait."""

_log = structlog.get_logger(__name__)


async def correct_tasks(access: LedgerAccess, settings: Settings, project: str, tasks: Sequence[int]) -> None:
    """Make the rewards of tasks agree with their annotations (:func:`correct_rewards`)."""

    def correct(portion: Sequence[int], connection: Connection) -> None:
        for task in portion:
            correct_rewards(connection, project, task, settings, access.clock())

    for portion in portions(tasks, _TASKS_PER_TRANSACTION):
        await access.writer.persist(partial(correct, portion))


@dataclass(frozen=True, slots=True)
class RewardCorrections:
    """A training step that makes a project's rewards agree with its annotations."""

    access: LedgerAccess
    settings: Settings

    async def __call__(self, event: WebhookEvent) -> None:
        """Correct every annotated task of the event's project; a failure of the ledger is logged."""
        project = event.project_key
        try:
            tasks = await self.access.read_once(lambda connection: Annotations(connection, project).tasks())
            await correct_tasks(self.access, self.settings, project, tasks)
        except LedgerError as error:
            _log.error("review_failed", project=project, code=error.code, reason=str(error))

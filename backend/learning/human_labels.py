"""The humans' label for a round: which answers count, and how several become one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from backend.ledger import blind_tasks, human_annotations
from backend.ledger.annotators import reliabilities
from backend.ledger.human_annotations import Annotation
from backend.ledger.recounts import rows as recounts
from backend.ledger.rounds import Round, RoundKey, Teacher
from backend.settings import Settings
from camvo.annotators.coins import PRIOR_PERSON
from camvo.annotators.weighed_label import weighed_label
from camvo.votes import consensus, registry
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import LABEL_VOTE


def aggregation_of(plan: Mapping[str, Any]) -> Aggregation:
    """The aggregation that counted the votes of a round, read from its stored plan."""
    return registry.restore_aggregation(plan.get("aggregation"))


def human_label(
    connection: Connection,
    key: RoundKey,
    plan: Mapping[str, Any],
    annotations: Sequence[Annotation] | None = None,
) -> str | None:
    """The humans' label for the question of a round.

    Ground truth annotations count alone if there are any. Several answers are counted by the question's own
    aggregation, each with the same weight. Labels are weighed by how often each annotator is right, once that
    is known (:mod:`backend.learning.annotators.reliability_fits`). Not counted are:

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
    aggregation = aggregation_of(plan)
    counted = (
        counted_answers(connection, key, plan)
        if annotations is None
        else answering(annotations, key.control, aggregation, plan["labels"])
    )
    truths = [annotation for annotation in counted if annotation.ground_truth]
    if counted and not truths and aggregation == LABEL_VOTE:
        for fit in reliabilities.latest(connection, key.project, key.control):
            return weigh(counted, key.control, fit.accuracies, len(plan["labels"]))
    answers = [annotation.labels[key.control] for annotation in truths or counted]
    return consensus.agreed_answer(aggregation, answers, plan["labels"])


def weigh(
    counted: Sequence[Annotation], control: str, accuracies: Mapping[str, float], labels: int
) -> str | None:
    """The label of several people, each weighed by their accuracy.

    Each person counts once, with the annotation that was made last.

    Args:
        counted: the annotations that count, by id.
        control: the question's control.
        accuracies: annotator's id → how often they are right; others count as average.
        labels: how many labels the question has.
    """
    answers = {person(annotation): annotation.labels[control] for annotation in counted}
    return weighed_label(
        [(label, accuracies.get(name, PRIOR_PERSON)) for name, label in answers.items()], labels
    )


def person(annotation: Annotation) -> str:
    """The id of the annotator; an unknown one is somebody else each time."""
    by = annotation.completed_by
    return f"annotation {annotation.annotation_id}" if by is None else str(by)


def counted_answers(connection: Connection, key: RoundKey, plan: Mapping[str, Any]) -> list[Annotation]:
    """The annotations that answer the question of a round and count, by id."""
    of_task = human_annotations.of_task(connection, key.project, key.task)
    return answering(of_task, key.control, aggregation_of(plan), plan["labels"])


def answering(
    annotations: Iterable[Annotation], control: str, aggregation: Aggregation, options: Sequence[str]
) -> list[Annotation]:
    """Those of the annotations that answer a question and count."""
    return [
        annotation
        for annotation in annotations
        if annotation.teaches
        and not annotation.withdrawn
        and consensus.is_answer(aggregation, annotation.labels.get(control), options)
    ]


def hear_blind(connection: Connection, round_: Round, round_id: int) -> None:
    """Tell the queue of blind tasks what people say about a blind round, if anybody has annotated its task.

    A task whose annotations are skipped, deleted or withdrawn has no answer that stands, and counts as wrong.
    If the votes were counted again before an answer, the answer is about the label by that counting.
    """
    key = round_.key
    if not human_annotations.is_annotated(connection, key.project, key.task):
        return
    counted = counted_answers(connection, key, round_.plan)
    aggregation = aggregation_of(round_.plan)
    recount = recounts.latest(connection, [round_id]).get(round_id)
    label = round_.label if recount is None else recount.label
    rewards = {
        annotation.annotation_id: aggregation.reward(label, annotation.labels[key.control])
        for annotation in counted
    }
    said = json.dumps([[annotation.annotation_id, annotation.labels[key.control]] for annotation in counted])
    blind_tasks.hear(connection, round_, round_id, rewards, said)


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

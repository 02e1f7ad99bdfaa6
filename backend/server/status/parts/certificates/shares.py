"""The share of each label among all tasks of a question, estimated from labels and blind labels."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from sqlalchemy import Connection

from backend.ledger.certificates.blind_queue import BlindQueue
from backend.ledger.certificates.hashes import resting_on
from backend.ledger.certificates.label_answers import blind_answers, count_answers
from backend.ledger.reports import counts
from backend.questions import ConfigQuestion
from backend.questions.controls.closed_set import AnyOf, OneOf
from camvo.shares.answers import Answer, LabelShare, answer_shares
from camvo.shares.sample import Arrival, random_sample
from camvo.votes.sets import read_subset


@dataclass(frozen=True, slots=True)
class SharesReport:
    """The share of each label among the tasks that the blind labels speak for (docs/certificate.md).

    Attributes:
        tasks: the number of these tasks.
        beyond: the number of tasks that came later, for which the blind labels do not speak.
        blind: the blind labels that the shares rest on.
        unknown: how many of these have no human answer, since they were skipped, withdrawn or tied. The
            intervals hold whatever they are.
        deleted: how many labelled blind tasks were deleted since; nothing is known of them.
        labels: the shares, in the order of the label config.
    """

    tasks: int
    beyond: int
    blind: int
    unknown: int
    deleted: int
    labels: tuple[LabelShare, ...]


def shares_report(  # noqa: PLR0917 - the question, and its blind tasks
    connection: Connection,
    project: str,
    control: str,
    epoch: str,
    question: ConfigQuestion,
    queue: BlindQueue,
) -> SharesReport | None:
    """Estimate the shares of a question's labels. Reads every round of the question.

    Args:
        connection: a read transaction.
        project: the project's key.
        control: the name of the control tag.
        epoch: the epoch.
        question: the question; only those with a list of labels have shares.
        queue: its blind tasks of all countings, from the front of the queue.

    Returns:
        The shares; ``None`` for another kind of question, or before the first blind label that counts.
    """
    options = question.control
    if not isinstance(options, OneOf | AnyOf):
        return None
    found = random_sample(_arrivals(queue), queue.ends.values())
    if found is None:
        return None
    arrivals, through = found
    sample = blind_answers(connection, [arrival.round for arrival in arrivals])
    several = isinstance(options, AnyOf)
    predicted: Counter[Answer] = Counter()
    for label, tasks in count_answers(connection, project, control, epoch, through).items():
        predicted[_answer(label, several)] += tasks
    shares = answer_shares(
        [label.value for label in options.labels],
        predicted,
        [
            (_answer(row.label, several), None if row.human is None else _answer(row.human, several))
            for row in sample
        ],
    )
    newest = counts.newest(connection, project)
    every = predicted if through == newest else count_answers(connection, project, control, epoch, newest)
    return SharesReport(
        tasks=predicted.total(),
        beyond=every.total() - predicted.total(),
        blind=len(sample),
        unknown=sum(row.human is None for row in sample),
        deleted=len(arrivals) - len(sample),
        labels=tuple(shares),
    )


def _answer(label: str, several: bool) -> Answer:
    return frozenset(read_subset(label) if several else [label])


def _arrivals(queue: BlindQueue) -> list[Arrival]:
    counting = {blind.task for blind in resting_on(queue)}
    return [Arrival(blind.round_id, blind.place, blind.task, blind.task in counting) for blind in queue]

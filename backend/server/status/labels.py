"""Describes the labels of one question: their scores, their shares, and how people labelled the tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sqlalchemy import Connection

from backend.learning.teaching import aggregation_of
from backend.ledger import learning_data
from backend.ledger.blind_tasks import BlindQueue, BlindQueues
from backend.ledger.reports import SCORE_BINS, JudgedRow, ProjectSums, QuestionSums, RoundsRow
from backend.questions import ConfigQuestion
from backend.questions.label_config import labels_decided
from backend.server.status.promises import (
    certify_report,
    estimate_report,
    guarantee_report,
    recall_reports,
    score_check_report,
    shares_report,
    stops_report,
)
from backend.server.status.report import (
    ConfusionCount,
    LabelCount,
    LabelsReport,
    QuestionableLabel,
    QuestionableReport,
    QuestionReport,
    ScaleReport,
    Share,
    VotesReport,
)
from camvo.replays.measures import scale_quality
from camvo.votes.ordered import OrderedVote

HISTOGRAM = 20
"""Number of bars of the histogram of scores."""

_MOST_NAMES = 12
"""Labels that are shown separately; all others are shown as one."""

_OTHER = "other labels"
"""The name of all labels beyond the most frequent ones."""


def _labels_report(
    sums: QuestionSums, score_counts: Sequence[int], judged: Sequence[JudgedRow], *, closed: bool
) -> LabelsReport:
    """Describe the labels of one question in an epoch."""
    counts = sums.latest_labels() if closed else Counter[str]()
    width = SCORE_BINS // HISTOGRAM
    return LabelsReport(
        histogram=tuple(sum(score_counts[start : start + width]) for start in range(0, SCORE_BINS, width)),
        blocks=tuple(sums.blocks()),
        shares=_shares(counts),
        confusion=_confusion(judged) if closed else (),
        scale=_scale_report(sums.latest_plan(), judged),
    )


def _scale_report(plan: Mapping[str, Any] | None, judged: Sequence[JudgedRow]) -> ScaleReport | None:
    """Compare voted labels with those of people; ``None`` unless they are on a scale."""
    vote = None if plan is None else aggregation_of(plan)
    if not isinstance(vote, OrderedVote):
        return None
    place = {label: number for number, label in enumerate(vote.scale)}
    pairs = [(place[row.label], place[row.human]) for row in judged if {row.label, row.human} <= place.keys()]
    labels, truth = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    quality = scale_quality(labels, truth)
    if quality is None:
        return None
    exact = float((labels == truth).mean())
    return ScaleReport(len(pairs), exact, quality.within_one, quality.absolute, quality.kappa)


def _shares(counts: Counter[str]) -> tuple[LabelCount, ...]:
    named = [LabelCount(label, count) for label, count in _ordered(counts)[:_MOST_NAMES]]
    rest = counts.total() - sum(share.count for share in named)
    return (*named, *([LabelCount(_OTHER, rest)] if rest else []))


def _confusion(judged: Sequence[JudgedRow]) -> tuple[ConfusionCount, ...]:
    seen = Counter(label for row in judged for label in (row.label, row.human))
    names = {label for label, _ in _ordered(seen)[:_MOST_NAMES]}
    cells = Counter(
        tuple(label if label in names else _OTHER for label in (row.label, row.human)) for row in judged
    )
    return tuple(ConfusionCount(vote, human, count) for (vote, human), count in sorted(cells.items()))


def _ordered(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


_SHOWN = 50
"""Labels that are listed at most for each question."""

_CERTAIN = 0.9
"""The score from which a vote against a single annotator is a reason to look again."""


def _questionable_report(
    connection: Connection, project: str, judged: Sequence[JudgedRow], *, closed: bool
) -> QuestionableReport:
    """List the questionable labels of one question."""
    differing = [row for row in judged if row.confirmed < 0.5]
    people = ProjectSums(connection, project).annotators([row.task for row in differing])
    listed = sorted((_label(row, people, closed=closed) for row in differing), key=_order)
    return QuestionableReport(
        labels=len(listed),
        certain=sum(label.certain for label in listed),
        listed=tuple(listed[:_SHOWN]),
    )


def _label(row: JudgedRow, people: Mapping[int, int], *, closed: bool) -> QuestionableLabel:
    annotators = people.get(row.task, 0)
    return QuestionableLabel(
        task=row.task,
        vote=row.label if closed else None,
        human=row.human if closed else None,
        score=row.score,
        annotators=annotators,
        certain=row.score >= _CERTAIN and annotators == 1,
    )


def _order(label: QuestionableLabel) -> tuple[bool, float, int]:
    return not label.certain, -label.score, label.task


@dataclass(frozen=True, slots=True)
class QuestionSource:
    """Where a project's questions are read.

    Attributes:
        asked: the questions of the label config by name.
        every_round: whether every round is read, for the labels' shares and the tasks with a sought label.
        unpredicted: how many of its tasks have no round; ``None`` if that is unknown.
        recall: label → the share of the tasks with it that must be found.
    """

    connection: Connection
    project: str
    target: float
    closed: Mapping[str, bool]
    asked: Mapping[str, ConfigQuestion] = field(default_factory=dict)
    every_round: bool = False
    unpredicted: int | None = None
    recall: Mapping[str, float] = field(default_factory=dict)


def question_reports(source: QuestionSource, rounds: Sequence[RoundsRow]) -> tuple[QuestionReport, ...]:
    """A report for each control and epoch, the current epoch of a control first."""
    connection, project = source.connection, source.project
    queues = BlindQueues(connection, project).all()
    found = learning_data.drift_tests_of(connection, project)
    by_question: dict[tuple[str, str], list[RoundsRow]] = {}
    last_by_control: dict[str, float] = {}
    for row in rounds:
        by_question.setdefault((row.control, row.epoch), []).append(row)
        last_by_control[row.control] = max(last_by_control.get(row.control, 0.0), row.last_at)
    listed = []
    for (control, epoch), rows in by_question.items():
        last_at = max(row.last_at for row in rows)
        queue = queues.get((control, epoch), BlindQueue())
        count = QuestionSums(connection, project, control, epoch).count
        report = QuestionReport(
            control=control,
            epoch=epoch,
            current=last_at == last_by_control[control],
            rounds=sum(row.rounds for row in rows),
            last_at=last_at,
            audit=Share.of((row.checked, row.confirmed) for row in rows if row.audit),
            reviewed=Share.of((row.checked, row.confirmed) for row in rows if not row.audit),
            guarantee=guarantee_report(queue, source.target, count),
            votes=None,
            stops=stops_report(found.get((control, epoch))),
        )
        listed.append(_with_labels(source, report, queue) if report.current else report)
    return tuple(sorted(listed, key=lambda report: (report.control, -report.last_at)))


def _sought(recall: Mapping[str, float], question: ConfigQuestion | None) -> dict[str, float]:
    """The labels of a question that must be found; none if it is not in the label config."""
    labels = () if question is None else labels_decided(question)
    return {label: target for label, target in recall.items() if label in labels}


def _with_labels(source: QuestionSource, report: QuestionReport, queue: BlindQueue) -> QuestionReport:
    """The report of a current epoch, with what is read from its single labels."""
    sums = QuestionSums(source.connection, source.project, report.control, report.epoch)
    score_counts, checked, judged = sums.scores(), sums.checked(), sums.judged()
    closed, asked = source.closed.get(report.control, False), source.asked.get(report.control)
    return replace(
        report,
        votes=VotesReport.of(sums.latest_plan()),
        estimate=estimate_report(score_counts, checked, represented=not queue.after),
        score_check=score_check_report(checked),
        labels=_labels_report(sums, score_counts, judged, closed=closed),
        questionable=_questionable_report(source.connection, source.project, judged, closed=closed),
        certify=certify_report(queue, score_counts, source.target, source.unpredicted),
        shares=shares_report(sums, asked, queue) if asked and source.every_round else None,
        recall=(
            recall_reports(sums, queue, _sought(source.recall, asked), tasks=source.every_round)
            if asked
            else ()
        ),
    )

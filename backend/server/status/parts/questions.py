"""The questions of a project: their rounds, how many labels were right, and what the audits guarantee."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from sqlalchemy import Connection

from backend.ledger import blind_tasks, drift_tests, reports
from backend.ledger.certificates.blind_queue import BlindQueue
from backend.ledger.reports import RoundsRow
from backend.questions import ConfigQuestion
from backend.server.status.evidence import Share, VotesReport
from backend.server.status.parts.certificates.shares import shares_report
from backend.server.status.parts.certify import blind_labels_needed, certify_report
from backend.server.status.parts.drift import stops_report
from backend.server.status.parts.estimate import estimate_report, score_check_report
from backend.server.status.parts.guarantee import guarantee_report
from backend.server.status.parts.labels import labels_report
from backend.server.status.parts.questionable import questionable_report
from backend.server.status.report import QuestionReport


@dataclass(frozen=True, slots=True)
class QuestionSource:
    """Where the reports of a project's questions are read.

    Attributes:
        connection: a read transaction.
        project: the project's key.
        target: the share of labels that must be right.
        closed: control → whether its answers are labels of the label config.
        shares: the questions whose labels' shares are estimated, by control.
    """

    connection: Connection
    project: str
    target: float
    closed: Mapping[str, bool]
    shares: Mapping[str, ConfigQuestion] = field(default_factory=dict)


def question_reports(source: QuestionSource, rounds: Sequence[RoundsRow]) -> tuple[QuestionReport, ...]:
    """A report for each control and epoch, the current epoch of a control first.

    Args:
        source: where to read.
        rounds: the project's rounds, summed up by control, epoch and audit.
    """
    connection, project = source.connection, source.project
    queues = blind_tasks.queues(connection, project)
    found = {(row.control, row.epoch): row.tests for row in drift_tests.of_project(connection, project)}
    by_question: dict[tuple[str, str], list[RoundsRow]] = {}
    last_by_control: dict[str, float] = {}
    for row in rounds:
        by_question.setdefault((row.control, row.epoch), []).append(row)
        last_by_control[row.control] = max(last_by_control.get(row.control, 0.0), row.last_at)
    listed = []
    for (control, epoch), rows in by_question.items():
        last_at = max(row.last_at for row in rows)
        queue = queues.get((control, epoch), BlindQueue())
        count = partial(reports.count_labels, connection, project, control, epoch)
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


def _with_labels(source: QuestionSource, report: QuestionReport, queue: BlindQueue) -> QuestionReport:
    """The report of a current epoch, with what is read from its single labels."""
    question = (source.connection, source.project, report.control, report.epoch)
    score_counts = reports.count_scores(*question)
    checked, judged = reports.checked_labels(*question), reports.judged_labels(*question)
    closed, asked = source.closed.get(report.control, False), source.shares.get(report.control)
    return replace(
        report,
        votes=VotesReport.of(reports.latest_plan(*question)),
        estimate=estimate_report(score_counts, checked),
        score_check=score_check_report(checked),
        labels=labels_report(*question, score_counts, judged, closed=closed),
        questionable=questionable_report(source.connection, source.project, judged, closed=closed),
        certify=certify_report(queue, score_counts, source.target),
        shares=None if asked is None else shares_report(*question, asked, queue),
        blind_needed=blind_labels_needed(score_counts, source.target) if asked and not queue else None,
    )

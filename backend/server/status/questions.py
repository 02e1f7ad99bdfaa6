"""The questions of a project: their rounds, how many labels were right, and what the audits guarantee."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from backend.ledger.drift_tests import FoundRow
from backend.ledger.reports import AuditRow, RoundsRow
from backend.server.status.drift import stops_report
from backend.server.status.evidence import GuaranteeReport, Share, VotesReport
from backend.server.status.report import QuestionReport
from camvo.scores.guarantee import GRID, Guarantee


def question_reports(
    rounds: Sequence[RoundsRow],
    audits: Sequence[AuditRow],
    tests: Sequence[FoundRow],
    target: float,
    latest_plan: Callable[[str, str], Mapping[str, Any] | None],
) -> tuple[QuestionReport, ...]:
    """A report for each control and epoch, the current epoch of a control first.

    Args:
        rounds: the project's rounds, summed up by control, epoch and audit.
        audits: its audits, counted by control, epoch and cell of the score grid.
        tests: what the tests of its states have found.
        target: the share of labels that must be right.
        latest_plan: the newest round's plan of a control and epoch.
    """
    found = {(row.control, row.epoch): row.tests for row in tests}
    by_question: dict[tuple[str, str], list[RoundsRow]] = {}
    last_by_control: dict[str, float] = {}
    for row in rounds:
        by_question.setdefault((row.control, row.epoch), []).append(row)
        last_by_control[row.control] = max(last_by_control.get(row.control, 0.0), row.last_at)
    reports = []
    for (control, epoch), rows in by_question.items():
        last_at = max(row.last_at for row in rows)
        current = last_at == last_by_control[control]
        own_audits = [row for row in audits if (row.control, row.epoch) == (control, epoch)]
        reports.append(
            QuestionReport(
                control=control,
                epoch=epoch,
                current=current,
                rounds=sum(row.rounds for row in rows),
                last_at=last_at,
                audit=Share.of((row.checked, row.confirmed) for row in rows if row.audit),
                reviewed=Share.of((row.checked, row.confirmed) for row in rows if not row.audit),
                guarantee=_guarantee_report(own_audits, target),
                votes=VotesReport.of(latest_plan(control, epoch)) if current else None,
                stops=stops_report(found.get((control, epoch))),
            )
        )
    return tuple(sorted(reports, key=lambda report: (report.control, -report.last_at)))


def _guarantee_report(rows: Sequence[AuditRow], target: float) -> GuaranteeReport:
    """What the blind labels of one question certify, apart from other questions on the same tasks."""
    guarantee = Guarantee(GRID, target)
    for row in rows:
        guarantee.counts[row.cell] = row.audits - row.confirmed, row.confirmed
    certified = guarantee.certified()
    accepted = [row for row in rows if certified and row.cell > guarantee.grid.index(certified.threshold)]
    labels, all_labels = sum(row.rounds for row in accepted), sum(row.rounds for row in rows)
    return GuaranteeReport(
        target=target,
        confidence=guarantee.confidence,
        threshold=certified.threshold if certified else None,
        low=certified.bound if certified else None,
        audits=sum(row.audits for row in accepted),
        right=sum(row.confirmed for row in accepted),
        labels=labels,
        freed=labels / all_labels if all_labels else 0.0,
    )

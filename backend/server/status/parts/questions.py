"""The questions of a project: their rounds, how many labels were right, and what the audits guarantee."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from backend.ledger.blind_tasks import QueuedTask
from backend.ledger.drift_tests import FoundRow
from backend.ledger.reports import RoundsRow
from backend.server.status.evidence import Share, VotesReport
from backend.server.status.parts.drift import stops_report
from backend.server.status.parts.guarantee import guarantee_report
from backend.server.status.report import QuestionReport


def question_reports(
    rounds: Sequence[RoundsRow],
    queues: Mapping[tuple[str, str], Sequence[QueuedTask]],
    tests: Sequence[FoundRow],
    *,
    target: float,
    count: Callable[[str, str, float, int | None], int],
    latest_plan: Callable[[str, str], Mapping[str, Any] | None],
) -> tuple[QuestionReport, ...]:
    """A report for each control and epoch, the current epoch of a control first.

    Args:
        rounds: the project's rounds, summed up by control, epoch and audit.
        queues: (control, epoch) → the queue of its blind tasks.
        tests: what the tests of its states have found.
        target: the share of labels that must be right.
        count: counts the labels of a control and epoch from a score on, up to a round.
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
        reports.append(
            QuestionReport(
                control=control,
                epoch=epoch,
                current=current,
                rounds=sum(row.rounds for row in rows),
                last_at=last_at,
                audit=Share.of((row.checked, row.confirmed) for row in rows if row.audit),
                reviewed=Share.of((row.checked, row.confirmed) for row in rows if not row.audit),
                guarantee=guarantee_report(
                    queues.get((control, epoch), ()), target, partial(count, control, epoch)
                ),
                votes=VotesReport.of(latest_plan(control, epoch)) if current else None,
                stops=stops_report(found.get((control, epoch))),
            )
        )
    return tuple(sorted(reports, key=lambda report: (report.control, -report.last_at)))

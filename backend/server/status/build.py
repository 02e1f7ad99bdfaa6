"""Builds the report: the database sums up, and the numbers are interpreted here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from importlib import metadata

from sqlalchemy import Connection

from backend.errors import BadLabelConfigError
from backend.learning.projects import project_settings
from backend.ledger import blind_tasks, drift_tests, projects, reports
from backend.ledger.money import accounts
from backend.ledger.money.picodollars import from_picodollars
from backend.ledger.projects import Project
from backend.ledger.reports import RoundsRow
from backend.questions import parse_label_config
from backend.server.status.alerts import project_alerts, server_alerts
from backend.server.status.annotators import annotator_reports
from backend.server.status.failed import failed_task_reports
from backend.server.status.live import Live
from backend.server.status.models import model_reports
from backend.server.status.questions import question_reports
from backend.server.status.reliability import reliability_report
from backend.server.status.report import (
    Budget,
    Cost,
    ModelVersion,
    ProjectReport,
    Report,
    SkippedControlReport,
)
from backend.settings import Settings
from camvo.errors import CamvoError


def build_report(
    connection: Connection,
    settings: Settings,
    *,
    now: float,
    live: Live | None = None,
    project: str | None = None,
    annotators: bool = False,
) -> Report:
    """Build the report of every project, or of the projects that ``project`` names.

    Args:
        connection: a read transaction, so that all numbers are of one moment.
        settings: the server's settings.
        now: unix seconds.
        live: what the running server knows, ``None`` without one.
        project: a project's key, or its number in Label Studio.
        annotators: whether to report on each annotator.
    """
    known = selected_projects(connection, project)
    day = accounts.balance(connection, accounts.EVERY_PROJECT, accounts.day_of(now))
    today = _budget(day, settings.budget.day_usd)
    project_reports = [_project_report(connection, stored, settings, live) for stored in known]
    if annotators:
        project_reports = [
            replace(report, annotators=annotator_reports(connection, report.key))
            for report in project_reports
        ]
    project_reports.sort(key=_last_round, reverse=True)
    server = None if live is None else live.server
    return Report(
        version=metadata.version("camvo"),
        model_version=settings.model_version,
        generated_at=now,
        alerts=server_alerts(server, today, now),
        server=server,
        today=today,
        projects=tuple(project_reports),
    )


def selected_projects(connection: Connection, project: str | None) -> list[Project]:
    """Return the projects with this key, or with this number in Label Studio; all of them without either."""
    return [
        stored
        for stored in projects.list_all(connection)
        if project in (None, stored.key, _number(stored.key))
    ]


def _last_round(report: ProjectReport) -> float:
    return max((question.last_at for question in report.questions), default=0.0)


def _project_report(
    connection: Connection, stored: Project, settings: Settings, live: Live | None
) -> ProjectReport:
    key = stored.key
    own_settings, unfit = project_settings(stored, settings)
    skipped, unreadable = _skipped_controls(stored)
    rounds = reports.sum_rounds(connection, key)
    calls = reports.sum_calls(connection, key)
    bins = reports.sum_scores(connection, key)
    account = accounts.balance(connection, key, accounts.TOTAL)
    shown, ours = stored.model_version, settings.model_version
    report = ProjectReport(
        key=key,
        id=_number(key),
        alerts=(),
        model_version=ModelVersion(shown, None if shown is None else shown == ours),
        rounds=sum(row.rounds for row in rounds),
        tasks_under_way=None if live is None else live.tasks_under_way.get(key, 0),
        calls_under_way=sum(row.calls for row in calls if row.under_way),
        webhook_at=None if live is None else live.webhook_at.get(key),
        humans=reports.sum_annotations(connection, key),
        cost=_cost(rounds, _budget(account, settings.budget.project_usd)),
        questions=question_reports(
            rounds,
            blind_tasks.queues(connection, key),
            drift_tests.of_project(connection, key),
            target=settings.guarantee,
            count=partial(reports.count_labels, connection, key),
            latest_plan=partial(reports.latest_plan, connection, key),
        ),
        models=model_reports(connection, key, calls, [model.name for model in own_settings.models]),
        audit=reliability_report(row for row in bins if row.audit),
        reviewed=reliability_report(row for row in bins if not row.audit),
        skipped=skipped,
        failed=failed_task_reports(connection, key),
    )
    return replace(report, alerts=project_alerts(report, ours, unfit, unreadable))


def _skipped_controls(stored: Project) -> tuple[tuple[SkippedControlReport, ...], CamvoError | None]:
    """The controls without predictions; none, and the error, if the label config cannot be parsed."""
    if stored.label_config is None:
        return (), None
    try:
        config = parse_label_config(stored.label_config)
    except BadLabelConfigError as error:
        return (), error
    skipped = (
        SkippedControlReport(control.control, control.tag, control.reason) for control in config.skipped
    )
    return tuple(skipped), None


def _number(key: str) -> str:
    return key.partition(".")[0]


def _budget(account: accounts.Account, limit: float | None) -> Budget:
    spent, reserved = from_picodollars(account.spent), from_picodollars(account.reserved)
    left = None if limit is None else max(limit - spent - reserved, 0.0)
    return Budget(limit_usd=limit, spent_usd=spent, reserved_usd=reserved, left_usd=left)


def _cost(rounds: Sequence[RoundsRow], budget: Budget) -> Cost:
    paid, full = sum(row.cost_usd for row in rounds), sum(row.full_cost_usd for row in rounds)
    return Cost(budget, paid, full, 1.0 - paid / full if full > 0.0 else None)

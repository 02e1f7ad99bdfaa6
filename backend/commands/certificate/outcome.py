"""What a run has come to: its cost beside asking everyone, what is certified, and the labels' shares."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from sqlalchemy import Connection

from backend import settings as settings_module
from backend.commands.certificate.advice import what_to_label
from backend.commands.report_tables import share_tables
from backend.commands.stored_projects import existing_ledger
from backend.ledger.database.clock import now
from backend.server.status.build import build_report
from backend.server.status.formats import count, dollars, of, percent, share_of_hundred
from backend.server.status.report import ProjectReport, QuestionReport
from backend.settings import Environment, Settings


def print_outcome(console: Console, environment: Environment, project: str) -> None:
    """Print what a project's labels have come to, from the ledger.

    Args:
        console: where to print.
        environment: the ledger's address and ``camvo.yaml``.
        project: the project's key.
    """
    settings = settings_module.load(environment.config)
    with existing_ledger(environment) as ledger, ledger.read() as connection:
        report = project_report(connection, settings, project)
    if report is None or not report.rounds:
        return
    for line in outcome_lines(report):
        console.print(escape(line), highlight=False, soft_wrap=True)
    for table in share_tables(report):
        console.print(table)


def project_report(connection: Connection, settings: Settings, project: str) -> ProjectReport | None:
    """The report on one project, with the shares of its labels; ``None`` if the ledger does not know it.

    Args:
        connection: a read transaction.
        settings: the settings of every project.
        project: the project's key.
    """
    report = build_report(connection, settings, now=now(connection), project=project, certificates=True)
    return next((found for found in report.projects if found.key == project), None)


def outcome_lines(project: ProjectReport) -> Iterator[str]:
    """What was spent beside asking everyone, and which labels are certified."""
    cost = project.cost
    saved = "" if cost.saved is None else f": {percent(cost.saved)} saved"
    yield (
        f"{dollars(cost.rounds_usd)} for the votes; asking everyone would have cost"
        f" {dollars(cost.every_model_usd)}{saved}"
    )
    for question in project.questions:
        if question.current:
            yield _certified(project, question)
            if (shares := question.shares) is not None:
                later = f"; {of(shares.beyond, 'later task')} not covered" if shares.beyond else ""
                yield (
                    f"{question.control}: the share of each label among {of(shares.tasks, 'task')},"
                    f" by {of(shares.blind, 'blind label')}{later}"
                )


def _certified(project: ProjectReport, question: QuestionReport) -> str:
    guarantee = question.guarantee
    if guarantee.threshold is None:
        void = f"; the recount has voided {of(guarantee.void, 'earlier one')}" if guarantee.void else ""
        return f"{question.control}: nothing is certified yet: {what_to_label(project, question)}{void}"
    return (
        f"{question.control}: {percent(guarantee.freed)} of the labels are at least"
        f" {share_of_hundred(guarantee.target)} right, with {share_of_hundred(guarantee.confidence)}"
        f" confidence: {count(guarantee.labels)} with a score of at least {guarantee.threshold:g}, by"
        f" {of(guarantee.audits, 'blind label')}"
    )

"""The models of a project: votes, calls, costs and the effect of examples."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection

from backend.ledger import reports
from backend.ledger.reports import CallsRow, VotesRow
from backend.server.status.evidence import ExamplesReport, Share
from backend.server.status.report import ModelReport
from camvo.scores.few_shot import ExampleTrial
from camvo.student.taught_texts import STUDENT


def model_reports(
    connection: Connection, project: str, calls: Sequence[CallsRow], pool: Collection[str]
) -> tuple[ModelReport, ...]:
    """A report for each model that the project asks or has ever asked, by name.

    The student is among them once it has voted. Before, it would look like a model that fails.

    Args:
        connection: a read transaction.
        project: the project's key.
        calls: its calls, counted by model and failure.
        pool: the models that it currently asks.
    """
    votes = reports.sum_votes(connection, project)
    tried = reports.sum_example_trials(connection, project)
    heard = {row.model for row in votes if row.voted or row.model != STUDENT}
    names = {*pool, *(row.model for row in calls), *heard}
    return tuple(
        _model_report(
            connection,
            project,
            name,
            [row for row in calls if row.model == name and not row.under_way],
            [row for row in votes if row.model == name],
            in_pool=name in pool,
            tried=tried.get(name),
        )
        for name in sorted(names)
    )


def _model_report(
    connection: Connection,
    project: str,
    name: str,
    calls: Sequence[CallsRow],
    votes: Sequence[VotesRow],
    *,
    in_pool: bool,
    tried: ExampleTrial | None,
) -> ModelReport:
    answered = sum(row.calls for row in calls if row.failure is None)
    median, p95 = (
        reports.answer_seconds(connection, project, name, answered, quantile) if answered else None
        for quantile in (0.5, 0.95)
    )
    return ModelReport(
        name=name,
        in_pool=in_pool,
        asked=sum(row.asked for row in votes),
        voted=sum(row.voted for row in votes),
        agreement=Share.of((row.compared, row.agreed) for row in votes),
        audit=Share.of((row.checked, row.confirmed) for row in votes if row.audit),
        reviewed=Share.of((row.checked, row.confirmed) for row in votes if not row.audit),
        calls=sum(row.calls for row in calls),
        failures={row.failure: row.calls for row in calls if row.failure is not None},
        median_seconds=median,
        p95_seconds=p95,
        cost_usd=sum(row.cost_usd for row in calls),
        examples=None if tried is None else _examples_report(tried),
    )


def _examples_report(tried: ExampleTrial) -> ExamplesReport:
    return ExamplesReport(
        shown=Share.of([(tried.votes_with, tried.right_with)]),
        left_out=Share.of([(tried.votes_without, tried.right_without)]),
        helps=tried.helps,
    )

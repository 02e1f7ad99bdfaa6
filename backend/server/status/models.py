"""What each model did in a project."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection

from backend.ledger import reports
from backend.ledger.reports import CallsRow, VotesRow
from backend.server.status.report import ExamplesTried, Model
from backend.server.status.share import share
from camvo.scores.few_shot import ExampleTrial


def of_project(
    connection: Connection, project: str, calls: Sequence[CallsRow], pool: Collection[str]
) -> tuple[Model, ...]:
    """Every model that the project asks or ever asked, by name."""
    votes = reports.sum_votes(connection, project)
    tried = reports.sum_example_trials(connection, project)
    names = {*pool, *(row.model for row in calls), *(row.model for row in votes)}
    return tuple(
        _model(
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


def _model(
    connection: Connection,
    project: str,
    name: str,
    calls: Sequence[CallsRow],
    votes: Sequence[VotesRow],
    *,
    in_pool: bool,
    tried: ExampleTrial | None,
) -> Model:
    answered = sum(row.calls for row in calls if row.failure is None)
    median, p95 = (
        reports.answer_seconds(connection, project, name, answered, quantile) if answered else None
        for quantile in (0.5, 0.95)
    )
    return Model(
        name=name,
        in_pool=in_pool,
        asked=sum(row.asked for row in votes),
        voted=sum(row.voted for row in votes),
        agreement=share((row.compared, row.agreed) for row in votes),
        audit=share((row.checked, row.confirmed) for row in votes if row.audit),
        reviewed=share((row.checked, row.confirmed) for row in votes if not row.audit),
        calls=sum(row.calls for row in calls),
        failures={row.failure: row.calls for row in calls if row.failure is not None},
        median_seconds=median,
        p95_seconds=p95,
        cost_usd=sum(row.cost_usd for row in calls),
        examples=None if tried is None else _examples(tried),
    )


def _examples(tried: ExampleTrial) -> ExamplesTried:
    return ExamplesTried(
        shown=share([(tried.votes_with, tried.right_with)]),
        left_out=share([(tried.votes_without, tried.right_without)]),
        helps=tried.helps,
    )

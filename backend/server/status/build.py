"""From the ledger to a report: sums are made by the database, and what they mean is worked out here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import metadata

from sqlalchemy import Connection

from backend.errors import BadLabelConfigError, ConfigError
from backend.ledger import projects, reports
from backend.ledger.money import accounts
from backend.ledger.money.picodollars import from_picodollars
from backend.ledger.reports import BINS, AuditRow, BinRow, RoundsRow
from backend.questions import parse_label_config
from backend.server.status import alerts, models
from backend.server.status.live import Live
from backend.server.status.report import (
    Bin,
    Budget,
    Cost,
    Guaranteed,
    ModelVersion,
    Project,
    QuestionReport,
    Reliability,
    Report,
    Skipped,
)
from backend.server.status.share import share
from backend.settings import Settings
from camvo.errors import CamvoError
from camvo.scores.guarantee import GRID, Guarantee


def build(
    connection: Connection,
    settings: Settings,
    *,
    now: float,
    live: Live | None = None,
    project: str | None = None,
) -> Report:
    """The report of every project, or of those that ``project`` names.

    Args:
        connection: a read transaction: the numbers are of one moment.
        settings: the server's.
        now: unix seconds.
        live: what the running server knows, where there is one.
        project: a project's key, or its number in Label Studio.
    """
    known = [one for one in projects.list_all(connection) if project in (None, one.key, _number(one.key))]
    day = accounts.balance(connection, accounts.EVERY_PROJECT, accounts.day_of(now))
    today = _budget(day, settings.budget.day_usd)
    made = [_project(connection, one, settings, live) for one in known]
    made.sort(
        key=lambda one: max((question.last_at for question in one.questions), default=0.0), reverse=True
    )
    server = None if live is None else live.server
    return Report(
        version=metadata.version("camvo"),
        model_version=settings.model_version,
        generated_at=now,
        alerts=alerts.of_server(server, today, now),
        server=server,
        today=today,
        projects=tuple(made),
    )


def _project(
    connection: Connection, stored: projects.Project, settings: Settings, live: Live | None
) -> Project:
    key = stored.key
    pool, unfit = _pool(stored, settings)
    skipped, unreadable = _skipped(stored)
    rounds = reports.sum_rounds(connection, key)
    calls = reports.sum_calls(connection, key)
    bins = reports.sum_scores(connection, key)
    humans = reports.sum_annotations(connection, key)
    account = accounts.balance(connection, key, accounts.TOTAL)
    shown, ours = stored.model_version, settings.model_version
    made = Project(
        key=key,
        id=_number(key),
        alerts=(),
        model_version=ModelVersion(shown, None if shown is None else shown == ours),
        rounds=sum(row.rounds for row in rounds),
        tasks_under_way=None if live is None else live.tasks_under_way.get(key, 0),
        calls_under_way=sum(row.calls for row in calls if row.under_way),
        webhook_at=None if live is None else live.webhook_at.get(key),
        humans=humans,
        cost=_cost(rounds, _budget(account, settings.budget.project_usd)),
        questions=_questions(rounds, reports.count_audits(connection, key, GRID), settings.guarantee),
        models=models.of_project(connection, key, calls, pool),
        audit=_reliability(row for row in bins if row.audit),
        reviewed=_reliability(row for row in bins if not row.audit),
        skipped=skipped,
    )
    return replace(made, alerts=alerts.of_project(made, ours, unfit, unreadable))


def _pool(stored: projects.Project, settings: Settings) -> tuple[list[str], CamvoError | None]:
    """The models that the project asks by now; all, and why, where its overrides do not fit any more."""
    try:
        return [model.name for model in settings.for_project(stored.extra_params).models], None
    except ConfigError as error:
        return [model.name for model in settings.models], error


def _skipped(stored: projects.Project) -> tuple[tuple[Skipped, ...], CamvoError | None]:
    """The controls without predictions; none, and why, where the label config cannot be read."""
    if stored.label_config is None:
        return (), None
    try:
        config = parse_label_config(stored.label_config)
    except BadLabelConfigError as error:
        return (), error
    return tuple(Skipped(one.control, one.tag, one.reason) for one in config.skipped), None


def _number(key: str) -> str:
    return key.partition(".")[0]


def _budget(account: accounts.Account, limit: float | None) -> Budget:
    spent, reserved = from_picodollars(account.spent), from_picodollars(account.reserved)
    left = None if limit is None else max(limit - spent - reserved, 0.0)
    return Budget(limit_usd=limit, spent_usd=spent, reserved_usd=reserved, left_usd=left)


def _cost(rounds: Sequence[RoundsRow], budget: Budget) -> Cost:
    paid, full = sum(row.cost_usd for row in rounds), sum(row.full_cost_usd for row in rounds)
    return Cost(budget, paid, full, 1.0 - paid / full if full > 0.0 else None)


def _questions(
    rounds: Sequence[RoundsRow], audits: Sequence[AuditRow], target: float
) -> tuple[QuestionReport, ...]:
    grouped: dict[tuple[str, str], list[RoundsRow]] = {}
    for row in rounds:
        grouped.setdefault((row.control, row.epoch), []).append(row)
    last: dict[str, float] = {}
    for row in rounds:
        last[row.control] = max(last.get(row.control, 0.0), row.last_at)
    made = []
    for (control, epoch), rows in grouped.items():
        last_at = max(row.last_at for row in rows)
        made.append(
            QuestionReport(
                control=control,
                epoch=epoch,
                current=last_at == last[control],
                rounds=sum(row.rounds for row in rows),
                last_at=last_at,
                audit=share((row.checked, row.confirmed) for row in rows if row.audit),
                reviewed=share((row.checked, row.confirmed) for row in rows if not row.audit),
                guarantee=_guaranteed(
                    [row for row in audits if (row.control, row.epoch) == (control, epoch)], target
                ),
            )
        )
    return tuple(sorted(made, key=lambda question: (question.control, -question.last_at)))


def _guaranteed(rows: Sequence[AuditRow], target: float) -> Guaranteed:
    """What the blind labels of one question certify; those of several on one task hang together."""
    guarantee = Guarantee(GRID, target)
    for row in rows:
        guarantee.counts[row.cell] = row.audits - row.confirmed, row.confirmed
    found = guarantee.certified()
    accepted = [row for row in rows if found and row.cell > guarantee.grid.index(found.threshold)]
    label_config, everything = sum(row.rounds for row in accepted), sum(row.rounds for row in rows)
    return Guaranteed(
        target=target,
        confidence=guarantee.confidence,
        threshold=found.threshold if found else None,
        low=found.bound if found else None,
        audits=sum(row.audits for row in accepted),
        right=sum(row.confirmed for row in accepted),
        labels=label_config,
        freed=label_config / everything if everything else 0.0,
    )


def _reliability(rows: Iterable[BinRow]) -> Reliability:
    found = {row.bin: row for row in rows}
    label_config = share((row.rounds, row.confirmed) for row in found.values())
    gaps = sum(abs(row.score - row.confirmed) for row in found.values())
    total = sum(row.score for row in found.values())
    return Reliability(
        labels=label_config,
        score=total / label_config.count if label_config.count else None,
        ece=gaps / label_config.count if label_config.count else None,
        bins=tuple(_bin(number, found.get(number)) for number in range(BINS)),
    )


def _bin(number: int, row: BinRow | None) -> Bin:
    low, high = number / BINS, (number + 1) / BINS
    if row is None:
        return Bin(low, high, 0, None, share(()))
    return Bin(low, high, row.rounds, row.score / row.rounds, share([(row.rounds, row.confirmed)]))

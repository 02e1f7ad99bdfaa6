"""Problems that concern all projects."""

from __future__ import annotations

from backend.server.status.alarms.budget import budget_alerts
from backend.server.status.report import Alert, Budget, ServerReport

RECENT = 86_400.0
"""Seconds for which a refused webhook is reported."""

_MOST_SKEW = 5.0
"""Seconds by which the host's clock may differ from the database's without a report."""

_HEADER = (
    "in the project's Settings → Webhooks add the header X-Camvo-Secret with CAMVO_WEBHOOK_SECRET to the "
    "webhook that ends in /webhook: Label Studio sends no basic auth with it"
)


def server_alerts(server: ServerReport | None, today: Budget, now: float) -> tuple[Alert, ...]:
    """The problems that concern all projects.

    Args:
        server: ``None`` without a running server.
        today: the money of this UTC day.
        now: unix seconds.
    """
    alerts = [] if server is None else [*_ledger_alerts(server), *_webhook_alerts(server, now)]
    fix = "raise budget.day_usd in camvo.yaml, or wait for the next UTC day"
    return (*alerts, *budget_alerts("day's", today, fix))


def _webhook_alerts(server: ServerReport, now: float) -> list[Alert]:
    """Webhooks that are or will be refused; Label Studio does not log a 401."""
    refused_at, count = server.webhook_refused_at, server.webhooks_refused
    if server.webhooks == "closed" and server.webhook_at is None:
        message = "No human answer arrives: Label Studio's webhooks carry no basic auth, and no secret is set"
        return [Alert("webhooks_closed", message, f"set CAMVO_WEBHOOK_SECRET, and {_HEADER}")]
    if refused_at is None or now - refused_at > RECENT:
        return []
    message = (
        f"Webhooks refused since the start: {count}. They lacked the secret, and their annotations are lost"
    )
    return [Alert("webhooks_refused", message, f"{_HEADER}; then save those annotations again")]


def _ledger_alerts(server: ServerReport) -> list[Alert]:
    alerts = []
    if server.unsettled:
        message = f"{server.unsettled} paid answers wait in memory, since the ledger cannot be written"
        fix = "look for ledger_down in the log, and do not stop the server before they are stored"
        alerts.append(Alert("answers_unsettled", message, fix))
    if server.clock_skew is not None and abs(server.clock_skew) > _MOST_SKEW:
        ahead = "ahead of" if server.clock_skew > 0 else "behind"
        message = f"The clock of this host is {abs(server.clock_skew):.0f} s {ahead} the database's"
        fix = "synchronise both clocks: times in reports differ, though nothing is bought twice"
        alerts.append(Alert("clock_skew", message, fix))
    return alerts

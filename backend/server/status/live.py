"""What only a running server knows, for its report: read from its metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from prometheus_client.samples import Sample

from backend.server.status.report import ServerReport
from backend.settings import Environment
from backend.telemetry import metrics


@dataclass(frozen=True, slots=True)
class Live:
    """The running server: its own part of the report, and counts and times by project."""

    server: ServerReport
    tasks_under_way: Mapping[str, int]
    webhook_at: Mapping[str, float]


def read_live(environment: Environment) -> Live:
    """Read the metrics of the server that runs in this environment."""
    samples = metrics.samples(several_processes=environment.prometheus_multiproc_dir is not None)
    webhook_at = _by_label("project", samples.get("camvo_webhook_last_timestamp_seconds", []))
    under_way = _by_label("project", samples.get("camvo_tasks_under_way", []))
    tasks = _by_label("outcome", samples.get("camvo_tasks_total", []))
    requests = samples.get("camvo_requests_total", [])
    webhooks = [sample for sample in requests if sample.labels["endpoint"] == "/webhook"]
    server = ServerReport(
        started_at=_gauge(samples.get("camvo_started_timestamp_seconds", [])) or 0.0,
        webhooks=_webhook_access(environment),
        tasks={outcome: int(count) for outcome, count in tasks.items()},
        webhook_at=max(webhook_at.values(), default=None),
        webhooks_refused=int(_by_label("status", webhooks).get("401", 0)),
        webhook_refused_at=_gauge(samples.get("camvo_webhook_refused_last_timestamp_seconds", [])),
        unsettled=int(_gauge(samples.get("camvo_unsettled_answers", [])) or 0),
        clock_skew=_gauge(samples.get("camvo_clock_skew_seconds", [])),
    )
    return Live(
        server=server,
        tasks_under_way={project: int(count) for project, count in under_way.items()},
        webhook_at=webhook_at,
    )


def _webhook_access(environment: Environment) -> Literal["open", "guarded", "closed"]:
    """Who can send a webhook; Label Studio's webhooks carry no basic auth."""
    if environment.webhook_secret is not None:
        return "guarded"
    return "open" if environment.basic_auth_user is None else "closed"


def _gauge(samples: Sequence[Sample]) -> float | None:
    """The value of a gauge without labels; ``None`` before it is set."""
    return next((sample.value for sample in samples if sample.value), None)


def _by_label(label: str, samples: Sequence[Sample]) -> dict[str, float]:
    return {sample.labels[label]: sample.value for sample in samples}

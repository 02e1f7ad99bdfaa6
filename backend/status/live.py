"""What only a running server knows, read from the metrics that its worker processes share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from prometheus_client.metrics_core import Metric

from backend import metrics
from backend.settings import Environment
from backend.status.report import Server


@dataclass(frozen=True, slots=True)
class Live:
    """The server, and by project the tasks under way and the time of the last webhook."""

    server: Server
    tasks_under_way: Mapping[str, int]
    webhook_at: Mapping[str, float]


def read(environment: Environment) -> Live:
    """What the server of ``environment`` knows now."""
    found = metrics.current(several_processes=environment.prometheus_multiproc_dir is not None)
    refused = _totals(found["camvo_requests"], "status", endpoint="/webhook").get("401", 0.0)
    webhook_at = _by_project(found["camvo_webhook_last_timestamp_seconds"])
    server = Server(
        started_at=_value(found["camvo_started_timestamp_seconds"]) or 0.0,
        webhooks=_door(environment),
        tasks={outcome: int(count) for outcome, count in _totals(found["camvo_tasks"], "outcome").items()},
        webhook_at=max(webhook_at.values(), default=None),
        webhooks_refused=int(refused),
        webhook_refused_at=_value(found["camvo_webhook_refused_last_timestamp_seconds"]),
    )
    under_way = _by_project(found["camvo_tasks_under_way"])
    return Live(
        server=server,
        tasks_under_way={project: int(count) for project, count in under_way.items()},
        webhook_at=webhook_at,
    )


def _door(environment: Environment) -> Literal["open", "guarded", "closed"]:
    """Who can send a webhook; Label Studio's carry no basic auth."""
    if environment.webhook_secret is not None:
        return "guarded"
    return "open" if environment.basic_auth_user is None else "closed"


def _value(metric: Metric) -> float | None:
    """The value of a gauge without labels; ``None`` before it was set."""
    return next((sample.value for sample in metric.samples if sample.value), None)


def _totals(metric: Metric, by: str, **wanted: str) -> dict[str, float]:
    """A counter by one of its labels, where the others are as ``wanted``."""
    return {
        sample.labels[by]: sample.value
        for sample in metric.samples
        if sample.name.endswith("_total") and wanted.items() <= sample.labels.items()
    }


def _by_project(metric: Metric) -> dict[str, float]:
    return {sample.labels["project"]: sample.value for sample in metric.samples}

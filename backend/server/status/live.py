"""What only a running server knows, read from the metrics that its worker processes share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from prometheus_client.samples import Sample

from backend.server.status.report import Server
from backend.settings import Environment
from backend.telemetry import metrics


@dataclass(frozen=True, slots=True)
class Live:
    """The server, and by project the tasks under way and the time of the last webhook."""

    server: Server
    tasks_under_way: Mapping[str, int]
    webhook_at: Mapping[str, float]


def read(environment: Environment) -> Live:
    """What the server of ``environment`` knows now."""
    found = metrics.samples(several_processes=environment.prometheus_multiproc_dir is not None)
    webhook_at = _by("project", found.get("camvo_webhook_last_timestamp_seconds", []))
    under_way = _by("project", found.get("camvo_tasks_under_way", []))
    tasks = _by("outcome", found.get("camvo_tasks_total", []))
    answers = [one for one in found.get("camvo_requests_total", []) if one.labels["endpoint"] == "/webhook"]
    server = Server(
        started_at=_only(found.get("camvo_started_timestamp_seconds", [])) or 0.0,
        webhooks=_door(environment),
        tasks={outcome: int(count) for outcome, count in tasks.items()},
        webhook_at=max(webhook_at.values(), default=None),
        webhooks_refused=int(_by("status", answers).get("401", 0)),
        webhook_refused_at=_only(found.get("camvo_webhook_refused_last_timestamp_seconds", [])),
    )
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


def _only(samples: Sequence[Sample]) -> float | None:
    """The value of a gauge without labels; ``None`` before it was set."""
    return next((sample.value for sample in samples if sample.value), None)


def _by(label: str, samples: Sequence[Sample]) -> dict[str, float]:
    return {sample.labels[label]: sample.value for sample in samples}

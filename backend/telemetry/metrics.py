"""What Prometheus sees. Labels are configured names and stable codes, never anything of a task."""

from __future__ import annotations

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.samples import Sample

model_calls = Counter("camvo_model_calls", "Calls to a model, by how they ended.", ["model", "outcome"])
model_dollars = Counter("camvo_model_dollars", "Dollars paid to a model.", ["model"])
model_seconds = Histogram(
    "camvo_model_seconds",
    "Seconds that calls to a model took.",
    ["model"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
answers_reused = Counter("camvo_answers_reused", "Answers found in the ledger, paid for before.", ["model"])
votes_missing = Counter("camvo_votes_missing", "Models asked that gave no vote, by why.", ["model", "reason"])
rounds = Counter("camvo_rounds", "Finished rounds.", ["project", "control"])
asked = Counter("camvo_rounds_models_asked", "Models asked in finished rounds.", ["project", "control"])
tasks = Counter("camvo_tasks", "Tasks of prediction requests, by how they ended.", ["outcome"])
events = Counter("camvo_webhooks", "Webhooks received, by Label Studio's action.", ["action"])
feedback = Counter("camvo_revisions", "Rounds whose rewards a human answer changed.", ["project"])
requests = Counter("camvo_requests", "HTTP requests, by endpoint and status.", ["endpoint", "status"])
under_way = Gauge(
    "camvo_tasks_under_way",
    "Tasks that are worked on, or wait their turn.",
    ["project"],
    multiprocess_mode="livesum",
)
webhook_at = Gauge(
    "camvo_webhook_last_timestamp_seconds",
    "When the last webhook about a project was accepted.",
    ["project"],
    multiprocess_mode="max",
)
webhook_refused_at = Gauge(
    "camvo_webhook_refused_last_timestamp_seconds",
    "When the last webhook was refused for its credentials.",
    multiprocess_mode="max",
)
started_at = Gauge("camvo_started_timestamp_seconds", "When the server started.", multiprocess_mode="min")


def exposition(*, several_processes: bool) -> bytes:
    """The metrics in Prometheus' text format, summed over the worker processes when there are several."""
    return generate_latest(_registry(several_processes))


def samples(*, several_processes: bool) -> dict[str, list[Sample]]:
    """What :func:`exposition` says, as values by name; a name is absent before anything was counted."""
    found: dict[str, list[Sample]] = {}
    for metric in _registry(several_processes).collect():
        for sample in metric.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


def _registry(several_processes: bool) -> CollectorRegistry:
    if not several_processes:
        return REGISTRY
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return registry

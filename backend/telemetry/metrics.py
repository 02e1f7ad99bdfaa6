"""Prometheus metrics. Labels are configured names and stable codes, never data of a task."""

from __future__ import annotations

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.samples import Sample

model_calls = Counter("camvo_model_calls", "Calls to a model, by outcome.", ["model", "outcome"])
model_dollars = Counter("camvo_model_dollars", "Dollars paid to a model.", ["model"])
model_seconds = Histogram(
    "camvo_model_seconds",
    "Duration of calls to a model, in seconds.",
    ["model"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60),
)
model_rate = Gauge(
    "camvo_model_rate",
    "Requests per minute that a model is sent at most by all processes; absent while no limit is known.",
    ["model"],
    multiprocess_mode="mostrecent",
)
model_refused = Counter("camvo_model_refused", "Calls that a provider refused with HTTP 429.", ["model"])
answers_reused = Counter(
    "camvo_answers_reused", "Answers taken from the ledger instead of a new call.", ["model"]
)
packed_tasks = Counter(
    "camvo_packed_tasks",
    "Tasks in prompts about several, by whether their part could be read.",
    ["model", "outcome"],
)
votes_missing = Counter(
    "camvo_votes_missing",
    "Votes that a model was asked for and did not give, by reason.",
    ["model", "reason"],
)
usage_capped = Counter(
    "camvo_usage_capped",
    "Answers whose reported tokens exceeded what the call could take, by input and output.",
    ["model", "direction"],
)
rounds = Counter("camvo_rounds", "Finished rounds.", ["project", "control"])
models_asked = Counter(
    "camvo_rounds_models_asked", "Models asked in finished rounds.", ["project", "control"]
)
tasks = Counter("camvo_tasks", "Tasks of prediction requests, by outcome.", ["outcome"])
webhooks = Counter("camvo_webhooks", "Webhooks received, by Label Studio's action.", ["action"])
revisions = Counter("camvo_revisions", "Rounds whose rewards a human label changed.", ["project"])
feedback_refused = Counter(
    "camvo_feedback_refused", "Human labels of pruned rounds, which teach nothing.", ["project"]
)
requests = Counter("camvo_requests", "HTTP requests, by endpoint and status.", ["endpoint", "status"])
tasks_under_way = Gauge(
    "camvo_tasks_under_way", "Tasks being processed or waiting.", ["project"], multiprocess_mode="livesum"
)
unsettled_answers = Gauge(
    "camvo_unsettled_answers",
    "Paid answers that wait in memory until the database is back.",
    multiprocess_mode="livesum",
)
clock_skew = Gauge(
    "camvo_clock_skew_seconds",
    "How far this host's clock is ahead of the database's.",
    multiprocess_mode="livemostrecent",
)
alerts = Gauge(
    "camvo_alerts",
    "Alarms that are open, by project and code; 0 once they are over.",
    ["project", "code"],
    multiprocess_mode="mostrecent",
)
last_webhook_at = Gauge(
    "camvo_webhook_last_timestamp_seconds",
    "Unix time of the last accepted webhook of a project.",
    ["project"],
    multiprocess_mode="max",
)
last_refused_webhook_at = Gauge(
    "camvo_webhook_refused_last_timestamp_seconds",
    "Unix time of the last webhook refused for its credentials.",
    multiprocess_mode="max",
)
started_at = Gauge(
    "camvo_started_timestamp_seconds", "Unix time at which the server started.", multiprocess_mode="min"
)


def exposition(*, several_processes: bool) -> bytes:
    """Return the metrics in Prometheus' text format."""
    return generate_latest(_registry(several_processes))


def samples(*, several_processes: bool) -> dict[str, list[Sample]]:
    """Return the samples of :func:`exposition` by name; a name is absent before its first sample."""
    by_name: dict[str, list[Sample]] = {}
    for metric in _registry(several_processes).collect():
        for sample in metric.samples:
            by_name.setdefault(sample.name, []).append(sample)
    return by_name


def _registry(several_processes: bool) -> CollectorRegistry:
    if not several_processes:
        return REGISTRY
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return registry

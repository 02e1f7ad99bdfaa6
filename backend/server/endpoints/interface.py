"""What Label Studio 1.23 requests of an ML backend."""

from __future__ import annotations

import threading

from flask import Blueprint, Response, jsonify, request

from backend.label_studio import payloads, webhooks
from backend.label_studio.prediction import without_lists
from backend.learning.actions import ACTIONS
from backend.questions import parse_label_config
from backend.server import request_bodies
from backend.server.endpoints.serving import refuse_too_many, runtime
from backend.telemetry import metrics, tracing

interface = Blueprint("interface", __name__)

_KNOWN_ACTIONS = {*ACTIONS, webhooks.START_TRAINING}

_TURNS = threading.BoundedSemaphore(2)
"""Requests for predictions that are read or written at once in a process.

Hundreds of predictions may wait, but few compute: each thread that does keeps a webhook waiting.
"""


@interface.get("/")
@interface.get("/health")
def health() -> Response:
    """Say that the process answers; Label Studio asks this before everything else."""
    return jsonify(status="UP", model_class="CaMVo", model_version=runtime().settings.model_version)


@interface.post("/setup")
def setup() -> Response:
    """Take note of a project and of its label config when it is connected or changed."""
    body = payloads.parse_request(payloads.SetupRequest, request_bodies.json_object(request))
    runtime().projects.remember(body.project, body.extra_params, body.label_config, body.hostname)
    return jsonify(model_version=runtime().settings.model_version)


@interface.post("/predict")
def predict() -> Response:
    """Label tasks: plan, ask models, vote. An interactive request is from a person who opened a task."""
    with _TURNS:
        body = payloads.parse_request(payloads.PredictRequest, request_bodies.json_object(request))
        refuse_too_many(len(body.tasks))
        config = parse_label_config(body.label_config)
        runtime().projects.note_predicted(body.project, config, body.label_config)
        if body.tasks_of_project is not None:
            runtime().projects.remember_tasks(body.project, body.tasks_of_project)
        with tracing.request(request.headers.items()):
            answers = runtime().predict(
                body.project,
                config,
                body.tasks,
                again=body.again,
                stored_only=body.stored_only,
                terms=body.job,
            )
    finished = answers.result()
    with _TURNS:
        results = [answer.prediction for answer in finished]
        return jsonify(
            results=without_lists(results) if body.interactive else results,
            # Label Studio ignores further keys; camvo predict reads this one.
            reasons=[None if each.reason is None else each.reason.as_json() for each in finished],
        )


@interface.post("/webhook")
def webhook() -> Response:
    """Learn from what people did: annotations made, changed and deleted, deleted tasks, training."""
    event = webhooks.parse_webhook(request_bodies.json_object(request))
    metrics.webhooks.labels(action=event.action if event.action in _KNOWN_ACTIONS else "OTHER").inc()
    runtime().learn(event)
    if event.action != webhooks.START_TRAINING:  # sent with basic auth, so webhooks may still fail
        metrics.last_webhook_at.labels(project=event.project_key).set(runtime().clock())
    return jsonify(status="ok")


@interface.route("/versions", methods=["GET", "POST"])
def versions() -> Response:
    """Name the one version of the model that there is."""
    return jsonify(versions=[runtime().settings.model_version])

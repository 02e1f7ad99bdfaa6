"""The Flask application: the HTTP interface of Label Studio 1.23's ML backends, and CaMVo's own pages."""

from __future__ import annotations

import dataclasses
import threading

import structlog
from flask import Flask, Response, jsonify, request

from backend import settings
from backend.errors import BodyTooLargeError, UnauthorizedError
from backend.label_studio import payloads, webhooks
from backend.label_studio.prediction import without_lists
from backend.learning.actions import ACTIONS
from backend.ledger.database.clock import now
from backend.ledger.recounts import countings
from backend.ledger.recounts import rows as recounts
from backend.models.embedder.embedder import Embedder
from backend.questions import parse_label_config
from backend.server import access, request_bodies
from backend.server.refusals import register_refusals
from backend.server.runtime import Runtime
from backend.server.status import page
from backend.server.status.build import build_report, selected_projects
from backend.server.status.live import read_live
from backend.server.status.parts.failed import failed_task_list
from backend.server.status.run_progress import project_progress
from backend.settings import Environment
from backend.telemetry import logs, metrics, tracing

_KNOWN_ACTIONS = {*ACTIONS, webhooks.START_TRAINING}

_STATUS_TYPES = ["application/json", "text/html"]

_OPEN = frozenset({"/", "/health", "/ready"})
"""What asks for no credentials: neither Label Studio nor an orchestrator sends any to a probe."""

_TURNS = 2
"""Requests for predictions that are read or written at once in a process."""

_log = structlog.get_logger(__name__)


def create_app(environment: Environment | None = None, embedder: Embedder | None = None) -> Flask:
    """Create the application of one worker process and start its runtime; called after the fork.

    Args:
        environment: the environment to use instead of the process's own.
        embedder: an embedder to use instead of a new one.

    Raises:
        CamvoError: the settings are wrong, or the ledger cannot be opened.
    """
    environment = environment or Environment()
    logs.configure(environment.log_level)
    runtime = Runtime(settings.load(environment.config), environment, embedder=embedder)
    app = Flask("camvo")
    app.config["MAX_CONTENT_LENGTH"] = environment.max_body_mb * 1_000_000
    app.extensions["camvo"] = runtime
    _register_interface(app, runtime, environment)
    _register_commands(app, runtime, environment)
    _register_pages(app, runtime, environment)
    _register_guards(app, runtime, environment)
    register_refusals(app, environment)
    _warn_if_open(environment)
    return app


def _warn_if_open(environment: Environment) -> None:
    """Log at start-up if anybody can use the server, or if webhooks will be refused."""
    if environment.basic_auth_user is None:
        _log.warning(
            "no_authentication",
            fix="set BASIC_AUTH_USER and BASIC_AUTH_PASS: anybody can spend your money",
        )
    if environment.webhook_secret is None:
        refused = environment.basic_auth_user is not None
        event = "webhooks_will_be_refused" if refused else "webhooks_unguarded"
        _log.warning(
            event, fix=f"set CAMVO_WEBHOOK_SECRET, and the header {webhooks.WEBHOOK_HEADER} in Label Studio"
        )


def _register_interface(app: Flask, runtime: Runtime, environment: Environment) -> None:
    """Register what Label Studio requests of an ML backend."""
    version = runtime.settings.model_version
    # Hundreds of predictions may wait, but few compute: each thread that does keeps a webhook waiting.
    turns = threading.BoundedSemaphore(_TURNS)

    @app.get("/")
    @app.get("/health")
    def health() -> Response:
        return jsonify(status="UP", model_class="CaMVo", model_version=version)

    @app.post("/setup")
    def setup() -> Response:
        body = payloads.parse_request(payloads.SetupRequest, request_bodies.json_object(request))
        runtime.projects.remember(body.project, body.extra_params, body.label_config, body.hostname)
        return jsonify(model_version=version)

    @app.post("/predict")
    def predict() -> Response:
        with turns:
            body = payloads.parse_request(payloads.PredictRequest, request_bodies.json_object(request))
            if len(body.tasks) > environment.max_tasks:
                raise _too_many(len(body.tasks), environment)
            config = parse_label_config(body.label_config)
            runtime.projects.note_predicted(body.project, config, body.label_config)
            if body.tasks_of_project is not None:
                runtime.projects.remember_tasks(body.project, body.tasks_of_project)
            with tracing.request(request.headers.items()):
                answers = runtime.predict(
                    body.project,
                    config,
                    body.tasks,
                    again=body.again,
                    stored_only=body.stored_only,
                    terms=body.job,
                )
        finished = answers.result()
        with turns:
            results = [answer.prediction for answer in finished]
            return jsonify(
                results=without_lists(results) if body.interactive else results,
                # Label Studio ignores further keys; camvo predict reads this one.
                reasons=[None if each.reason is None else each.reason.as_json() for each in finished],
            )

    @app.post("/webhook")
    def webhook() -> Response:
        event = webhooks.parse_webhook(request_bodies.json_object(request))
        metrics.webhooks.labels(action=event.action if event.action in _KNOWN_ACTIONS else "OTHER").inc()
        runtime.learn(event)
        if event.action != webhooks.START_TRAINING:  # sent with basic auth, so webhooks may still fail
            metrics.last_webhook_at.labels(project=event.project_key).set(runtime.clock())
        return jsonify(status="ok")

    @app.route("/versions", methods=["GET", "POST"])
    def versions() -> Response:
        return jsonify(versions=[version])


def _too_many(tasks: int, environment: Environment) -> BodyTooLargeError:
    return BodyTooLargeError(
        f"{tasks} tasks in one request, at most {environment.max_tasks} are taken",
        where="body.tasks",
        fix="select fewer tasks or raise CAMVO_MAX_TASKS",
    )


def _register_commands(app: Flask, runtime: Runtime, environment: Environment) -> None:
    """Register what ``camvo predict`` requests: its quote, recounts, and further votes."""

    @app.post("/quote")
    def quote() -> Response:
        body = payloads.parse_request(payloads.QuoteRequest, request_bodies.json_object(request))
        if len(body.tasks) > environment.max_tasks:
            raise _too_many(len(body.tasks), environment)
        config = parse_label_config(body.label_config)
        if body.counted is None:
            counted, example = runtime.quotes.count(body.project, config, body.tasks)
            return jsonify(counted=counted, example=example)
        try:
            made = runtime.quotes.quote(body.project, config, body.tasks, body.counted)
        except TimeoutError:
            return jsonify(done=False)
        return jsonify(done=True, quote=made.to_json())

    @app.post("/recount")
    def recount() -> Response:
        body = payloads.parse_request(payloads.RecountRequest, request_bodies.json_object(request))
        try:
            counting = runtime.recount(body.project)
        except TimeoutError:
            return jsonify(done=False)
        return jsonify(done=True, counting=None if counting is None else dataclasses.asdict(counting))

    @app.post("/doubts")
    def doubts() -> Response:
        body = payloads.parse_request(payloads.DoubtsRequest, request_bodies.json_object(request))
        try:
            found, spent = runtime.doubts(body.project, body.usd, body.most)
        except TimeoutError:
            return jsonify(done=False)
        return jsonify(done=True, spent_usd=spent, **dataclasses.asdict(found))

    @app.post("/ask_more")
    def ask_more() -> Response:
        body = payloads.parse_request(payloads.AskMoreRequest, request_bodies.json_object(request))
        if len(body.tasks) > environment.max_tasks:
            raise _too_many(len(body.tasks), environment)
        config = parse_label_config(body.label_config)
        portion = runtime.ask_more(body.project, config, body.tasks, usd=body.usd, worth_usd=1.0 / body.least)
        return jsonify(**dataclasses.asdict(portion))

    @app.get("/recounted")
    def recounted() -> Response:
        project, after = request.args.get("project", ""), request.args.get("after", 0, type=int)
        with runtime.ledger.read() as connection:
            tasks = recounts.pending(connection, project, after=after)
            through = countings.next_number(connection, project) - 1
        return jsonify(tasks=tasks, through=through)

    @app.post("/recounted")
    def delivered() -> Response:
        body = payloads.parse_request(payloads.DeliveredRequest, request_bodies.json_object(request))
        runtime.delivered(body.project, body.tasks, body.through)
        return jsonify(status="ok")


def _register_pages(app: Flask, runtime: Runtime, environment: Environment) -> None:
    """Register CaMVo's own pages, for people and for monitoring."""

    @app.get("/status")
    def status() -> Response:
        live, asked = read_live(environment), request.args.get("project")
        with runtime.ledger.read() as connection:
            report = build_report(
                connection,
                runtime.settings,
                now=now(connection),
                live=live,
                project=asked,
                label_studio=environment.label_studio_url,
                annotators=runtime.settings.show_annotators and environment.basic_auth_user is not None,
            )
        if _wants_html():
            answer = Response(
                page.render_page(report, overview=asked is None and len(report.projects) > 1),
                content_type="text/html; charset=utf-8",
            )
        else:
            answer = jsonify(dataclasses.asdict(report))
        answer.headers.update({**page.HEADERS, "Vary": "Accept"})
        return answer

    @app.get("/failed")
    def failed() -> Response:
        first, last = request.args.get("first"), request.args.get("last")
        with runtime.ledger.read() as connection:
            keys = [stored.key for stored in selected_projects(connection, request.args.get("project", ""))]
            return jsonify(failed_task_list(connection, keys, first, last))

    @app.get("/progress")
    def progress() -> Response:
        first, last, after = (request.args.get(name) for name in ("first", "last", "after"))
        with runtime.ledger.read() as connection:
            return jsonify(project_progress(connection, request.args.get("project", ""), first, last, after))

    @app.get("/metrics")
    def exposition() -> Response:
        text = metrics.exposition(several_processes=environment.prometheus_multiproc_dir is not None)
        return Response(text, content_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/ready")
    def ready() -> tuple[Response, int]:
        if request.args.get("part") == "embedder":  # a start must not end because the database is down
            return jsonify(embedder=runtime.embedder.loaded), 200 if runtime.embedder.loaded else 503
        parts = runtime.ready()
        # A key is missing on every host alike, and the other models still vote: it must not stop the service.
        return jsonify(parts), 200 if parts["ledger"] and parts["embedder"] else 503


def _register_guards(app: Flask, runtime: Runtime, environment: Environment) -> None:
    @app.before_request
    def authorise() -> None:
        if request.path in _OPEN or access.is_authorised(request, environment):
            return
        if request.path == "/webhook" and request.method == "POST":
            metrics.last_refused_webhook_at.set(runtime.clock())
        raise UnauthorizedError(
            "credentials are missing or wrong",
            where=request.path,
            fix=f"use basic auth, or for /webhook the header {webhooks.WEBHOOK_HEADER}",
        )

    @app.after_request
    def count(response: Response) -> Response:
        endpoint = request.url_rule.rule if request.url_rule else "unknown"
        metrics.requests.labels(endpoint=endpoint, status=str(response.status_code)).inc()
        return response


def _wants_html() -> bool:
    """Whether to answer in HTML. Browsers ask for it; programs ask for JSON or accept anything."""
    media_type = request.args.get("format") or request.accept_mimetypes.best_match(_STATUS_TYPES)
    return media_type in ("html", "text/html")

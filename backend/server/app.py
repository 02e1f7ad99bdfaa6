"""The Flask application: the HTTP interface of Label Studio 1.23's ML backends, and CaMVo's own pages."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import threading
from concurrent.futures import Future
from typing import Any, TypeVar, cast

import structlog
from flask import Blueprint, Flask, Request, Response, current_app, jsonify, request
from sqlalchemy import Connection
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from backend import settings
from backend.errors import (
    BadBodyError,
    BodyTooLargeError,
    BusyError,
    ConfigError,
    LedgerError,
    NotShownError,
    ProjectUnknownError,
    RequestError,
    UnauthorizedError,
)
from backend.label_studio import payloads
from backend.label_studio.client import Client
from backend.label_studio.predictions import without_lists
from backend.learning.actions import ACTIONS
from backend.learning.projects import project_settings
from backend.ledger.database.statements import now
from backend.ledger.missing_votes import Mark
from backend.ledger.projects import Project, is_of_label_studio
from backend.ledger.recounts import Recounts
from backend.ledger.rounds import IncompleteRounds
from backend.questions import LabelConfig, parse_label_config
from backend.server.incoming import WEBHOOK, may_enter, no_entry
from backend.server.runtime import STANDSTILL, Runtime
from backend.server.status import build
from backend.server.status.build import build_report, missing_report, read_live, selected_projects
from backend.server.status.formats import named_task
from backend.server.status.work import failed_task_list, project_progress
from backend.settings import Environment
from backend.telemetry import logs, metrics, tracing
from camvo.errors import CamvoError

_T = TypeVar("_T")

_DEPTH = 100
"""Levels of nesting that are read; Label Studio's payloads have fewer than ten beside a task's own data."""

_KEY = "camvo.json"


def _json_object(request: Request) -> dict[str, Any]:
    """The JSON object in a request's body."""
    body = _json_value(request)
    if not isinstance(body, dict):
        raise BadBodyError("the body is not a JSON object", where="body", fix="send what Label Studio sends")
    return body


def _json_value(request: Request) -> Any:
    """The JSON value in a request's body, read once; ``None`` if it is malformed or nested too deeply."""
    if _KEY not in request.environ:
        request.environ[_KEY] = _read(request.get_data())
    return request.environ[_KEY]


def _read(data: bytes) -> Any:
    try:
        return _storable(
            json.loads(data.decode(), parse_constant=lambda _: None, parse_float=_finite), _DEPTH
        )
    except (ValueError, RecursionError):
        return None


def _finite(digits: str) -> float | None:
    number = float(digits)
    return number if math.isfinite(number) else None


def _storable(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return _storable_text(value)
    if isinstance(value, dict | list) and depth == 0:
        raise ValueError("nested too deeply")
    if isinstance(value, dict):
        return {_storable_text(key): _storable(entry, depth - 1) for key, entry in value.items()}
    return [_storable(entry, depth - 1) for entry in value] if isinstance(value, list) else value


def _storable_text(text: str) -> str:
    if not text.isascii():
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text.replace("\0", "\ufffd")


def _is_training(request: Request) -> bool:
    body = _json_value(request)
    return isinstance(body, dict) and body.get("action") == payloads.START_TRAINING


_RUNTIME, _ENVIRONMENT = "camvo", "camvo_environment"


def _runtime() -> Runtime:
    """The runtime of the application that answers the current request."""
    return cast("Runtime", current_app.extensions[_RUNTIME])


def _environment() -> Environment:
    """The environment of the application that answers the current request."""
    return cast("Environment", current_app.extensions[_ENVIRONMENT])


def _query_number(name: str) -> int | None:
    """A whole number in the query of the current request; ``None`` if it is absent."""
    sent = request.args.get(name)
    if sent is None:
        return None
    if not (sent.isascii() and sent.isdigit() and len(sent) < 19):  # a larger one is no 64-bit integer
        raise BadBodyError(f"{name} is not a number of at most 18 digits", where=name, fix="send digits only")
    return int(sent)


def _asked_projects(connection: Connection) -> list[Project]:
    """The projects that the query names by their key, or by their number in Label Studio."""
    name = request.args.get("project")
    if not name:
        raise BadBodyError("the query names no project", where="project", fix="for example ?project=7")
    known = selected_projects(connection, name)
    if not known:
        raise ProjectUnknownError(
            "the ledger knows no such project",
            where="project",
            fix="use a number or key of /status, which has every project that was connected or predicted",
        )
    return known


def _asked_project(connection: Connection) -> Project:
    """The project that the query names; of several Label Studios, the one that was in use last."""
    return max(_asked_projects(connection), key=lambda project: project.updated_at)


def _refuse_too_many(tasks: int) -> None:
    """Refuse a request with more tasks than ``CAMVO_MAX_TASKS``."""
    if tasks > _environment().max_tasks:
        raise BodyTooLargeError(
            f"{tasks} tasks in one request, at most {_environment().max_tasks} are taken",
            where="body.tasks",
            fix="select fewer tasks or raise CAMVO_MAX_TASKS",
        )


_commands = Blueprint("commands", __name__)


@_commands.post("/quote")
def _quote() -> Response:
    """Count a portion of the tasks, or make the quote for a project whose portions were counted."""
    body = payloads.parse_request(payloads.QuoteRequest, _json_object(request))
    _refuse_too_many(len(body.tasks))
    config, quotes = parse_label_config(body.label_config), _runtime().quotes
    if body.instructions is not None:
        _runtime().projects.remember_instructions(body.project, body.instructions)
    if body.counted is None:
        counted, example = quotes.count(body.project, config, body.tasks, body.below)
        return jsonify(counted=counted, example=example)
    try:
        made = quotes.quote(body.project, config, body.tasks, body.counted)
    except TimeoutError:
        return jsonify(done=False)
    return jsonify(done=True, quote=made.to_json())


@_commands.post("/recount")
def _recount() -> Response:
    """Recount a project's stored votes. A long recount continues, and the caller asks again."""
    body = payloads.parse_request(payloads.RecountRequest, _json_object(request))
    try:
        counting = _runtime().recount(body.project)
    except TimeoutError:
        return jsonify(done=False)
    return jsonify(done=True, counting=None if counting is None else dataclasses.asdict(counting))


@_commands.post("/doubts")
def _doubts() -> Response:
    """Name the tasks on which further votes bring the most right labels per dollar."""
    body = payloads.parse_request(payloads.DoubtsRequest, _json_object(request))
    try:
        found, spent = _runtime().doubts(body.project, body.usd, body.most)
    except TimeoutError:
        return jsonify(done=False)
    return jsonify(done=True, spent_usd=spent, **dataclasses.asdict(found))


@_commands.post("/ask_more")
def _ask_more() -> Response:
    """Buy further votes on a portion of such tasks."""
    body = payloads.parse_request(payloads.AskMoreRequest, _json_object(request))
    _refuse_too_many(len(body.tasks))
    config, worth_usd = parse_label_config(body.label_config), 1.0 / body.least
    runtime = _runtime()
    portion = _in_time(
        runtime.ask_more(body.project, config, body.tasks, usd=body.usd, worth_usd=worth_usd),
        runtime.settings.deadline + runtime.settings.longest_call,
    )
    return jsonify(**dataclasses.asdict(portion))


@_commands.get("/incomplete")
def _incomplete() -> Response:
    """Name the tasks whose rounds lack a vote that may still come."""
    with _runtime().ledger.read() as connection:
        return jsonify(tasks=IncompleteRounds(connection, _asked_project(connection).key).tasks())


@_commands.post("/complete")
def _complete() -> Response:
    """Ask for the missing votes of a portion of such tasks."""
    body = payloads.parse_request(payloads.CompleteRequest, _json_object(request))
    _refuse_too_many(len(body.tasks))
    config, runtime = parse_label_config(body.label_config), _runtime()
    portion, counting = _in_time(
        runtime.complete(body.project, config, body.tasks, body.purse),
        runtime.settings.deadline + runtime.settings.longest_call,
    )
    return jsonify(**dataclasses.asdict(portion), labels=0 if counting is None else counting.labels)


@_commands.get("/recounted")
def _recounted() -> Response:
    """Name the tasks whose predictions in Label Studio are older than the last recount."""
    after = _query_number("after") or 0
    with _runtime().ledger.read() as connection:
        recounted = Recounts(connection, _asked_project(connection).key)
        tasks, pending = recounted.pending(after=after), recounted.count_pending()
        through = recounted.latest_number()
    return jsonify(tasks=tasks, through=through, pending=pending)


@_commands.post("/recounted")
def _delivered() -> Response:
    """Record the tasks whose predictions the caller has replaced."""
    body = payloads.parse_request(payloads.DeliveredRequest, _json_object(request))
    _runtime().delivered(body.project, body.tasks, body.through)
    return jsonify(status="ok")


def _in_time(answers: Future[_T], seconds: float) -> _T:
    """What the event loop answers within some seconds, which it keeps to itself unless it stands still."""
    try:
        return answers.result(seconds + STANDSTILL)
    except TimeoutError:
        raise BusyError.now("the process is computing something long") from None


_interface = Blueprint("interface", __name__)

_KNOWN_ACTIONS = {*ACTIONS, payloads.START_TRAINING}

_TURNS = threading.BoundedSemaphore(2)
"""Requests for predictions that are read or written at once in a process.

Hundreds of predictions may wait, but few compute: each thread that does keeps a webhook waiting. What waits
for Label Studio or for the database is done between turns.
"""


@_interface.get("/")
@_interface.get("/health")
def _health() -> Response:
    """Report that the process answers; Label Studio requests this before everything else."""
    return jsonify(status="UP", model_class="CaMVo", model_version=_runtime().settings.model_version)


@_interface.post("/setup")
def _setup() -> Response:
    """Record a project and its label config when it is connected or changed."""
    body = payloads.parse_request(payloads.SetupRequest, _json_object(request))
    _runtime().projects.remember(body.project, body.extra_params, body.label_config, body.hostname)
    return jsonify(model_version=_runtime().settings.model_version)


@_interface.post("/predict")
def _predict() -> Response:
    """Label tasks: plan, ask models, vote. An interactive request is from a person who opened a task."""
    with _TURNS:
        body = payloads.parse_request(payloads.PredictRequest, _json_object(request))
        _refuse_too_many(len(body.tasks))
        config = parse_label_config(body.label_config)
    runtime = _runtime()
    settings = runtime.projects.requested(body, config)  # may wait for Label Studio and the database
    with _TURNS, tracing.request(request.headers.items()):
        answers = runtime.predict(
            body.project,
            config,
            settings,
            body.tasks,
            again=body.params.again,
            stored_only=body.params.stored_only,
            terms=body.params.job,
        )
    finished = _in_time(answers, runtime.settings.deadline)
    with _TURNS:
        results = [answer.prediction for answer in finished]
        from_editor = body.params.context is not None  # it takes one prediction per task, no list
        return jsonify(
            results=without_lists(results) if from_editor else results,
            # Label Studio ignores further keys; camvo predict reads this one.
            reasons=[None if each.reason is None else each.reason.as_json() for each in finished],
        )


@_interface.post("/webhook")
def _webhook() -> Response:
    """Learn from what people did: annotations made, changed and deleted, deleted tasks, training."""
    event = payloads.parse_webhook(_json_object(request))
    metrics.webhooks.labels(action=event.action if event.action in _KNOWN_ACTIONS else "OTHER").inc()
    _runtime().learn(event)
    if event.action != payloads.START_TRAINING:  # sent with basic auth, so webhooks may still fail
        metrics.last_webhook_at.labels(project=event.project_key).set(_runtime().clock())
    return jsonify(status="ok")


@_interface.route("/versions", methods=["GET", "POST"])
def _versions() -> Response:
    """List the only version of the model."""
    return jsonify(versions=[_runtime().settings.model_version])


_pages = Blueprint("pages", __name__)

_TASK = re.compile(r"[0-9]{1,18}")

_STATUS_TYPES = ["application/json", "text/html"]


@_pages.get("/status")
def _status() -> Response:
    """The status page, or the same facts as JSON."""
    live, asked = read_live(_environment()), request.args.get("project")
    guarded = _environment().basic_auth_user is not None
    with _runtime().ledger.read() as connection:
        if asked is not None:
            _asked_projects(connection)  # a page without it would say that no project has come up yet
        report = build_report(
            connection,
            _runtime().settings,
            now=now(connection),
            live=live,
            project=asked,
            label_studio=_environment().label_studio_url,
            annotators=_runtime().settings.show_annotators and guarded,
            texts=guarded,
        )
    if _wants_html():
        answer = Response(
            build.render_page(report, overview=asked is None and len(report.projects) > 1, texts=guarded),
            content_type="text/html; charset=utf-8",
        )
    else:
        answer = jsonify(dataclasses.asdict(report))
    answer.headers.update({**build.HEADERS, "Vary": "Accept"})
    return answer


@_pages.get("/status/task")
def _task() -> Response:
    """What models are sent about one task and what they answered; only where credentials guard it."""
    if _environment().basic_auth_user is None:
        raise NotShownError(
            "a server without credentials shows no texts",
            where="/status/task",
            fix="set BASIC_AUTH_USER and BASIC_AUTH_PASS, or use camvo show",
        )
    number = request.args.get("task", "")
    with _runtime().ledger.read() as connection:
        stored = _asked_project(connection)
    if not _TASK.fullmatch(number):
        raise BadBodyError("the query names no task", where="task", fix="for example ?project=7&task=12")
    config, raw, problem = _asked_for(stored.key, int(number))
    runtime = _runtime()
    inspected = runtime.inspect(stored.key, int(number), config, raw, problem)
    found = _in_time(inspected, runtime.settings.deadline)
    if _wants_html():
        page = build.render_task(found, stored.title)
        answer = Response(page, content_type="text/html; charset=utf-8")
    else:
        answer = jsonify(dataclasses.asdict(found))
    answer.headers.update({**build.HEADERS, "Vary": "Accept"})
    return answer


def _asked_for(project: str, task: int) -> tuple[LabelConfig | None, Any, str]:
    """The label config and the task as Label Studio has them; without them, why."""
    access = _environment().label_studio_access
    unseen = "the prompt is not shown: the server has no access to the task's texts"
    if not is_of_label_studio(project):
        return None, None, f"{unseen}; camvo show FILE --task {named_task(task, project)} shows it"
    if access is None:
        return None, None, f"{unseen}; set LABEL_STUDIO_URL and LABEL_STUDIO_API_KEY where it runs"
    client = Client(*access)
    try:
        payload = client.project_by_key(project)
        tasks = client.tasks(payload["id"], [task])
    except CamvoError as error:
        return None, None, f"the prompt is not shown: {error}"
    if not tasks:
        return None, None, "the prompt is not shown: Label Studio has no such task"
    return parse_label_config(payload["label_config"]), tasks[0], ""


@_pages.get("/failed")
def _failed() -> Response:
    """The tasks without a prediction, and why."""
    first, last = _query_number("first"), _query_number("last")
    with _runtime().ledger.read() as connection:
        keys = [stored.key for stored in _asked_projects(connection)]
        return jsonify(failed_task_list(connection, keys, first, last))


@_pages.get("/progress")
def _progress() -> Response:
    """The progress of a run of ``camvo predict``."""
    first, last, after = (_query_number(name) for name in ("first", "last", "after"))
    with _runtime().ledger.read() as connection:
        stored = _asked_project(connection)
        progress = project_progress(connection, stored.key, first, last, after)
    own, _ = project_settings(stored, _runtime().settings)
    patience = {"patience_hours": own.patience_hours}
    return jsonify(progress | patience | {"waiting": _runtime().waiting()})


@_pages.get("/missing")
def _missing() -> Response:
    """The labels and votes that a project lacks; its models are judged by what is newer than a moment."""
    newest = {name: _query_number(name) or 0 for name in ("round", "call")}
    with _runtime().ledger.read() as connection:
        stored = _asked_project(connection)
        found = missing_report(connection, stored, _runtime().settings, Mark(**newest))
    return jsonify(found.to_json())


@_pages.get("/metrics")
def _exposition() -> Response:
    """The metrics in Prometheus's text format."""
    text = metrics.exposition(several_processes=_environment().prometheus_multiproc_dir is not None)
    return Response(text, content_type="text/plain; version=0.0.4; charset=utf-8")


@_pages.get("/ready")
def _ready() -> tuple[Response, int]:
    """Whether the process can answer requests; with ``?part=embedder`` whether it has started."""
    if request.args.get("part") == "embedder":  # a start must not end because the database is down
        loaded = _runtime().embedder.loaded
        return jsonify(embedder=loaded), 200 if loaded else 503
    parts = _runtime().ready()
    # A key is missing on every host alike, and the other models still vote: it must not stop the service.
    return jsonify(parts), 200 if parts["loop"] and parts["ledger"] and parts["embedder"] else 503


def _wants_html() -> bool:
    """Whether to answer in HTML. Browsers ask for it; programs ask for JSON or accept anything."""
    media_type = request.args.get("format") or request.accept_mimetypes.best_match(_STATUS_TYPES)
    return media_type in ("html", "text/html")


_log = structlog.get_logger(__name__)


def _register_refusals(app: Flask, environment: Environment) -> None:
    """Register the error handlers; every answer has the keys ``code``, ``message``, ``where`` and ``fix``."""

    @app.errorhandler(CamvoError)
    def refuse(error: CamvoError) -> tuple[Response, int]:
        _log.warning("refused", endpoint=request.path, code=error.code, reason=str(error))
        if isinstance(error, RequestError | ConfigError):
            status = error.status if isinstance(error, RequestError) else 400
            answer = jsonify(code=error.code, message=error.message, where=error.where, fix=error.fix)
            if status == UnauthorizedError.status:
                answer.www_authenticate = WWWAuthenticate("basic", {"realm": "CaMVo"})
            return answer, status
        # The details, such as the ledger's address, are not for the caller.
        message = "CaMVo cannot answer the request"
        status = 503 if isinstance(error, LedgerError) and error.temporary else 500
        return jsonify(code=error.code, message=message, where=request.path, fix="see CaMVo's log"), status

    @app.errorhandler(RequestEntityTooLarge)
    def refuse_large_body(_: RequestEntityTooLarge) -> tuple[Response, int]:
        limit = environment.max_body_mb
        return refuse(
            BodyTooLargeError(
                f"the body is over {limit} MB",
                where="body",
                fix="select fewer tasks or raise CAMVO_MAX_BODY_MB",
            )
        )

    @app.errorhandler(HTTPException)
    def refuse_http(error: HTTPException) -> tuple[Response, int]:
        return jsonify(code="http", message=error.name, where=request.path, fix=None), error.code or 500

    @app.errorhandler(Exception)
    def refuse_any(error: Exception) -> tuple[Response, int]:
        # The message may quote a task, so only the type is logged and nothing is returned.
        _log.error("internal", endpoint=request.path, kind=type(error).__name__, where=_source_line(error))
        return jsonify(
            code="internal", message="an error in CaMVo", where=request.path, fix="see CaMVo's log"
        ), 500


def _source_line(error: BaseException) -> str:
    """The file and line that raised an error, for the log."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (
        "" if trace is None else f"{trace.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno}"
    )


def create_app(environment: Environment) -> Flask:
    """Create the application of one worker process and start its runtime; called after the fork."""
    logs.configure(environment.log_level)
    runtime = Runtime(settings.load(environment.config), environment)
    app = Flask("camvo")
    app.config["MAX_CONTENT_LENGTH"] = environment.max_body_mb * 1_000_000
    app.extensions[_RUNTIME], app.extensions[_ENVIRONMENT] = runtime, environment
    for blueprint in (_interface, _commands, _pages):
        app.register_blueprint(blueprint)
    _register_guards(app, runtime, environment)
    _register_refusals(app, environment)
    _warn_if_open(environment)
    return app


def _warn_if_open(environment: Environment) -> None:
    """Log at start-up if anybody can use the server, or if webhooks will be refused."""
    if environment.basic_auth_user is None:
        _log.warning(
            "no_authentication", fix="set BASIC_AUTH_USER and BASIC_AUTH_PASS: anybody can spend your money"
        )
    if environment.webhook_secret is None:
        refused = environment.basic_auth_user is not None
        event = "webhooks_will_be_refused" if refused else "webhooks_unguarded"
        _log.warning(
            event, fix=f"set CAMVO_WEBHOOK_SECRET, and the header {settings.WEBHOOK_HEADER} in Label Studio"
        )


def _register_guards(app: Flask, runtime: Runtime, environment: Environment) -> None:
    @app.before_request
    def authorise() -> None:
        allowed = may_enter(request.path, request.headers.get, environment)
        if allowed or (allowed is None and _is_training(request)):
            return
        if (request.method, request.path) == ("POST", WEBHOOK):
            metrics.last_refused_webhook_at.set(runtime.clock())
        raise no_entry(request.path)

    @app.after_request
    def count(response: Response) -> Response:
        endpoint = request.url_rule.rule if request.url_rule else "unknown"
        metrics.requests.labels(endpoint=endpoint, status=str(response.status_code)).inc()
        return response

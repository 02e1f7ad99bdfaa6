"""The Flask application: the HTTP interface of Label Studio 1.23's ML backends, and CaMVo's own pages."""

from __future__ import annotations

import structlog
from flask import Flask, Response, request

from backend import settings
from backend.errors import UnauthorizedError
from backend.label_studio import webhooks
from backend.models.embedder.embedder import Embedder
from backend.server import access
from backend.server.endpoints import serving
from backend.server.endpoints.commands import commands
from backend.server.endpoints.interface import interface
from backend.server.endpoints.pages import pages
from backend.server.refusals import register_refusals
from backend.server.runtime import Runtime
from backend.settings import Environment
from backend.telemetry import logs, metrics

_OPEN = frozenset({"/", "/health", "/ready"})
"""What asks for no credentials: neither Label Studio nor an orchestrator sends any to a probe."""

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
    serving.install(app, runtime, environment)
    for blueprint in (interface, commands, pages):
        app.register_blueprint(blueprint)
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

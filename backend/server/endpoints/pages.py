"""CaMVo's own pages, for people and for monitoring."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, jsonify, request

from backend.ledger.database.clock import now
from backend.server.endpoints.serving import environment, runtime
from backend.server.status import page
from backend.server.status.build import build_report, selected_projects
from backend.server.status.live import read_live
from backend.server.status.parts.failed import failed_task_list
from backend.server.status.run_progress import project_progress
from backend.telemetry import metrics

pages = Blueprint("pages", __name__)

_STATUS_TYPES = ["application/json", "text/html"]


@pages.get("/status")
def status() -> Response:
    """The status page, or the same facts as JSON."""
    live, asked = read_live(environment()), request.args.get("project")
    with runtime().ledger.read() as connection:
        report = build_report(
            connection,
            runtime().settings,
            now=now(connection),
            live=live,
            project=asked,
            label_studio=environment().label_studio_url,
            annotators=runtime().settings.show_annotators and environment().basic_auth_user is not None,
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


@pages.get("/failed")
def failed() -> Response:
    """The tasks without a prediction, and why."""
    first, last = request.args.get("first"), request.args.get("last")
    with runtime().ledger.read() as connection:
        keys = [stored.key for stored in selected_projects(connection, request.args.get("project", ""))]
        return jsonify(failed_task_list(connection, keys, first, last))


@pages.get("/progress")
def progress() -> Response:
    """What a run of ``camvo predict`` has got so far."""
    first, last, after = (request.args.get(name) for name in ("first", "last", "after"))
    with runtime().ledger.read() as connection:
        return jsonify(project_progress(connection, request.args.get("project", ""), first, last, after))


@pages.get("/metrics")
def exposition() -> Response:
    """The metrics in Prometheus's text format."""
    text = metrics.exposition(several_processes=environment().prometheus_multiproc_dir is not None)
    return Response(text, content_type="text/plain; version=0.0.4; charset=utf-8")


@pages.get("/ready")
def ready() -> tuple[Response, int]:
    """Whether the process can answer requests; with ``?part=embedder`` whether it has started."""
    if request.args.get("part") == "embedder":  # a start must not end because the database is down
        loaded = runtime().embedder.loaded
        return jsonify(embedder=loaded), 200 if loaded else 503
    parts = runtime().ready()
    # A key is missing on every host alike, and the other models still vote: it must not stop the service.
    return jsonify(parts), 200 if parts["ledger"] and parts["embedder"] else 503


def _wants_html() -> bool:
    """Whether to answer in HTML. Browsers ask for it; programs ask for JSON or accept anything."""
    media_type = request.args.get("format") or request.accept_mimetypes.best_match(_STATUS_TYPES)
    return media_type in ("html", "text/html")

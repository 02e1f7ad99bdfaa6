"""What ``camvo predict`` requests of a server: its quote, recounts, and further votes."""

from __future__ import annotations

import dataclasses

from flask import Blueprint, Response, jsonify, request

from backend.label_studio import payloads
from backend.ledger.recounts import countings
from backend.ledger.recounts import rows as recounts
from backend.questions import parse_label_config
from backend.server import request_bodies
from backend.server.endpoints.serving import refuse_too_many, runtime

commands = Blueprint("commands", __name__)


@commands.post("/quote")
def quote() -> Response:
    """Count a portion of the tasks, or make the quote for a project whose portions were counted."""
    body = payloads.parse_request(payloads.QuoteRequest, request_bodies.json_object(request))
    refuse_too_many(len(body.tasks))
    config, quotes = parse_label_config(body.label_config), runtime().quotes
    if body.counted is None:
        counted, example = quotes.count(body.project, config, body.tasks)
        return jsonify(counted=counted, example=example)
    try:
        made = quotes.quote(body.project, config, body.tasks, body.counted)
    except TimeoutError:
        return jsonify(done=False)
    return jsonify(done=True, quote=made.to_json())


@commands.post("/recount")
def recount() -> Response:
    """Count a project's kept votes again; a long counting goes on, and the caller asks again."""
    body = payloads.parse_request(payloads.RecountRequest, request_bodies.json_object(request))
    try:
        counting = runtime().recount(body.project)
    except TimeoutError:
        return jsonify(done=False)
    return jsonify(done=True, counting=None if counting is None else dataclasses.asdict(counting))


@commands.post("/doubts")
def doubts() -> Response:
    """Name the tasks on which further votes bring the most right labels per dollar."""
    body = payloads.parse_request(payloads.DoubtsRequest, request_bodies.json_object(request))
    try:
        found, spent = runtime().doubts(body.project, body.usd, body.most)
    except TimeoutError:
        return jsonify(done=False)
    return jsonify(done=True, spent_usd=spent, **dataclasses.asdict(found))


@commands.post("/ask_more")
def ask_more() -> Response:
    """Buy further votes on a portion of such tasks."""
    body = payloads.parse_request(payloads.AskMoreRequest, request_bodies.json_object(request))
    refuse_too_many(len(body.tasks))
    config, worth_usd = parse_label_config(body.label_config), 1.0 / body.least
    portion = runtime().ask_more(body.project, config, body.tasks, usd=body.usd, worth_usd=worth_usd)
    return jsonify(**dataclasses.asdict(portion))


@commands.get("/recounted")
def recounted() -> Response:
    """Name the tasks whose predictions in Label Studio are older than the last recount."""
    project, after = request.args.get("project", ""), request.args.get("after", 0, type=int)
    with runtime().ledger.read() as connection:
        tasks = recounts.pending(connection, project, after=after)
        through = countings.next_number(connection, project) - 1
    return jsonify(tasks=tasks, through=through)


@commands.post("/recounted")
def delivered() -> Response:
    """Take note of the tasks whose predictions the caller has replaced."""
    body = payloads.parse_request(payloads.DeliveredRequest, request_bodies.json_object(request))
    runtime().delivered(body.project, body.tasks, body.through)
    return jsonify(status="ok")

"""The server as 2.x behaves: projects by their number, a model for each request, few webhooks passed on."""

from __future__ import annotations

from typing import Any

from flask import Flask, Response, jsonify, request

_server = Flask("label_studio_ml")
_models: list[type] = []

HEARD = ("ANNOTATION_CREATED", "ANNOTATION_UPDATED", "ANNOTATION_DELETED", "START_TRAINING")


def init_app(model_class: type) -> Flask:
    _models[:] = [model_class]
    return _server


def _model(project: object, label_config: str | None) -> Any:
    return _models[0](str(project).partition(".")[0], label_config=label_config)


@_server.post("/setup")
def _setup() -> Response:
    body = request.json
    model = _model(body["project"], body["schema"])
    if body.get("extra_params"):
        model.set_extra_params(body["extra_params"])
    return jsonify(model_version=model.get("model_version"))


@_server.post("/predict")
def _predict() -> Response:
    body = request.json
    context = body["params"].pop("context", {})
    model = _model(body["project"], body["label_config"])
    answer = model.predict(body["tasks"], context=context, **body["params"])
    return jsonify(results=answer.model_dump()["predictions"])


@_server.post("/webhook")
def _webhook() -> tuple[Response, int]:
    body = request.json
    event = body.pop("action")
    if event not in HEARD:
        return jsonify(status="Unknown event"), 200
    project = body["project"]
    _model(project["id"], project["label_config"]).fit(event, body)
    return jsonify(status="ok"), 201

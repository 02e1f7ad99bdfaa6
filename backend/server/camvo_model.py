"""CaMVo behind ``label-studio-ml``'s own server, for those who already run that.

Install it as docs/label_studio.md says, and in a clone of CaMVo run::

    label-studio-ml create my_backend --script backend/server/camvo_model.py:CamvoModel
    label-studio-ml start my_backend -p 9090

``create`` copies this file beside a ``_wsgi.py`` that imports it, so it must not have the name of a package
that it imports. ``camvo.yaml`` and the environment are read as by ``camvo serve``. No other module imports
this one. It differs from ``camvo serve`` in two ways:

- The server creates a new model object for each request; all of them share one runtime per process.
- Projects are named by their bare id, so do not share the ledger with ``camvo serve``.
"""

from __future__ import annotations

import json
import threading
from concurrent.futures import Future
from dataclasses import replace
from functools import cache
from typing import Any

from flask import request
from label_studio_ml import api
from label_studio_ml.model import LabelStudioMLBase
from label_studio_ml.response import ModelResponse

from backend import settings
from backend.label_studio import payloads
from backend.label_studio.predictions import without_lists
from backend.ledger import migrate
from backend.questions import parse_label_config
from backend.server.runtime import STANDSTILL, Runtime
from backend.settings import Environment, Settings

_NOT_PASSED_ON = frozenset({"ANNOTATIONS_CREATED", "ANNOTATIONS_DELETED", "TASKS_DELETED", "PROJECT_UPDATED"})
"""Webhooks that label-studio-ml's server answers without passing them on."""

_one_at_a_time = threading.Lock()


@cache
def _environment() -> Environment:
    return Environment()


@cache
def _settings() -> Settings:
    return settings.load(_environment().config)


@cache
def _starting() -> Future[Runtime]:
    """The runtime, which is built in a thread: Label Studio gives ``/setup`` three seconds.

    It is first requested by an HTTP request, by which time a forking server has forked its workers.
    """
    started: Future[Runtime] = Future()

    def start() -> None:
        try:
            migrate(_environment().database_url)
            started.set_result(Runtime(_settings(), _environment()))
        except BaseException as error:
            started.set_exception(error)

    threading.Thread(target=start, name="camvo-start", daemon=True).start()
    return started


def _runtime() -> Runtime:
    return _ready().result()  # bounded by what the runtime waits for: the migration of the ledger


def _ready() -> Future[Runtime]:
    with _one_at_a_time:  # the server answers requests in threads, and there must be one runtime
        return _starting()


class CamvoModel(LabelStudioMLBase):  # type: ignore[misc]  # label-studio-ml has no types
    """CaMVo as a model class of ``label-studio-ml``: ``predict`` votes, ``fit`` learns from feedback."""

    def setup(self) -> None:
        """Set the model version of the predictions, and store the project's ``extra_params``.

        They are stored once the runtime is there; this method does not wait for it.
        """
        self.set("model_version", _settings().model_version)
        project, given = self.project_id, self.extra_params
        if given:
            _settings().for_project(given)
        if project and given:
            _ready().add_done_callback(lambda ready: ready.result().projects.remember(project, given))

    def set_extra_params(self, extra_params: Any) -> None:
        """Keep what ``/setup`` sends along, which the base class stores as text only."""
        text = extra_params if isinstance(extra_params, str) else json.dumps(extra_params)
        super().set_extra_params(text)
        self.setup()

    def predict(
        self, tasks: list[dict[str, Any]], context: dict[str, Any] | None = None, **kwargs: Any
    ) -> ModelResponse:
        """Predictions in the order of the tasks; an empty list for a task that has none."""
        runtime = _runtime()
        config = parse_label_config(self.label_config)
        settings = runtime.projects.to_predict(self.project_id)
        answers = runtime.predict(self.project_id, config, settings, tasks).result(
            runtime.settings.deadline + STANDSTILL
        )
        predictions = [answer.prediction for answer in answers]
        if context is not None:
            predictions = without_lists(predictions)
        return ModelResponse(model_version=runtime.settings.model_version, predictions=predictions)

    def fit(self, event: str, data: dict[str, Any], **kwargs: Any) -> None:
        """Learn from a webhook; ``data`` is its payload without the action."""
        received = payloads.parse_webhook({**data, "action": event})
        _runtime().learn(replace(received, project_key=self.project_id))


def _learn_from_webhook() -> None:
    """Learn from the webhooks that the server does not pass on; it answers them itself."""
    body = request.get_json(silent=True) if request.path == "/webhook" else None
    if isinstance(body, dict) and body.get("action") in _NOT_PASSED_ON:
        event = payloads.parse_webhook(body)
        _runtime().learn(replace(event, project_key=event.project_key.partition(".")[0]))


api._server.before_request(_learn_from_webhook)  # after the server's own check of credentials

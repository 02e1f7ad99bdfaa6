"""CaMVo behind ``label-studio-ml``'s own server, for those who already run that.

Install the extra ``[label-studio-ml]`` and use the class in the ``_wsgi.py`` that ``label-studio-ml create``
writes::

    from backend.server.camvo_model import CamvoModel
    from label_studio_ml.api import init_app

    app = init_app(model_class=CamvoModel)

``label-studio-ml start`` then serves it. ``camvo.yaml`` and the environment are read as by ``camvo serve``.
No other module imports this one. Three things differ from ``camvo serve``:

- The server creates a new model object for each request; all of them share one runtime per process.
- Projects are named by their bare id, so do not share the ledger with ``camvo serve``.
- Deleted annotations and project changes are not passed on.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from label_studio_ml.model import LabelStudioMLBase
from label_studio_ml.response import ModelResponse

from backend import settings
from backend.label_studio import webhooks
from backend.label_studio.prediction import without_lists
from backend.ledger import migrate
from backend.questions import parse_label_config
from backend.server.runtime import Runtime
from backend.settings import Environment


@cache
def _runtime() -> Runtime:
    environment = Environment()
    migrate(environment.database_url)
    return Runtime(settings.load(environment.config), environment)


class CamvoModel(LabelStudioMLBase):  # type: ignore[misc]  # label-studio-ml has no types
    """CaMVo as a model class of ``label-studio-ml``: ``predict`` votes, ``fit`` learns from feedback."""

    def setup(self) -> None:
        """Set the model version of the predictions, and store the project's ``extra_params``."""
        runtime = _runtime()
        self.set("model_version", runtime.settings.model_version)
        if self.extra_params:
            runtime.projects.remember(self.project_id, self.extra_params)

    def predict(
        self, tasks: list[dict[str, Any]], context: dict[str, Any] | None = None, **kwargs: Any
    ) -> ModelResponse:
        """Predictions in the order of the tasks; an empty list for a task that has none."""
        runtime = _runtime()
        config = parse_label_config(self.label_config)
        answers = runtime.predict(self.project_id, config, tasks).result()
        predictions = [answer.prediction for answer in answers]
        if context is not None:
            predictions = without_lists(predictions)
        return ModelResponse(model_version=runtime.settings.model_version, predictions=predictions)

    def fit(self, event: str, data: dict[str, Any], **kwargs: Any) -> None:
        """Learn from a webhook; ``data`` is its payload without the action."""
        received = webhooks.parse_webhook({**data, "action": event})
        _runtime().learn(replace(received, project_key=self.project_id))

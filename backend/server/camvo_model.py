"""CaMVo under ``label-studio-ml start``: the same core behind the 2.x line's own base class.

Needs the extra ``[label-studio-ml]``; nothing else imports this module. That server makes a new object for
each request, so the runtime is kept for the process, and it names a project by its bare id, so its ledger is
best not shared with ``camvo serve``. It passes on neither deleted annotations nor changes of the project.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from label_studio_ml.model import LabelStudioMLBase
from label_studio_ml.response import ModelResponse

from backend import settings
from backend.label_studio import webhooks
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
    """A Label Studio model whose predictions are votes and whose training is feedback."""

    def setup(self) -> None:
        """Show the version that predictions carry; keep the project's ``extra_params``."""
        runtime = _runtime()
        self.set("model_version", runtime.settings.model_version)
        if self.extra_params:
            runtime.remember(self.project_id, self.extra_params)

    def predict(
        self, tasks: list[dict[str, Any]], context: dict[str, Any] | None = None, **kwargs: Any
    ) -> ModelResponse:
        """Predictions in the order of the tasks; an empty list for a task that has none."""
        runtime = _runtime()
        config = parse_label_config(self.label_config)
        predictions = runtime.predict(self.project_id, config, tasks, interactive=context is not None)
        return ModelResponse(model_version=runtime.settings.model_version, predictions=predictions)

    def fit(self, event: str, data: dict[str, Any], **kwargs: Any) -> None:
        """Learn from a webhook; ``data`` is its payload without the action."""
        received = webhooks.read({**data, "action": event})
        _runtime().learn(replace(received, project_key=self.project_id))

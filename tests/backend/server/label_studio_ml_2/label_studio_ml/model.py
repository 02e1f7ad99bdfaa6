"""The base class as 2.x behaves: an object for each request, strings kept for each project, setup() last."""

from __future__ import annotations

import json
from typing import Any, ClassVar


class LabelStudioMLBase:
    stored_strings: ClassVar[dict[tuple[str, str], str]] = {}

    def __init__(self, project_id: str | None = None, label_config: str | None = None) -> None:
        self.project_id = project_id or ""
        if label_config is not None:
            self.set("label_config", label_config)
        self.setup()

    def get(self, key: str) -> str | None:
        return self.stored_strings.get((self.project_id, key))

    def set(self, key: str, value: str) -> None:
        self.stored_strings[self.project_id, key] = value

    def set_extra_params(self, extra_params: str) -> None:
        self.set("extra_params", extra_params)

    @property
    def label_config(self) -> str | None:
        return self.get("label_config")

    @property
    def extra_params(self) -> dict[str, Any]:
        return json.loads(self.get("extra_params") or "{}")

    @property
    def model_version(self) -> str | None:
        return self.get("model_version")

    def setup(self) -> None: ...

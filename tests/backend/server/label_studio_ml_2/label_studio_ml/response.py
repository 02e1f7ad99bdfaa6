"""The response as 2.x has it: predictions become the SDK's own objects."""

from __future__ import annotations

from label_studio_sdk.label_interface.objects import PredictionValue
from pydantic import BaseModel, ConfigDict


class ModelResponse(BaseModel):
    model_config = ConfigDict(protected_namespaces=())

    model_version: str | None = None
    predictions: list[list[PredictionValue] | PredictionValue]

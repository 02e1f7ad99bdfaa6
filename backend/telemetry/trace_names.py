"""The names of spans and attributes: OpenTelemetry's semantic conventions for GenAI, and CaMVo's own.

The conventions are still in development (semantic conventions 1.45, November 2026), so their names are
written down here alone: a new version of them changes this file.
"""

from __future__ import annotations

from typing import Final

PREDICT: Final = "camvo.predict"
"""One task, from its arrival to its prediction: the root of a trace."""

PLAN: Final = "camvo.plan"
"""A policy's plan for the task, with the state brought up to date."""

STAGE: Final = "camvo.stage"
"""The models that are asked at the same time."""

CHAT: Final = "chat"
"""One call; the name of its span goes on with the model."""

PROJECT: Final = "camvo.project"
TASK: Final = "camvo.task"
POLICY: Final = "camvo.policy"
FIRST: Final = "camvo.plan.first"
STAGE_NUMBER: Final = "camvo.stage.number"
STAGE_MODELS: Final = "camvo.stage.models"
MODEL: Final = "camvo.model"
COST: Final = "camvo.cost.usd"

ERROR_TYPE: Final = "error.type"

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"

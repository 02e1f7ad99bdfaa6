"""One call to a model as a span of its task's trace."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Mapping
from typing import Any

from backend.models.calls import read_response
from backend.settings import ModelSettings
from backend.telemetry import tracing


async def traced(settings: ModelSettings, request: Mapping[str, Any], call: Awaitable[Any]) -> Any:
    """Await a call's response in a span that says what was asked for, what came, and what it took.

    Prompt and answer are in the span only if ``CAMVO_TRACE_CONTENT`` is set.

    Args:
        settings: the model.
        request: litellm's parameters of the call.
        call: the call.
    """
    if not tracing.is_on():
        return await call
    name: str = request["model"]
    with tracing.chat(name) as span:
        span.note(
            MODEL=settings.name,
            PROVIDER=name.partition("/")[0] if "/" in name else "openai",
            REQUEST_MAX_TOKENS=request.get("max_tokens"),
            REQUEST_TEMPERATURE=request.get("temperature"),
        )
        if span.with_content:
            span.note(INPUT_MESSAGES=json.dumps([_message(**each) for each in request["messages"]]))
        response = await call
        received = read_response(response)
        span.note(
            RESPONSE_MODEL=(received.version or "").partition(" ")[0] or None,
            FINISH_REASONS=[received.finish_reason] if received.finish_reason else None,
            INPUT_TOKENS=received.input_tokens,
            OUTPUT_TOKENS=received.output_tokens,
        )
        if span.with_content:
            span.note(OUTPUT_MESSAGES=json.dumps([_message("assistant", received.content)]))
        return response


def _message(role: str, content: Any, **_: object) -> dict[str, Any]:
    """A message in the conventions' form; images are named, not copied."""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {
        "role": role,
        "parts": [
            {"type": "text", "content": part["text"]} if part["type"] == "text" else {"type": part["type"]}
            for part in parts
        ],
    }

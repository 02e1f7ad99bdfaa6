"""One call to a model as a span of its task's trace."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from backend.telemetry import tracing


class Response(Protocol):
    """What a span says about a provider's response."""

    @property
    def content(self) -> str:
        """The answer's text."""

    @property
    def input_tokens(self) -> int:
        """As reported, 0 if nothing was."""

    @property
    def output_tokens(self) -> int:
        """As reported, 0 if nothing was."""

    @property
    def finish_reason(self) -> str | None:
        """Why the model stopped."""

    @property
    def version(self) -> str | None:
        """The model's name at its provider first, then what else it says of itself."""


async def traced(
    model: str, request: Mapping[str, Any], call: Awaitable[Any], read: Callable[[Any], Response]
) -> Any:
    """Await a call's response in a span that says what was asked for, what came, and what it took.

    Prompt and answer are in the span only if ``CAMVO_TRACE_CONTENT`` is set.

    Args:
        model: the model's name in the pool.
        request: litellm's parameters of the call.
        call: the call.
        read: reads its response.
    """
    if not tracing.is_on():
        return await call
    name: str = request["model"]
    with tracing.chat(name) as span:
        span.note(
            MODEL=model,
            PROVIDER=name.partition("/")[0] if "/" in name else "openai",
            REQUEST_MAX_TOKENS=request.get("max_tokens"),
            REQUEST_TEMPERATURE=request.get("temperature"),
        )
        if span.with_content:
            span.note(INPUT_MESSAGES=json.dumps([_message(**each) for each in request["messages"]]))
        response = await call
        received = read(response)
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

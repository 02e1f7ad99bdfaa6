"""One call in litellm's terms: the request that goes out, and what is read from the response."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from backend.errors import BadAnswerError, ModelError, RefusedError, Usage
from backend.questions.prompts.parts import Messages, parts, text, texts
from backend.settings import ModelSettings


@dataclass(frozen=True, slots=True)
class Response:
    """What a provider sent: the text, if any, the tokens it reports (0 where it does not), how it ended."""

    content: str
    input_tokens: int
    output_tokens: int
    finish_reason: str | None
    refused: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model answered, and what that took."""

    content: str
    input_tokens: int
    output_tokens: int
    """Reasoning included."""
    cost: float
    """$."""
    seconds: float
    """Of the call itself, without waiting for a free slot."""
    counted: int = 0
    """Our own count of the input tokens: with ``input_tokens``, what ``Pool.observe`` learns from."""
    estimated: bool = False
    """Whether the provider reported no usage, so that tokens and cost are our estimate."""


def request(
    settings: ModelSettings,
    messages: Messages,
    schema: Mapping[str, Any] | None,
    *,
    structured: bool,
    system: bool,
) -> dict[str, Any]:
    """The litellm parameters of a call, as far as they decide the answer: no key, no timeout.

    Args:
        settings: the model.
        messages: the system message, and what follows it.
        schema: JSON schema of the answer.
        structured: whether the model takes a schema.
        system: whether the model takes a system message; if not, the instruction goes in front of the user's.
    """
    sent = [dict(message) for message in messages] if system else _without_system(messages)
    made: dict[str, Any] = {**settings.parameters, "model": settings.model, "messages": sent}
    made["max_tokens"] = settings.max_tokens
    if settings.temperature is not None:
        made["temperature"] = settings.temperature
    if structured and schema is not None:
        json_schema = {"name": "labels", "strict": True, "schema": schema}
        made["response_format"] = {"type": "json_schema", "json_schema": json_schema}
    return made


def _without_system(messages: Messages) -> list[dict[str, Any]]:
    """The same with the system message's text in front of the next one's."""
    both, rest = messages[:2], messages[2:]
    words = "\n\n".join(texts(both))
    pictures = [part for message in both for part in parts(message) if part["type"] == "image_url"]
    first = {"role": "user", "content": [text(words), *pictures] if pictures else words}
    return [first, *(dict(message) for message in rest)]


def read(response: Any) -> Response:
    """What is in a litellm response.

    litellm passes empty ``choices``, a null ``content`` and a missing ``usage`` (0 and 0) on as a success.
    """
    usage = getattr(response, "usage", None)
    reported = [_tokens(getattr(usage, key, None)) for key in ("prompt_tokens", "completion_tokens")]
    choices = getattr(response, "choices", None) or []
    message = getattr(choices[0], "message", None) if choices else None
    content = getattr(message, "content", None)
    further = getattr(message, "provider_specific_fields", None) or {}
    return Response(
        content=content if isinstance(content, str) else "",
        input_tokens=reported[0],
        output_tokens=reported[1],
        finish_reason=getattr(choices[0], "finish_reason", None) if choices else None,
        refused=bool(getattr(message, "refusal", None) or further.get("refusal")),
    )


def _tokens(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def flaw(response: Response, settings: ModelSettings, usage: Usage) -> ModelError | None:
    """Why a response is no answer, with what it cost; ``None`` for one that is."""
    where = f"model {settings.name}"
    if response.refused or response.finish_reason == "content_filter":
        return RefusedError("refused", where=where, usage=usage)
    if response.content.strip():
        return None
    if response.finish_reason == "length":
        message = f"used up its {settings.max_tokens} tokens before it answered"
        return BadAnswerError(message, where=where, fix="set max_tokens higher", usage=usage)
    return BadAnswerError("gave an empty answer", where=where, usage=usage)

"""The cheapest way through litellm to an OpenAI-compatible server.

``litellm.acompletion`` prepares every call afresh, in its own thread, and wraps every response in models
for callbacks: four times the processor time of the request itself. Here litellm prepares a model's calls
once: the address, the headers and all parameters except the messages. A call then takes litellm's HTTP client
and litellm's errors, and nothing else. The provider receives the same request.

Calls that need more of litellm go through ``acompletion``: those with images, with parameters that are not
listed here, and those of all other providers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Final

_PROVIDERS: Final = ("hosted_vllm", "openai")

_MAPPED: Final = frozenset(
    {
        "frequency_penalty",
        "logprobs",
        "max_tokens",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "seed",
        "service_tier",
        "stop",
        "temperature",
        "top_logprobs",
        "top_p",
        "verbosity",
    }
)
"""Parameters of a call that litellm maps for the provider."""

_ADDRESS: Final = frozenset({"model", "api_base", "base_url", "api_key"})
_OURS: Final = frozenset({"messages", "timeout", "max_retries", "num_retries", "drop_params"})
_ELSEWHERE: Final = ("OPENAI_ORGANIZATION", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_CUSTOM_HEADERS")
"""Variables from which OpenAI's own client would take further headers."""


@dataclass(frozen=True, slots=True, eq=False)
class _Path:
    """What all calls of a model with the same parameters share."""

    model: str
    provider: Any
    config: Any
    url: Any
    headers: Mapping[str, str]
    parameters: Mapping[str, Any]

    async def call(self, messages: Sequence[Mapping[str, Any]], timeout: float | None) -> Any:  # noqa: ASYNC109
        """Make one call; the response has the attributes of litellm's that CaMVo reads.

        Raises:
            Exception: one of litellm's, as from ``acompletion``.
        """
        import httpx  # noqa: PLC0415 - litellm imports it too
        from litellm.llms.custom_httpx.http_handler import get_async_httpx_client  # noqa: PLC0415

        body = json.dumps({"model": self.model, "messages": messages, **self.parameters})
        client = get_async_httpx_client(llm_provider=self.provider, params={"ssl_verify": None})
        try:
            response = await client.post(self.url, data=body, headers=dict(self.headers), timeout=timeout)
            return _read(response, self.config)
        except httpx.HTTPStatusError as error:
            raise self._error(error, self._refused(error)) from error
        except Exception as error:
            if (mapped := self._error(error, error)) is error:
                raise
            raise mapped from error

    def _refused(self, error: Any) -> Exception:
        """The provider's error for a response that is not a success, with the provider's code."""
        response = error.response
        refused: Exception = self.config.get_error_class(
            error_message=response.text, status_code=response.status_code, headers=dict(response.headers)
        )
        vars(refused)["response"] = response  # litellm reads the headers from it
        return refused

    def _error(self, cause: Exception, error: Exception) -> Exception:
        """Litellm's error for what went wrong, as ``acompletion`` would raise it."""
        from litellm import exception_type  # noqa: PLC0415

        try:
            mapped: Exception = exception_type(
                model=self.model, original_exception=error, custom_llm_provider=str(self.provider.value)
            )
        except Exception as raised:  # litellm raises most of them and returns the others
            mapped = raised
        if (code := _code(getattr(cause, "response", None))) is not None:
            vars(mapped)["body"] = {"code": code}
        return mapped


def path_of(request: Mapping[str, Any], environment: Mapping[str, str]) -> _Path | None:
    """The short path of a request in litellm's terms; ``None`` if ``acompletion`` has to make the call.

    Args:
        request: model, messages and parameters.
        environment: the process's variables.
    """
    if str(request["model"]).partition("/")[0] not in _PROVIDERS:
        return None
    if not request.keys() <= _MAPPED | _ADDRESS | _OURS or not all(map(_is_text, request["messages"])):
        return None
    if any(environment.get(name) for name in _ELSEWHERE):
        return None
    fixed = {name: value for name, value in request.items() if name not in _OURS and value is not None}
    return _prepared(json.dumps(fixed))  # a schema keeps the order in which it asks


@lru_cache(maxsize=256)
def _prepared(fixed: str) -> _Path | None:
    """Let litellm prepare the calls that share these parameters, in JSON."""
    import httpx  # noqa: PLC0415 - litellm imports it too
    import litellm  # noqa: PLC0415
    from litellm.main import _resolve_openai_api_base  # noqa: PLC0415
    from litellm.secret_managers.main import get_secret_str  # noqa: PLC0415
    from litellm.utils import ProviderConfigManager, get_optional_params  # noqa: PLC0415

    request: dict[str, Any] = json.loads(fixed)
    base = request.get("api_base") or request.get("base_url")
    model, name, key, address = litellm.get_llm_provider(
        request["model"], api_base=base, api_key=request.get("api_key")
    )
    key = key or request.get("api_key")
    if name == "openai":
        key, address = key or litellm.api_key or litellm.openai_key, _resolve_openai_api_base(address or base)
        key = key or get_secret_str("OPENAI_API_KEY")
    entry = litellm.model_cost.get(model, {})
    if key is None or (address or base) is None or entry.get("mode", "chat") != "chat" or litellm.headers:
        return None
    provider = litellm.LlmProviders(name)
    config = ProviderConfigManager.get_provider_chat_config(model=model, provider=provider)
    if config is None:
        return None
    mapped = {field: value for field, value in request.items() if field in _MAPPED}
    parameters = get_optional_params(
        model=model, custom_llm_provider=name, drop_params=True, stream=None, **mapped
    )
    body = config.transform_request(model, [], parameters, {"custom_llm_provider": name}, {})
    extra = body.pop("extra_body", None) or {}
    if not body.keys() <= _MAPPED | {"model", "messages", "max_completion_tokens"} or extra:
        return None
    headers = config.validate_environment({}, model, [], parameters, {}, api_key=key, api_base=address)
    url = httpx.URL(config.get_complete_url(address or base, key, model, parameters, {}))  # parsed once
    shared = {field: value for field, value in body.items() if field not in {"model", "messages"}}
    return _Path(model, provider, config, url, headers, shared)


def _is_text(message: Mapping[str, Any]) -> bool:
    return isinstance(message.get("content"), str) and message.keys() <= {"role", "content"}


def _read(response: Any, config: Any) -> Any:
    """The response in litellm's form; whatever is out of the ordinary litellm itself reads."""
    try:
        data = response.json()
    except ValueError:
        data = None
    completion = completion_of(data, response.headers)
    return _by_litellm(response, config) if completion is None else completion


def completion_of(data: Any, headers: Mapping[str, str]) -> Any | None:
    """Return a chat completion in the form of litellm's, as far as CaMVo reads it.

    Args:
        data: the JSON of the response.
        headers: its headers.

    Returns:
        ``None`` if it is out of the ordinary, such as one without an answer.
    """
    if not isinstance(data, dict) or "error" in data:
        return None
    choices = data.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        return None
    if not isinstance(message.get("content"), str | list) and not message.get("tool_calls"):
        return None
    return _plain(data, choice, message, headers)


def _plain(
    data: Mapping[str, Any], choice: Mapping[str, Any], message: dict[str, Any], headers: Mapping[str, str]
) -> Any:
    from litellm.litellm_core_utils.core_helpers import map_finish_reason  # noqa: PLC0415
    from litellm.litellm_core_utils.prompt_templates.common_utils import (  # noqa: PLC0415
        extract_reasoning_content,
    )

    content = message.get("content")
    if isinstance(content, str):
        _, content = extract_reasoning_content(message)
    usage = _object(data.get("usage"))
    return SimpleNamespace(
        model=data.get("model"),
        system_fingerprint=data.get("system_fingerprint"),
        choices=[
            SimpleNamespace(
                message=SimpleNamespace(
                    content=content, refusal=message.get("refusal"), tool_calls=message.get("tool_calls")
                ),
                finish_reason=map_finish_reason(choice.get("finish_reason") or "stop"),
                logprobs=choice.get("logprobs"),
            )
        ],
        usage=SimpleNamespace(
            prompt_tokens=usage.get("prompt_tokens"),
            completion_tokens=usage.get("completion_tokens"),
            prompt_tokens_details=SimpleNamespace(
                cached_tokens=_object(usage.get("prompt_tokens_details")).get("cached_tokens")
            ),
        ),
        _hidden_params={"additional_headers": dict(headers.items()), "response_cost": None},
    )


def _object(value: Any) -> Mapping[str, Any]:
    """The value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def _by_litellm(response: Any, config: Any) -> Any:
    from litellm import ModelResponse  # noqa: PLC0415

    silent = SimpleNamespace(post_call=lambda **_: None)
    return config.transform_response("", response, ModelResponse(), silent, {}, [], {}, {}, None)


def _code(response: Any) -> str | None:
    """OpenAI's code in an error's body."""
    try:
        error = response.json()["error"]
        code = error.get("code") or error.get("type")
    except Exception:  # whatever a server sends
        return None
    return code if isinstance(code, str) else None

"""One call in litellm's terms: the request that is sent, the content of the response, and a short path.

``litellm.acompletion`` prepares every call afresh, in its own thread, and wraps every response in models
for callbacks: four times the processor time of the request itself. On the short path litellm prepares a
model's calls once: the address, the headers and all parameters except the messages. A call then takes
litellm's HTTP client and litellm's errors, and nothing else. The provider receives the same request.

Calls that need more of litellm go through ``acompletion``: those with images, with parameters that are not
listed here, and those of all other providers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Final

from backend.errors import StoppingError, Usage
from backend.questions.prompts.confidences import AnswerToken


class CallGate:
    """Whether model calls may start. It is shut by a signal handler, so shutting it takes no lock."""

    def __init__(self) -> None:
        self._is_shut = False
        self._check_ledger: Callable[[], None] = lambda: None

    def hold_by(self, check: Callable[[], None]) -> None:
        """Let no call start while ``check`` raises an error."""
        self._check_ledger = check

    def shut(self) -> None:
        """Let no further call start; those in flight are not affected."""
        self._is_shut = True

    def admit(self) -> None:
        """Return if a call may start at this moment.

        Raises:
            StoppingError: the process stops.
            LedgerError: the ledger is down, so that the answer could not be stored.
        """
        self.check()
        self._check_ledger()

    def check(self) -> None:
        """Return unless the process stops.

        Raises:
            StoppingError: the process stops.
        """
        if self._is_shut:
            raise stopping()


def stopping() -> StoppingError:
    """Return the error of a call that does not start because the process stops."""
    return StoppingError("the server stops and asks no further model", fix="ask again when it has started")


_LONGEST_VERSION = 100


@dataclass(frozen=True, slots=True)
class ProviderResponse:
    """What a provider sent.

    Attributes:
        content: the text; empty if there is none.
        input_tokens: as reported; 0 if the provider reports none, or something that is no number of tokens.
        output_tokens: the same for the output.
        finish_reason: why the model stopped, in OpenAI's words.
        refused: whether the model refused to answer.
        tokens: the answer's tokens with their log-probabilities; empty if the provider sent none.
        version: what the provider says answered: the model's name there and, after a space, the fingerprint
            of its system. ``None`` if it says nothing.
        cached_tokens: the part of the input that the provider read from its cache; 0 if it reports none.
    """

    content: str
    input_tokens: int
    output_tokens: int
    finish_reason: str | None
    refused: bool
    tokens: tuple[AnswerToken, ...] = ()
    version: str | None = None
    cached_tokens: int = 0

    @property
    def cut_off(self) -> bool:
        """Whether the answer was cut off by ``max_tokens``."""
        return self.finish_reason == "length"


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A model's answer to one call, with its usage and cost.

    Attributes:
        content: the text of the answer.
        usage: the tokens, reported or estimated, and their cost. At most the prompt's bound counts of the
            input, and ``max_tokens`` of the output, with reasoning tokens.
        seconds: duration of the call itself, without waiting for a free slot.
        estimated: whether the provider reported no usage, so that tokens and cost are estimates.
        tokens: the answer's tokens with their log-probabilities; empty if the provider sent none.
        version: as in :class:`ProviderResponse`.
        cut_off: whether it was cut off by ``max_tokens``.
        schema: the JSON schema that was sent along; ``None`` if none was.
    """

    content: str
    usage: Usage
    seconds: float
    estimated: bool = False
    tokens: tuple[AnswerToken, ...] = ()
    version: str | None = None
    cut_off: bool = False
    schema: Mapping[str, Any] | None = None


def read_response(response: Any) -> ProviderResponse:
    """Return the content of a litellm response.

    litellm treats empty ``choices``, a null ``content`` and a missing ``usage`` (then 0 and 0) as a success.
    """
    usage = getattr(response, "usage", None)
    reported = [_token_count(getattr(usage, key, None)) for key in ("prompt_tokens", "completion_tokens")]
    choices = getattr(response, "choices", None) or []
    message = getattr(choices[0], "message", None) if choices else None
    provider_fields = getattr(message, "provider_specific_fields", None) or {}
    return ProviderResponse(
        content=_content_text(message),
        input_tokens=reported[0],
        output_tokens=reported[1],
        finish_reason=getattr(choices[0], "finish_reason", None) if choices else None,
        refused=bool(getattr(message, "refusal", None) or provider_fields.get("refusal")),
        tokens=_answer_tokens(getattr(choices[0], "logprobs", None)) if choices else (),
        version=_version(response),
        cached_tokens=_token_count(
            getattr(getattr(usage, "prompt_tokens_details", None), "cached_tokens", None)
        ),
    )


def _content_text(message: Any) -> str:
    """The answer in a message: its text or text parts, else the arguments of its only call of a tool."""
    content = _field(message, "content")
    if isinstance(content, list):
        parts = (part if isinstance(part, str) else _field(part, "text") for part in content)
        content = "".join(part for part in parts if isinstance(part, str))
    if isinstance(content, str) and content.strip():
        return content
    calls = _field(message, "tool_calls")
    calls = [_field(call, "function") for call in calls] if isinstance(calls, list) else []
    calls = calls or [_field(message, "function_call")]
    arguments = _field(calls[0], "arguments") if len(calls) == 1 else None
    if isinstance(arguments, Mapping):
        return json.dumps(arguments, ensure_ascii=False)
    return arguments if isinstance(arguments, str) else content if isinstance(content, str) else ""


def _answer_tokens(logprobs: Any) -> tuple[AnswerToken, ...]:
    """Return the tokens of OpenAI's ``logprobs``; none at all if one is not a text with a number."""
    tokens = []
    for entry in _field(logprobs, "content") or ():
        if (spelt := _spelt_token(entry)) is None:
            return ()
        tokens.append(AnswerToken(spelt[0], spelt[1], _other_tokens(_field(entry, "top_logprobs"))))
    return tuple(tokens)


def _other_tokens(entries: Any) -> tuple[tuple[bytes, float], ...]:
    """The tokens of OpenAI's ``top_logprobs``."""
    found = map(_spelt_token, entries if isinstance(entries, list) else ())
    return tuple(token for token in found if token is not None)


def _spelt_token(entry: Any) -> tuple[bytes, float] | None:
    """A token's bytes and log-probability; ``None`` if it is not a text with a number."""
    text, number, data = (_field(entry, name) for name in ("token", "logprob", "bytes"))
    if not isinstance(text, str) or isinstance(number, bool) or not isinstance(number, int | float):
        return None
    # A token may be a part of a character, which only its bytes can say.
    whole = isinstance(data, list) and all(isinstance(byte, int) and 0 <= byte < 256 for byte in data)
    return bytes(data) if whole else text.encode("utf-8", "replace"), float(number)


def _field(content: Any, name: str) -> Any:
    return content.get(name) if isinstance(content, Mapping) else getattr(content, name, None)


def _version(response: Any) -> str | None:
    """Return the model and the system's fingerprint that a response names; litellm passes both on."""
    reported = [getattr(response, name, None) for name in ("model", "system_fingerprint")]
    words = ["".join(value.split())[:_LONGEST_VERSION] for value in reported if isinstance(value, str)]
    return " ".join(word for word in words if word.isprintable()).strip() or None


def _token_count(value: object) -> int:
    """Return a positive integer as it is, and 0 for anything else that a provider may send."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


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
        """Make one call; the response has the attributes of litellm's that CaMVo reads."""
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
    """The short path of a request in litellm's terms; ``None`` if ``acompletion`` has to make the call."""
    if str(request["model"]).partition("/")[0] not in _PROVIDERS:
        return None
    if not request.keys() <= _MAPPED | _ADDRESS | _OURS:
        return None
    for message in request["messages"]:
        if not isinstance(message.get("content"), str) or not message.keys() <= {"role", "content"}:
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

    ``None`` if it is out of the ordinary, such as one without an answer.
    """
    from litellm.litellm_core_utils.core_helpers import map_finish_reason  # noqa: PLC0415
    from litellm.litellm_core_utils.prompt_templates.common_utils import (  # noqa: PLC0415
        extract_reasoning_content,
    )

    if not isinstance(data, dict) or "error" in data:
        return None
    choices = data.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        return None
    if not isinstance(message.get("content"), str | list) and not message.get("tool_calls"):
        return None
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

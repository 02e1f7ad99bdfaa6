"""One request in the form in which its provider takes it, made by the code that litellm itself uses."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from backend.models.litellm_info import litellm

_OF_THE_CONNECTION = frozenset(
    {"api_base", "base_url", "api_key", "api_version", "organization", "extra_headers", "timeout", "metadata"}
)
"""Parameters that say where a request goes, and are not sent with it."""


def provider_body(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON body of a chat completion.

    Args:
        request: litellm's parameters of the call.
    """
    model, provider, _, _ = litellm().get_llm_provider(request["model"])
    options = {
        name: value
        for name, value in request.items()
        if name not in {"model", "messages", *_OF_THE_CONNECTION}
    }
    optional = copy.deepcopy(_provider_options(model, provider, json.dumps(options, sort_keys=True)))
    extra = optional.pop("extra_body", None) or {}
    body = _config(model, provider).transform_request(
        model=model,
        messages=[dict(message) for message in request["messages"]],
        optional_params=optional,
        litellm_params={},
        headers={},
    )
    return {name: value for name, value in {**body, **extra}.items() if name not in ("stream", "json_mode")}


@lru_cache(maxsize=64)
def _provider_options(model: str, provider: str, options: str) -> dict[str, Any]:
    from litellm.utils import get_optional_params  # noqa: PLC0415 - after litellm() has set it up

    mapped = get_optional_params(
        model=model, custom_llm_provider=provider, drop_params=True, **json.loads(options)
    )
    return dict(mapped)


@lru_cache(maxsize=64)
def _config(model: str, provider: str) -> Any:
    from litellm.types.utils import LlmProviders  # noqa: PLC0415 - after litellm() has set it up
    from litellm.utils import ProviderConfigManager  # noqa: PLC0415

    return ProviderConfigManager.get_provider_chat_config(model=model, provider=LlmProviders(provider))

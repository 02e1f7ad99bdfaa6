"""The only import of litellm, and what litellm knows about models without a network."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import cache, lru_cache
from types import ModuleType
from typing import Any

from backend.models.calling.short_path import path_of
from backend.models.heavy_imports import garbage_collection_paused

_TOKENIZER = "gpt-4o"
"""The tokens of all models are counted with this model's tokenizer, which litellm contains.

:class:`backend.models.prices.TokenMeter` corrects the count.
"""

_MACHINE_CREDENTIALS = ("bedrock", "sagemaker", "vertex_ai")
"""Providers that may accept the machine's own credentials, so that no variable has to be set."""

_WITHOUT_ADDRESSES = ("bedrock", "gemini", "ollama", "snowflake", "vertex_ai")
"""Providers that take images as data only, or for which litellm would download them."""


@cache
def litellm() -> Any:
    """Return the module, imported on first use (two seconds) and kept off the network and the terminal."""
    # litellm reads these variables during the import; without the first, the import downloads the price map
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ["MAX_IMAGE_URL_DOWNLOAD_SIZE_MB"] = "0"  # forbids downloads of images, except for bedrock
    with garbage_collection_paused():
        import litellm as module  # noqa: PLC0415

    module.suppress_debug_info = True
    module.disable_hf_tokenizer_download = True
    # their log lines can contain a provider's words, which can echo a prompt, and URLs with a key
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    _forbid_downloads(module)
    _price_no_answers()
    return module


def _price_no_answers() -> None:
    """Keep litellm from pricing the answers of :func:`complete`: CaMVo has prices of its own.

    Pricing takes a fifth of a call's processor time, and there is no switch.
    """
    from litellm._internal_context import is_internal_call  # noqa: PLC0415
    from litellm.litellm_core_utils.litellm_logging import Logging  # noqa: PLC0415

    priced = Logging.response_cost_calculator

    def unpriced(*arguments: Any, **options: Any) -> Any:
        return None if is_internal_call.get() else priced(*arguments, **options)

    Logging.response_cost_calculator = unpriced


async def complete(request: Mapping[str, Any]) -> Any:
    """Make one call, by :mod:`backend.models.calling.short_path` where the provider has one.

    Other calls go by ``litellm.acompletion``, without the records that litellm's callbacks would read: CaMVo
    has no such callbacks, and their records take another fifth of a call's processor time. litellm leaves
    them out of the calls that it makes within others.
    """
    module = litellm()
    path = path_of(request, os.environ) if isinstance(module, ModuleType) else None
    if path is not None:
        return await path.call(request["messages"], request.get("timeout"))
    from litellm._internal_context import is_internal_call  # noqa: PLC0415

    before = is_internal_call.set(True)
    try:
        return await module.acompletion(**request)
    finally:
        is_internal_call.reset(before)


def _forbid_downloads(module: Any) -> None:
    """Make litellm refuse every address that it would download before it asks a model.

    Otherwise the authors of tasks could make the server open addresses. Before a download litellm always
    asks ``validate_url`` whether the address is allowed; there is no switch for the downloads themselves.
    """
    from litellm.litellm_core_utils import url_utils  # noqa: PLC0415

    def refuse(url: str) -> tuple[str, str]:
        raise url_utils.SSRFError("CaMVo downloads nothing that a task names")

    module.user_url_validation = True
    url_utils.validate_url = refuse


def provider_of(model: str) -> str | None:
    """Return the provider that litellm would call for a model; ``None`` if it does not know the model."""
    try:
        return str(litellm().get_llm_provider(model)[1])
    except Exception:  # litellm has no specific class for this
        return None


def price_map_entry(model: str) -> Mapping[str, Any]:
    """Return a model's entry in litellm's bundled map, with litellm's keys; empty if it is not listed."""
    try:
        entry: Mapping[str, Any] = litellm().model_cost[litellm().get_model_info(model)["key"]]
    except Exception:  # for a model outside the map, litellm raises various classes
        return {}
    return entry


def chat_models() -> dict[str, str]:
    """Return the chat models of litellm's bundled map: name, with or without its provider → full name."""
    names: dict[str, str] = {}
    for name, entry in litellm().model_cost.items():
        provider = entry.get("litellm_provider", "")
        if entry.get("mode") == "chat" and provider in litellm().provider_list:
            full = name if name.startswith(f"{provider}/") else f"{provider}/{name}"
            names[full] = full
            names.setdefault(name, full)
    return names


def accepts_schema(model: str) -> bool:
    """Return whether the model accepts a JSON schema."""
    return bool(litellm().supports_response_schema(model))


def accepts_images(model: str) -> bool:
    """Return whether the model accepts images."""
    return bool(litellm().supports_vision(model))


def passes_on(model: str, address: str) -> bool:
    """Return whether litellm would send an image's web address to the provider as it is.

    For some providers it would download the image first, which is forbidden here; Ollama opens no addresses.
    """
    provider = provider_of(model) or ""
    if provider == "anthropic":
        return address.lower().startswith("https://")
    return not provider.startswith(_WITHOUT_ADDRESSES)


def accepts_system_message(model: str) -> bool:
    """Return whether the model accepts a system message; assumed if the map does not say."""
    return price_map_entry(model).get("supports_system_messages") is not False


def missing_variables(model: str) -> tuple[str, ...]:
    """Return the environment variables that litellm needs for a model and that are not set.

    If a key has several names (``GEMINI_API_KEY``, ``GOOGLE_API_KEY``), all are listed. Empty for providers
    without a key, and for those that accept the machine's credentials.
    """
    if (provider_of(model) or "").startswith(_MACHINE_CREDENTIALS):
        return ()
    missing = litellm().validate_environment(model)["missing_keys"]
    return tuple(variable for variable in missing if variable.endswith(("KEY", "TOKEN")))


@lru_cache(maxsize=512)
def count_tokens(contents: tuple[str, ...]) -> int:
    """Return the tokens of a prompt. Recent counts are cached, because every model prices the same prompt.

    Each message is counted by itself, as the system message is the same for all tasks.
    """
    return _of_prompt() + sum(_of_message(content) - _of_prompt() for content in contents)


@lru_cache(maxsize=512)
def _of_message(content: str) -> int:
    """The tokens of a prompt with one message."""
    messages = [{"role": "user", "content": content}]
    return int(litellm().token_counter(model=_TOKENIZER, messages=messages))


@lru_cache(maxsize=1)
def _of_prompt() -> int:
    """The tokens that a prompt has beside its messages."""
    two = [{"role": "user", "content": ""}] * 2
    return 2 * _of_message("") - int(litellm().token_counter(model=_TOKENIZER, messages=two))


@lru_cache(maxsize=512)
def count_text(text: str) -> int:
    """Return the tokens of a part of a prompt, without those that a message adds."""
    return int(litellm().token_counter(model=_TOKENIZER, text=text))

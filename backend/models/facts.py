"""The one import of litellm, and what it knows about models without being on the network."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from backend.models.heavy_imports import uncollected

_TOKENIZER = "gpt-4o"
"""All models are counted with this one's tokenizer, which litellm contains; ``prices.Meter`` corrects it."""

_CREDENTIALS_OF_THE_MACHINE = ("bedrock", "sagemaker", "vertex_ai")
"""Providers that may be reached with a role of the machine, so that no variable need be set."""


@cache
def litellm() -> Any:
    """The module, imported on first use (two seconds), told to keep off the network and the terminal."""
    # read when the module is imported: without it, the import itself fetches the price map
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    with uncollected():
        import litellm as module  # noqa: PLC0415

    module.suppress_debug_info = True
    module.disable_hf_tokenizer_download = True
    # their lines can hold what a provider said, which can echo a prompt, and addresses with a key in them
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return module


def provider(model: str) -> str | None:
    """The provider that litellm would ask for a model, ``None`` for one it does not know."""
    try:
        return str(litellm().get_llm_provider(model)[1])
    except Exception:  # litellm has no class of its own for this
        return None


def entry(model: str) -> Mapping[str, Any]:
    """What the bundled map says about a model, in litellm's own keys; empty for one it does not list."""
    try:
        found: Mapping[str, Any] = litellm().model_cost[litellm().get_model_info(model)["key"]]
    except Exception:  # a model outside the map raises, of different classes
        return {}
    return found


def takes_schema(model: str) -> bool:
    """Whether a JSON schema can be sent along."""
    return bool(litellm().supports_response_schema(model))


def takes_images(model: str) -> bool:
    """Whether an image can be sent."""
    return bool(litellm().supports_vision(model))


def takes_system_message(model: str) -> bool:
    """Whether a system message can be sent; models that the map says nothing about are taken to."""
    return entry(model).get("supports_system_messages") is not False


def missing_variables(model: str) -> tuple[str, ...]:
    """Environment variables that litellm would look for and not find.

    With several names for one key (``GEMINI_API_KEY``, ``GOOGLE_API_KEY``) all are listed. Empty for
    providers that take the machine's credentials, and for those without a key.
    """
    if (provider(model) or "").startswith(_CREDENTIALS_OF_THE_MACHINE):
        return ()
    missing = litellm().validate_environment(model)["missing_keys"]
    return tuple(variable for variable in missing if variable.endswith(("KEY", "TOKEN")))


@lru_cache(maxsize=512)
def count_tokens(contents: tuple[str, ...]) -> int:
    """Tokens of a prompt; the last few hundred are remembered, for they are priced once for every model."""
    messages = [{"role": "user", "content": content} for content in contents]
    return int(litellm().token_counter(model=_TOKENIZER, messages=messages))

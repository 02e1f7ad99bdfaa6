"""One model of the pool: its key, its capabilities, what is sent to it, and what a call will cost."""

from __future__ import annotations

import copy
import gc
import hashlib
import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property, lru_cache
from types import ModuleType
from typing import Any

import structlog

from backend.errors import ConfigError, PriceMissingError
from backend.models.calls import path_of
from backend.models.prices import TokenMeter, TokenPrices, prices_in_batches, token_prices
from backend.questions.prompts.messages import (
    Messages,
    content_parts,
    image_addresses,
    longest_answer,
    text_part,
    texts_of,
)
from backend.settings import ModelSettings
from backend.settings.mistakes import closest, masked
from backend.settings.models import DEFAULT_MODELS

_log = structlog.get_logger(__name__)


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Pause garbage collection inside the block, which makes a heavy import a fifth faster.

    Collections during the import visit hundreds of thousands of new objects and free almost nothing. All
    objects that exist at the end of the block are excluded from later collections, too. Blocks of several
    threads may overlap: the thread that paused collection resumes it.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.freeze()
            gc.enable()


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
    _forbid_second_sendings()
    _price_no_answers()
    return module


def _forbid_second_sendings() -> None:
    """Keep litellm from sending a call again whose connection broke, behind the back of the ledger.

    The provider may have received the call, and bill it; there is no switch. CaMVo itself sends it again.
    """
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler  # noqa: PLC0415

    async def refuse(*_: Any, **options: Any) -> Any:
        """Raise the error of the first sending, which litellm handles by a second one."""
        error = sys.exception()
        assert error is not None, "litellm sends a call again after an error only"  # noqa: S101
        raise error

    AsyncHTTPHandler.single_connection_post_request = refuse


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


@contextmanager
def without_records() -> Iterator[None]:
    """Make litellm's calls inside the block without the records that its callbacks would read.

    CaMVo has no such callbacks. The records of a call take a fifth of its processor time, and those of a
    batch that has ended download its results once more. litellm leaves them out of calls within others.
    """
    from litellm._internal_context import is_internal_call  # noqa: PLC0415

    before = is_internal_call.set(True)
    try:
        yield
    finally:
        is_internal_call.reset(before)


async def complete(request: Mapping[str, Any]) -> Any:
    """Make one call, by :mod:`backend.models.calls` where it has the provider, else by litellm."""
    module = litellm()
    path = path_of(request, os.environ) if isinstance(module, ModuleType) else None
    if path is not None:
        return await path.call(request["messages"], request.get("timeout"))
    # litellm rewrites the schemas of some providers in place, and other calls share this one.
    own = {key: copy.deepcopy(value) for key, value in request.items() if key == "response_format"}
    with without_records():
        return await module.acompletion(**{**request, **own})


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


def _price_map_entry(model: str) -> Mapping[str, Any]:
    """Return a model's entry in litellm's bundled map, with litellm's keys; empty if it is not listed."""
    try:
        entry: Mapping[str, Any] = litellm().model_cost[litellm().get_model_info(model)["key"]]
    except Exception:  # for a model outside the map, litellm raises various classes
        return {}
    return entry


def _chat_models() -> dict[str, str]:
    """Return the chat models of litellm's bundled map: name, with or without its provider → full name."""
    names: dict[str, str] = {}
    for name, entry in litellm().model_cost.items():
        provider = entry.get("litellm_provider", "")
        if entry.get("mode") == "chat" and provider in litellm().provider_list:
            full = name if name.startswith(f"{provider}/") else f"{provider}/{name}"
            names[full] = full
            names.setdefault(name, full)
    return names


def _takes_schema(settings: ModelSettings, entry: Mapping[str, Any]) -> bool | None:
    """Return whether the model accepts a JSON schema; ``None`` if neither the settings nor litellm say."""
    if settings.structured_output is not None:
        return settings.structured_output
    if litellm().supports_response_schema(settings.model):
        return True
    is_unknown = not entry or str(entry.get("litellm_provider")).startswith("ollama")
    return None if is_unknown else False


def accepts_images(model: str) -> bool:
    """Return whether the model accepts images."""
    return bool(litellm().supports_vision(model))


def _passes_on(model: str, address: str) -> bool:
    """Return whether litellm would send an image's web address to the provider as it is."""
    provider = provider_of(model) or ""
    if provider == "anthropic":
        return address.lower().startswith("https://")
    return not provider.startswith(_WITHOUT_ADDRESSES)


def _accepts_system_message(model: str) -> bool:
    """Return whether the model accepts a system message; assumed if the map does not say."""
    return _price_map_entry(model).get("supports_system_messages") is not False


def _missing_variables(model: str) -> tuple[str, ...]:
    """Return the environment variables that litellm needs for a model and that are not set."""
    if (provider_of(model) or "").startswith(_MACHINE_CREDENTIALS):
        return ()
    missing = litellm().validate_environment(model)["missing_keys"]
    return tuple(variable for variable in missing if variable.endswith(("KEY", "TOKEN")))


@lru_cache(maxsize=512)
def count_tokens(contents: tuple[str, ...]) -> int:
    """Return the tokens of a prompt. Recent counts are cached, because every model prices the same prompt.

    Each message is counted separately, because the system message is the same for all tasks.
    """
    return _of_prompt() + sum(_of_message(content) - _of_prompt() for content in contents)


@lru_cache(maxsize=512)
def _of_message(content: str) -> int:
    """The tokens of a prompt with one message."""
    messages = [{"role": "user", "content": content}]
    return int(litellm().token_counter(model=_TOKENIZER, messages=messages))


@lru_cache(maxsize=1)
def _of_prompt() -> int:
    """The tokens that a prompt has in addition to its messages."""
    two = [{"role": "user", "content": ""}] * 2
    return 2 * _of_message("") - int(litellm().token_counter(model=_TOKENIZER, messages=two))


@lru_cache(maxsize=512)
def count_text(text: str) -> int:
    """Return the tokens of a part of a prompt, without those that a message adds."""
    return int(litellm().token_counter(model=_TOKENIZER, text=text))


_PER_MESSAGE = 16
"""Tokens that a provider may add to a message."""

_IMAGE_TOKENS = 1000
"""Tokens that an image counts as.

The actual number is unknown before the call: one provider charges 258 tokens per tile of 768 pixels, another
1,600 for a megapixel. Reported usage corrects the count, as for text.
"""

_PER_IMAGE = 50_000
"""The most tokens that an image takes; some small models charge far more than others."""

MAX_FACTOR = _PER_IMAGE // _IMAGE_TOKENS
"""The most input tokens that a counted token may turn out to be; images have the largest ratio."""

_REASONING = frozenset({"reasoning_effort", "thinking"})
"""Parameters that make a model reason before it answers."""

_OTHER_TOKENS = 20
"""The most probable tokens that are asked for at each place; providers report no more."""

_PER_SCHEMA = 600
"""Tokens that a provider may add to a schema; some turn it into a tool and explain tools to the model."""


_NO_KEY = "none"
"""Sent to an OpenAI-compatible server without a key, because litellm would send it OpenAI's own key."""


_LIKE = 0.8
"""Similarity from which a model's name counts as misspelt."""


def _meant(settings: ModelSettings) -> str | None:
    """Ask whether a known model of nearly the same name was meant; ``None`` if no name is close.

    Self-hosted servers have models that litellm does not know.
    """
    if settings.is_embedded:
        close = closest(settings.model, [voter.model for voter in DEFAULT_MODELS], _LIKE)
    elif "api_base" in settings.parameters or "base_url" in settings.parameters:
        close = None
    else:
        known = _chat_models()
        close = closest(settings.model, known, _LIKE)
        close = None if close is None else known[close]
    return None if close in (None, settings.model) else f"did you mean {close}?"


class Model:
    """What is known about one model before it is called.

    Args:
        settings: the model's settings.
        key: its API key; if ``None``, litellm looks for its provider's key.

    Attributes:
        provider: litellm's name of its provider.
        context: the most tokens of a prompt, by litellm's map; ``None`` if it is not known.

    Raises:
        PriceMissingError: neither the settings nor litellm have its price.
        ConfigError: litellm does not know its provider.
    """

    def __init__(self, settings: ModelSettings, key: str | None, beside: Sequence[TokenMeter] = ()) -> None:
        self.settings = settings
        self.where = f"model {settings.name}"
        self.provider = provider_of(settings.model)
        # embedded voters may be registered with litellm later
        if self.provider is None and not settings.is_embedded:
            raise ConfigError(
                f"litellm knows no provider for {settings.model!r}",
                where=self.where,
                fix=_meant(settings) or "begin with the provider, as in openai/gpt-4o",
            )
        entry = _price_map_entry(settings.model)
        try:
            self.prices = token_prices(settings, entry)
        except PriceMissingError as error:
            if (meant := _meant(settings)) is None:
                raise
            raise PriceMissingError(error.message, where=error.where, fix=f"{meant} Or {error.fix}") from None
        self.batch_prices = prices_in_batches(settings, self.prices, entry)
        self.meter = TokenMeter(settings.max_tokens, settings.pack or 1, beside)
        self._most_output = _whole(entry.get("max_output_tokens"))
        self.context = _whole(entry.get("max_input_tokens"))
        self._entry = entry
        self._schemas: dict[str, bool] = {}
        self.key = key or (_NO_KEY if self.needs_no_key and not settings.is_embedded else None)

    def __repr__(self) -> str:
        return f"Model({self.settings.name})"

    @property
    def saves_in_batches(self) -> bool:
        """Whether its provider is known to have batches that cost less; a server of one's own has none."""
        prices, known = self.prices, self.settings.batch_discount is not None or not self._has_own_address
        cheaper = self.batch_prices is not None and (
            self.batch_prices.input < prices.input or self.batch_prices.output < prices.output
        )
        return known and cheaper

    @property
    def _has_own_address(self) -> bool:
        return not {"api_base", "base_url"}.isdisjoint(self.settings.parameters)

    @property
    def needs_no_key(self) -> bool:
        """Whether it is an embedded voter, or a server of one's own for which the settings name no key."""
        if self.settings.is_embedded:
            return True
        return self.provider == "openai" and self._has_own_address and self.settings.api_key_env is None

    @cached_property
    def _declared_schema(self) -> bool | None:
        return _takes_schema(self.settings, self._entry)

    def _takes_this_schema(self, schema: Mapping[str, Any] | None) -> bool | None:
        """Whether it accepts this JSON schema; ``None`` until settings, litellm or an answer say it.

        Requests carry the schema until that is known. A server that refuses one question's schema, for its
        many labels perhaps, may accept others.
        """
        if self._declared_schema is False:
            return False
        return self._schemas.get(_identity(schema), self._declared_schema)

    def may_refuse(self, schema: Mapping[str, Any] | None) -> bool:
        """Whether its server may reject a request for this schema, which the settings do not demand."""
        return self.settings.structured_output is None and not self._schemas.get(_identity(schema), False)

    def refused(self, schema: Mapping[str, Any]) -> bool:
        """Whether its server answered only without this schema."""
        return not self._schemas.get(_identity(schema), True)

    def note_schema(self, schema: Mapping[str, Any] | None, *, taken: bool) -> None:
        """Remember whether its server answered a call with a JSON schema, or only one without."""
        if schema is None:
            return
        if not taken and self._takes_this_schema(schema) is not False:
            _log.warning("schema_refused", model=self.settings.name, fix="set structured_output: false")
        if self._declared_schema is not False:
            self._schemas[_identity(schema)] = taken

    def without_schema(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return a request without the schema, and without the parameters that depend on it."""
        asked = {"response_format", *({"top_logprobs"} - self.settings.parameters.keys())}
        return {key: value for key, value in request.items() if key not in asked}

    @cached_property
    def _accepts_system_message(self) -> bool:
        configured = self.settings.system_message
        return _accepts_system_message(self.settings.model) if configured is None else configured

    @cached_property
    def sees(self) -> bool:
        """Whether the model accepts images."""
        configured = self.settings.vision
        return accepts_images(self.settings.model) if configured is None else configured

    def can_be_shown(self, addresses: Sequence[str]) -> bool:
        """Whether the model accepts images, and opens the web addresses among these itself."""
        on_the_web = (address for address in addresses if not address.lower().startswith("data:"))
        return self.sees and all(_passes_on(self.settings.model, address) for address in on_the_web)

    @property
    def missing_variables(self) -> tuple[str, ...]:
        """The environment variables that should hold the key and are not set."""
        if self.key is not None or self.settings.is_embedded:
            return ()
        if self.settings.api_key_env is not None:
            return (self.settings.api_key_env,)
        return _missing_variables(self.settings.model)

    def count(self, messages: Messages) -> int:
        """Return the input tokens by litellm's count."""
        return count_tokens(texts_of(messages)) + _IMAGE_TOKENS * len(image_addresses(messages))

    def cost(
        self,
        messages: Messages,
        tasks: int = 1,
        *,
        batched: bool = False,
        schema: Mapping[str, Any] | None = None,
    ) -> float:
        """Return the expected cost in $ of one call about ``tasks`` tasks.

        Args:
            messages: the prompt.
            tasks: the number of tasks in it.
            batched: whether it is a line of a provider's batch, at full price if no other is known.
            schema: that of an answer about one task, which bounds the answer's length until a model's answer
                is measured; ``None`` for ``max_tokens``.
        """
        return self._cost_of(self.count(messages), tasks, batched=batched, schema=schema)

    def packed_cost(
        self,
        shared: tuple[str, ...],
        own: str,
        *,
        batched: bool = False,
        schema: Mapping[str, Any] | None = None,
    ) -> float:
        """Return the expected cost of asking about one task in a prompt with others, $.

        Args:
            shared: the parts of the prompt that its tasks share.
            own: the task's own part.
            batched: as for :meth:`cost`.
            schema: the same.
        """
        counted = count_tokens(shared) / self.meter.tasks_in_prompt + count_text(own)
        return self._cost_of(counted, batched=batched, schema=schema)

    def is_bounded_only(self, schema: Mapping[str, Any]) -> bool:
        """Whether nothing but ``max_tokens`` says how long an answer is.

        No model's answer was measured, and the schema allows any length, or is not sent, or the model reasons
        first.
        """
        return self.meter.measured_by == "max_tokens" and self._longest_output(schema) is None

    def _longest_output(self, schema: Mapping[str, Any]) -> int | None:
        """The tokens of the longest answer to one task; ``None`` if its length has no bound."""
        reasons = self._entry.get("supports_reasoning") or not _REASONING.isdisjoint(self.settings.parameters)
        answer = None if reasons or self._takes_this_schema(schema) is False else longest_answer(schema)
        return None if answer is None else min(count_text(answer), self.settings.max_tokens)

    def _cost_of(
        self, counted: float, tasks: int = 1, *, batched: bool = False, schema: Mapping[str, Any] | None
    ) -> float:
        unknown = self.meter.measured_by == "max_tokens"
        longest = None if schema is None or not unknown else self._longest_output(schema)
        output = (self.meter.output_tokens if longest is None else longest) * tasks
        expected = counted * self.meter.factor
        cached = 0.0 if batched else self.meter.cached_share * expected
        return self.prices_of(batched=batched).cost(expected, output, cached)

    def for_tasks(self, number: int) -> Model:
        """Return the model for a prompt about ``number`` tasks: its answer may be that many times as long."""
        if number == 1:
            return self
        most = number * self.settings.max_tokens
        if self._most_output is not None:
            most = max(min(most, self._most_output), self.settings.max_tokens)
        sized = copy.copy(self)
        sized.settings = self.settings.model_copy(update={"max_tokens": most})
        return sized

    def ceiling(
        self, messages: Messages, schema: Mapping[str, Any] | None, *, batched: bool = False
    ) -> float:
        """Return the highest possible cost of one call, or of one line of a batch, $."""
        prices = self.prices_of(batched=batched)
        return prices.cost(self.most_input(messages, schema), self.settings.max_tokens)

    def prices_of(self, *, batched: bool) -> TokenPrices:
        """The prices of calls, or those in batches, which are the same if no others are known."""
        return (self.batch_prices if batched else None) or self.prices

    def most_input(self, messages: Messages, schema: Mapping[str, Any] | None) -> int:
        """Return the most input tokens that a call can take, by any tokenizer; more is not believed."""
        most = sum(len(content.encode()) + _PER_MESSAGE for content in texts_of(messages))
        if self._declared_schema is not False:
            most += len(json.dumps(schema).encode()) + _PER_SCHEMA
        return most + len(image_addresses(messages)) * _PER_IMAGE

    def fingerprint(self, messages: Messages, schema: Mapping[str, Any] | None) -> str:
        """Return the SHA-256 (hex) of the request, with secrets among its parameters masked."""
        # A process finds the answers of others, whether or not it knows yet that the schema is refused.
        request = self.request(messages, schema, structured=self._declared_schema is not False)
        # Only parameters are masked. Masking the messages would give different prompts the same fingerprint.
        request |= self._masked_parameters
        return hashlib.sha256(json.dumps(request, sort_keys=True, default=str).encode()).hexdigest()

    @cached_property
    def _masked_parameters(self) -> dict[str, Any]:
        return {key: masked(key, value) for key, value in self.settings.parameters.items()}

    def request(
        self, messages: Messages, schema: Mapping[str, Any] | None, *, structured: bool | None = None
    ) -> dict[str, Any]:
        """Return the litellm parameters of a call that can change the answer: no key and no timeout.

        Where the model takes no system message, its text precedes the user's message.

        Args:
            messages: the prompt.
            schema: the JSON schema of an answer.
            structured: whether the schema is sent; ``None`` to send it unless the model refuses it.
        """
        if structured is None:
            structured = self._takes_this_schema(schema) is not False
        settings, system = self.settings, self._accepts_system_message
        sent = [dict(message) for message in messages] if system else _without_system(messages)
        request: dict[str, Any] = {**settings.parameters, "model": settings.model, "messages": sent}
        request["max_tokens"] = settings.max_tokens
        if settings.temperature is not None:
            request["temperature"] = settings.temperature
        if settings.logprobs:
            request["logprobs"] = True
        if structured and schema is not None:
            json_schema = {"name": "labels", "strict": True, "schema": schema}
            request["response_format"] = {"type": "json_schema", "json_schema": json_schema}
            if settings.logprobs:
                request.setdefault("top_logprobs", _OTHER_TOKENS)
        return request

    def batch_request(self, messages: Messages, schema: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the parameters of a line of a batch: a refused schema would cost all lines a day."""
        return self.request(messages, schema, structured=self._takes_this_schema(schema) is True)


def _without_system(messages: Messages) -> list[dict[str, Any]]:
    """Return the messages with the system message's text in front of the next message's."""
    first_two, rest = messages[:2], messages[2:]
    words = "\n\n".join(texts_of(first_two))
    images = [part for message in first_two for part in content_parts(message) if part["type"] == "image_url"]
    first = {"role": "user", "content": [text_part(words), *images] if images else words}
    return [first, *(dict(message) for message in rest)]


def _identity(schema: Mapping[str, Any] | None) -> str:
    """The question that a schema is about: prompts about several tasks share the answer's definition."""
    return json.dumps(None if schema is None else schema.get("$defs", schema))


def _whole(value: object) -> int | None:
    """Return a positive whole number of litellm's map, and ``None`` for anything else."""
    return value if isinstance(value, int) and value > 0 else None

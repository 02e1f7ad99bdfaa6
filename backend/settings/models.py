"""One entry of ``models`` in ``camvo.yaml``: a model's name, its prices and how it is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from backend.settings.mistakes import Real, Whole, closest, mistake
from camvo.twins import packed_arm

WRITER = "/writer"
"""Ends the name of an arm whose answers are texts instead of labels."""

_ONE_ANSWER = "leave it out: each call returns one complete answer"
_LABELS_AS_TEXT = "leave it out: labels are requested as text or with a JSON schema"
_RETRIES = "leave it out and set retries at the top of the file"

_MAX_TOKENS = (
    *("max_completion_tokens", "max_output_tokens", "max_new_tokens", "max_tokens_to_sample"),
    "num_predict",
)
"""Other names of ``max_tokens``, of providers and servers."""

_RESERVED: dict[str, str] = {
    "messages": "leave it out: CaMVo writes the prompt",
    "stream": _ONE_ANSWER,
    "stream_options": _ONE_ANSWER,
    "n": _ONE_ANSWER,
    "api_key": "name the environment variable that holds the key: api_key_env: OPENAI_API_KEY",
    "response_format": "set structured_output: true or false",
    "request_timeout": "set timeout, in seconds",
    "stream_timeout": "set timeout, in seconds",
    "force_timeout": "set timeout, in seconds",
    **dict.fromkeys(_MAX_TOKENS, "set max_tokens"),
    "num_retries": _RETRIES,
    "max_retries": _RETRIES,
    "fallbacks": "add the other model to the pool",
    "context_window_fallback_dict": "add the other model to the pool",
    "model_list": "add the other models to the pool",
    "max_parallel_requests": "set max_concurrency",
    "max_budget": "set budget at the top of the file",
    "itpm": "set tpm, the tokens per minute in and out",
    "otpm": "set tpm, the tokens per minute in and out",
    "supports_system_message": "set system_message: true or false",
    "cache_read_input_token_cost": "set cached_input_price, in dollars per million tokens",
    "input_cost_per_token": "set input_price, in dollars per million tokens",
    "output_cost_per_token": "set output_price, in dollars per million tokens",
    "tools": _LABELS_AS_TEXT,
    "tool_choice": _LABELS_AS_TEXT,
    "functions": _LABELS_AS_TEXT,
    "function_call": _LABELS_AS_TEXT,
}
"""litellm parameters that an entry must not have, each with what to write instead."""

_MOST_PACKED = 100
"""The most tasks that one prompt may hold."""

_TYPO = 0.85
"""Similarity from which an unknown key counts as misspelt, and not as a litellm parameter."""

_OF_LITELLM = (
    *("api_base", "base_url", "api_version", "api_type", "organization", "custom_llm_provider"),
    *("seed", "top_p", "top_k", "min_p", "stop", "user", "metadata", "logit_bias", "top_logprobs"),
    *("frequency_penalty", "presence_penalty", "repetition_penalty", "reasoning_effort", "thinking"),
    *("verbosity", "service_tier", "drop_params", "extra_body", "extra_headers", "headers", "num_ctx"),
    *("keep_alive", "aws_region_name", "aws_profile_name", "vertex_project", "vertex_location"),
)
"""litellm parameters that entries often have. A key that is nearly one of them counts as misspelt."""

_KNOWN = frozenset({*_OF_LITELLM, *_RESERVED})

_Price = Annotated[Real, Field(ge=0, allow_inf_nan=False)]


class ModelSettings(BaseModel):
    """A model of the pool.

    Other keys (``api_base``, ``seed``, ``reasoning_effort``, …) become ``parameters``, which litellm gets
    unchanged. ``null`` means absent.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    """The name that people see; unique in the pool."""
    model: str = Field(min_length=1)
    """litellm's name, such as ``openai/gpt-4o``."""
    pack: Annotated[Whole, Field(ge=2, le=_MOST_PACKED)] | None = None
    """The most tasks in one prompt of the model's packed arm (``name:pack``); if absent, it has none."""
    input_price: _Price | None = None
    """$ per million input tokens; if absent, from litellm's price map."""
    cached_input_price: _Price | None = None
    """$ per million input tokens that the provider read from its cache; if absent, from litellm's price map,
    or the input price where that is set."""
    output_price: _Price | None = None
    """$ per million output tokens, reasoning included; if absent, from litellm's price map."""
    api_key_env: str | None = None
    """The environment variable with the API key; if absent, litellm reads its provider's usual one."""
    temperature: Annotated[Real, Field(ge=0, allow_inf_nan=False)] | None = None
    """Sampling temperature; not sent if absent."""
    timeout: Annotated[Real, Field(gt=0, allow_inf_nan=False)] = 30.0
    """Seconds that one call may take, not counting the wait for a free slot."""
    max_concurrency: Annotated[Whole, Field(ge=1)] | None = None
    """The most calls in flight at once, per process; if absent, as many as the model answers quickly."""
    max_tokens: Annotated[Whole, Field(ge=1)] = 256
    """The most output tokens of one answer; a reasoning model needs a few thousand."""
    rpm: Annotated[Whole, Field(ge=1)] | None = None
    """The most requests per minute, over all processes."""
    tpm: Annotated[Whole, Field(ge=1)] | None = None
    """The most tokens per minute, input and output, over all processes."""
    structured_output: bool | None = None
    """Whether calls carry the JSON schema of the answer; if absent, litellm's map decides. To a model that
    it does not know, the schema is sent until its server refuses it."""
    system_message: bool | None = None
    """Whether the model takes a system message; if absent, litellm's map decides."""
    vision: bool | None = None
    """Whether the model takes images; if absent, litellm's map decides."""
    logprobs: bool = False
    """Whether to ask for the log-probabilities of the answer's tokens, which say how sure a vote is."""
    batch: bool = False
    """Whether ``camvo label`` asks the model in its provider's batches."""
    batch_discount: Annotated[Real, Field(ge=0, lt=1, allow_inf_nan=False)] | None = None
    """The share of the price that batches save, such as 0.5; if absent, litellm's price map decides."""
    batch_tokens: Annotated[Whole, Field(ge=1)] | None = None
    """The most tokens that may be enqueued in batches; if absent, as many as the provider takes."""
    parameters: dict[str, object] = Field(default_factory=dict, repr=False)
    """Further litellm parameters."""

    @property
    def is_embedded(self) -> bool:
        """Whether it is an embedded voter (``embedded/…``), which needs neither a key nor a network."""
        return self.model.startswith("embedded/")

    @property
    def packed_name(self) -> str | None:
        """The name of the packed arm; ``None`` if the model has none."""
        return None if self.pack is None else packed_arm(self.name, self.pack)

    @property
    def packed(self) -> ModelSettings | None:
        """The packed arm: the same model with several tasks in a prompt; ``None`` if it has none."""
        if (name := self.packed_name) is None:
            return None
        return self.model_copy(update={"name": name, "timeout": 2.0 * self.timeout, "logprobs": False})

    @model_validator(mode="before")
    @classmethod
    def _gather_parameters(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        own = {key: value for key, value in data.items() if key in cls.model_fields}
        further = {key: value for key, value in data.items() if key not in cls.model_fields}
        for key in further:
            if not isinstance(key, str):  # {input_price: 2,5} is the price 2, and a key 5
                raise mistake(str(key), "is not a key of a model", "write decimals with a point, as 2.5")
            close = None if key in _KNOWN else closest(key, [*cls.model_fields, *_OF_LITELLM], _TYPO)
            if close is not None:
                raise mistake(key, "is not a key of a model", f"did you mean {close}?")
        nested = own.get("parameters") or {}
        if not isinstance(nested, Mapping):
            return own
        parameters = {str(key): value for key, value in {**nested, **further}.items() if value is not None}
        fields = {key: value for key, value in own.items() if value is not None}
        return {**fields, "parameters": parameters}

    @field_validator("name")
    @classmethod
    def _name_is_printable(cls, name: str) -> str:
        if name != name.strip() or not name.isprintable():
            raise mistake("", f"{name!r} has surrounding white space or a control character", "remove it")
        return name

    @field_validator("api_key_env")
    @classmethod
    def _key_is_named(cls, variable: str | None) -> str | None:
        # Upper case only, to catch a key pasted here by mistake. The message does not repeat the value.
        if variable is not None and not (variable.isidentifier() and variable == variable.upper()):
            raise mistake(
                "",
                "the value is not the name of an environment variable",
                "give a name such as OPENAI_API_KEY, and set that variable to the key",
            )
        return variable

    @model_validator(mode="after")
    def _packs_what_reads_prompts(self) -> ModelSettings:
        if self.pack is not None and self.is_embedded:
            raise mistake("pack", "an embedded voter reads no prompt", "leave it out")
        return self

    @model_validator(mode="after")
    def _nothing_reserved(self) -> ModelSettings:
        for key in self.parameters:
            if key in type(self).model_fields:
                raise mistake(key, "is below parameters", "move it up to the model's own keys")
            if key in _RESERVED:
                raise mistake(key, "cannot be set here", _RESERVED[key])
        return self


_PRICES = {
    "overlap": (0.05, 0.20),
    "keywords": (0.10, 0.40),
    "label-name": (0.20, 0.80),
    "label-sentence": (0.40, 1.60),
    "hints": (0.80, 3.20),
    "sentences": (1.50, 6.00),
    "everything": (3.00, 12.00),
}
"""$ per million input and output tokens."""

DEFAULT_MODELS: tuple[ModelSettings, ...] = tuple(
    ModelSettings(name=name, model=f"embedded/{name}", input_price=per_input, output_price=per_output)
    for name, (per_input, per_output) in _PRICES.items()
)
"""Every embedded voter, cheapest first."""

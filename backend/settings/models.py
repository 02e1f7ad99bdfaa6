"""One entry of ``models`` in ``camvo.yaml``: a named model, its price and how it is asked."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from .mistakes import Real, Whole, mistake

_ONE_ANSWER = "leave it out: one whole answer is read from every call"
_LABELS_AS_TEXT = "leave it out: labels are asked for as text or as a JSON schema"
_RETRIES = "leave it out and set retries at the top of the file"

RESERVED: dict[str, str] = {
    "messages": "leave it out: the prompt is CaMVo's",
    "stream": _ONE_ANSWER,
    "stream_options": _ONE_ANSWER,
    "n": _ONE_ANSWER,
    "api_key": "name the environment variable that holds the key: api_key_env: OPENAI_API_KEY",
    "response_format": "set structured_output: true or false",
    "request_timeout": "set timeout, in seconds",
    "stream_timeout": "set timeout, in seconds",
    "force_timeout": "set timeout, in seconds",
    "max_completion_tokens": "set max_tokens",
    "num_retries": _RETRIES,
    "max_retries": _RETRIES,
    "fallbacks": "add the other model to the pool",
    "context_window_fallback_dict": "add the other model to the pool",
    "model_list": "add the other models to the pool",
    "input_cost_per_token": "set input_price, in dollars per million tokens",
    "output_cost_per_token": "set output_price, in dollars per million tokens",
    "tools": _LABELS_AS_TEXT,
    "tool_choice": _LABELS_AS_TEXT,
    "functions": _LABELS_AS_TEXT,
    "function_call": _LABELS_AS_TEXT,
}
"""litellm parameters that an entry may not carry, each with what to write instead."""

_TYPO = 0.85  # similarity from which an unknown key is taken for a misspelt one, and not for litellm's

Price = Annotated[Real, Field(ge=0, allow_inf_nan=False)]


class ModelSettings(BaseModel):
    """A model of the pool.

    Keys that are none of these fields go to ``parameters`` and from there to litellm as they are
    (``api_base``, ``seed``, ``reasoning_effort``, …); ``null`` means absent.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    """What people see; unique in the pool."""
    model: str = Field(min_length=1)
    """litellm's name, such as ``openai/gpt-4o``."""
    input_price: Price | None = None
    """$ per million input tokens; litellm's price map when left out."""
    output_price: Price | None = None
    """$ per million output tokens, reasoning included; litellm's price map when left out."""
    api_key_env: str | None = None
    """Name of the environment variable with the key; left out, litellm reads its provider's usual one."""
    temperature: Annotated[Real, Field(ge=0, allow_inf_nan=False)] | None = None
    """Sampling temperature; not sent when left out."""
    timeout: Annotated[Real, Field(gt=0, allow_inf_nan=False)] = 30.0
    """Seconds one call may take, waiting for a free slot not counted."""
    max_concurrency: Annotated[Whole, Field(ge=1)] = 64
    """Calls in flight at once, per process."""
    max_tokens: Annotated[Whole, Field(ge=1)] = 256
    """Output tokens of one answer at most; a model that reasons needs a few thousand."""
    rpm: Annotated[Whole, Field(ge=1)] | None = None
    """Requests per minute at most, over all processes."""
    tpm: Annotated[Whole, Field(ge=1)] | None = None
    """Tokens per minute at most, input and output, over all processes."""
    structured_output: bool | None = None
    """Whether the JSON schema of the answer is sent along; litellm's map decides when left out."""
    system_message: bool | None = None
    """Whether the model takes a system message; litellm's map decides when left out."""
    vision: bool | None = None
    """Whether the model takes images; litellm's map decides when left out."""
    parameters: dict[str, object] = Field(default_factory=dict, repr=False)
    """Further litellm parameters."""

    @property
    def is_embedded(self) -> bool:
        """Whether it is a built-in voter, ``embedded/…``, which needs neither a key nor a network."""
        return self.model.startswith("embedded/")

    @model_validator(mode="before")
    @classmethod
    def _gather_parameters(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        own = {key: value for key, value in data.items() if key in cls.model_fields}
        further = {str(key): value for key, value in data.items() if key not in cls.model_fields}
        for key in further:
            close = difflib.get_close_matches(key, cls.model_fields, n=1, cutoff=_TYPO)
            if close and key not in RESERVED:
                raise mistake(key, "is no key of a model", f"did you mean {close[0]}?")
        given = own.get("parameters") or {}
        if not isinstance(given, Mapping):
            return own
        # null means absent, for our own keys as for litellm's
        parameters = {str(k): v for k, v in {**given, **further}.items() if v is not None}
        fields = {key: value for key, value in own.items() if value is not None}
        return {**fields, "parameters": parameters}

    @field_validator("name")
    @classmethod
    def _name_is_printable(cls, name: str) -> str:
        if name != name.strip() or not name.isprintable():
            raise mistake("", f"{name!r} has white space around it or a control character", "remove it")
        return name

    @field_validator("api_key_env")
    @classmethod
    def _key_is_named(cls, variable: str | None) -> str | None:
        # upper case only, so that a key pasted here by mistake is caught; it is not repeated in the message
        if variable is not None and not (variable.isidentifier() and variable == variable.upper()):
            raise mistake(
                "",
                "the value is no name of an environment variable",
                "give a name such as OPENAI_API_KEY, and the key itself in that variable",
            )
        return variable

    @model_validator(mode="after")
    def _nothing_reserved(self) -> ModelSettings:
        for key in self.parameters:
            if key in type(self).model_fields:
                raise mistake(key, "stands below parameters", "move it up to the model's own keys")
            if key in RESERVED:
                raise mistake(key, "cannot be set here", RESERVED[key])
        return self

"""Requests as Label Studio 1.23 sends them, validated; keys that nobody reads are ignored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeGuard, TypeVar

from flask import Request
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from backend.errors import BadBodyError

WEBHOOK_HEADER = "X-Camvo-Secret"
"""The header by which Label Studio's webhooks, which carry no basic auth, prove themselves."""

ProjectKey = Annotated[str, Field(pattern=r"^[!-~]{1,100}$")]
"""``<id>.<created_at in unix seconds>``; upstream's server sends the bare id."""


class SetupRequest(BaseModel):
    """POST /setup. ``access_token`` is not read: it is useless where legacy tokens are disabled."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)

    project: ProjectKey
    extra_params: Any = None
    label_config: str | None = Field(default=None, alias="schema")


class PredictRequest(BaseModel):
    """POST /predict. Tasks stay raw: a bad one must not cost the others their predictions."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)

    project: ProjectKey
    label_config: str
    tasks: list[Any]
    params: Any = None

    @property
    def interactive(self) -> bool:
        """Whether somebody waits in the editor, which takes one prediction and no list of them."""
        return isinstance(self.params, Mapping) and self.params.get("context") is not None


_Request = TypeVar("_Request", bound=BaseModel)


def parse(model: type[_Request], body: object) -> _Request:
    """The body as a request.

    Raises:
        BadBodyError: names the key and what is wrong with it, never its value.
    """
    try:
        return model.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(["body", *(str(part) for part in first["loc"])])
        raise BadBodyError(
            first["msg"], where=where, fix="send the JSON that Label Studio sends to an ML backend"
        ) from None


def is_id(value: object) -> TypeGuard[int]:
    """Whether a value can be an id of Label Studio's: a whole number that a database holds in 64 bits."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def task_of(raw: object) -> tuple[int, Mapping[str, Any]] | None:
    """A task's id and data; ``None`` for something that is no task."""
    if not isinstance(raw, Mapping):
        return None
    number, data = raw.get("id"), raw.get("data")
    if not is_id(number) or not isinstance(data, Mapping):
        return None
    return number, data


def json_object(request: Request) -> dict[str, Any]:
    """The body of a request.

    Raises:
        BadBodyError: it is no JSON object.
    """
    body = parsed(request)
    if not isinstance(body, dict):
        raise BadBodyError("the body is not a JSON object", where="body", fix="send what Label Studio sends")
    return body


def parsed(request: Request) -> Any:
    """The body's JSON; ``None`` for one that is broken, or nested deeper than Python reads."""
    try:
        return request.get_json(force=True, silent=True)
    except RecursionError:
        return None

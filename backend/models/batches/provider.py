"""What every adapter of a provider's batches can do, whatever its wire format."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Protocol

import structlog

from backend.errors import ModelError, RejectedError, UnavailableError
from backend.models.model import litellm

_OF_THE_CONNECTION = frozenset(
    {"api_base", "base_url", "api_key", "api_version", "organization", "extra_headers", "timeout", "metadata"}
)
"""Parameters that say where a request goes, and are not sent with it."""


def provider_body(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON body of a chat completion."""
    model, provider, _, _ = litellm().get_llm_provider(request["model"])
    options = {
        name: value
        for name, value in request.items()
        if name not in {"model", "messages", *_OF_THE_CONNECTION}
    }
    optional = copy.deepcopy(_provider_options(model, provider, json.dumps(options)))
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


class GoneError(RejectedError):
    """The provider does not have the requested batch or file, or not any more."""

    def __init__(self, model: str) -> None:
        super().__init__(
            "the provider has no such batch or file",
            where=f"model {model}",
            fix="use the key of the account that sent it; if it is lost, camvo jobs --cancel gives it up",
        )


WINDOW: Final = 24 * 3600.0
"""Seconds after which a provider gives up a batch."""

EARLIER: Final = 300.0
"""Seconds by which the clock of a provider may be behind ours."""

MOST_PAGES: Final = 200
"""Pages of a list of batches, of a hundred each, after which the list is taken for one that does not end."""


def endless_list(model: str) -> ModelError:
    """The error about a provider that always has another page; to guess its end might buy a job twice."""
    return UnavailableError("its provider's list of batches does not end", where=f"model {model}")


@dataclass(frozen=True, slots=True)
class Limits:
    """The largest batch that a provider accepts."""

    lines: int
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class ProviderBatch:
    """A batch at its provider.

    Attributes:
        id: the provider's name for it.
        ended: whether it does not change any more.
        created_at: unix seconds.
        files: the provider's files: purpose → id.
        refusal: why the provider took none of its lines; ``None`` if it took them.
        full: whether it took none because too many tokens are enqueued.
        token_limit: the most enqueued tokens, if the provider said so.
        answered: how many lines it has answered, and charges for; 0 if it does not say.
    """

    id: str
    ended: bool
    created_at: float
    files: Mapping[str, str] = field(default_factory=dict)
    refusal: str | None = None
    full: bool = False
    token_limit: int | None = None
    answered: int = 0


@dataclass(frozen=True, slots=True)
class LineResult:
    """How one line ended.

    Attributes:
        custom_id: the id that it was sent under.
        response: the completion in litellm's form; ``None`` if there is none.
        error: why there is none.
        lapsed: whether the line was never run, because the batch expired or was cancelled.
    """

    custom_id: str
    response: Any = None
    error: ModelError | None = None
    lapsed: bool = False


_NAMED: Final = re.compile(rb'"custom_id"\s*:\s*"([^"\\]{1,128})"')

_log = structlog.get_logger(__name__)


def read_line(line: bytes, read: Callable[[Mapping[str, Any]], LineResult], model: str) -> LineResult | None:
    """Read one line of a batch's results. One that cannot be read fails alone.

    ``read`` reads the object that a line holds, and may raise anything. A line that does not say whose it is
    gives ``None``; its request then counts as not run.
    """
    try:
        return read(json.loads(line))
    except Exception as error:
        named = _NAMED.search(line)
        _log.warning("batch_line_unreadable", model=model, kind=type(error).__name__, named=named is not None)
        if named is None:
            return None
        unreadable = UnavailableError(
            "sent a line of results that cannot be read",
            where=f"model {model}",
            fix="it is asked again; if this repeats, ask the provider",
        )
        return LineResult(named[1].decode("utf-8", "replace"), error=unreadable)


@dataclass(frozen=True, slots=True)
class Search:
    """The result of looking for a job that may have reached its provider.

    Attributes:
        batch: its batch; ``None`` if it was not found.
        unclear: batches of which nobody can say yet whose they are; while there are any, nothing is sent
            again.
    """

    batch: ProviderBatch | None
    unclear: Sequence[str] = ()


class BatchProvider(Protocol):
    """One model's account at its provider. All methods raise :class:`ModelError` if a call fails."""

    @property
    def limits(self) -> Limits:
        """The most that one batch may hold."""
        ...

    def size(self, body: Mapping[str, Any]) -> int:
        """The bytes that a line with this body takes."""
        ...

    async def upload(self, job: str, lines: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, str]:
        """Bring the lines (custom id and body) to the provider, and return its files; may do nothing."""
        ...

    async def create(
        self, job: str, files: Mapping[str, str], lines: Sequence[tuple[str, Mapping[str, Any]]]
    ) -> ProviderBatch:
        """Let the provider begin. After an unclear failure the batch may exist all the same."""
        ...

    async def search(self, job: str, since: float, known: Collection[str]) -> Search:
        """Look for the batch of a job that was being sent when its process died.

        Args:
            job: the job's id.
            since: when it was first sent, unix seconds.
            known: the batches that the ledger knows.
        """
        ...

    async def retrieve(self, batch: str) -> ProviderBatch:
        """The batch as it is now."""
        ...

    def results(self, batch: ProviderBatch) -> AsyncIterator[LineResult]:
        """The results of an ended batch, in any order."""
        ...

    async def cancel(self, batch: str) -> None:
        """Ask the provider to end a batch early."""
        ...

    async def delete(self, batch: str | None, files: Mapping[str, str]) -> None:
        """Delete what the provider keeps of a batch. What is gone already is no error."""
        ...

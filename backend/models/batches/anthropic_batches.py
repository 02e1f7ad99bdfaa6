"""Anthropic's Message Batches over HTTP; litellm retrieves them, but does not create them.

A batch has no metadata. After a crash, the job of an unknown batch cannot be known until its results name the
custom ids of its lines.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import httpx

from backend.models.batches.provider import (
    EARLIER,
    MOST_PAGES,
    GoneError,
    Limits,
    LineResult,
    ProviderBatch,
    Search,
    endless_list,
    read_line,
)
from backend.models.failures import line_error, model_error
from backend.models.model import litellm
from backend.settings import ModelSettings

_ADDRESS: Final = "https://api.anthropic.com"
_BATCHES: Final = "/v1/messages/batches"
_VERSION: Final = "2023-06-01"
_STRUCTURED: Final = "structured-outputs-2025-11-13"
_SECONDS: Final = 300.0
_PAGE: Final = 100


class AnthropicBatches:
    """The batches of one model."""

    def __init__(self, settings: ModelSettings, key: str | None) -> None:
        self._name = settings.name
        address = settings.parameters.get("api_base") or settings.parameters.get("base_url") or _ADDRESS
        self._address = str(address).rstrip("/").removesuffix("/v1").removesuffix("/v1/messages")
        self._headers = {"x-api-key": key or "none", "anthropic-version": _VERSION}
        self._whose: dict[str, str] = {}

    @property
    def limits(self) -> Limits:
        """100,000 requests and 256 MB."""
        return Limits(100_000, 256 * 10**6)

    def size(self, body: Mapping[str, Any]) -> int:
        """The bytes that a line with this body takes."""
        return len(json.dumps({"custom_id": "0" * 64, "params": body})) + 1

    async def upload(self, job: str, lines: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, str]:
        """Nothing: the lines are sent with the batch."""
        return {}

    async def create(
        self, job: str, files: Mapping[str, str], lines: Sequence[tuple[str, Mapping[str, Any]]]
    ) -> ProviderBatch:
        """Send the lines as a batch."""
        requests = [{"custom_id": custom_id, "params": body} for custom_id, body in lines]
        structured = any("output_format" in body for _, body in lines)
        beta = {"anthropic-beta": _STRUCTURED} if structured else {}
        return _batch(await self._json("POST", _BATCHES, json={"requests": requests}, headers=beta))

    async def search(self, job: str, since: float, known: Collection[str]) -> Search:
        """Look at the batches that the ledger does not know; one that still runs may be the job's."""
        unclear = []
        for batch in await self._listed(since - EARLIER):
            if batch.id in known:
                continue
            if not batch.ended:
                unclear.append(batch.id)
            elif await self._job_of(batch) == job:
                return Search(batch)
        return Search(None, unclear)

    async def retrieve(self, batch: str) -> ProviderBatch:
        """The batch as it is now."""
        return _batch(await self._json("GET", f"{_BATCHES}/{batch}"))

    async def results(self, batch: ProviderBatch) -> AsyncIterator[LineResult]:
        """The lines of the results."""
        async for line in self._lines(batch):
            if (result := read_line(line, self._result, self._name)) is not None:
                yield result

    def _result(self, line: Mapping[str, Any]) -> LineResult:
        """Read a line's object."""
        custom_id, result = str(line["custom_id"]), line.get("result") or {}
        kind = result.get("type")
        if kind == "succeeded":
            return LineResult(custom_id, _completion(result["message"]))
        if kind in ("expired", "canceled"):
            return LineResult(custom_id, lapsed=True)
        error = result.get("error")
        error = error.get("error") or error if isinstance(error, Mapping) else error
        said = str((error.get("type") if isinstance(error, Mapping) else error) or "")[:100]
        return LineResult(custom_id, error=line_error(_STATUS.get(said), said, self._name))

    async def cancel(self, batch: str) -> None:
        """Ask the provider to end a batch early."""
        await self._json("POST", f"{_BATCHES}/{batch}/cancel")

    async def delete(self, batch: str | None, files: Mapping[str, str]) -> None:
        """Delete the batch with its results."""
        if batch is not None:
            await self._json("DELETE", f"{_BATCHES}/{batch}", missing={})

    async def _listed(self, since: float) -> list[ProviderBatch]:
        """The batches that were created after a time, the newest first."""
        found: list[ProviderBatch] = []
        after: dict[str, Any] = {}
        for _ in range(MOST_PAGES):
            page = await self._json("GET", _BATCHES, params={"limit": _PAGE, **after})
            batches = [_batch(batch) for batch in page.get("data") or []]
            found += [batch for batch in batches if batch.created_at >= since]
            if not batches or not page.get("has_more") or batches[-1].created_at < since:
                return found
            after = {"after_id": batches[-1].id}
        raise endless_list(self._name)

    async def _job_of(self, batch: ProviderBatch) -> str:
        """The job that the first custom id of a batch's results names; empty if it is not one of ours."""
        if batch.id not in self._whose:
            job = ""
            async for line in self._lines(batch):
                if (result := read_line(line, self._result, self._name)) is not None:
                    job = result.custom_id.partition("-")[0]
                    break
            self._whose[batch.id] = job  # only now: a failed request says nothing of whose it is
        return self._whose[batch.id]

    async def _lines(self, batch: ProviderBatch) -> AsyncIterator[bytes]:
        """The lines of the results that are not blank. Only line feeds end one: texts hold all others."""
        try:
            async with (
                self._client() as client,
                client.stream("GET", f"{_BATCHES}/{batch.id}/results") as response,
            ):
                if response.status_code == 404:  # no line of it was run, or they were deleted
                    return
                response.raise_for_status()
                rest = b""
                async for part in response.aiter_bytes():
                    *lines, rest = (rest + part).split(b"\n")
                    for line in lines:
                        if line.strip():
                            yield line
                if rest.strip():
                    yield rest
        except httpx.HTTPError as error:
            raise self._failure(error) from None

    async def _json(
        self, method: str, path: str, missing: dict[str, Any] | None = None, **arguments: Any
    ) -> Any:
        try:
            async with self._client() as client:
                response = await client.request(method, path, **arguments)
            if response.status_code == 404 and missing is not None:
                return missing
            if response.status_code == 404 and path != _BATCHES:
                raise GoneError(self._name)
            response.raise_for_status()
            return response.json()
        except (httpx.HTTPError, ValueError) as error:
            raise self._failure(error) from None

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self._address, headers=self._headers, timeout=_SECONDS, follow_redirects=False
        )

    def _failure(self, error: Exception) -> Exception:
        if isinstance(error, httpx.HTTPStatusError):
            return line_error(error.response.status_code, None, self._name)
        return model_error(error, self._name)


def _batch(batch: Mapping[str, Any]) -> ProviderBatch:
    created = datetime.fromisoformat(str(batch["created_at"])).timestamp()
    ended, counts = batch.get("processing_status") == "ended", batch.get("request_counts") or {}
    return ProviderBatch(str(batch["id"]), ended, created, answered=counts.get("succeeded") or 0)


_STATUS: Final[Mapping[str, int]] = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
}
"""Anthropic's types of errors, as the HTTP status of a single call."""


def _completion(message: Mapping[str, Any]) -> Any:
    """A message as a completion in litellm's form."""
    from litellm.llms.anthropic.chat.transformation import AnthropicConfig  # noqa: PLC0415 - slow to import

    by_tool = any(part.get("name") == "json_tool_call" for part in message.get("content") or [])
    return AnthropicConfig().transform_parsed_response(
        completion_response=dict(message),
        raw_response=httpx.Response(200),
        model_response=litellm().ModelResponse(),
        json_mode=by_tool,
    )

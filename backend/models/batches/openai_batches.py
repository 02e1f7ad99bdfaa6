"""Files and batches as OpenAI and many others have them, through litellm.

A batch is created with the job's id among its metadata, so it can be found again after a crash.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any, Final

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
from backend.models.calls import completion_of
from backend.models.failures import line_error, model_error
from backend.models.model import litellm, without_records
from backend.settings import ModelSettings

PROVIDERS: Final = ("openai", "azure", "hosted_vllm", "litellm_proxy", "xai")
"""litellm's names of the providers whose batches it creates, finds and lists."""

_ENDPOINT: Final = "/v1/chat/completions"
_SECONDS: Final = 300.0
_PAGE: Final = 100
_JOB: Final = "camvo_job"
_FULL: Final = ("token_limit", "enqueued")
_NUMBER: Final = re.compile(r"[Ll]imit:?\s*([\d,_]+)")
_LAPSED: Final = ("batch_expired", "batch_cancelled", "batch_canceled")


class OpenAIBatches:
    """The batches of one model; without a key, by litellm's own way to one."""

    def __init__(self, settings: ModelSettings, provider: str, key: str | None) -> None:
        self._name = settings.name
        kept = ("api_base", "base_url", "api_version", "organization")
        self._account: dict[str, Any] = {
            name: settings.parameters[name] for name in kept if name in settings.parameters
        }
        if "base_url" in self._account:
            self._account.setdefault("api_base", self._account.pop("base_url"))
        self._account |= {"custom_llm_provider": provider, "timeout": _SECONDS, "max_retries": 0}
        if key is not None:
            self._account["api_key"] = key

    @property
    def limits(self) -> Limits:
        """50,000 requests and 200 MB."""
        return Limits(50_000, 200 * 10**6)

    def size(self, body: Mapping[str, Any]) -> int:
        """The bytes that a line with this body takes."""
        return len(_line("0" * 64, body))

    async def upload(self, job: str, lines: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, str]:
        """Upload the lines as a file, after removing files of an earlier attempt."""
        for name in await self._files_of(job):
            await self._delete(name)
        content = b"".join(_line(custom_id, body) for custom_id, body in lines)
        uploaded = await self._call("acreate_file", file=(_file_name(job), content), purpose="batch")
        return {"input": uploaded.id}

    async def create(
        self, job: str, files: Mapping[str, str], lines: Sequence[tuple[str, Mapping[str, Any]]]
    ) -> ProviderBatch:
        """Create the batch of an uploaded file."""
        created = await self._call(
            "acreate_batch",
            completion_window="24h",
            endpoint=_ENDPOINT,
            input_file_id=files["input"],
            metadata={_JOB: job},
        )
        return _batch(created)

    async def search(self, job: str, since: float, known: Collection[str]) -> Search:
        """Look for the batch with the job's id in its metadata."""
        after: dict[str, str] = {}
        for _ in range(MOST_PAGES):
            page = await self._call("alist_batches", limit=_PAGE, **after)
            batches = list(page.data or [])
            for batch in batches:
                if (getattr(batch, "metadata", None) or {}).get(_JOB) == job:
                    return Search(_batch(batch))
            if not batches or not page.has_more or batches[-1].created_at < since - EARLIER:
                return Search(None)
            after = {"after": batches[-1].id}
        raise endless_list(self._name)

    async def retrieve(self, batch: str) -> ProviderBatch:
        """The batch as it is now."""
        return _batch(await self._call("aretrieve_batch", batch_id=batch))

    async def results(self, batch: ProviderBatch) -> AsyncIterator[LineResult]:
        """The lines of the output file and of the error file."""
        for purpose in ("output", "error"):
            if (name := batch.files.get(purpose)) is not None:
                try:
                    content = await self._call("afile_content", file_id=name)
                except GoneError:  # deleted, or kept too long: the other file may still be there
                    continue
                for line in content.content.split(b"\n"):
                    if line.strip() and (result := read_line(line, self._result, self._name)) is not None:
                        yield result

    async def cancel(self, batch: str) -> None:
        """Ask the provider to end a batch early."""
        await self._call("acancel_batch", batch_id=batch)

    async def delete(self, batch: str | None, files: Mapping[str, str]) -> None:
        """Delete the input, output and error files."""
        for name in files.values():
            await self._delete(name)

    def _result(self, line: Mapping[str, Any]) -> LineResult:
        """Read a line's object. Errors are objects with a code or mere words."""
        custom_id, response = str(line["custom_id"]), line.get("response") or {}
        code = _error_code(line.get("error"))
        if code in _LAPSED:
            return LineResult(custom_id, lapsed=True)
        status: Any = response.get("status_code")
        body: Any = response.get("body")
        if status == 200 and code is None:
            whole: Any = completion_of(body, {}) or litellm().ModelResponse(**body)
            return LineResult(custom_id, whole)
        code = code or (_error_code(body.get("error")) if isinstance(body, Mapping) else None)
        return LineResult(custom_id, error=line_error(status, code, self._name))

    async def _delete(self, name: str) -> None:
        with contextlib.suppress(GoneError):
            await self._call("afile_delete", file_id=name)

    async def _files_of(self, job: str) -> list[str]:
        listed = await self._call("afile_list", purpose="batch")
        return [file.id for file in listed.data or [] if file.filename == _file_name(job)]

    async def _call(self, function: str, **arguments: Any) -> Any:
        try:
            call = getattr(litellm(), function)
            with without_records():
                return await call(**arguments, **self._account)
        except Exception as error:
            if getattr(error, "status_code", None) == 404:
                raise GoneError(self._name) from None
            raise model_error(error, self._name) from None


def _file_name(job: str) -> str:
    return f"camvo-{job}.jsonl"


def _line(custom_id: str, body: Mapping[str, Any]) -> bytes:
    line = {"custom_id": custom_id, "method": "POST", "url": _ENDPOINT, "body": body}
    return json.dumps(line).encode() + b"\n"


def _batch(batch: Any) -> ProviderBatch:
    files = {
        purpose: name
        for purpose in ("input", "output", "error")
        if (name := getattr(batch, f"{purpose}_file_id", None))
    }
    refusal = None
    full = False
    limit = None
    if batch.status == "failed":
        errors = getattr(getattr(batch, "errors", None), "data", None) or []
        codes = [str(getattr(error, "code", "") or "") for error in errors]
        messages = " ".join(str(getattr(error, "message", "") or "") for error in errors)
        refusal = next(iter(codes), "") or "failed"
        full = any(word in f"{refusal} {messages}".lower() for word in _FULL)
        if full and (number := _NUMBER.search(messages)) is not None:
            limit = int(re.sub(r"\D", "", number[1]))
    ended = batch.status in ("completed", "failed", "expired", "cancelled")
    answered = getattr(getattr(batch, "request_counts", None), "completed", None) or 0
    return ProviderBatch(batch.id, ended, float(batch.created_at), files, refusal, full, limit, answered)


def _error_code(error: object) -> str | None:
    """The code of a line's error; ``None`` without an error."""
    if isinstance(error, Mapping):
        code = error.get("code") or error.get("type")
        return str(code) if code else "unknown" if error else None
    return str(error)[:100] if error else None

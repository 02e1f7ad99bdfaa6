"""A scripted provider with batches: OpenAI's files and batches, and Anthropic's Message Batches.

::

    with BatchServer(lambda body: Reply.says({"label": "Glad"})) as server:
        server.ends = lambda batch: False       # a batch that never ends
        server.url                              # api_base of an OpenAI-compatible model
        server.bought                           # (model, text or prompt) → how often it was answered

Single calls and lines of batches are answered by the same script. A batch ends when it is asked for, unless
``ends`` says otherwise.
"""

from __future__ import annotations

import email.parser
import email.policy
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from local_server import Handler, LocalServer

from backend.testing import Reply, packed_texts

Body = dict[str, Any]


@dataclass
class Batch:
    """A batch at the provider.

    Attributes:
        id: its name.
        lines: custom id → body.
        metadata: what came with it.
        file: the input file; empty for Anthropic.
        status: in OpenAI's words.
        files: purpose → file.
        results: the lines of the results.
        answered: how many lines were answered.
    """

    id: str
    lines: dict[str, Body]
    metadata: dict[str, str]
    file: str = ""
    status: str = "in_progress"
    files: dict[str, str] = field(default_factory=dict)
    results: list[Body] = field(default_factory=list)
    created_at: float = field(default_factory=time.time)
    errors: list[dict[str, str]] = field(default_factory=list)
    answered: int = 0


class BatchServer(LocalServer):
    """The provider.

    Attributes:
        script: answers a request.
        ends: whether a batch has ended by now.
        lapses: whether a line of a batch expires.
        fails: the HTTP status with which a line fails; 0 if it does not.
        garbles: changes the bytes of a file of results.
        enqueued: the most characters of prompts in batches that have not ended; ``None`` for any number.
        cut: called with method and path; if it returns true the request is done, but its answer is lost.
        refused: called with method and path; an HTTP status other than 0 refuses the request.
    """

    def __init__(self, script: Callable[[Body], Reply]) -> None:
        self.script = script
        self.ends: Callable[[Batch], bool] = lambda batch: True
        self.lapses: Callable[[Body], bool] = lambda body: False
        self.fails: Callable[[Body], int] = lambda body: 0
        self.garbles: Callable[[bytes], bytes] = lambda content: content
        self.enqueued: int | None = None
        self.cut: Callable[[str, str], bool] = lambda method, path: False
        self.refused: Callable[[str, str], int] = lambda method, path: 0
        self.bought: Counter[tuple[str, str]] = Counter()
        self.at_once: Counter[str] = Counter()
        self.batches: dict[str, Batch] = {}
        self.files: dict[str, tuple[str, bytes]] = {}
        self.deleted: list[str] = []
        self._lock = threading.RLock()
        self._number = 0
        super().__init__(self._handler())

    @property
    def url(self) -> str:
        return f"{super().url}/v1"

    @property
    def anthropic_url(self) -> str:
        return super().url

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind}_{self._number}"

    def _handler(self) -> type[Handler]:
        server = self

        class Provider(Handler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def respond(self) -> None:
                raw = self.body()
                path = urlsplit(self.path)
                if status := server.refused(self.command, path.path):
                    reply: tuple[int, Any] = (status, {"error": {"message": "scripted", "code": None}})
                else:
                    with server._lock:
                        reply = server._route(self.command, path, raw, str(self.headers["content-type"]))
                    if server.cut(self.command, path.path):
                        self.close_connection = True
                        return
                status, body = reply
                try:
                    self.answer(status, body if isinstance(body, bytes) else json.dumps(body).encode())
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

        return Provider

    def _route(self, method: str, url: Any, raw: bytes, kind: str) -> tuple[int, Any]:
        parts = url.path.removeprefix("/v1/").strip("/").split("/")
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        match method, parts:
            case "POST", ["chat", "completions"]:
                body = json.loads(raw)
                self.at_once[body["model"]] += 1
                return self._completion(body)
            case "POST", ["messages"]:
                body = json.loads(raw)
                self.at_once[body["model"]] += 1
                return 200, self._message(body)
            case _, ["files", *rest]:
                return self._files(method, rest, raw, kind)
            case _, ["batches", *rest]:
                return self._openai(method, rest, raw, query)
            case _, ["messages", "batches", *rest]:
                return self._anthropic(method, rest, raw, query)
        return 404, {"error": {"message": f"no route {method} {url.path}"}}

    def _completion(self, body: Body) -> tuple[int, Any]:
        reply = self.script(body)
        self._count(body)
        return reply.status, reply.body

    def _count(self, body: Body) -> None:
        texts = packed_texts(body).values() or [body["messages"][-1]["content"]]
        self.bought.update((body["model"], text) for text in texts)

    def _message(self, body: Body) -> Body:
        said = self._said(body)
        return {
            "id": self._name("msg"),
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [{"type": "text", "text": said["choices"][0]["message"]["content"]}],
            "stop_reason": "end_turn",
            "usage": {
                "input_tokens": said["usage"]["prompt_tokens"],
                "output_tokens": said["usage"]["completion_tokens"],
            },
        }

    def _said(self, body: Body) -> Any:
        """What the script says of a message in Anthropic's form."""
        text = body["messages"][-1]["content"]
        text = text if isinstance(text, str) else text[0]["text"]
        plain = {**body, "messages": [{"role": "user", "content": text}]}
        self._count(plain)
        return self.script(plain).body

    def _files(self, method: str, rest: list[str], raw: bytes, kind: str) -> tuple[int, Any]:
        if method == "POST":
            head = f"content-type: {kind}\r\n\r\n".encode()
            parsed = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + raw)
            part = next(part for part in parsed.iter_parts() if part.get_filename())
            name = self._name("file")
            self.files[name] = (str(part.get_filename()), part.get_payload(decode=True))
            return 200, self._file(name)
        if not rest:
            return 200, {
                "object": "list",
                "data": [self._file(name) for name in self.files],
                "has_more": False,
            }
        if rest[0] not in self.files:
            return 404, {"error": {"message": "no such file", "code": None}}
        if method == "DELETE":
            del self.files[rest[0]]
            self.deleted.append(rest[0])
            return 200, {"id": rest[0], "object": "file", "deleted": True}
        return 200, self.files[rest[0]][1] if rest[1:] == ["content"] else self._file(rest[0])

    def _file(self, name: str) -> Body:
        filename, content = self.files[name]
        return {
            "id": name,
            "object": "file",
            "bytes": len(content),
            "created_at": 1,
            "filename": filename,
            "purpose": "batch",
            "status": "processed",
        }

    def _openai(self, method: str, rest: list[str], raw: bytes, query: dict[str, str]) -> tuple[int, Any]:
        if method == "POST" and not rest:
            body = json.loads(raw)
            _, content = self.files[body["input_file_id"]]
            sent = [json.loads(line) for line in content.splitlines()]
            lines = {line["custom_id"]: line["body"] for line in sent}
            batch = self._new(lines, body.get("metadata") or {}, body["input_file_id"])
            return 200, self._openai_batch(batch)
        if not rest:
            batches = sorted(self.batches.values(), key=lambda batch: -batch.created_at)
            after = [batch.id for batch in batches].index(query["after"]) + 1 if "after" in query else 0
            shown = batches[after : after + 2]
            more = len(batches) > after + 2
            return 200, {
                "object": "list",
                "data": [self._openai_batch(batch) for batch in shown],
                "has_more": more,
                "first_id": shown[0].id if shown else None,
                "last_id": shown[-1].id if shown else None,
            }
        if (batch := self.batches.get(rest[0])) is None:
            return 404, {"error": {"message": "no such batch", "code": None}}
        if method == "POST" and rest[1:] == ["cancel"]:
            self._end(batch, cancelled=True)
        elif batch.status == "in_progress" and self.ends(batch):
            self._end(batch)
        return 200, self._openai_batch(batch)

    def _new(self, lines: dict[str, Body], metadata: dict[str, str], file: str = "") -> Batch:
        batch = Batch(self._name("batch" if file else "msgbatch"), lines, metadata, file)
        running = [*(b for b in self.batches.values() if b.status == "in_progress"), batch]
        model = next(iter(lines.values()))["model"]
        bodies = [body for b in running for body in b.lines.values() if body["model"] == model]
        size = sum(len(json.dumps(body["messages"])) for body in bodies)
        if self.enqueued is not None and size > self.enqueued:
            batch.status = "failed"
            message = "Enqueued token limit reached for the model in the organization."
            batch.errors = [{"code": "token_limit_exceeded", "message": message}]
        self.batches[batch.id] = batch
        return batch

    def _end(self, batch: Batch, *, cancelled: bool = False) -> None:
        """Run the lines, the last one first."""
        output, errors, lapsed = [], [], False
        for custom_id, body in reversed(batch.lines.items()):
            if cancelled or self.lapses(body):
                lapsed = True
                error = {"code": "batch_cancelled" if cancelled else "batch_expired", "message": "too late"}
                errors.append({"custom_id": custom_id, "response": None, "error": error})
            elif status := self.fails(body):
                said = {"error": {"message": "scripted", "code": None}}
                response = {"status_code": status, "request_id": "r", "body": said}
                errors.append({"custom_id": custom_id, "response": response, "error": None})
            else:
                status, said = self._completion(body)
                response = {"status_code": status, "request_id": "r", "body": said}
                output.append({"custom_id": custom_id, "response": response, "error": None})
        batch.answered = len(output)
        for purpose, lines in (("output", output), ("error", errors)):
            if lines:
                batch.files[purpose] = self._name("file")
                content = "\n".join(map(json.dumps, lines)).encode() + b"\n"
                self.files[batch.files[purpose]] = (f"{purpose}.jsonl", self.garbles(content))
        batch.status = "cancelled" if cancelled else "expired" if lapsed else "completed"

    def _openai_batch(self, batch: Batch) -> Body:
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": "/v1/chat/completions",
            "errors": {"object": "list", "data": batch.errors} if batch.errors else None,
            "input_file_id": batch.file,
            "completion_window": "24h",
            "status": batch.status,
            "output_file_id": batch.files.get("output"),
            "error_file_id": batch.files.get("error"),
            "created_at": int(batch.created_at),
            "metadata": batch.metadata,
            "request_counts": {
                "total": len(batch.lines),
                "completed": batch.answered,
                "failed": len(batch.lines) - batch.answered,
            },
        }

    def _anthropic(self, method: str, rest: list[str], raw: bytes, query: dict[str, str]) -> tuple[int, Any]:
        if method == "POST" and not rest:
            requests = json.loads(raw)["requests"]
            batch = self._new({line["custom_id"]: line["params"] for line in requests}, {})
            return 200, self._message_batch(batch)
        if not rest:
            batches = sorted(self.batches.values(), key=lambda batch: -batch.created_at)
            return 200, {"data": [self._message_batch(batch) for batch in batches], "has_more": False}
        if rest[0] not in self.batches:
            return 404, {"type": "error", "error": {"type": "not_found_error", "message": "gone"}}
        batch = self.batches[rest[0]]
        if method == "DELETE":
            del self.batches[batch.id]
            self.deleted.append(batch.id)
            return 200, {"id": batch.id, "type": "message_batch_deleted"}
        if rest[1:] == ["results"]:
            return 200, "\n".join(map(json.dumps, batch.results)).encode()
        if rest[1:] == ["cancel"]:
            self._end_messages(batch, cancelled=True)
        elif batch.status == "in_progress" and self.ends(batch):
            self._end_messages(batch)
        return 200, self._message_batch(batch)

    def _end_messages(self, batch: Batch, *, cancelled: bool = False) -> None:
        for custom_id, body in reversed(batch.lines.items()):
            if cancelled or self.lapses(body):
                result: Body = {"type": "canceled" if cancelled else "expired"}
            elif status := self.fails(body):
                kind = "invalid_request_error" if status < 500 else "api_error"
                error = {"type": "error", "error": {"type": kind, "message": "scripted"}}
                result = {"type": "errored", "error": error}
            else:
                result = {"type": "succeeded", "message": self._message(body)}
                batch.answered += 1
            batch.results.append({"custom_id": custom_id, "result": result})
        batch.status = "completed"

    @staticmethod
    def _message_batch(batch: Batch) -> Body:
        ended = batch.status != "in_progress"
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": {
                "processing": 0 if ended else len(batch.lines),
                "succeeded": batch.answered,
            },
            "created_at": datetime.fromtimestamp(batch.created_at, UTC).isoformat(),
            "results_url": None,
        }

"""A real OpenAI-compatible server on a free local port, for tests: what it answers is scripted.

::

    def script(body: dict) -> Reply:
        return Reply.says("Positive") if body["model"] == "test-good" else Reply(status=500)

    with OpenAIServer(script) as server:
        ...                       # litellm: model="openai/test-good", api_base=server.url, api_key="k"
        server.count("test-good")       # requests that this model received
        server.most_at_once             # the largest number of requests in progress at the same time

Every request runs in a thread of its own, so a script may wait for an Event. Leaving the context releases the
requests that hang, so that nothing outlives a test.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

_HANG_LIMIT = 60.0  # seconds: even a test that forgets to release ends


@dataclass(frozen=True)
class Reply:
    """What the server sends: ``body`` as JSON, or as it is when it is bytes; once ``after`` is set."""

    status: int = 200
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    after: threading.Event | None = None

    @classmethod
    def says(
        cls,
        content: str | None,
        *,
        usage: tuple[int, int] | None = (10, 2),
        finish_reason: str = "stop",
        refusal: str | None = None,
        reasoning_tokens: int = 0,
    ) -> Reply:
        """A chat completion; ``usage`` is (input, output tokens), ``None`` leaves it out."""
        message = {"role": "assistant", "content": content, "refusal": refusal}
        body: dict[str, Any] = {
            "id": "chatcmpl-test",
            "object": "chat.completion",
            "created": 1,
            "model": "test",
            "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        }
        if usage is not None:
            body["usage"] = {
                "prompt_tokens": usage[0],
                "completion_tokens": usage[1],
                "total_tokens": sum(usage),
                "completion_tokens_details": {"reasoning_tokens": reasoning_tokens},
            }
        return cls(body=body)

    @classmethod
    def fails(
        cls, status: int, message: str = "scripted failure", code: str | None = None, **headers: str
    ) -> Reply:
        """An error in OpenAI's form; headers as keywords, ``retry_after="7"``."""
        body = {"error": {"message": message, "type": "error", "code": code}}
        return cls(status, body, {name.replace("_", "-"): value for name, value in headers.items()})

    @classmethod
    def page(cls, html: str = "<html><body>Bad gateway</body></html>", status: int = 200) -> Reply:
        """What a proxy sends when there is no model behind it."""
        return cls(status, html.encode(), {"content-type": "text/html"})

    @classmethod
    def no_choices(cls) -> Reply:
        """A success with an empty list of choices."""
        reply = cls.says("")
        return replace(reply, body={**dict(reply.body), "choices": []})  # type: ignore[call-overload]

    @classmethod
    def broken(cls) -> Reply:
        """JSON that ends too early."""
        return cls(body=b'{"choices": [{"message": {"content": "Posi')

    def once(self, event: threading.Event) -> Reply:
        """The same, sent when the event is set."""
        return replace(self, after=event)


@dataclass(frozen=True)
class Request:
    """What the server received."""

    body: dict[str, Any]
    headers: Mapping[str, str]

    @property
    def model(self) -> str:
        return str(self.body["model"])

    @property
    def key(self) -> str | None:
        return self.headers.get("authorization", "").removeprefix("Bearer ") or None

    @property
    def schema(self) -> dict[str, Any] | None:
        """The JSON schema that was sent along."""
        response_format = self.body.get("response_format")
        return None if response_format is None else response_format["json_schema"]["schema"]

    @property
    def system(self) -> str | None:
        """The system message that was sent."""
        return next((m["content"] for m in self.body["messages"] if m["role"] == "system"), None)


class OpenAIServer:
    """The server; a context manager. ``script`` gets the request's JSON and says what to send."""

    def __init__(self, script: Callable[[dict[str, Any]], Reply]) -> None:
        self.script = script
        self._requests: list[Request] = []
        self._in_progress = self._most = 0
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._closing = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @property
    def requests(self) -> tuple[Request, ...]:
        with self._lock:
            return tuple(self._requests)

    @property
    def most_at_once(self) -> int:
        with self._lock:
            return self._most

    def count(self, model: str | None = None) -> int:
        return sum(model is None or request.model == model for request in self.requests)

    def wait_for(self, number: int, timeout: float = 10.0) -> bool:
        """Block until so many requests have come; False when they do not come in time."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._requests) >= number, timeout)

    def __enter__(self) -> OpenAIServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def _answer(self, request: Request) -> Reply:
        with self._changed:
            self._requests.append(request)
            self._in_progress += 1
            self._most = max(self._most, self._in_progress)
            self._changed.notify_all()
        try:
            reply = self.script(request.body)
            waited = 0.0
            while reply.after is not None and not self._closing.is_set() and waited < _HANG_LIMIT:
                if reply.after.wait(0.05):
                    break
                waited += 0.05
            return reply
        finally:
            with self._lock:
                self._in_progress -= 1

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                headers = {name.lower(): value for name, value in self.headers.items()}
                reply = server._answer(Request(body, headers))
                sent = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                try:
                    self.send_response(reply.status)
                    for name, value in {"content-type": "application/json", **reply.headers}.items():
                        self.send_header(name, value)
                    self.send_header("content-length", str(len(sent)))
                    self.end_headers()
                    self.wfile.write(sent)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True  # the client gave up, as the test wanted

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in http.server
                """Keep the terminal quiet."""

        return Handler

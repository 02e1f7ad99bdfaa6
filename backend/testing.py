"""A scripted server that speaks OpenAI's chat API, to try a ``camvo.yaml`` without spending money.

It listens on a free local port and answers every POST with what a function of yours returns. Point
``api_base`` of each model at it and serve or test CaMVo as usual::

    from pathlib import Path

    from backend.testing import OpenAIServer, Reply

    def script(body):
        if body["model"] == "large":
            return Reply.fails(429, retry_after="7")
        return Reply.says({"sentiment": "Positive"})        # control tag → label

    with OpenAIServer(script) as server:
        Path("camvo.yaml").write_text(f'''
    models:
      - {{name: cheap, model: openai/small, api_base: "{server.url}", input_price: 0.1, output_price: 0.4}}
      - {{name: strong, model: openai/large, api_base: "{server.url}", input_price: 2.5, output_price: 10}}
    ''')
        ...                     # OPENAI_API_KEY=any camvo serve --config camvo.yaml
        server.count("small")   # requests for openai/small so far

Only the standard library is used, and nothing else of CaMVo. Every request runs in a thread of its own, so a
script may wait for a ``threading.Event``, and has to be safe to call from several threads at once.

>>> from urllib.request import urlopen
>>> with OpenAIServer(lambda body: Reply.says("Positive")) as server:
...     with urlopen(f"{server.url}/chat/completions", b'{"model": "small", "messages": []}') as response:
...         completion = json.load(response)
>>> completion["choices"][0]["message"]["content"]
'Positive'
>>> server.count("small")
1
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

_PACKED_TEXT = re.compile(r'^BEGIN (\d{6})(?: "[^\n]*")?\n(.*?)\nEND \1$', re.MULTILINE | re.DOTALL)
_TEXT = re.compile(r'^BEGIN ([0-9a-f]{12}) "[^\n]*"\n(.*?)\nEND \1$', re.MULTILINE | re.DOTALL)
"""The texts of tasks in CaMVo's prompts, each between its lines."""

_LONGEST_HOLD = 60.0
"""Seconds after which a held reply is sent although its event is not set, so that a forgotten one ends."""


def _token(text: str, number: float, others: Mapping[str, float] | None = None) -> dict[str, Any]:
    """A token in OpenAI's form, with the most probable ones at its place."""
    token = {"token": text, "logprob": number, "bytes": list(text.encode())}
    return token | {"top_logprobs": [_token(*other) for other in (others or {}).items()]}


@dataclass(frozen=True)
class Reply:
    """An HTTP response of the server.

    The class methods make the usual ones; build a ``Reply`` directly for any other.
    :meth:`answers` also answers prompts about several tasks.
    """

    status: int = 200
    """HTTP status code."""
    body: object = None
    """Sent as JSON; ``bytes`` are sent unchanged."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Added to ``content-length`` and, unless named here, ``content-type: application/json``."""
    after: threading.Event | None = None
    """The reply is held back until this event is set; ``None`` sends it at once."""

    @classmethod
    def says(
        cls,
        content: str | Mapping[str, object] | None,
        *,
        usage: tuple[int, int] | None = (10, 2),
        finish_reason: str = "stop",
        refusal: str | None = None,
        reasoning_tokens: int = 0,
        logprobs: Sequence[tuple[str, float] | tuple[str, float, Mapping[str, float]]] | None = None,
        version: str = "test",
        fingerprint: str | None = None,
    ) -> Reply:
        """Make a chat completion.

        Args:
            content: the message's text; a mapping (control tag → label) becomes the JSON that CaMVo's prompts
                ask for.
            usage: (input tokens, output tokens) that are reported; ``None`` reports none.
            finish_reason: OpenAI's reason, such as ``"length"`` for an answer that was cut off.
            refusal: the message's ``refusal`` field.
            reasoning_tokens: the part of the output tokens that is reported as reasoning.
            logprobs: the text of each token of the answer, the log-probability that is reported for it and,
                if any are, those of the most probable tokens there; ``None`` reports none.
            version: the name of the model that is reported to have answered.
            fingerprint: the ``system_fingerprint`` that is reported, if any.
        """
        text = json.dumps(dict(content)) if isinstance(content, Mapping) else content
        message = {"role": "assistant", "content": text, "refusal": refusal}
        body: dict[str, Any] = {
            "id": "chatcmpl-test",
            "object": "chat.completion",
            "created": 1,
            "model": version,
            "system_fingerprint": fingerprint,
            "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        }
        if logprobs is not None:
            tokens = [_token(*token) for token in logprobs]
            body["choices"][0]["logprobs"] = {"content": tokens, "refusal": None}
        if usage is not None:
            body["usage"] = {
                "prompt_tokens": usage[0],
                "completion_tokens": usage[1],
                "total_tokens": sum(usage),
                "completion_tokens_details": {"reasoning_tokens": reasoning_tokens},
            }
        return cls(body=body)

    @classmethod
    def answers(
        cls,
        body: Mapping[str, Any],
        answer: Callable[[str], object],
        *,
        leave_out: Collection[str] = (),
        **options: Any,
    ) -> Reply:
        r"""Make a chat completion about the task of a prompt, or about each task of a prompt with several.

        Args:
            body: the request's JSON body.
            answer: what is said of a task, given its text: a label, or a mapping (control tag → label). A
                prompt about one task takes a mapping.
            leave_out: texts of tasks that the answer to a prompt about several says nothing about.
            options: as for :meth:`says`.

        >>> body = {"messages": [{"role": "user", "content": "BEGIN 417082\nNice.\nEND 417082\nLabel each."}]}
        >>> Reply.answers(body, lambda text: "Glad").body["choices"][0]["message"]["content"]
        '{"417082": "Glad"}'
        """
        tasks = packed_texts(body)
        if not tasks:
            content = answer(task_text(body))
            return cls.says(content if isinstance(content, Mapping) else str(content), **options)
        return cls.says(
            {number: answer(text) for number, text in tasks.items() if text not in leave_out}, **options
        )

    @classmethod
    def fails(
        cls, status: int, message: str = "scripted failure", code: str | None = None, **headers: str
    ) -> Reply:
        """Make an error in OpenAI's form; headers are keywords, such as ``retry_after="7"``."""
        body = {"error": {"message": message, "type": "error", "code": code}}
        return cls(status, body, {name.replace("_", "-"): value for name, value in headers.items()})

    @classmethod
    def page(cls, html: str = "<html><body>Bad gateway</body></html>", status: int = 200) -> Reply:
        """Make the HTML page that a proxy sends when no model is behind it."""
        return cls(status, html.encode(), {"content-type": "text/html"})

    @classmethod
    def no_choices(cls) -> Reply:
        """Make a completion with an empty list of choices."""
        reply = cls.says("")
        return replace(reply, body={**dict(reply.body), "choices": []})  # type: ignore[call-overload]

    @classmethod
    def broken(cls) -> Reply:
        """Make a success whose JSON ends too early."""
        return cls(body=b'{"choices": [{"message": {"content": "Posi')

    def held_until(self, event: threading.Event) -> Reply:
        """Make the same reply, held back until the event is set (60 seconds at most)."""
        return replace(self, after=event)


def packed_texts(body: Mapping[str, Any]) -> dict[str, str]:
    """Return id → text of the tasks in a prompt about several; empty for a prompt about one."""
    prompt = str(body["messages"][-1]["content"])
    parts: dict[str, list[str]] = {}
    for number, text in _PACKED_TEXT.findall(prompt):
        parts.setdefault(number, []).append(text)
    return {number: "\n".join(texts) for number, texts in parts.items()}


def task_text(body: Mapping[str, Any]) -> str:
    """Return the text of the task in a prompt about one task, one field below another."""
    prompt = str(body["messages"][-1]["content"])
    return "\n".join(text for _, text in _TEXT.findall(prompt))


@dataclass(frozen=True)
class _ReceivedRequest:
    """What the server received."""

    body: dict[str, Any]
    """The JSON body."""
    headers: Mapping[str, str]
    """The headers, names in lower case."""

    @property
    def model(self) -> str:
        """The model asked for, without litellm's provider prefix."""
        return str(self.body["model"])

    @property
    def key(self) -> str | None:
        """The API key that was sent."""
        return self.headers.get("authorization", "").removeprefix("Bearer ") or None

    @property
    def schema(self) -> dict[str, Any] | None:
        """The JSON schema of the answer, if the request carries one."""
        response_format = self.body.get("response_format")
        return None if response_format is None else response_format["json_schema"]["schema"]

    @property
    def system(self) -> str | None:
        """The text of the system message, if the request has one."""
        return next((m["content"] for m in self.body["messages"] if m["role"] == "system"), None)


class _HTTPServer(ThreadingHTTPServer):
    """Accepts many connections at once.

    With the standard library's queue of 5 some would be dropped, and their requests come seconds later.
    """

    daemon_threads = True
    request_queue_size = 1024


class OpenAIServer:
    """A local server with scripted answers. A context manager: it listens inside the ``with`` block.

    Leaving the block sends the replies that are still held.

    Args:
        script: called with each request's JSON body, in that request's thread; returns the reply. May be
            replaced at any time through the attribute of the same name.

    Raises:
        Exception: on leaving the block without another error, the first error that a script raised; its
            request was answered with status 500.
    """

    def __init__(self, script: Callable[[dict[str, Any]], Reply]) -> None:
        self.script = script
        self._requests: list[_ReceivedRequest] = []
        self._script_error: Exception | None = None
        self._in_progress = self._most_at_once = 0
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._http = _HTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """The address for a model's ``api_base``, ``http://127.0.0.1:<port>/v1``."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @property
    def requests(self) -> tuple[_ReceivedRequest, ...]:
        """The requests so far, in the order of their arrival."""
        with self._changed:
            return tuple(self._requests)

    @property
    def most_at_once(self) -> int:
        """The largest number of requests that were in progress at the same time."""
        with self._changed:
            return self._most_at_once

    def count(self, model: str | None = None) -> int:
        """Count the requests for a model so far; for all models without one."""
        return sum(model is None or request.model == model for request in self.requests)

    def wait_for(self, number: int, timeout: float = 10.0) -> bool:
        """Wait until ``number`` requests have arrived; ``False`` if they do not within ``timeout``."""
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
        if error is None and self._script_error is not None:
            raise self._script_error

    def _answer(self, request: _ReceivedRequest) -> Reply:
        with self._changed:
            self._requests.append(request)
            self._in_progress += 1
            self._most_at_once = max(self._most_at_once, self._in_progress)
            self._changed.notify_all()
        try:
            reply = self._scripted(request)
            self._hold(reply)
            return reply
        finally:
            with self._changed:
                self._in_progress -= 1

    def _scripted(self, request: _ReceivedRequest) -> Reply:
        try:
            return self.script(request.body)
        except Exception as error:
            self._script_error = self._script_error or error
            return Reply.fails(500, f"the script raised {type(error).__name__}")

    def _hold(self, reply: Reply) -> None:
        waited = 0.0
        while reply.after is not None and not self._closing.is_set() and waited < _LONGEST_HOLD:
            if reply.after.wait(0.05):
                return
            waited += 0.05

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # headers and body are sent separately; the body would wait 40 ms

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                headers = {name.lower(): value for name, value in self.headers.items()}
                reply = server._answer(_ReceivedRequest(body, headers))
                payload = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                try:
                    self.send_response(reply.status)
                    for name, value in {"content-type": "application/json", **reply.headers}.items():
                        self.send_header(name, value)
                    self.send_header("content-length", str(len(payload)))
                    self.end_headers()
                    self.wfile.write(payload)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True  # the client gave up first, as with its own timeout

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name in http.server
                """Print nothing."""

        return Handler

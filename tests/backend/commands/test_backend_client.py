"""A client that meets a busy server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from backend.commands.shared import backend_client
from backend.commands.shared.backend_client import BackendClient, TaskAnswer
from backend.errors import BackendError
from backend.settings import Environment

_Server = TypeVar("_Server", bound="Busy | Endless")


class Busy:
    """A server that is busy for some requests, then predicts."""

    def __init__(self, refusals: int, retry_after: str = "2") -> None:
        self.requests = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                outer.requests += 1
                busy = outer.requests <= refusals
                body = b'{"code": "busy", "message": "no place"}' if busy else b'{"results": [[]]}'
                self.send_response(503 if busy else 200)
                if busy:
                    self.send_header("Retry-After", retry_after)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - http.server's name

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that a client sleeps, without sleeping."""
    slept: list[float] = []
    monkeypatch.setattr(backend_client, "time", SimpleNamespace(sleep=slept.append, monotonic=time.monotonic))
    return slept


@pytest.fixture
def serve() -> Iterator[list[Any]]:
    running: list[Any] = []
    yield running
    for server in running:
        server.http.shutdown()
        server.http.server_close()


def start(serve: list[Any], server: _Server) -> _Server:
    serve.append(server)
    threading.Thread(target=server.http.serve_forever, args=(0.02,), daemon=True).start()
    return server


@pytest.mark.parametrize(
    ("retry_after", "pauses"), [("2", [2.0, 2.0]), ("0", [1.0, 1.0]), ("soon", [10.0] * 2)]
)
def test_a_busy_server_is_asked_again_as_late_as_it_says(
    serve: list[Any], slept: list[float], retry_after: str, pauses: list[float]
) -> None:
    server = start(serve, Busy(2, retry_after))
    client = BackendClient(server.url, Environment())
    assert client.predict("1.1", "<View/>", [{"id": 1, "data": {}}]) == [TaskAnswer([], "deadline")]
    assert (slept, server.requests) == (pauses, 3)
    client.close()


def test_a_server_that_stays_busy_is_given_up_after_ten_minutes(serve: list[Any], slept: list[float]) -> None:
    client = BackendClient(start(serve, Busy(10**6, "60")).url, Environment())
    with pytest.raises(BackendError, match="no place"):
        client.predict("1.1", "<View/>", [{"id": 1, "data": {}}])
    assert sum(slept) == 600
    client.close()


class Endless:
    """A server whose answers never come to an end."""

    def __init__(self) -> None:
        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                self.rfile.read(int(self.headers["content-length"] or 0))
                failed = [{"task": 1, "code": "no_vote", "failed_at": 0.0, "final": False}]
                body = json.dumps({"done": False, "tasks": failed, "next": 1, "through": 1}).encode()
                if self.path.startswith("/recounted"):
                    body = b'{"tasks": [1, 2], "through": 1}'
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = answer  # noqa: N815 - http.server's names

            def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - http.server's name

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    url = Busy.url


WORK: dict[str, Callable[[BackendClient], object]] = {
    "quote": lambda client: client.quote("1.1", "<View/>", [], {}),
    "recount": lambda client: client.recount("1.1"),
    "doubts": lambda client: client.doubts("1.1", 1.0),
}


@pytest.mark.parametrize("work", WORK)
def test_work_that_never_ends_is_given_up_after_hours(
    serve: list[Any], slept: list[float], work: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend_client, "_LONGEST", 20.0)
    server = start(serve, Endless())
    client = BackendClient(server.url, Environment())
    with pytest.raises(BackendError, match="has not finished"):
        WORK[work](client)
    assert 10 < len(slept) <= 20
    client.close()


def test_pages_that_do_not_go_on_are_refused(serve: list[Any]) -> None:
    client = BackendClient(start(serve, Endless()).url, Environment())
    with pytest.raises(BackendError, match="pages do not end"):
        client.failed_tasks("1.1")
    with pytest.raises(BackendError, match="pages do not end"):
        client.recounted("1.1", after=2)
    client.close()

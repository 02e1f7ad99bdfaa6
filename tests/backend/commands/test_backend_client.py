"""A client that meets a busy server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from backend.commands.shared.backend_client import BackendClient, TaskAnswer
from backend.errors import BackendError
from backend.settings import Environment


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
def serve() -> Iterator[list[Busy]]:
    running: list[Busy] = []
    yield running
    for server in running:
        server.http.shutdown()
        server.http.server_close()


def start(serve: list[Busy], server: Busy) -> Busy:
    serve.append(server)
    threading.Thread(target=server.http.serve_forever, args=(0.02,), daemon=True).start()
    return server


@pytest.mark.parametrize(
    ("retry_after", "pauses"), [("2", [2.0, 2.0]), ("0", [1.0, 1.0]), ("soon", [10.0] * 2)]
)
def test_a_busy_server_is_asked_again_as_late_as_it_says(
    serve: list[Busy], retry_after: str, pauses: list[float]
) -> None:
    slept: list[float] = []
    server = start(serve, Busy(2, retry_after))
    client = BackendClient(server.url, Environment(), sleep=slept.append)
    assert client.predict("1.1", "<View/>", [{"id": 1, "data": {}}]) == [TaskAnswer([], "deadline")]
    assert (slept, server.requests) == (pauses, 3)
    client.close()


def test_a_server_that_stays_busy_is_given_up_after_ten_minutes(serve: list[Busy]) -> None:
    slept: list[float] = []
    client = BackendClient(start(serve, Busy(10**6, "60")).url, Environment(), sleep=slept.append)
    with pytest.raises(BackendError, match="no place"):
        client.predict("1.1", "<View/>", [{"id": 1, "data": {}}])
    assert sum(slept) == 600
    client.close()

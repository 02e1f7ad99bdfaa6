"""The real front of a worker in a thread of this process, with any WSGI application behind it.

::

    with Front(backend.app, threads=2) as front, front.connect() as client:
        client.send(b"GET /health HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n").answer().status
"""

from __future__ import annotations

import http.client
import json
import os
import selectors
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace, TracebackType
from typing import Any

from gunicorn.config import Config
from gunicorn.glogging import Logger

from backend.server.front import FrontWorker
from backend.settings import Environment

PATIENCE = 30.0


@dataclass(frozen=True)
class Answer:
    """A response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of a refusal."""
        return str(self.json["code"])


class Client:
    """A client's connection to the front."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        self._received = self.socket.makefile("rb")

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(self, data: bytes) -> Client:
        self.socket.sendall(data)
        return self

    def post(self, path: str, body: object) -> Client:
        """Send a whole request with a JSON body; the place of an earlier one on this connection is free."""
        content = json.dumps(body).encode()
        return self.send(
            f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content
        )

    def send_no_more(self) -> None:
        """End what is sent, so that half a request is never completed."""
        self.socket.shutdown(socket.SHUT_WR)

    def answer_or_end(self) -> Answer | None:
        """Read one response; ``None`` if the server ends the connection without one."""
        try:
            return self.answer() if self._received.peek(1) else None  # type: ignore[attr-defined]
        except ConnectionError:
            return None

    def answer(self) -> Answer:
        """Read one response."""
        status = int(self._received.readline().split()[1])
        headers = {name.lower(): value for name, value in http.client.parse_headers(self._received).items()}
        return Answer(status, headers, self._received.read(int(headers.get("content-length", 0))))

    def ends(self) -> bool:
        """Wait until the server has ended the connection; what it sends before is thrown away."""
        try:
            while self._received.read(65536):
                pass
        except ConnectionError:
            pass
        return True

    def close(self) -> None:
        self._received.close()
        self.socket.close()


class Front:
    """A worker's main loop and its lanes.

    Args:
        application: the WSGI application.
        threads: predictions that may wait at once.
        max_body_mb: the longest body.
        connections: connections at once.
        stop_asking: called when the worker is told to stop.
        credentials: the environment's credentials.
    """

    def __init__(
        self,
        application: Callable[..., Any],
        *,
        threads: int = 256,
        max_body_mb: int = 10,
        connections: int = 700,
        stop_asking: Callable[[], None] = lambda: None,
        credentials: Mapping[str, Any] | None = None,
    ) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1000)
        self.port: int = self._listener.getsockname()[1]
        config = Config()
        config.set("threads", threads)
        config.set("worker_connections", connections)
        config.set("keepalive", 75)
        config.set("graceful_timeout", 20)
        environment = Environment(max_body_mb=max_body_mb, **(credentials or {}))
        app = SimpleNamespace(environment=environment, stop_asking=stop_asking)
        self.worker = FrontWorker(1, os.getppid(), [self._listener], app, 30, config, Logger(config))
        self.worker.wsgi = application
        self._clients: list[Client] = []
        self._thread = threading.Thread(target=self.worker.run, name="front")

    def __enter__(self) -> Front:
        worker = self.worker
        worker.tpool, worker.poller = worker.get_thread_pool(), selectors.DefaultSelector()
        worker.method_queue.init()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients:
            client.close()
        self.stop()
        self._thread.join(PATIENCE)
        self.worker.tmp.close()
        assert not self._thread.is_alive()

    def stop(self) -> None:
        """What the worker does on SIGTERM."""
        self.worker.handle_exit(15, None)

    def connect(self) -> Client:
        client = Client(self.port)
        self._clients.append(client)
        return client

    def send(self, data: bytes) -> Client:
        return self.connect().send(data)

    def post(self, path: str, body: object) -> Client:
        """Send a whole request with a JSON body."""
        return self.connect().post(path, body)

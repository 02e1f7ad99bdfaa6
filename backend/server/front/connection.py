"""One client's connection, as the main thread sees it."""

from __future__ import annotations

import socket
import time
from enum import Enum, auto
from typing import Any

from gunicorn import http

from backend.server.front.incoming import IncomingRequest

HEADER_SECONDS = 10.0
"""For a header, from its first byte or from the connection's start."""
BODY_SECONDS = 30.0
BODY_RATE = 100_000
"""A body has :data:`BODY_SECONDS`, and a second more for each of so many bytes that have arrived."""
LINGER_SECONDS = 5.0
"""For a client to read a refusal and close, while what it still sends is thrown away."""


class Stage(Enum):
    """What a connection waits for."""

    IDLE = auto()  # a further request, after one was answered
    HEADER = auto()
    BODY = auto()
    ANSWER = auto()  # from a thread; the connection is not polled
    CLOSE = auto()  # by the client: the answer is out, and nothing more is read


class Connection:
    """A client's connection.

    Args:
        sock: the accepted socket.
        client: the client's address.
        server: the address it connected to.

    Attributes:
        stage: what the connection waits for.
        expires_at: monotonic seconds when it has waited too long.
        incoming: the request that arrives; ``None`` before its first byte.
        parser: gunicorn's parser of the complete request.
        behind: bytes of the next request that arrived with this one.
    """

    def __init__(self, sock: socket.socket, client: Any, server: Any) -> None:
        self.sock, self.client, self.server = sock, client, server
        self.sock.setblocking(False)
        self.stage = Stage.HEADER
        self.expires_at = time.monotonic() + HEADER_SECONDS
        self.incoming: IncomingRequest | None = None
        self.parser: Any = None
        self.behind = b""
        self._body_since = 0.0

    def await_request(self, seconds: float) -> bytes:
        """Wait so long for a further request's first byte; return the bytes that have arrived already."""
        self.sock.setblocking(False)
        self.stage, self.parser = Stage.IDLE, None
        self.expires_at = time.monotonic() + seconds
        behind, self.behind = self.behind, b""
        return behind

    def await_header(self, incoming: IncomingRequest) -> IncomingRequest:
        """The first byte of a request is there. The first request's time runs since the connection began."""
        self.incoming = incoming
        if self.stage is Stage.IDLE:
            self.stage, self.expires_at = Stage.HEADER, time.monotonic() + HEADER_SECONDS
        return incoming

    def await_body(self, received: int) -> None:
        """The header is there, and ``received`` bytes in all."""
        now = time.monotonic()
        if self.stage is not Stage.BODY:
            self.stage, self._body_since = Stage.BODY, now
        self.expires_at = self._body_since + BODY_SECONDS + received / BODY_RATE

    def await_answer(self, incoming: IncomingRequest, config: Any) -> None:
        """The request is complete: give it to a parser that reads nothing but its bytes."""
        request, self.behind = incoming.split()
        self.parser = http.get_parser(config, [request], self.client)
        self.stage = Stage.ANSWER

    def await_close(self) -> None:
        """Say that nothing more will be sent, and wait for the client to close; raises ``OSError``.

        To close at once would reset the connection, and the client might lose the answer.
        """
        self.sock.setblocking(False)
        self.sock.shutdown(socket.SHUT_WR)
        self.stage, self.parser = Stage.CLOSE, None
        self.expires_at = time.monotonic() + LINGER_SECONDS
